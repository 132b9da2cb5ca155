"""AMCT's Python API for existing scripts, a module per framework: `onnx`, `tensorflow` and `caffe` (docs/migrating.md)."""
