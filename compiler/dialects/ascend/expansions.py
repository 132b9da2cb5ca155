"""Operations of `ascend` in operations of `nn`: kernels, lowering rules and forms in files follow from these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, cast

from xdsl.ir import SSAValue

from .. import nn
from ..nn.expansions import Steps, expands
from ..nn.shapes import shape_of
from .arithmetic import AddNOp, AddsOp, ClipByValueV2Op, EltwiseOp, FastGeluOp, MulsOp, SquareOp, SwishOp
from .base import AscendOp
from .caffe import BiasOp, BNInferenceOp, FromAxisOp, ScaleOp
from .elementwise import PReluOp
from .normalization import GroupNormOp, InstanceNormOp, LayerNormOp


@expands(SwishOp)
def swish(b: Steps, x: SSAValue, scale: float) -> SSAValue:
    return b.mul(x, b.sigmoid(x if scale == 1 else b.mul(x, scale)))


@expands(FastGeluOp)
def fast_gelu(b: Steps, x: SSAValue) -> SSAValue:
    return swish(b, x, 1.702)


@expands(PReluOp, stepwise=True)
def prelu(b: Steps, x: SSAValue, weight: SSAValue) -> SSAValue:
    return b.prelu(x, b.shaped(weight, [-1, *[1] * max(len(shape_of(x)) - 2, 0)]))


@expands(SquareOp)
def square(b: Steps, x: SSAValue) -> SSAValue:
    return b.mul(x, x)


@expands(AddsOp)
def adds(b: Steps, x: SSAValue, value: float) -> SSAValue:
    return b.add(x, value)


@expands(MulsOp)
def muls(b: Steps, x: SSAValue, value: float) -> SSAValue:
    return b.mul(x, value)


@expands(AddNOp, stepwise=True)
def add_n(b: Steps, *x: SSAValue, **_: Any) -> SSAValue:
    return _combined(b, b.add, x)


@expands(EltwiseOp, stepwise=True)
def eltwise(b: Steps, *x: SSAValue, mode: int, coeff: Sequence[float], **_: Any) -> SSAValue:
    """Weighted summands, and their sum, are computed in float32."""
    if coeff:
        b.widen()
        x = tuple(b.mul(b.cast(each), factor) for each, factor in zip(x, coeff, strict=True))
    return _combined(b, (b.mul, b.add, b.max)[mode], x)


def _combined(b: Steps, combine: Callable[..., SSAValue], values: Sequence[SSAValue]) -> SSAValue:
    """Values combined from left to right, each result rounded."""
    return reduce(combine, values) if len(values) > 1 else b.identity(values[0])


@expands(ClipByValueV2Op)
def clip_by_value(b: Steps, x: SSAValue, low: SSAValue, high: SSAValue) -> SSAValue:
    return b.min(b.max(x, b.shaped(low, ())), b.shaped(high, ()))


@expands(ScaleOp, stepwise=True)
def scale(b: Steps, x: SSAValue, scale: SSAValue, bias: SSAValue | None = None, **_: Any) -> SSAValue:
    y = b.mul(x, _from_axis(b, scale))
    return y if bias is None else b.add(y, _from_axis(b, bias))


@expands(BiasOp)
def bias(b: Steps, x: SSAValue, bias: SSAValue, **_: Any) -> SSAValue:
    return b.add(x, _from_axis(b, bias))


def _from_axis(b: Steps, parameter: SSAValue) -> SSAValue:
    return b.shaped(parameter, cast(FromAxisOp, b.op).parameter_shape)


@expands(BNInferenceOp, stepwise=True)
def bn_inference(
    b: Steps, x: SSAValue, mean: SSAValue, variance: SSAValue, momentum: SSAValue, epsilon: float, **_: Any
) -> SSAValue:
    """Divides statistics by their factor first, and rounds them to their type; with a factor of 0 they are 0."""
    import numpy as np

    arrays = [nn.array_of(v) for v in b.op.operands[1:]]
    given = [each for each in arrays if each is not None]
    if len(given) == 3:
        divisor = float(given[2].reshape(())[()])
        by = 1 / divisor if divisor else 0.0
        statistics = [(each.astype(np.float64) * by).astype(each.dtype) for each in given[:2]]
        return b.batch_norm(x, np.ones_like(given[0]), np.zeros_like(given[0]), *statistics, epsilon=epsilon)
    b.widen()
    x, mean, variance, momentum = map(b.cast, (x, mean, variance, b.shaped(momentum, ())))
    factor = b.where(b.compare(momentum, 0, predicate="eq"), 0, b.div(1, momentum))
    behind = [1] * (len(shape_of(x)) - 2)
    mean, variance = (b.shaped(b.mul(each, factor), [-1, *behind]) for each in (mean, variance))
    return b.div(b.sub(x, mean), b.sqrt(b.add(variance, epsilon)))


def _moments(b: Steps, x: SSAValue, axes: Sequence[int], *, keepdims: bool = True) -> list[SSAValue]:
    """Mean and variance over axes."""
    centered = b.sub(x, b.reduce_mean(x, axes=axes, keepdims=True))
    return [b.reduce_mean(each, axes=axes, keepdims=keepdims) for each in (x, b.mul(centered, centered))]


@expands(LayerNormOp)
def layer_norm(b: Steps, x: SSAValue, gamma: SSAValue, beta: SSAValue, epsilon: float, **_: Any) -> Sequence[SSAValue]:
    first = cast(LayerNormOp, b.op).first_axis
    y = b.layer_norm(x, gamma, beta, axis=first, epsilon=epsilon)
    return [y, *_moments(b, x, range(first, len(shape_of(x))))]


@expands(InstanceNormOp)
def instance_norm(
    b: Steps, x: SSAValue, gamma: SSAValue, beta: SSAValue, epsilon: float, **_: Any
) -> Sequence[SSAValue]:
    op = cast(InstanceNormOp, b.op)
    y = b.instance_norm(x, gamma, beta, epsilon=epsilon, layout=op.nn_layout)
    return [y, *_moments(b, x, op.space)]


@expands(GroupNormOp)
def group_norm(
    b: Steps, x: SSAValue, gamma: SSAValue, beta: SSAValue, num_groups: int, eps: float, **_: Any
) -> Sequence[SSAValue]:
    layout = cast(GroupNormOp, b.op).nn_layout
    y = b.group_norm(x, gamma, beta, num_groups=num_groups, epsilon=eps, layout=layout)
    grouped, axes = b.grouped(x, gamma, num_groups, nn.Layout(layout))
    return [y, *_moments(b, grouped, axes, keepdims=False)]


EXPANDED = tuple(kind for kind in nn.expandable() if issubclass(kind, AscendOp))
"""The operations whose expansions are above."""


__all__ = ["EXPANDED"]
