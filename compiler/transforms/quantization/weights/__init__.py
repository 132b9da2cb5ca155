"""Weights as integers: how each layer asks for its own, alone or beside a quantized input, of all levels or few."""
