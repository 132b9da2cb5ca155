"""Run by the interpreter of NNCF's environment: MODEL DATA OUT COUNT [accurate]. Its defaults, or accurate bias correction."""

import sys

import nncf  # pyright: ignore[reportMissingImports]
import onnx
from peer_samples import reader

model, data, out, count, *method = sys.argv[1:]
network = onnx.load(model)
samples = nncf.Dataset(range(int(count)), reader(network, data))
onnx.save(nncf.quantize(network, samples, subset_size=int(count), fast_bias_correction=not method), out)
