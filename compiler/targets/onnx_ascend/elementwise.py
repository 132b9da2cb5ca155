"""Activations and sums whose operands differ from those of their meaning, or that may be part of another layer."""

from __future__ import annotations

from math import inf

import numpy as np

from ...dialects import ascend, nn
from ..onnx.layer import Layer
from .table import converter, name_beside


@converter(ascend.AddOp)
def add(op: ascend.AddOp, layer: Layer) -> str:
    return layer.emit("Add", [op.x1, op.x2], {}, name_beside(op, layer, "Add"))[0]


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
