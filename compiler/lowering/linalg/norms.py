"""Softmax, and normalizations: reductions, and what is computed element by element from them."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import cast

import numpy as np
from xdsl.dialects import math
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr

from ...dialects import ascend, nn
from ...dialects.nn.shapes import axes_of, element_of, known, shape_of
from ...ir.dtypes import numpy_dtype
from ..refusal import require
from .build import Array, Body, Builder, Scalars, identity, key_of, reshaped
from .elementwise import wide
from .rules import lowers, lowers_to_many
from .windows import kept, mean, reduce, total


def _without_largest(build: Builder, x: SSAValue, axis: int) -> SSAValue:
    """Differences to the largest element along an axis, in float32 or wider."""
    element = element_of(x)
    most = reduce(build, x, [axis], float("-inf"), element, lambda s, x, y: s.most(x, y))
    return _rowwise(build, [x], [most], [axis], wide(element), lambda s, x, m: _difference(s, x, m, element))


def _difference(s: Scalars, x: SSAValue, m: SSAValue, element: Attribute) -> SSAValue:
    return s.minus(*(s.convert(v, element, wide(element)) for v in (x, m)))


def _rowwise(
    build: Builder,
    full: Sequence[SSAValue],
    reduced: Sequence[SSAValue],
    axes: Sequence[int],
    element: Attribute,
    body: Body,
) -> SSAValue:
    """Element by element; the reduced tensors lack the axes."""
    rank = len(shape_of(full[0]))
    d = identity(rank)
    left = [d[i] for i in range(rank) if i not in axes]
    out = build.empty(build.sizes(full[0]), element)
    return build.generic([*((v, d) for v in full), *((v, left) for v in reduced)], out, d, rank, body)


@lowers(nn.SoftmaxOp, nn.LogSoftmaxOp)
def softmax(build: Builder, op: nn.SoftmaxOp | nn.LogSoftmaxOp, x: SSAValue) -> SSAValue:
    element = element_of(op.input)
    sums = wide(element)
    (axis,) = axes_of([op.axis.value.data], len(shape_of(x)))
    shifted = _without_largest(build, x, axis)
    powers = build.elementwise([shifted], sums, lambda s, x: s.add(math.ExpOp(x)), build.sizes(shifted))
    sum_ = total(build, powers, [axis])
    if isinstance(op, nn.SoftmaxOp):
        return _rowwise(
            build, [powers], [sum_], [axis], element, lambda s, x, y: s.convert(s.over(x, y), sums, element)
        )
    return _rowwise(
        build,
        [shifted],
        [sum_],
        [axis],
        element,
        lambda s, x, y: s.convert(s.minus(x, s.add(math.LogOp(y))), sums, element),
    )


def standardized(
    build: Builder, x: SSAValue, axes: Sequence[int], epsilon: float
) -> tuple[SSAValue, SSAValue, SSAValue]:
    """`(x - mean) / sqrt(variance + epsilon)`, the means and the variances, in float32 or wider."""
    element = element_of(x)
    sums = wide(element)
    means = mean(build, x, axes)
    centred = _rowwise(build, [x], [means], axes, sums, lambda s, x, m: s.minus(s.convert(x, element, sums), m))
    squares = build.elementwise([centred], sums, lambda s, x: s.times(x, x), build.sizes(centred))
    variances = mean(build, squares, axes)

    def divided(s: Scalars, x: SSAValue, v: SSAValue) -> SSAValue:
        return s.over(x, s.add(math.SqrtOp(s.plus(v, s.like(epsilon, v)))))

    return _rowwise(build, [centred], [variances], axes, sums, divided), means, variances


def scaled(build: Builder, y: SSAValue, scale: SSAValue, bias: SSAValue | None, element: Attribute) -> SSAValue:
    """`y * scale + bias`, as another float type; scale and bias broadcast to y."""
    sums, source = element_of(y), element_of(scale)

    def body(s: Scalars, y: SSAValue, *parameters: SSAValue) -> SSAValue:
        factor, *rest = (s.convert(p, source, sums) for p in parameters)
        y = s.product(y, factor)
        return s.convert(s.plus(y, rest[0]) if rest else y, sums, element)

    return build.elementwise([y, scale, *([] if bias is None else [bias])], element, body, build.sizes(y))


@lowers(nn.LayerNormOp)
def layer_norm(
    build: Builder, op: nn.LayerNormOp, x: SSAValue, scale: SSAValue, bias: SSAValue | None = None
) -> SSAValue:
    rank = len(shape_of(x))
    axes = range(op.axis.value.data % rank, rank)
    y, _, _ = standardized(build, x, axes, op.epsilon.value.data)
    return scaled(build, y, scale, bias, element_of(op.input))


@lowers_to_many(ascend.LayerNormOp)
def layer_norm_with_moments(
    build: Builder, op: ascend.LayerNormOp, x: SSAValue, gamma: SSAValue, beta: SSAValue
) -> Sequence[SSAValue]:
    axes = range(op.first_axis, len(shape_of(op.x)))
    epsilon = cast(nn.LayerNormOp, op.normalization()).epsilon.value.data
    y, *moments = standardized(build, x, axes, epsilon)
    result = scaled(build, y, gamma, beta, element_of(x))
    return [result, *(kept(build, _rounded(build, m, element_of(x)), shape_of(x), list(axes)) for m in moments)]


def _rounded(build: Builder, moments: SSAValue, element: Attribute) -> SSAValue:
    """Moments, computed in a wider type, in that of the operation."""
    source = element_of(moments)
    if source == element:
        return moments
    return build.elementwise([moments], element, lambda s, x: s.convert(x, source, element), build.sizes(moments))


@lowers(nn.InstanceNormOp)
def instance_norm(build: Builder, op: nn.InstanceNormOp, x: SSAValue, scale: SSAValue, bias: SSAValue) -> SSAValue:
    return _by_channel(build, op, x, scale, bias, op.epsilon.value.data)[0]


@lowers_to_many(ascend.InstanceNormOp)
def instance_norm_with_moments(
    build: Builder, op: ascend.InstanceNormOp, x: SSAValue, gamma: SSAValue, beta: SSAValue
) -> Sequence[SSAValue]:
    facts = cast(nn.InstanceNormOp, op.normalization())
    y, *moments = _by_channel(build, facts, x, gamma, beta, facts.epsilon.value.data)
    return [y, *(kept(build, _rounded(build, m, element_of(x)), shape_of(x), op.space) for m in moments)]


def _by_channel(
    build: Builder, op: nn.InstanceNormOp, x: SSAValue, scale: SSAValue, bias: SSAValue, epsilon: float
) -> Sequence[SSAValue]:
    """The result, and the moments without the spatial axes."""
    rank = len(shape_of(x))
    channel = op.channel_axis(rank)
    axes = [i for i in range(1, rank) if i != channel]
    y, *moments = standardized(build, x, axes, epsilon)
    after = (1,) * (rank - 1 - channel)
    scale, bias = (_along(build, v, after) for v in (scale, bias))
    return [scaled(build, y, scale, bias, element_of(op.input)), *moments]


def _along(build: Builder, vector: SSAValue, after: tuple[int, ...]) -> SSAValue:
    """A vector with axes of size 1 behind it."""
    array = nn.array_of(vector)
    if array is not None:
        return build.constant(array.reshape(-1, *after), key_of(vector))
    return reshaped(build, vector, [*build.sizes(vector), *after])


@lowers(nn.GroupNormOp)
def group_norm(build: Builder, op: nn.GroupNormOp, x: SSAValue, scale: SSAValue, bias: SSAValue) -> SSAValue:
    return _by_group(build, op, x, scale, bias)[0]


@lowers_to_many(ascend.GroupNormOp)
def group_norm_with_moments(
    build: Builder, op: ascend.GroupNormOp, x: SSAValue, gamma: SSAValue, beta: SSAValue
) -> Sequence[SSAValue]:
    y, *moments = _by_group(build, cast(nn.GroupNormOp, op.normalization()), x, gamma, beta)
    return [y, *(_rounded(build, m, element_of(x)) for m in moments)]


def _by_group(build: Builder, op: nn.GroupNormOp, x: SSAValue, scale: SSAValue, bias: SSAValue) -> Sequence[SSAValue]:
    """The result, and the moments `[N, groups]`; channels are second in between."""
    element, rank = element_of(op.input), len(shape_of(x))
    if op.channels_last:
        x = build.transpose(x, (0, rank - 1, *range(1, rank - 1)))
    sizes = build.sizes(x)
    rest = shape_of(x)[1:]
    require(all(map(known, rest)), "dynamic", "it divides by an unknown size")
    groups = op.num_groups.value.data
    grouped = reshaped(build, x, [sizes[0], groups, prod(rest) // groups])
    y, *moments = standardized(build, grouped, [2], op.epsilon.value.data)
    after = (1,) * (rank - 2)
    y = scaled(build, reshaped(build, y, sizes), _along(build, scale, after), _along(build, bias, after), element)
    return [build.transpose(y, (0, *range(2, rank), 1)) if op.channels_last else y, *moments]


@lowers(nn.LRNOp)
def lrn(build: Builder, op: nn.LRNOp, x: SSAValue) -> SSAValue:
    """`x / (bias + alpha/size * sum of squares of the nearest channels)^beta`, in float32 or wider."""
    element, rank, size = element_of(op.input), len(shape_of(x)), op.size.value.data
    sums, axis, sizes = wide(element), op.channel_axis(rank), build.sizes(x)
    before = (size - 1) // 2

    def square(s: Scalars, x: SSAValue) -> SSAValue:
        y = s.convert(x, element, sums)
        return s.times(y, y)

    low, high = ([count if i == axis else 0 for i in range(rank)] for count in (before, size - 1 - before))
    squares = build.pad(build.elementwise([x], sums, square, sizes), low, high, 0)
    d = identity(rank + 1)
    near: list[AffineExpr] = [d[i] + d[rank] if i == axis else d[i] for i in range(rank)]
    window, zeros = build.empty([size], sums), build.filled(sizes, sums, 0)
    y = build.generic(
        [(squares, near), (window, [d[rank]])], zeros, d[:rank], rank + 1, lambda s, x, _, y: s.plus(x, y)
    )

    def divided(s: Scalars, x: SSAValue, y: SSAValue) -> SSAValue:
        base = s.plus(s.product(y, s.like(op.alpha.value.data / size, y)), s.like(op.bias.value.data, y))
        power = s.add(math.PowFOp(base, s.like(op.beta.value.data, base)))
        return s.convert(s.over(s.convert(x, element, sums), power), sums, element)

    return build.elementwise([x, y], element, divided, sizes)


@lowers(nn.BatchNormOp)
def batch_norm(build: Builder, op: nn.BatchNormOp, x: SSAValue, *parameters: SSAValue) -> SSAValue:
    scale, offset, mu, variance = _constants(parameters)
    axis = op.channel_axis(len(shape_of(x)))
    return _normalized(build, x, axis, scale, offset, mu, variance, op.epsilon.value.data)


@lowers(ascend.BNInferenceOp)
def batch_norm_of_caffe(build: Builder, op: ascend.BNInferenceOp, x: SSAValue, *parameters: SSAValue) -> SSAValue:
    """The statistics are divided by their factor first, and rounded to their type."""
    mu, variance, momentum = _constants(parameters)
    divisor = float(momentum.reshape(()))
    factor = 1 / divisor if divisor else 0.0
    mu, variance = ((each.astype(np.float64) * factor).astype(each.dtype) for each in (mu, variance))
    return _normalized(build, x, 1, np.ones_like(mu), np.zeros_like(mu), mu, variance, op.epsilon.value.data)


def _constants(parameters: Sequence[SSAValue]) -> Sequence[Array]:
    arrays = [nn.array_of(p) for p in parameters]
    require(all(a is not None for a in arrays), "constant-parameters", "its parameters are computed at run time")
    return cast(Sequence[Array], arrays)


def _normalized(
    build: Builder, x: SSAValue, axis: int, scale: Array, offset: Array, mu: Array, variance: Array, epsilon: float
) -> SSAValue:
    """One factor and one summand per channel, computed in float64 at compile time."""
    factor = scale.astype(np.float64) / np.sqrt(variance.astype(np.float64) + epsilon)
    summand = offset.astype(np.float64) - mu.astype(np.float64) * factor
    element = element_of(x)
    sums = wide(element)
    shape = (-1, *(1,) * (len(shape_of(x)) - 1 - axis))
    constants = [build.constant(a.astype(numpy_dtype(sums)).reshape(shape), "norm") for a in (factor, summand)]

    def body(s: Scalars, x: SSAValue, factor: SSAValue, summand: SSAValue) -> SSAValue:
        return s.convert(s.plus(s.product(s.convert(x, element, sums), factor), summand), sums, element)

    return build.elementwise([x, *constants], element, body, build.sizes(x))


@lowers(nn.BiasAddOp)
def bias_add(build: Builder, op: nn.BiasAddOp, x: SSAValue, bias: SSAValue) -> SSAValue:
    rank = len(shape_of(x))
    d = identity(rank)
    out = build.empty(build.sizes(x), element_of(x))
    return build.generic([(x, d), (bias, [d[op.channel_axis(rank)]])], out, d, rank, lambda s, x, b: s.plus(x, b))
