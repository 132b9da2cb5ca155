"""Pools, and reductions over whole axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import AnyFloat, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr

from amct_opt.dialects import ascend, nn
from amct_opt.dialects.ascend.base import i8
from amct_opt.dialects.nn.shapes import DYNAMIC, Shape, element_of, shape_of, window_size
from amct_opt.ir.dtypes import numpy_dtype
from amct_opt.lowering.refusal import require
from amct_opt.runtime.kernels.pooling import counts_for

from .build import Array, Builder, Scalars, Size, identity, is_unsigned, range_of, reshaped, signless
from .elementwise import wide
from .rules import lowers

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
    x = build.covered(build.pad(x, low, high, start if fill is None else fill), first, rows)
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
    return _pooled(build, x, op, extreme(element, True), element, lambda s, x, y: s.most(x, y, unsigned))[0]


def extreme(element: Attribute, largest: bool) -> float:
    """The start of the search for the largest (or smallest) element."""
    if isinstance(element, AnyFloat):
        return float("-inf") if largest else float("inf")
    return range_of(element)[0 if largest else 1]


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
    divisor = build.constant(counts.astype(numpy_dtype(sums)), "count")
    return build.elementwise(
        [y, divisor], element, lambda s, x, n: s.convert(s.over(x, n), sums, element), build.sizes(y)
    )


@lowers(ascend.AvgPoolV2Op, ascend.AvgPoolOp, ascend.PoolingOp)
def averaging(build: Builder, op: ascend.AveragingOp, x: SSAValue) -> SSAValue:
    """int8: the int32 sum of `x - offset_x` over each window."""
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
    if not axes:
        return build.elementwise([x], signless(sums), lambda s, x: combine(s, x, s.number(start, sums)), build.sizes(x))
    d = identity(rank)
    left = [i for i in range(rank) if i not in axes]
    target = build.filled([build.size(x, i) for i in left], signless(sums), start)
    return build.generic([(x, d)], target, [d[i] for i in left], rank, combine)


def total(build: Builder, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    """Sums of floats, computed in float32 or wider."""
    element = element_of(x)
    return reduce(build, x, axes, 0.0, wide(element), lambda s, x, y: s.plus(s.convert(x, element, wide(element)), y))


def mean(build: Builder, x: SSAValue, axes: Sequence[int]) -> SSAValue:
    """Computes means in float32 or wider."""
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
    start = extreme(element, largest)
    choose = Scalars.most if largest else Scalars.least
    y = reduce(build, x, op.axis_list(), start, element, lambda s, x, y: choose(s, x, y, unsigned))
    return _finish(build, op, x, y, element)


@lowers(nn.ReduceProdOp)
def reduce_product(build: Builder, op: nn.ReduceProdOp, x: SSAValue) -> SSAValue:
    element = element_of(op.input)
    sums = wide(element)
    y = reduce(build, x, op.axis_list(), 1, sums, lambda s, x, y: s.times(s.convert(x, element, sums), y))
    return _finish(build, op, x, y, sums)
