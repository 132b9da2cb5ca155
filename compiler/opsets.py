"""Which opsets of ONNX are read and written."""

from onnx import defs

NEWEST_OPSET = min(26, defs.onnx_opset_version())
"""The newest that onnxruntime loads, if the installed onnx knows it."""
