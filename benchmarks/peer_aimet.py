"""Run by the interpreter of AIMET's environment: MODEL DATA OUT COUNT cle|adaround|seqmse [BITS]. Scales per channel.

Batch norms are folded, then channels are equalized (`cle`), weights rounded by AdaRound, or their scales searched by the
layers' outputs (`seqmse`).
"""

import sys

import aimet_onnx  # pyright: ignore[reportMissingImports]
import onnx
from aimet_onnx.batch_norm_fold import fold_all_batch_norms_to_weight  # pyright: ignore[reportMissingImports]
from aimet_onnx.cross_layer_equalization import equalize_model  # pyright: ignore[reportMissingImports]
from peer_samples import reader

model, data, out, count, method, *bits = sys.argv[1:]
network = onnx.version_converter.convert_version(onnx.load(model), 21)
samples = [*map(reader(network, data), range(int(count)))]
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
