"""Quantize and dequantize, the pair of operations that represents a quantized value; moves pairs to the reading layer."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from xdsl.dialects.builtin import LocationAttr, TensorType
from xdsl.ir import OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ....dialects.nn import (
    ConstantOp,
    DequantizeFloatOp,
    DequantizeOp,
    NNOp,
    ObserveOp,
    QParamsAttr,
    QuantizeFloatOp,
    QuantizeOp,
    ReluOp,
)
from ....dialects.nn.shapes import shape_of
from ....ir.number_formats import NumberFormat
from ....runtime.affine import scales_of
from ..decide.sites import Site


def quantized_pair(
    value: SSAValue, qparams: QParamsAttr, location: LocationAttr, name: str | None = None, **properties: Any
) -> tuple[QuantizeOp, DequantizeOp]:
    """`quantize` of a value, with these properties, and `dequantize`, which gives the value's type again; not inserted yet.

    Results are called `name.q` and `name.dq`.
    """
    quantize = QuantizeOp.make(
        value, qparams=qparams, location=location, name=f"{name}.q" if name else None, **properties
    )
    dequantize = DequantizeOp.make(
        quantize.result,
        qparams=qparams,
        result_types=[value.type],
        location=location,
        name=f"{name}.dq" if name else None,
    )
    return quantize, dequantize


def format_pair(
    value: SSAValue, number_format: NumberFormat, most: float, point: ObserveOp
) -> tuple[ConstantOp, QuantizeFloatOp, DequantizeFloatOp]:
    """The scale by which the magnitude `most` becomes the largest float of a format, `quantize_float` of a value, and
    `dequantize_float`, which gives the value's type again; not inserted yet. Names and places are those of a point.
    """
    numbers, name, location = scales_of(np.asarray(most / number_format.reach)), value.name_hint, point.location
    scale = ConstantOp.of(numbers, f"{point.point.data}.scale", location)
    quantize = QuantizeFloatOp.make(
        value,
        scale.result,
        result_types=[TensorType(number_format.element, shape_of(value))],
        location=location,
        name=f"{name}.q" if name else None,
    )
    dequantize = DequantizeFloatOp.make(
        quantize.result,
        scale.result,
        result_types=[point.result.type],
        location=location,
        name=f"{name}.dq" if name else None,
    )
    return scale, quantize, dequantize


class MovablePair(NamedTuple):
    """Quantize and dequantize before passive operations and ReLUs, in whose place the layer could have its own."""

    site: Site
    quantize: QuantizeOp
    dequantize: DequantizeOp
    chain: list[NNOp]
    """The operations between, the last one first."""


def movable_pair(site: Site) -> MovablePair | None:
    """The pair of one scale that a layer's input is computed from by operations that keep integers; None if it is right before
    the layer, or there is none.
    """
    chain = _chain(site.activation)
    back = chain[-1].operands[0].owner if chain else None
    if not isinstance(back, DequantizeOp) or back.qparams.data.axis is not None:
        return None
    before = back.input.owner
    return MovablePair(site, before, back, chain) if isinstance(before, QuantizeOp) else None


def quantize_at(site: Site) -> None:
    """Move quantize and dequantize from before passive operations and ReLUs to right before the layer. Results do not change:
    rounding keeps the order of numbers, and 0 is one of the integers.
    """
    data, pair = site.activation, movable_pair(site)
    if data is None or pair is None:
        return
    _, before, back, chain = pair
    if all(op.results[0].has_one_use() for op in chain):
        chain[-1].operands[0] = before.input
    quantize, dequantize = quantized_pair(data, back.qparams, before.location, data.name_hint, source=before.source)
    dequantize.location = back.location
    Rewriter.insert_op([quantize, dequantize], InsertPoint.before(site.owner))
    site.set_operand(0, dequantize.result)


def _chain(value: SSAValue | None) -> list[NNOp]:
    """The passive operations and ReLUs that compute a value, the last one first.

    No Split is among them: its other results may have other readers.
    """
    chain: list[NNOp] = []
    while isinstance(value, OpResult) and isinstance(op := value.op, NNOp) and _keeps_integers(op):
        chain.append(op)
        value = op.operands[0]
    return chain


def _keeps_integers(op: NNOp) -> bool:
    return (op.is_passive or isinstance(op, ReluOp)) and len(op.results) == 1
