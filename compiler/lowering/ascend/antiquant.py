"""Values that are quantized and taken in float again: AscendQuant and AscendAntiQuant in the place of quantize and dequantize."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.func import ReturnOp
from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from ...dialects.ascend.base import data_type_number
from ...dialects.nn.shapes import element_of
from .quantized import Activation
from .rules import Builder


def anti_quantized(build: Builder, op: nn.DequantizeOp, activation: Activation) -> Sequence[SSAValue]:
    """`(q - zero_point) * scale`; AscendAntiQuant adds its offset."""
    dtype = data_type_number(element_of(op.result))
    scale, offset = float(activation.scale), float(-activation.zero_point)
    return [build.add(ascend.AscendAntiQuantOp, activation.value, scale=scale, offset=offset, dtype=dtype).y]


def is_read_in_float(op: nn.NNOp) -> bool:
    """Whether an operation dequantizes what was a float value before, and is still used."""
    if not isinstance(op, nn.DequantizeOp) or not op.result.uses.get_length():
        return False
    return isinstance(op.input.owner, nn.QuantizeOp)


def is_output(op: nn.NNOp) -> bool:
    """Whether an operation quantizes an output of the graph, which is of integers then."""
    return isinstance(op, nn.QuantizeOp) and any(isinstance(use.operation, ReturnOp) for use in op.result.uses)
