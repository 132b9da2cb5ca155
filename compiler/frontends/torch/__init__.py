"""Reading PyTorch: modules, exported programs, and `.pt2` files, by torch's own exporter to ONNX, in memory.

`library` (torch itself, imported on demand), `archive` (a `.pt2` file, vetted), `program` (a module traced), `names` (of layers),
`importer`.
"""

from .importer import from_module, from_program, read

__all__ = ["from_module", "from_program", "read"]
