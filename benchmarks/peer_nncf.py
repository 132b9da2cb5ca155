"""Run by the interpreter of NNCF's environment: MODEL DATA OUT COUNT. Its defaults."""

import sys

import nncf
import numpy as np
import onnx

model, data, out, count = sys.argv[1:]
rows = np.load(data, mmap_mode="r")
samples = nncf.Dataset([rows[i : i + 1] for i in range(int(count))], lambda row: {"data": np.ascontiguousarray(row)})
onnx.save(nncf.quantize(onnx.load(model), samples, subset_size=int(count)), out)
