"""Convolutions: 2-D and 3-D directly, 1-D with an additional axis of size 1."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from ...dialects.nn.shapes import shape_of
from ..refusal import require
from .constants import Array
from .convolution_operators import FORMATS, OPERATORS, Operands, Operator, arranged_filter
from .quantized import (
    QUANTIZED_RULES,
    Activation,
    Bias,
    QuantizedRule,
    Weight,
    bias_of,
    dequantization_scale,
    dequantized,
    stored,
    stored_as_int8,
    weight_of,
)
from .rules import RULES, Builder, Rule

Finish = Callable[[SSAValue], SSAValue]
"""The steps between the convolution and the removal of an added axis."""


def _rule(operator: Operator) -> Rule:
    def in_floats(build: Builder, op: nn.ConvolutionOp) -> Sequence[SSAValue]:
        within, after = (op.bias, None) if operator.has_bias else (None, op.bias)
        y = _convolve(build, op, operator, Operands(op.input, op.weight, within))
        return [_biased(build, op, y, after)]

    return in_floats


def _quantized_rule(operator: Operator) -> QuantizedRule:
    def in_integers(build: Builder, op: nn.ConvolutionOp, activation: Activation) -> Sequence[SSAValue]:
        """The integer convolution, AscendDequant, and, in float, a bias that cannot be its operand."""
        weight = weight_of(op.weight)
        _check_channels(op, weight)
        scales = dequantization_scale(activation, weight)
        bias = bias_of(op.bias, scales) if operator.has_bias else Bias(None, op.bias)

        def dequantize(accumulator: SSAValue) -> SSAValue:
            shape = _channel_shape(op, len(shape_of(accumulator)), scales)
            return dequantized(build, accumulator, stored(build, scales).reshape(shape))

        operands = Operands(activation.value, stored_as_int8(build, weight.value), bias.integers, activation.zero_point)
        return [_biased(build, op, _convolve(build, op, operator, operands, dequantize), bias.floats)]

    return in_integers


RULES.update({key: _rule(operator) for key, operator in OPERATORS.items()})
QUANTIZED_RULES.update({key: _quantized_rule(operator) for key, operator in OPERATORS.items()})


def _check_channels(op: nn.ConvolutionOp, weight: Weight) -> None:
    """Raises NotLowered if scales are not per output channel."""
    transposed = isinstance(op, nn.ConvTransposeOp)
    # with groups, a scale along axis 1 of a transposed weight belongs to several output channels
    shared = not transposed or op.group_count == 1 or weight.axis is None
    require(shared, "channel-scales", "its grouped weight has one scale for several output channels")
    per_channel = weight.axis in (None, int(transposed))
    require(per_channel, "channel-scales", f"its weight has scales along axis {weight.axis}, not per output channel")


def _channel_shape(op: nn.ConvolutionOp, rank: int, scales: Array) -> tuple[int, ...]:
    """The shape of scales: `[1]`, `[C]` if channels are axis 1, otherwise full rank: a vector means axis 1 to AscendDequant."""
    return (1,) * (rank - 1) + (-1,) if op.channels_last and scales.size > 1 else (-1,)


def _biased(build: Builder, op: nn.ConvolutionOp, y: SSAValue, bias: SSAValue | None) -> SSAValue:
    if bias is None:
        return y
    return build.add(ascend.BiasAddOp, y, bias, data_format=FORMATS[2][op.channels_last]).y


def _convolve(
    build: Builder, op: nn.ConvolutionOp, operator: Operator, operands: Operands, finish: Finish | None = None
) -> SSAValue:
    """The convolution of operands with the source operation's geometry."""
    rank = op.spatial_rank
    require(rank in FORMATS, "spatial-rank", f"there is no convolution with {rank} spatial axes")
    added = {True: 1, False: 2}[op.channels_last] if rank == 1 else None
    x = operands.x
    if added is not None:
        x = build.add(ascend.UnsqueezeOp, x, axes=[added], name=f"{build.hint}_x").y
    weight = arranged_filter(build, op, operands.weight, operator.by_channel)
    y = operator.make(build, op, operands._replace(x=x, weight=weight))
    y = y if finish is None else finish(y)
    return y if added is None else build.add(ascend.SqueezeOp, y, axis=[added]).y
