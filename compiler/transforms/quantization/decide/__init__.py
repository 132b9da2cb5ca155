"""Decides what is quantized and how: layers, rules, plans."""
