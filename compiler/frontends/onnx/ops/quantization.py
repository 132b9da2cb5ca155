"""QuantizeLinear and DequantizeLinear."""
