"""Reading ONNX models: `.onnx` files of opset 7 to 26 into `nn`.

`source` (file to checked model), `graph` (order, names), `tensors` (initializers, external data), `attributes`, `types`,
`node` (what converters see), `ops` (the converters, a module per family), `folding` (what is known at import), `symbols` (names
of unknown sizes), `opaque` (what `nn` has no word for), `single` (a node as a model of its own), `regions` (control flow, carried
whole), `importer`.
"""

from .importer import from_model, read

__all__ = ["from_model", "read"]
