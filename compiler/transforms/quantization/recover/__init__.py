"""Recovers accuracy: what data tells about channels, ranges, weights and biases before they become integers."""
