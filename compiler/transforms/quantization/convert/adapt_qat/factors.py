"""Batch norms, factors and shifts after layers that were trained with quantized weights: they go into scales and biases.

Training with batch norms quantizes the folded weight, divides the result by the factor of the fold and normalizes it (torch.ao,
PyTorch 2 export quantization, Horizon's WithBNReverseFold), or quantizes the weight as it is (Horizon's WithBN). The integers
stay those of training, except for the signs of channels whose factor is negative.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter

from .....dialects.nn import (
    AddOp,
    BatchNormOp,
    BiasAddOp,
    ConstantOp,
    DequantizeOp,
    DivOp,
    MulOp,
    NNOp,
    QParamsAttr,
    SubOp,
    WeightedOp,
    array_of,
    constant_of,
    dequantize_of,
)
from .....dialects.nn.shapes import shape_of
from .....ir.dtypes import integer_range
from .....rewriting import Roots, condition, layer_of
from ....fusion.computing import COMPUTING, Array, along_channels, channels_of, constant_numbers, with_parameters
from ....fusion.fuse_bn.compute import factor_and_shift
from ...decide.layers import channel_axis as weight_axis
from .integers import AdaptPattern, erase_unused

_F32 = np.finfo(np.float32)
_ROUNDING = 8 * _F32.eps
"""Rounding error of float32 in a factor that is divided by itself: a root, two quotients and a product."""


_Step = tuple[NNOp, Array, Array]
"""An operation after a layer, its factors and its shifts, float64 `[C]`."""


@dataclass(frozen=True)
class Scaled:
    """A layer with an integer weight, and the operations after it that act channel by channel."""

    op: WeightedOp
    dequantize: DequantizeOp
    integers: Array
    steps: Sequence[_Step]


class AbsorbFactors(AdaptPattern[Scaled]):
    """scales and a bias that hold what follows a layer with an integer weight channel by channel, computed in float64

    Scales by which only rounding would multiply stay as they were trained.
    """

    name = "channel-factors"
    roots: ClassVar[Roots] = COMPUTING

    @condition
    def channel_factors(self, m: Scaled) -> str | None:
        """factors are finite, they leave the scales of output channels in float32's range, and integers can change sign"""
        factor, shift = _together(m.steps)
        params = m.dequantize.qparams.data
        if not np.isfinite(factor).all() or not np.isfinite(shift).all():
            return "its factors are not finite"
        scales = params.scales().astype(np.float64) * np.where(factor == 0, 1, np.abs(factor))
        if scales.max() > _F32.max or scales.min() < _F32.tiny:
            return "scales times its factors leave the range of float32"
        if weight_axis(m.op) is None or params.block is not None or params.axis not in (None, weight_axis(m.op)):
            return "the scales of the weight do not belong to output channels"
        if (factor < 0).any() and (params.zero_points().any() or m.integers.min() == integer_range(params.storage)[0]):
            return "a factor is negative, and the weight has integers without a negative"
        return None

    def match(self, op: Operation) -> Scaled | None:
        assert isinstance(op, COMPUTING)
        back = dequantize_of(op.operands[1])
        integers = None if back is None else array_of(back.input)
        if back is None or integers is None or (op.bias is not None and constant_of(op.bias) is None):
            return None
        steps = [*_steps(op)]
        factors = any(isinstance(step, BatchNormOp | DivOp | MulOp) for step, _, _ in steps)
        return Scaled(op, back, integers, steps) if factors else None

    def subject(self, m: Scaled, root: Operation) -> Operation:
        return m.steps[-1][0]

    def rewrite(self, m: Scaled, rewriter: PatternRewriter) -> None:
        _absorb(m, rewriter)
        self.remarks.applied(m.steps[-1][0], "channel-factors", f"into the scales and the bias of {layer_of(m.op)}")


def _steps(op: WeightedOp) -> Iterator[_Step]:
    """Yields the operations that follow a layer, each the only reader of the one before it."""
    value = op.result
    while value.has_one_use():
        reader = next(iter(value.uses)).operation
        found = _affine(op, reader) if value is reader.operands[0] or isinstance(reader, AddOp | MulOp) else None
        if found is None or not isinstance(reader, NNOp):
            return
        yield reader, *found
        value = reader.results[0]


