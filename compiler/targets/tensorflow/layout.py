"""TensorFlow computes with channels last on a CPU: other operations stand between two transposes."""

from __future__ import annotations

from collections.abc import Callable

from ...dialects import nn
from ...dialects.nn.shapes import shape_of
from .layer import Layer


def transposed(layer: Layer, x: str, perm: tuple[int, ...]) -> str:
    return layer.helper("Transpose", x, layer.ints(perm, "perm"))


def with_channels_last(op: nn.LayoutOp, layer: Layer, write: Callable[[str], str]) -> str:
    """What `write` makes of the first operand with its channels last; the result has the operation's own layout again."""
    x, rank = layer.value(op.operands[0]), len(shape_of(op.operands[0]))
    if op.channels_last or rank <= 2:
        return write(x)
    layer.note(
        "layout",
        "TensorFlow computes with channels last: stands between two transposes; --convert-layout=NHWC leaves few of them",
    )
    inner = write(transposed(layer, x, (0, *range(2, rank), 1)))
    return transposed(layer, inner, (0, rank - 1, *range(1, rank - 1)))


def per_channel(op: nn.LayoutOp, layer: Layer, value: str, rank: int) -> str:
    """A vector of one number per channel, in a shape that broadcasts to the operation's layout."""
    behind = rank - 1 - op.channel_axis(rank)
    return layer.helper("Reshape", value, layer.ints([-1, *[1] * behind], "shape")) if behind else value
