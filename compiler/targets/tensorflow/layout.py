"""Axes in another order, and vectors of one number per channel."""

from __future__ import annotations

from ...dialects import nn
from .layer import Layer


def transposed(layer: Layer, x: str, perm: tuple[int, ...]) -> str:
    """The output of a Transpose: axis i of it is axis `perm[i]` of `x`."""
    return layer.helper("Transpose", x, layer.ints(perm, "perm"))


def per_channel(op: nn.LayoutOp, layer: Layer, value: str, rank: int) -> str:
    """A vector of one number per channel, in a shape that broadcasts to the operation's layout."""
    behind = rank - 1 - op.channel_axis(rank)
    return layer.helper("Reshape", value, layer.ints([-1, *[1] * behind], "shape")) if behind else value
