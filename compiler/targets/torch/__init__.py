"""Modules of `nn` as modules of PyTorch: `functions` (what each operation computes), `points` (quantization), `module`."""
