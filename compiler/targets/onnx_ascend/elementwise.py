"""Operations whose operands or results differ from those of their meaning, or that may be part of another layer."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from ...dialects.ascend.base import FormatOp
from ...dialects.nn.shapes import shape_of
from ..onnx.layer import OnnxLayer, Operand
from .table import converter, name_beside, require_channels_second, written_as


@converter(ascend.AddOp)
def add(op: ascend.AddOp, layer: OnnxLayer) -> str:
    return layer.emit("Add", [op.x1, op.x2], {}, name_beside(op, layer, "Add"))[0]


@converter(ascend.ClipByValueOp)
def clip(op: ascend.ClipByValueOp, layer: OnnxLayer) -> str:
    """Clip, without bounds that exclude nothing; ATC has no Clip without bounds."""
    low, high = (nn.array_of(bound) for bound in (op.clip_value_min, op.clip_value_max))
    assert low is not None
    assert high is not None
    if (low.item(), high.item()) == (-inf, inf):
        return layer.node("Identity", op.x)
    bounds = (
        None if low.item() == -inf else layer.constant(np.reshape(low, ()), "min"),
        None if high.item() == inf else layer.constant(np.reshape(high, ()), "max"),
    )
    return layer.node("Clip", op.x, *bounds)


@converter(ascend.IdentityOp)
def identity(op: ascend.IdentityOp, layer: OnnxLayer) -> str:
    return layer.node("Identity", op.x)


@converter(ascend.ClipByValueV2Op)
def clip_by_value(op: ascend.ClipByValueV2Op, layer: OnnxLayer) -> str:
    """Bounds are of rank 0 in ONNX."""
    bounds = (reshaped(v, (), layer, role) for v, role in ((op.clip_value_min, "min"), (op.clip_value_max, "max")))
    return layer.node("Clip", op.x, *bounds)


def reshaped(value: SSAValue, shape: Sequence[int], layer: OnnxLayer, role: str) -> Operand:
    """A parameter in another shape: a constant of its own, or computed."""
    if shape_of(value) == tuple(shape):
        return value
    if (array := nn.array_of(value)) is not None:
        return layer.constant(np.reshape(array, tuple(shape)), role)
    return layer.helper("Reshape", value, layer.ints(shape, "shape"))


@converter(*(op for op in ascend.OPERATIONS if issubclass(op, ascend.MomentsOp)))
def normalization(op: ascend.MomentsOp, layer: OnnxLayer) -> list[str | None]:
    """y. Raises CompileError if mean and variance are used."""
    if isinstance(op, FormatOp):
        require_channels_second(op, layer)
    if op.mean.uses or op.variance.uses:
        raise layer.error("gives mean and variance, which files have no place for")
    y = written_as(op.normalization(), op, layer)
    return [y if isinstance(y, str) else y[0], None, None]
