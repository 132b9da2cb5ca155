"""Quantization points on inputs of layers (profile `ascend`): whole layers, single tensors, sums with one scale."""
