"""Converts: observed values, weights and biases become integers."""
