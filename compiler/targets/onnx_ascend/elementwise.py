"""Activations and sums whose operands differ from those of their meaning, or that may be part of another layer."""

from __future__ import annotations

from math import inf

import numpy as np

from ...dialects import ascend, nn
from ...dialects.nn.shapes import shape_of
from ..onnx.layer import Layer
from ..onnx.rows import unsqueezed
from .table import converter, name_beside


@converter(ascend.AddOp)
def add(op: ascend.AddOp, layer: Layer) -> str:
    return layer.emit("Add", [op.x1, op.x2], {}, name_beside(op, layer, "Add"))[0]


@converter(ascend.PReluOp)
def prelu(op: ascend.PReluOp, layer: Layer) -> str:
    """The slope broadcasts in ONNX: one per channel gets an axis of size 1 for each axis behind the channels."""
    behind = max(len(shape_of(op.x)) - 2, 0)
    if not behind:
        return layer.node("PRelu", op.x, op.weight)
    if (array := nn.array_of(op.weight)) is not None:
        return layer.node("PRelu", op.x, layer.constant(array.reshape(-1, *[1] * behind), "slope"))
    return layer.node("PRelu", op.x, unsqueezed(op.weight, range(1, behind + 1), layer))


@converter(ascend.ClipByValueOp)
def clip(op: ascend.ClipByValueOp, layer: Layer) -> str:
    """Clip, without bounds that exclude nothing."""
    low, high = (nn.array_of(bound) for bound in (op.clip_value_min, op.clip_value_max))
    assert low is not None
    assert high is not None
    bounds = (
        None if low.item() == -inf else layer.constant(np.reshape(low, ()), "min"),
        None if high.item() == inf else layer.constant(np.reshape(high, ()), "max"),
    )
    return layer.node("Clip", op.x, *bounds)
