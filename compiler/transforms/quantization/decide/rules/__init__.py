"""The rules that are checked before something is quantized: of layers, of single inputs, of passive operations."""
