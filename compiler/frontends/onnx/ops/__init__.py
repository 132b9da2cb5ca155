"""Converters from ONNX operators to `nn`, a module per family. Importing this package imports and so registers them all."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from ..node import CONVERTERS, Converter, Node
from ..rows import by_row
from .ascend import converter_on_integers

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")


def converter_of(node: Node) -> Converter | None:
    """The function that converts a node; None if `nn` has no equivalent."""
    return converter_on_integers(node) or CONVERTERS.get((node.domain, node.op_type))


__all__ = ["by_row", "converter_of"]
