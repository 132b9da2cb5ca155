"""Activations, arithmetic, comparison and cast."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue

from ....dialects import nn
from ....dialects.nn.shapes import element_of, shape_of
from ....formats.onnx.tensors import dtype_of
from ....ir.dtypes import element_type, is_narrow_float
from ...shapes import exact
from ..node import Constant, Converted, Node, Unmapped, converter


@converter("Swish")
def swish(node: Node) -> Converted:
    """`x * sigmoid(alpha * x)`."""
    x, alpha = node.value(0), node.float("alpha", 1.0)
    scaled = (
        x if alpha == 1.0 else node.emit(nn.MulOp, x, node.constant(np.asarray(alpha, node.dtype(0)), ".alpha")).result
    )
    return node.emit(nn.MulOp, x, node.emit(nn.SigmoidOp, scaled).result).result


_LARGEST = float(np.finfo(np.float32).max)


@converter("Clip")
def clip(node: Node) -> Converted:
    """Bounds are attributes before opset 11, optional inputs since; bounds computed at run time become min and max.

    The attributes' default, the largest float, means no bound.
    """
    x = node.value(0)
    if node.version < 11:
        return _clip(node, x, node.float("min", -_LARGEST), node.float("max", _LARGEST))
    bounds = [node.number(i) if node.array(i) is not None else None for i in (1, 2)]
    if all(not node.has(i) or (b is not None and exact(b)) for i, b in zip((1, 2), bounds, strict=True)):
        low, high = (None if b is None else float(b) for b in bounds)
        return _clip(node, x, low, high)
    if node.has(1):
        x = node.emit(nn.MaxOp, x, node.value(1)).result
    return node.emit(nn.MinOp, x, node.value(2)).result if node.has(2) else x


def _clip(node: Node, x: SSAValue, low: float | None, high: float | None) -> Converted:
    if (low, high) == (0.0, 6.0):
        return node.emit(nn.Relu6Op, x).result
    low = None if low in (-np.inf, -_LARGEST) else low
    high = None if high in (np.inf, _LARGEST) else high
    return x if low is None and high is None else node.emit(nn.ClipOp, x, min=low, max=high).result


_CHAINED: dict[str, type[nn.BinaryOp]] = {"Max": nn.MaxOp, "Mean": nn.AddOp, "Min": nn.MinOp, "Sum": nn.AddOp}


@converter(*_CHAINED)
def chain(node: Node) -> Converted:
    """Combines any number of inputs, from left to right. The mean of one input is the input."""
    result = node.value(0)
    for i in range(1, len(node.inputs)):
        result = node.emit(_CHAINED[node.op_type], result, node.value(i)).result
    if node.op_type != "Mean" or len(node.inputs) == 1:
        return result
    count = node.constant(np.asarray(len(node.inputs), node.dtype(0)), ".count")
    return node.emit(nn.DivOp, result, count).result


@converter("Cast")
def cast(node: Node) -> Converted:
    target = element_type(dtype_of(node.int("to", 0), node.layer.where))
    return _cast(node, TensorType(target, shape_of(node.value(0))))


@converter("CastLike")
def cast_like(node: Node) -> Converted:
    constant, dtype = node.binding(0), node.dtype(1)
    if isinstance(constant, Constant) and dtype.kind == "f" and not is_narrow_float(element_type(dtype)):
        return constant if constant.array.dtype == dtype else Constant(constant.key, constant.array.astype(dtype))
    return _cast(node, TensorType(element_of(node.value(1)), shape_of(node.value(0))))


def _cast(node: Node, type_: TensorType) -> Converted:
    x = node.value(0)
    if x.type == type_:
        return x
    if any(map(is_narrow_float, (element_of(x), type_.element_type))):
        raise Unmapped("it converts floats of 8 or 4 bits")
    return node.emit(nn.CastOp, x, result_types=[type_]).result
