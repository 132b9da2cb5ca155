"""Run by the interpreter of AIMET's environment: MODEL DATA OUT COUNT cle|adaround|seqmse [BITS]. Scales per channel.

DATA is an array `.npy` for the input `data`, or an `.npz` with an array per input; a row is a sample. Batch norms are folded,
then channels are equalized (`cle`), weights rounded by AdaRound, or their scales searched by the layers' outputs (`seqmse`).
"""

import sys
from collections.abc import Mapping

import aimet_onnx  # pyright: ignore[reportMissingImports]
import numpy as np
import onnx
from aimet_onnx.batch_norm_fold import fold_all_batch_norms_to_weight  # pyright: ignore[reportMissingImports]
from aimet_onnx.cross_layer_equalization import equalize_model  # pyright: ignore[reportMissingImports]

model, data, out, count, method, *bits = sys.argv[1:]
loaded = np.load(data, mmap_mode="r")
arrays = dict(loaded) if isinstance(loaded, Mapping) else {"data": loaded}
samples = [{n: np.ascontiguousarray(a[i : i + 1]) for n, a in arrays.items()} for i in range(int(count))]
network = onnx.version_converter.convert_version(onnx.load(model), 21)
network.ir_version = 10
if method == "cle":
    equalize_model(network)
else:
    fold_all_batch_norms_to_weight(network)
width = f"int{bits[0]}" if bits else "int8"
sim = aimet_onnx.QuantizationSimModel(
    network, param_type=width, activation_type="int8", providers=["CPUExecutionProvider"]
)
if method == "adaround":
    aimet_onnx.apply_adaround(sim, samples)
if method == "seqmse":
    aimet_onnx.apply_seq_mse(sim, samples)
sim.compute_encodings(samples)
onnx.save(sim.to_onnx_qdq(), out)
