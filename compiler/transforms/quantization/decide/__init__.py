"""Decides which operations are quantized and how: layers, rules, plans."""
