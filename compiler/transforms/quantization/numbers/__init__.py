"""The arithmetic of quantization, before all stages: parameters from ranges, weights as integers or in number formats."""
