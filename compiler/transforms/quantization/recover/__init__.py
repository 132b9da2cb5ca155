"""Recovers accuracy by data about channels, ranges, weights and biases before they become integers."""
