"""Quantized values that are read as floats, and integers that are used as such: AscendAntiQuant and AscendQuant."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from ...dialects.ascend.base import data_type_number, i8
from ...dialects.nn.shapes import element_of
from ..refusal import require
from .constants import constant_behind, numbers_behind
from .quantized import Quantizer
from .rules import Builder


def reals(build: Builder, op: nn.DequantizeOp, quantizer: Quantizer) -> Sequence[SSAValue]:
    """`(q - zero_point) * scale`; AscendAntiQuant adds its offset. A dequantized constant becomes a float constant."""
    constant, numbers = constant_behind(op.result), numbers_behind(op.result)
    if constant is not None and numbers is not None:
        return [build.constant(numbers, constant.key, constant.location)]
    params = op.qparams.data
    require(params.storage == i8, "int8-activation", f"its integers are {params.storage}, AscendAntiQuant takes i8")
    require(params.axis is None, "per-tensor-activation", "AscendAntiQuant has one scale for the whole tensor")
    source = op.input.owner
    integers = quantizer.integers(source).value if isinstance(source, nn.QuantizeOp) else op.input
    scale, offset = float(params.scales()), float(-params.zero_points())
    dtype = data_type_number(element_of(op.result))
    return [build.add(ascend.AscendAntiQuantOp, integers, scale=scale, offset=offset, dtype=dtype).y]


def is_read_in_float(op: nn.NNOp) -> bool:
    """Whether an operation dequantizes, and is still used."""
    return isinstance(op, nn.DequantizeOp) and bool(op.result.uses)


def gives_integers(op: nn.NNOp) -> bool:
    """Whether an operation quantizes for readers other than dequantization: an output, or operations that move integers."""
    return isinstance(op, nn.QuantizeOp) and any(
        not isinstance(use.operation, nn.DequantizeOp) for use in op.result.uses
    )
