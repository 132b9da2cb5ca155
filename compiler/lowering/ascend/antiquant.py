"""Quantized values that are read as floats, and integers that are used directly: AscendAntiQuant and AscendQuant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Operation

from ...dialects import ascend, nn
from ...dialects.ascend.base import data_type_number, i8
from ...dialects.nn.shapes import element_of
from ...rewriting import Condition, condition, requires
from .constants import constant_behind, numbers_behind
from .quantized import FromAscendQuant
from .rules import Builder, Lowering, Values


class FloatConstant(Lowering[nn.DequantizeOp]):
    """The numbers of a dequantized constant"""

    def match(self, op: Operation) -> nn.DequantizeOp | None:
        read = isinstance(op, nn.DequantizeOp) and op.result.uses and constant_behind(op.result) is not None
        return op if isinstance(op, nn.DequantizeOp) and read else None

    def rewrite(self, build: Builder, op: nn.DequantizeOp) -> Values:
        constant, numbers = constant_behind(op.result), numbers_behind(op.result)
        assert constant is not None
        assert numbers is not None
        return [build.constant(numbers, constant.key, constant.location)]


class AntiQuant(FromAscendQuant[nn.DequantizeOp]):
    """`(q - zero_point) * scale` by AscendAntiQuant, which adds its offset; read as floats"""

    def match(self, op: Operation) -> nn.DequantizeOp | None:
        return op if isinstance(op, nn.DequantizeOp) and op.result.uses else None

    def quantizes(self, op: nn.DequantizeOp) -> Sequence[nn.QuantizeOp]:
        return [op.input.owner] if isinstance(op.input.owner, nn.QuantizeOp) else []

    integer_activation: Condition[Any] = requires(
        lambda op: op.qparams.data.storage == i8,
        "the integers are int8",
        lambda op: f"its integers are {op.qparams.data.storage}, AscendAntiQuant takes i8",
    )

    @condition
    def per_tensor_activation(self, op: nn.DequantizeOp) -> str | None:
        """the integers have one scale, as quantized and as dequantized"""
        several = "AscendAntiQuant has one scale for the whole tensor"
        given = FromAscendQuant[nn.DequantizeOp].per_tensor_activation.holds(self, op)
        return given if op.qparams.data.axis is None else several

    def rewrite(self, build: Builder, op: nn.DequantizeOp) -> Values:
        params, source = op.qparams.data, op.input.owner
        integers = build.quantizer.quantized(source) if isinstance(source, nn.QuantizeOp) else op.input
        scale, offset = float(params.scales()), float(-params.zero_points())
        dtype = data_type_number(element_of(op.result))
        return [build.add(ascend.AscendAntiQuantOp, integers, scale=scale, offset=offset, dtype=dtype).y]


class Quant(FromAscendQuant[nn.QuantizeOp]):
    """AscendQuant for readers other than dequantization: an output, or operations that move integers"""

    def match(self, op: Operation) -> nn.QuantizeOp | None:
        if not isinstance(op, nn.QuantizeOp):
            return None
        return op if any(not isinstance(use.operation, nn.DequantizeOp) for use in op.result.uses) else None

    def quantizes(self, op: nn.QuantizeOp) -> Sequence[nn.QuantizeOp]:
        return (op,)

    def rewrite(self, build: Builder, op: nn.QuantizeOp) -> Values:
        return [build.quantizer.quantized(op)]


PATTERNS = (FloatConstant, AntiQuant, Quant)
