"""AMCT's functions for PyTorch."""
