"""What importers do with windows, whatever the framework: pads that follow from known sizes, and no list that says nothing."""

from __future__ import annotations

from typing import Any, TypeVar, cast

from xdsl.dialects.builtin import DenseArrayBase, i64

from ..dialects.nn import WindowOp, ints
from ..dialects.nn.shapes import shape_of

_Window = TypeVar("_Window", bound=WindowOp)

_DEFAULTS = {"strides": 1, "dilations": 1, "pads": 0, "output_padding": 0}


def normalized(op: _Window) -> _Window:
    """The operation without lists that say nothing but the default: one meaning has one text."""
    for name, default in _DEFAULTS.items():
        values = op.properties.get(name)
        if isinstance(values, DenseArrayBase) and all(v == default for v in ints(cast("DenseArrayBase[Any]", values))):
            del op.properties[name]
    return op


def with_pads(op: _Window) -> _Window:
    """Replaces `auto_pad` by the pads it means, where the sizes are known."""
    pads = None if op.auto_pad is None else op.resolved_pads(op.spatial(shape_of(op.operands[0])))
    if pads is not None:
        del op.properties["auto_pad"]
        op.properties["pads"] = DenseArrayBase.from_list(i64, pads)
    return normalized(op)
