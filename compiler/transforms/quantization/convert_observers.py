"""`--convert-observers`: from observed values to integers and back: Q/DQ on activations, integer weights and biases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp, i32
from xdsl.ir import OpResult, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ...dialects.nn import (
    ConstantOp,
    ConvTransposeOp,
    DequantizeOp,
    NNOp,
    ObserveOp,
    QParams,
    QParamsAttr,
    QuantizeOp,
    array_of,
    constant_of,
)
from ...rewriting import Remarks, erase_dead_constants
from ...runtime.affine import symmetric_scales
from ...session import session_of
from .parameters import quantized, quantized_bias, widened_for_bias
from .profiles import Row, profile_named
from .sites import Site, sites

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class ConvertObserversPass(ModulePass):
    """Turn calibrated observers into quantize and dequantize, and the weights and biases behind them into integers."""

    name = "convert-observers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        remarks = Remarks(ctx, self.name)
        profile = profile_named(session_of(ctx).profile)
        weights: dict[tuple[SSAValue, bytes], SSAValue] = {}
        observed = [(site, point) for site in sites(op, profile.rows) if (point := _point_of(site)) is not None]
        for point in [o for o in op.walk() if isinstance(o, ObserveOp)]:
            if point.qparams is None:
                remarks.missed(point, "calibrated", "it has no parameters: run --calibrate first")
            else:
                _convert_point(point)
        for site, params in observed:
            row = profile.rows[type(site.compute)]
            _convert_parameters(site, row, profile.bits, params, weights)
            remarks.applied(site.compute, "quantized", _summary(site, row, params))
        erase_dead_constants(op)
        remarks.flush()


def _convert_point(point: ObserveOp) -> None:
    """`observe x` becomes `dequantize(quantize x)`."""
    assert point.qparams is not None
    hint = point.input.name_hint
    quantize = QuantizeOp.make(
        point.input,
        qparams=point.qparams,
        source=point.source,
        location=point.location,
        name=f"{hint}.q" if hint else None,
    )
    dequantize = DequantizeOp.make(
        quantize.result,
        qparams=point.qparams,
        result_types=[point.result.type],
        location=point.location,
        name=f"{hint}.dq" if hint else None,
    )
    Rewriter.replace_op(point, [quantize, dequantize], [dequantize.result])


def _point_of(site: Site) -> QParams | None:
    """The parameters of a site whose activation is observed and calibrated."""
    value = site.activation
    if not isinstance(value, OpResult) or not isinstance(value.op, ObserveOp) or value.op.qparams is None:
        return None
    return value.op.qparams.data


def _convert_parameters(
    site: Site, row: Row, bits: int, params: QParams, weights: dict[tuple[SSAValue, bytes], SSAValue]
) -> None:
    if row.weight is None or (weight := site.operand(row.weight)) is None or (values := array_of(weight)) is None:
        return
    axis = _channel_axis(site.compute) if row.per_channel else None
    scales = symmetric_scales(values, bits, axis)
    bias = None if row.bias is None else site.operand(row.bias)
    input_scale = params.scales()
    if bias is not None and (numbers := array_of(bias)) is not None:
        scales = widened_for_bias(scales, numbers, float(input_scale))
        assert row.bias is not None
        site.set_operand(row.bias, _integer_bias(site, bias, numbers, scales * input_scale))
    key = (weight, scales.tobytes())
    if key not in weights:
        weights[key] = _integer_weight(weight, values, scales, bits, axis)
    site.set_operand(row.weight, weights[key])


def _channel_axis(op: NNOp) -> int | None:
    """The axis of the weight that counts output channels; None where no axis does (grouped transposed convolution)."""
    if isinstance(op, ConvTransposeOp):
        return 1 if op.group_count == 1 else None
    return 0


def _integer_weight(weight: SSAValue, values: Array, scales: Array, bits: int, axis: int | None) -> SSAValue:
    """The dequantized integer form of a constant, placed right behind it."""
    constant = constant_of(weight)
    assert constant is not None
    key = constant.key.removesuffix(".folded")
    integers = ConstantOp.of(quantized(values, scales, bits, axis), f"{key}.i{bits}", constant.location)
    qparams = QParamsAttr.of(IntegerType(bits), scales, axis=axis, key=f"{key}.scale")
    back = DequantizeOp.make(
        integers.result, qparams=qparams, result_types=[weight.type], location=constant.location, name=weight.name_hint
    )
    Rewriter.insert_op([integers, back], InsertPoint.after(constant))
    return back.result


def _integer_bias(site: Site, bias: SSAValue, values: Array, scales: Array) -> SSAValue:
    """The dequantized int32 form of a bias at the accumulator's scales, placed before its layer."""
    constant = constant_of(bias)
    assert constant is not None
    key = constant.key.removesuffix(".folded")
    scales = scales.astype(np.float32)
    integers = ConstantOp.of(quantized_bias(values, scales), f"{key}.i32", constant.location)
    axis = 0 if scales.ndim else None
    qparams = QParamsAttr.of(i32, scales, axis=axis, key=f"{key}.scale")
    back = DequantizeOp.make(
        integers.result, qparams=qparams, result_types=[bias.type], location=constant.location, name=bias.name_hint
    )
    Rewriter.insert_op([integers, back], InsertPoint.before(site.owner))
    return back.result


def _summary(site: Site, row: Row, params: QParams) -> str:
    scale = f"{float(params.scales()):.6g}"
    if row.weight is None:
        return f"int8 input, scale {scale}, zero point {params.zero_point[0]}"
    per = "channel" if row.per_channel and _channel_axis(site.compute) is not None else "tensor"
    return f"int8 input, scale {scale}, zero point {params.zero_point[0]}; int8 weight per {per}"
