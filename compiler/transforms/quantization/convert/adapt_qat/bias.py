"""Biases: float in training, int32 at the accumulators' scales in integer layers."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import TensorType, f32, i32
from xdsl.rewriter import InsertPoint, Rewriter

from .....dialects.nn import ConstantOp, DequantizeOp, QParams, QParamsAttr, array_of, constant_of
from ...decide.sites import Site
from ...profiles import Row
from ..parameters import BIAS_LIMIT, quantized_bias


def quantize_bias(site: Site, row: Row, data: QParams, weight: QParams) -> str | None:
    """Make a constant float bias an integer one, or return the reason why it stays float."""
    bias = None if row.bias is None else site.operand(row.bias)
    if bias is None or row.bias is None or isinstance(bias.owner, DequantizeOp):
        return None
    values, constant = array_of(bias), constant_of(bias)
    if values is None or constant is None:
        return "its bias is computed at run time and stays float"
    scales = (data.scales() * weight.scales()).astype(np.float32)
    if (np.abs(values.astype(np.float64)) > scales.astype(np.float64) * BIAS_LIMIT).any():
        return "its bias does not fit into int32 at the accumulators' scales and stays float"
    integers = ConstantOp.of(quantized_bias(values, scales), f"{constant.key}.i32", constant.location)
    axis = 0 if scales.ndim else None
    back = DequantizeOp.make(
        integers.result,
        qparams=QParamsAttr.of(i32, scales, axis=axis, key=f"{constant.key}.scale"),
        result_types=[TensorType(f32, values.shape)],
        location=constant.location,
        name=bias.name_hint,
    )
    Rewriter.insert_op([integers, back], InsertPoint.before(site.owner))
    site.set_operand(row.bias, back.result)
    return None
