"""TensorFlow: its messages, tensors, attributes, operators, files and checkpoints, and the package itself."""
