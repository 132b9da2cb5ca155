"""Quantization points on values (profile `qdq`): which values have one, and which of them share parameters."""
