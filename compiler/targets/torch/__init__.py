"""Modules of `nn` as modules of PyTorch: `functions` (the operations), `points` (quantization), `module`."""
