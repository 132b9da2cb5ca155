"""ONNX has channels second: operations whose channels are last stand between two transposes."""

from __future__ import annotations

from collections.abc import Callable

from ...dialects import nn
from ...dialects.nn.shapes import shape_of
from .layer import Layer


def with_channels_second(op: nn.LayoutOp, layer: Layer, write: Callable[[str], str]) -> str:
    """What `write` makes of the first operand with its channels second; the result has the operation's own layout again.

    Transposes move elements without changing them, so the file computes what the module does.
    """
    x, rank = op.operands[0], len(shape_of(op.operands[0]))
    if not op.channels_last or rank <= 2:
        return write(layer.value(x))
    space = range(2, rank)
    layer.note("layout", "ONNX has no layout NHWC: stands between two transposes")
    inner = write(layer.helper("Transpose", x, perm=[0, rank - 1, *(a - 1 for a in space)]))
    return layer.helper("Transpose", inner, perm=[0, *space, 1])
