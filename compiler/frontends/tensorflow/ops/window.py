"""The common geometry of convolutions and pooling in TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..node import Node, Unmapped

_PADDINGS = ("SAME", "VALID", "EXPLICIT")


def geometry(node: Node) -> dict[str, Any]:
    """layout, strides, dilations and padding of a node with a filter as input 1, as properties. SAME is `auto_pad`."""
    rank = len(node.shape(1))
    return {
        "layout": node.layout,
        "strides": spatial(node, "strides", node.ints("strides"), rank),
        "dilations": spatial(node, "dilations", node.ints("dilations") or [1] * rank, rank),
        **padding(node),
    }


def spatial(node: Node, name: str, values: Sequence[int] | None, rank: int) -> list[int]:
    """The spatial entries of a list with one entry per axis. Raises CompileError for other lists."""
    if values is None or len(values) != rank or rank < 3:
        raise node.error(f"needs {rank} {name} for an input of rank {rank}, not {values}")
    if min(values) < 1:
        raise node.error(f"has the {name} {list(values)}, which must be at least 1")
    return node.spatial(values) or []


def padding(node: Node) -> dict[str, Any]:
    """`pads` and `auto_pad` of a node."""
    kind = node.choice("padding", "", _PADDINGS)
    explicit = explicit_pads(node) if kind == "EXPLICIT" else None
    return {"pads": explicit, "auto_pad": "same_upper" if kind == "SAME" else None}


def explicit_pads(node: Node) -> list[int]:
    """All begins, then all ends, of the spatial axes; the attribute has a pair for each axis."""
    pairs = node.ints("explicit_paddings") or []
    if len(pairs) < 6 or len(pairs) % 2:
        raise node.error(f"has {len(pairs)} numbers in explicit_paddings")
    begins, ends = (_spatial(node, pairs[i::2]) for i in (0, 1))
    return [*begins, *ends]


def _spatial(node: Node, pads: Sequence[int]) -> list[int]:
    channel = 1 if node.layout == "nchw" else len(pads) - 1
    if pads[0] or pads[channel]:
        raise Unmapped("it pads batch or channels")
    return [p for i, p in enumerate(pads) if i not in (0, channel)]
