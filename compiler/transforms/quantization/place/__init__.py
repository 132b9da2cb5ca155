"""Places quantization points: observers on the inputs of layers or on values, and the parameters that they share."""
