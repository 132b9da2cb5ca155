"""What is one operator of ONNX, and several in the expansion."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from ...dialects.nn.shapes import shape_of
from ..onnx.layer import Layer, Operand
from .table import converter


@converter(ascend.IdentityOp)
def identity(op: ascend.IdentityOp, layer: Layer) -> str:
    return layer.node("Identity", op.x)


@converter(ascend.ClipByValueV2Op)
def clip(op: ascend.ClipByValueV2Op, layer: Layer) -> str:
    """Bounds are of rank 0 in ONNX."""
    bounds = (reshaped(v, (), layer, role) for v, role in ((op.clip_value_min, "min"), (op.clip_value_max, "max")))
    return layer.node("Clip", op.x, *bounds)


def reshaped(value: SSAValue, shape: Sequence[int], layer: Layer, role: str) -> Operand:
    """A parameter in another shape: a constant of its own, or computed."""
    if shape_of(value) == tuple(shape):
        return value
    if (array := nn.array_of(value)) is not None:
        return layer.constant(np.reshape(array, tuple(shape)), role)
    return layer.helper("Reshape", value, layer.ints(shape, "shape"))
