"""Reading ONNX models: `.onnx` files of opset 7 to 26 into `nn`.

`source` (file to checked model), `graph` (order, names), `node` (the view for converters), `ops` (the converters, a module per
family), `symbols` (names of unknown sizes), `opaque` (operators without a counterpart in `nn`), `single` (a node as a model),
`regions` (control flow, carried whole), `importer`.
"""

from .importer import from_model, read

__all__ = ["from_model", "read"]
