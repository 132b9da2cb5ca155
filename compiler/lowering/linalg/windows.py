"""Pools, and reductions over whole axes; softmax and the normalizations that are made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import cast

import numpy as np
from xdsl.dialects import math
from xdsl.dialects.builtin import AnyFloat, TensorType, f32, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr

from ...dialects import ascend, nn
from ...dialects.ascend.base import i8
from ...dialects.nn.shapes import DYNAMIC, Shape, axes_of, element_of, shape_of, window_size
from ...runtime.kernels.pooling import counts_for
from ..refusal import require
from .build import Array, Body, Builder, Scalars, Size, identity, is_unsigned, range_of, signless
from .elementwise import wide
from .rules import lowers, lowers_to_many

Combine = Callable[[Scalars, SSAValue, SSAValue], SSAValue]


# -- pools -------------------------------------------------------------------------------------------------------------


def _pooled(
    build: Builder, x: SSAValue, op: nn.PoolOp, start: float, sums: Attribute, combine: Combine
) -> tuple[SSAValue, Shape, Shape]:
    """The combination of each window, of type `sums`; the spatial sizes and the pads."""
    space, n = op.spatial(shape_of(op.input)), op.spatial_rank
    pads = op.resolved_pads(space)
    require(pads is not None, "auto-pad", "its padding depends on an unknown size")
    assert pads is not None
    ceil = op.ceil_mode is not None
    require(DYNAMIC not in space or not ceil, "ceil-mode", "its sizes are rounded up and unknown")
    rows = list(zip(op.kernel_shape, op.stride_list, op.dilation_list, strict=True))
    ends = list(pads[n:])
    if ceil:
        out = op.window_output(space, ceil=True)
        ends = [
            max((o - 1) * st + d * (k - 1) + 1 - s - b, 0)
            for o, (k, st, d), s, b in zip(out, rows, space, pads, strict=False)
        ]
    return window_reduction(build, x, op.channels_last, rows, pads[:n], ends, start, sums, combine), space, pads


def window_reduction(
    build: Builder,
    x: SSAValue,
    last: bool,
    rows: Sequence[tuple[int, int, int]],
    begins: Sequence[int],
    ends: Sequence[int],
    start: float,
    sums: Attribute,
    combine: Combine,
    fill: float | None = None,
) -> SSAValue:
    """Combines each window of a padded x; `rows` are its kernel, stride and dilation along each spatial axis."""
    n, first = len(rows), 1 if last else 2
    low, high = ([0] * first + list(side) + [0] * last for side in (begins, ends))
    x = build.pad(x, low, high, start if fill is None else fill)
    sizes = build.sizes(x)
    for i, (kernel, stride, dilation) in enumerate(rows):
        size = build.plus(sizes[first + i], -dilation * (kernel - 1) - 1)
        sizes[first + i] = build.plus(build.quotient(size, stride), 1)
    d = [AffineExpr.dimension(i) for i in range(2 + 2 * n)]
    x_map: list[AffineExpr] = list(d[: 2 + n])
    for i, (_, stride, dilation) in enumerate(rows):
        x_map[first + i] = d[first + i] * stride + d[2 + n + i] * dilation
    window = build.empty([kernel for kernel, _, _ in rows], signless(sums))
    target = build.filled(sizes, signless(sums), start)
    # the second operand has the sizes of the window, and no numbers
    return build.generic(
        [(x, x_map), (window, d[2 + n :])], target, d[: 2 + n], 2 + 2 * n, lambda s, x, _, y: combine(s, x, y)
    )


@lowers(nn.MaxPoolOp)
def max_pool(build: Builder, op: nn.MaxPoolOp, x: SSAValue) -> SSAValue:
    element = element_of(op.input)
    unsigned = is_unsigned(element)
    return _pooled(build, x, op, lowest(element), element, lambda s, x, y: s.most(x, y, unsigned))[0]


def lowest(element: Attribute) -> float:
    """What no element is less than."""
    return float("-inf") if isinstance(element, AnyFloat) else range_of(element)[0]


@lowers(nn.AveragePoolOp)
def average_pool(build: Builder, op: nn.AveragePoolOp, x: SSAValue) -> SSAValue:
    element = element_of(op.input)
    sums = wide(element)
    y, space, pads = _pooled(build, x, op, 0.0, sums, lambda s, x, y: s.plus(s.convert(x, element, sums), y))
    if any(pads) or op.ceil_mode is not None:
        require(DYNAMIC not in space, "count", "the number of elements in its windows depends on an unknown size")
        counts: Array = counts_for(op, space, op.window_output(space, op.ceil_mode is not None), pads)
        counts = counts[..., None] if op.channels_last else counts
    else:
        counts = np.array(prod(op.kernel_shape))
    divisor = build.constant(counts.astype(np.float32), "count")
    require(sums == f32, "float64", "averages of float64 have counts of float64")
    return build.elementwise(
        [y, divisor], element, lambda s, x, n: s.convert(s.over(x, n), sums, element), build.sizes(y)
    )


@lowers(ascend.AvgPoolV2Op, ascend.AvgPoolOp, ascend.PoolingOp)
def averaging(build: Builder, op: ascend.AveragingOp, x: SSAValue) -> SSAValue:
    """int8: the int32 sum of `x - offset_x` over each window. Otherwise by its meaning."""
    if element_of(op.operands[0]) != i8:
        from .rules import RULES

        meaning = op.meaning().op
        (y,) = RULES[type(meaning)](build, meaning, x)
        return y
    space = op.spatial(shape_of(op.operands[0]))
    require(DYNAMIC not in space, "dynamic", "its windows depend on unknown sizes")
    kernel, pads = op.kernel(space), op.resolved_pads(space)
    assert pads is not None
    out = [
        window_size(s, k, st, 1, b, e, op.rounds_up)
        for s, k, st, (b, e) in zip(space, kernel, op.stride_list, pads, strict=True)
    ]
    ends = [
        max((o - 1) * st + k - s - b, 0)
        for o, s, k, st, (b, _) in zip(out, space, kernel, op.stride_list, pads, strict=True)
    ]
    rows = [(k, st, 1) for k, st in zip(kernel, op.stride_list, strict=True)]
    begins = [b for b, _ in pads]
    ends = [min(e, 1 << 30) for e in ends]
    zero_point = op.zero_point

    def combine(s: Scalars, x: SSAValue, y: SSAValue) -> SSAValue:
        return s.plus(s.convert(x, i8, i32), y)

    start = -zero_point * prod(kernel)
    return window_reduction(build, x, op.channels_last, rows, begins, ends, start, i32, combine, zero_point)


# -- reductions --------------------------------------------------------------------------------------------------------


def reduce(
    build: Builder, x: SSAValue, axes: Sequence[int], start: float, sums: Attribute, combine: Combine
) -> SSAValue:
    """A tensor without these axes."""
    rank = len(shape_of(x))
    d = identity(rank)
    left = [i for i in range(rank) if i not in axes]
    target = build.filled([build.size(x, i) for i in left], signless(sums), start)
    return build.generic([(x, d)], target, [d[i] for i in left], rank, combine)


def total(build: Builder, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    """Sums of floats, computed in float32 or wider."""
    element = element_of(x)
    return reduce(build, x, axes, 0.0, wide(element), lambda s, x, y: s.plus(s.convert(x, element, wide(element)), y))


def mean(build: Builder, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    """Means, in float32 or wider."""
    sums = total(build, x, axes)
    return _divided(build, sums, x, axes)


def _divided(build: Builder, sums: SSAValue, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    require(DYNAMIC not in [shape_of(x)[i] for i in axes], "dynamic", "it divides by an unknown size")
    count = prod(shape_of(x)[i] for i in axes)
    return build.elementwise([sums], element_of(sums), lambda s, x: s.over(x, s.like(count, x)), build.sizes(sums))


def kept(build: Builder, reduced: SSAValue, shape: Sequence[int], axes: Sequence[int]) -> SSAValue:
    """A reduced tensor with its axes back, of size 1; `shape` is that before."""
    sizes: list[Size] = []
    rest = iter(build.sizes(reduced))
    for i in range(len(shape)):
        sizes.append(1 if i in axes else next(rest))
    return reshaped(build, reduced, sizes)


def reshaped(build: Builder, x: SSAValue, sizes: Sequence[Size]) -> SSAValue:
    """The same elements in other sizes: all axes merged, then split."""
    if build.sizes_known(x, sizes):
        return x
    rank = len(shape_of(x))
    flat = build.collapse(x, [list(range(rank))]) if rank > 1 else x
    if not all(isinstance(s, int) for s in sizes):
        flat = build.cast(flat, TensorType(element_of(x), [DYNAMIC]))
    if len(sizes) == 1 and rank >= 1:
        return flat
    if rank == 0:
        return build.expand(x, [], sizes)
    if not sizes:
        return build.collapse(flat, [])
    return build.expand(flat, [list(range(len(sizes)))], sizes)


def _finish(build: Builder, op: nn.ReduceOp, x: SSAValue, y: SSAValue, sums: Attribute) -> SSAValue:
    """A reduction in the type of its operand, with or without the axes."""
    element = element_of(op.input)
    if sums != element:
        y = build.elementwise([y], element, lambda s, v: s.convert(v, sums, element), build.sizes(y))
    return kept(build, y, shape_of(x), op.axis_list()) if op.keepdims is not None else y


@lowers(nn.ReduceMeanOp, nn.ReduceSumOp)
def reduce_sum(build: Builder, op: nn.ReduceOp, x: SSAValue) -> SSAValue:
    element, axes = element_of(op.input), op.axis_list()
    require(isinstance(element, AnyFloat), "float", "sums of integers")
    y = mean(build, x, axes) if isinstance(op, nn.ReduceMeanOp) else total(build, x, axes)
    return _finish(build, op, x, y, wide(element))


@lowers(nn.ReduceMaxOp, nn.ReduceMinOp)
def reduce_extreme(build: Builder, op: nn.ReduceOp, x: SSAValue) -> SSAValue:
    element = element_of(op.input)
    unsigned, largest = is_unsigned(element), isinstance(op, nn.ReduceMaxOp)
    if isinstance(element, AnyFloat):
        start = float("-inf") if largest else float("inf")
    else:
        start = range_of(element)[0 if largest else 1]
    choose = Scalars.most if largest else Scalars.least
    y = reduce(build, x, op.axis_list(), start, element, lambda s, x, y: choose(s, x, y, unsigned))
    return _finish(build, op, x, y, element)


@lowers(nn.ReduceProdOp)
def reduce_product(build: Builder, op: nn.ReduceProdOp, x: SSAValue) -> SSAValue:
    element = element_of(op.input)
    sums = wide(element)
    y = reduce(build, x, op.axis_list(), 1, sums, lambda s, x, y: s.times(s.convert(x, element, sums), y))
    return _finish(build, op, x, y, sums)


@lowers(nn.GlobalAveragePoolOp, nn.GlobalMaxPoolOp)
def global_pool(build: Builder, op: nn.GlobalPoolOp, x: SSAValue) -> SSAValue:
    element, rank = element_of(op.input), len(shape_of(op.input))
    axes = range(1, rank - 1) if op.channels_last else range(2, rank)
    if isinstance(op, nn.GlobalMaxPoolOp):
        unsigned = is_unsigned(element)
        y = reduce(build, x, axes, lowest(element), element, lambda s, x, y: s.most(x, y, unsigned))
    else:
        require(isinstance(element, AnyFloat), "float", "means of integers")
        y = mean(build, x, axes)
        sums = wide(element)
        if sums != element:
            y = build.elementwise([y], element, lambda s, v: s.convert(v, sums, element), build.sizes(y))
    return kept(build, y, shape_of(x), list(axes))


# -- softmax and normalizations ----------------------------------------------------------------------------------------


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
        y = s.times(y, factor)
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
    require(element_of(x) == element_of(y), "float16", "its moments are narrower than they are computed")
    result = scaled(build, y, gamma, beta, element_of(x))
    return [result, *(kept(build, m, shape_of(x), list(axes)) for m in moments)]


@lowers(nn.BatchNormOp)
def batch_norm(build: Builder, op: nn.BatchNormOp, x: SSAValue, *parameters: SSAValue) -> SSAValue:
    """One factor and one summand per channel, computed in float64 at compile time."""
    arrays = [nn.array_of(p) for p in parameters]
    require(all(a is not None for a in arrays), "constant-parameters", "its parameters are computed at run time")
    scale, offset, mu, variance = (cast(Array, a).astype(np.float64) for a in arrays)
    factor = scale / np.sqrt(variance + op.epsilon.value.data)
    summand = offset - mu * factor
    rank = len(shape_of(x))
    after = rank - 1 - op.channel_axis(rank)
    shape = (-1, *(1,) * after)
    constants = [build.constant(a.astype(np.float32).reshape(shape), "norm") for a in (factor, summand)]
    element = element_of(op.input)
    require(wide(element) == f32, "float64", "norms of float64 are computed with parameters of float64")
    return build.elementwise(
        [x, *constants],
        element,
        lambda s, x, f, t: s.convert(
            s.plus(s.times(s.convert(x, element, wide(element)), f), t), wide(element), element
        ),
        build.sizes(x),
    )


@lowers(nn.BiasAddOp)
def bias_add(build: Builder, op: nn.BiasAddOp, x: SSAValue, bias: SSAValue) -> SSAValue:
    rank = len(shape_of(x))
    d = identity(rank)
    out = build.empty(build.sizes(x), element_of(x))
    return build.generic([(x, d), (bias, [d[op.channel_axis(rank)]])], out, d, rank, lambda s, x, b: s.plus(x, b))