def _affine(op: WeightedOp, reader: Operation) -> tuple[Array, Array] | None:
    """The factor and shift of an operation that acts on each channel of a layer's result separately; None for others."""
    rank, axis, channels = len(shape_of(op.result)), op.output_axis, op.output_channels
    ones, zeros = np.ones(channels), np.zeros(channels)
    match reader:
        case BatchNormOp() if all(constant_of(v) is not None for v in reader.operands[1:]):
            return factor_and_shift(reader) if reader.channel_axis(rank) == axis else None
        case BiasAddOp() if constant_of(reader.bias) is not None:
            return (ones, constant_numbers(reader.bias)) if reader.channel_axis(rank) == axis else None
        case AddOp() | SubOp() | MulOp() | DivOp():
            numbers = _constant_along(op, reader)
        case _:
            return None
    match reader:
        case _ if numbers is None:
            return None
        case MulOp():
            return numbers, zeros
        case DivOp():
            with np.errstate(divide="ignore"):
                return 1 / numbers, zeros
        case SubOp():
            return ones, -numbers
        case _:
            return ones, numbers


def _constant_along(op: WeightedOp, reader: NNOp) -> Array | None:
    """The constant operand of an elementwise operation on a layer's result, float64 `[C]`, or None."""
    constants = [v for v in reader.operands if constant_of(v) is not None]
    if len(constants) != 1 or shape_of(reader.results[0]) != shape_of(op.result):
        return None
    if isinstance(channels := channels_of(op), str):
        return None
    numbers = along_channels(channels, shape_of(op.result), constant_numbers(constants[0]))
    return None if isinstance(numbers, str) else numbers


def _together(steps: Sequence[_Step]) -> tuple[Array, Array]:
    """The factor and shift of operations one after the other."""
    factor, shift = np.ones(1), np.zeros(1)
    for _, times, plus in steps:
        factor, shift = factor * times, shift * times + plus
    return factor, shift


def _absorb(m: Scaled, rewriter: PatternRewriter) -> None:
    op, back, steps = m.op, m.dequantize, m.steps
    factor, shift = _together(steps)
    constant = constant_of(back.input)
    assert constant is not None
    weight = back
    inserted: list[Operation] = []
    if np.abs(factor - 1).max() > _ROUNDING:
        weight = _scaled_weight(m, constant, factor)
        inserted = [weight.input.owner, weight] if isinstance(weight.input.owner, Operation) else []
    bias = np.zeros(op.output_channels) if op.bias is None else constant_numbers(op.bias)
    key = f"{constant.key.removesuffix('.i8').removesuffix('weight')}bias.folded"
    added = ConstantOp.of((bias * factor + shift).astype(np.float32), key, steps[-1][0].location)
    last = steps[-1][0]
    made = with_parameters(op, weight.result, added.result, last.results[0].type)
    rewriter.replace(last, [*inserted, added, made], [made.results[0]])
    erase_unused([op, *(step for step, _, _ in steps[:-1])], rewriter.erase)


def _scaled_weight(m: Scaled, constant: ConstantOp, factor: Array) -> DequantizeOp:
    """The weight times a factor per output channel: scales stay positive, so that signs go into the integers."""
    axis, integers, params = weight_axis(m.op), m.integers, m.dequantize.qparams.data
    assert axis is not None
    along = [-1 if i == axis else 1 for i in range(integers.ndim)]
    signed = ConstantOp.of((integers * np.sign(factor).astype(integers.dtype).reshape(along)), constant.key)
    scales = params.scales().astype(np.float64) * np.where(factor == 0, 1, np.abs(factor))
    zero = params.zero_points().reshape(-1).tolist()
    return DequantizeOp.make(
        signed.result,
        qparams=QParamsAttr.of(params.storage, scales, zero, axis, f"{constant.key}.scale"),
        result_types=m.dequantize.result_types,
        location=m.dequantize.location,
        name=m.steps[-1][0].results[0].name_hint,
    )
