"""Run by the interpreter of NNCF's environment: MODEL DATA OUT COUNT [accurate]. Its defaults, or its accurate bias correction.

DATA is an array `.npy` for the input `data`, or an `.npz` with an array per input; a row is a sample.
"""

import sys
from collections.abc import Mapping

import nncf  # pyright: ignore[reportMissingImports]
import numpy as np
import onnx

model, data, out, count, *method = sys.argv[1:]
loaded = np.load(data, mmap_mode="r")
arrays = dict(loaded) if isinstance(loaded, Mapping) else {"data": loaded}
samples = nncf.Dataset(range(int(count)), lambda i: {n: np.ascontiguousarray(a[i : i + 1]) for n, a in arrays.items()})
onnx.save(nncf.quantize(onnx.load(model), samples, subset_size=int(count), fast_bias_correction=not method), out)
