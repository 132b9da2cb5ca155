"""Reading ONNX models: `.onnx` files of opset 7 to 26 into `nn`.

`source` (file to checked model), `graph` (order, names), `node` (what converters see), `ops` (the converters, a module per
family), `symbols` (names of unknown sizes), `opaque` (what `nn` has no word for), `single` (a node as a model of its own),
`regions` (control flow, carried whole), `importer`.
"""

from .importer import from_model, read

__all__ = ["from_model", "read"]
