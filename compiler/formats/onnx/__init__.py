"""ONNX: its schemas, tensors, attributes and files, carried nodes, and names in its graphs."""
