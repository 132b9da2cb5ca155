"""Geometry that convolutions and pooling share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from ....dialects.nn import WindowOp
from ....dialects.nn.base import attribute_of
from ....dialects.nn.shapes import shape_of
from ..node import Node

_AUTO_PADS = {"SAME_UPPER": "same_upper", "SAME_LOWER": "same_lower"}
_Window = TypeVar("_Window", bound=WindowOp)


def unless_all(values: Sequence[int] | None, default: int) -> Sequence[int] | None:
    """A list, None where it says nothing but the default: one meaning has one text."""
    return None if values is None or all(v == default for v in values) else values


def geometry(node: Node) -> dict[str, Any]:
    """strides, pads, dilations and auto_pad of a node, as properties. `auto_pad` other than NOTSET makes `pads` void."""
    auto_pad = node.text("auto_pad", "NOTSET")
    if auto_pad not in (*_AUTO_PADS, "NOTSET", "VALID"):
        raise node.error(f"has the unknown auto_pad '{auto_pad}'")
    return {
        "strides": unless_all(node.ints("strides"), 1),
        "pads": unless_all(node.ints("pads"), 0) if auto_pad == "NOTSET" else None,
        "dilations": unless_all(node.ints("dilations"), 1),
        "auto_pad": _AUTO_PADS.get(auto_pad),
    }


def with_pads(op: _Window) -> _Window:
    """Replaces `auto_pad` by the pads it means, where the sizes are known."""
    pads = None if op.auto_pad is None else op.resolved_pads(op.spatial(shape_of(op.operands[0])))
    if pads is not None:
        del op.properties["auto_pad"]
        if attribute := attribute_of(type(op), "pads", unless_all(pads, 0)):
            op.properties["pads"] = attribute
    return op
