"""Reading ONNX models: `.onnx` files of opset 7 to 26 into `nn`.

`source` (file to checked model), `graph` (order, names), `tensors` (initializers, external data), `attributes`, `node` (what
converters see), `ops` (a converter per operator), `folding` (constant computing), `opaque` (what `nn` has no word for), `importer`.
"""

from .importer import read

__all__ = ["read"]
