"""Geometry that convolutions and pooling share, as TensorFlow says it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..node import Node, Unmapped

_PADDINGS = ("SAME", "VALID", "EXPLICIT")


def geometry(node: Node) -> dict[str, Any]:
    """layout, strides, dilations and padding of a node, as properties. SAME is `auto_pad`."""
    return {
        "layout": node.layout,
        "strides": node.spatial(strides_of(node)),
        "dilations": node.spatial(node.ints("dilations")),
        **padding(node),
    }


def strides_of(node: Node) -> list[int]:
    """An entry for each axis. Raises CompileError when the node has none."""
    if (strides := node.ints("strides")) is None:
        raise node.error("has no attribute 'strides'")
    return strides


def padding(node: Node) -> dict[str, Any]:
    """`pads` and `auto_pad` of a node."""
    kind = node.choice("padding", "", _PADDINGS)
    explicit = explicit_pads(node) if kind == "EXPLICIT" else None
    return {"pads": explicit, "auto_pad": "same_upper" if kind == "SAME" else None}


def explicit_pads(node: Node) -> list[int]:
    """All begins, then all ends, of the spatial axes; the attribute has a pair for each axis."""
    pairs = node.ints("explicit_paddings") or []
    begins, ends = (_spatial(node, pairs[i::2]) for i in (0, 1))
    return [*begins, *ends]


def _spatial(node: Node, pads: Sequence[int]) -> list[int]:
    channel = 1 if node.layout == "nchw" else len(pads) - 1
    if len(pads) < 3:
        raise node.error(f"has {len(pads)} pairs in explicit_paddings")
    if pads[0] or pads[channel]:
        raise Unmapped("it pads batch or channels")
    return [p for i, p in enumerate(pads) if i not in (0, channel)]
