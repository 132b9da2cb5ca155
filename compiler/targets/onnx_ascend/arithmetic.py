"""Arithmetic that ONNX has in several operators: sums of many, numbers, gates, Caffe's layers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from ...dialects.nn.shapes import shape_of
from ..onnx.layer import Layer, Operand
from ..onnx.steps import Steps
from .table import converter


@converter(ascend.IdentityOp)
def identity(op: ascend.IdentityOp, layer: Layer) -> str:
    return layer.node("Identity", op.x)


@converter(ascend.SquareOp)
def square(op: ascend.SquareOp, layer: Layer) -> str:
    return layer.node("Mul", op.x, op.x)


@converter(ascend.AddsOp, ascend.MulsOp)
def by_number(op: ascend.ByNumberOp, layer: Layer) -> str:
    op_type = "Add" if isinstance(op, ascend.AddsOp) else "Mul"
    return layer.node(op_type, op.x, layer.scalar(op.value.value.data, op.x, "value"))


@converter(ascend.AddNOp)
def add_n(op: ascend.AddNOp, layer: Layer) -> str:
    return _chain("Add", list(op.x), layer)


@converter(ascend.EltwiseOp)
def eltwise(op: ascend.EltwiseOp, layer: Layer) -> str:
    """Weighted summands are scaled first."""
    op_type = ("Mul", "Add", "Max")[op.mode.value.data]
    if not op.factors:
        return _chain(op_type, list(op.x), layer)
    steps = Steps(layer, op.x[0])
    scaled = [
        layer.helper("Mul", steps.take(x), steps.number(f, "coeff")) for x, f in zip(op.x, op.factors, strict=True)
    ]
    return steps.rounded(_chain(op_type, scaled, layer))


def _chain(op_type: str, values: Sequence[Operand], layer: Layer) -> str:
    """The values combined in order; the last node has the layer's name."""
    if len(values) == 1:
        return layer.node("Identity", values[0])
    combined = values[0]
    for value in values[1:-1]:
        combined = layer.helper(op_type, combined, value)
    return layer.node(op_type, combined, values[-1])


@converter(ascend.SwishOp)
def swish(op: ascend.SwishOp, layer: Layer) -> str:
    return _gated(op.x, op.scale.value.data, layer)


@converter(ascend.FastGeluOp)
def fast_gelu(op: ascend.FastGeluOp, layer: Layer) -> str:
    return _gated(op.x, 1.702, layer)


def _gated(value: SSAValue, scale: float, layer: Layer) -> str:
    steps = Steps(layer, value)
    x = steps.take(value)
    inner: Operand = x if scale == 1.0 else layer.helper("Mul", x, steps.number(scale, "scale"))
    return steps.rounded(layer.node("Mul", x, layer.helper("Sigmoid", inner)))


@converter(ascend.ClipByValueV2Op)
def clip(op: ascend.ClipByValueV2Op, layer: Layer) -> str:
    """Bounds are of rank 0 in ONNX."""
    bounds = (reshaped(v, (), layer, role) for v, role in ((op.clip_value_min, "min"), (op.clip_value_max, "max")))
    return layer.node("Clip", op.x, *bounds)


@converter(ascend.ScaleOp)
def scale(op: ascend.ScaleOp, layer: Layer) -> str:
    shape = op.parameter_shape
    factor = reshaped(op.scale, shape, layer, "scale")
    if op.bias is None:
        return layer.node("Mul", op.x, factor)
    return layer.node("Add", layer.helper("Mul", op.x, factor), reshaped(op.bias, shape, layer, "bias"))


@converter(ascend.BiasOp)
def bias(op: ascend.BiasOp, layer: Layer) -> str:
    return layer.node("Add", op.x, reshaped(op.bias, op.parameter_shape, layer, "bias"))


def reshaped(value: SSAValue, shape: Sequence[int], layer: Layer, role: str) -> Operand:
    """A parameter in another shape: a constant of its own, or computed."""
    if shape_of(value) == tuple(shape):
        return value
    if (array := nn.array_of(value)) is not None:
        return layer.constant(np.reshape(array, tuple(shape)), role)
    return layer.helper("Reshape", value, layer.ints(shape, "shape"))
