"""AMCT's Python functions for its scripts, a module per framework: `onnx`, `tensorflow` and `caffe` (docs/migrating.md)."""
