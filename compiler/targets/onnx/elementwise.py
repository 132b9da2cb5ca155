"""Activations, arithmetic, comparison, cast."""

from __future__ import annotations

from math import inf

from onnx import helper

from ...dialects import nn
from ...dialects.nn.shapes import element_of
from ...ir.dtypes import numpy_dtype
from .float_layers import summand
from .layer import OnnxLayer, Written, converter
from .rows import written_by_row


@converter(nn.AddOp)
def add(op: nn.AddOp, layer: OnnxLayer) -> Written:
    return written_by_row(op, layer, [summand(x, layer) for x in op.operands])


@converter(nn.ClipOp)
def clip(op: nn.ClipOp, layer: OnnxLayer) -> str:
    low, high = op.bounds
    return layer.node(
        "Clip",
        op.input,
        None if low == -inf else layer.scalar(low, op.input, "min"),
        None if high == inf else layer.scalar(high, op.input, "max"),
    )


@converter(nn.CastOp)
def cast_(op: nn.CastOp, layer: OnnxLayer) -> str:
    dtype = numpy_dtype(element_of(op.result))
    return layer.node("Cast", op.input, to=helper.np_dtype_to_tensor_dtype(dtype))
