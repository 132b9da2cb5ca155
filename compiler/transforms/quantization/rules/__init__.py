"""What can be asked before something is quantized: of layers, of single inputs, of passive operations."""
