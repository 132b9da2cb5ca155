"""Quantization points on values (profiles `ppq` and `qdq`): which values have one, and which of them share parameters."""
