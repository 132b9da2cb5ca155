"""Weights as integers: alone or together with a quantized input, with all levels or few."""
