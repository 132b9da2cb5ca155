"""Convolutions and matrix products, in float and in integers.

An integer product is that of the raw integers in int32, which is exact; what the zero point contributes, `zero_point * sum(w)`,
is subtracted from the bias before, so that accumulation starts from there. Padding is filled with the zero point.

Convolutions in two dimensions have their channels last. IREE computes them several times faster than with channels second, and
cancels the transpositions between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from xdsl.dialects.builtin import AnyFloat, DenseIntElementsAttr, TensorType, f32, i32, i64
from xdsl.dialects.linalg.ops import Conv2DNhwc_HwcfOp, Conv2DNhwgcGfhwcOp, MatmulOp
from xdsl.ir import Attribute, SSAValue
from xdsl.ir.affine import AffineExpr

from amct_opt.dialects import ascend, nn
from amct_opt.dialects.ascend.base import i8, i16
from amct_opt.dialects.ascend.cube import DATA
from amct_opt.dialects.nn.shapes import DYNAMIC, Shape, element_of, known, shape_of
from amct_opt.ir.dtypes import integer_range
from amct_opt.lowering.refusal import require

from .build import Array, Builder, Scalars, Size, identity, reshaped
from .elementwise import wide
from .requantization import real_weight
from .rules import lowers
from .shape import margins, sliced


@dataclass(frozen=True)
class Contraction:
    """The element types of a product: those of x, of the sum, of the result and of the weight, None for that of x; and the zero
    point of x.
    """

    operand: Attribute
    sum: Attribute
    result: Attribute
    zero_point: int = 0
    weight: Attribute | None = None

    @staticmethod
    def of(element: Attribute, result: Attribute, zero_point: int = 0) -> Contraction:
        if element in DATA:
            return Contraction(element, i32, result, zero_point, i8)
        return Contraction(element, wide(element), result, zero_point)

    def body(self, s: Scalars, x: SSAValue, w: SSAValue, total: SSAValue) -> SSAValue:
        """`total + x * w`."""
        a, b = s.convert(x, self.operand, self.sum), s.convert(w, self.weight or self.operand, self.sum)
        return s.plus(total, s.times(a, b))


# -- convolutions ------------------------------------------------------------------------------------------------------


class Geometry(NamedTuple):
    """A convolution: its weight as `[M, C/groups, *kernel]`; `pads` lists all begins, then all ends."""

    weight: Shape
    groups: int
    strides: Shape
    dilations: Shape
    pads: Shape
    channels_last: bool

    @property
    def rank(self) -> int:
        return len(self.weight) - 2

    @property
    def channel_axis(self) -> int:
        return 1 + self.rank if self.channels_last else 1

    def padded(self, build: Builder, x: SSAValue, fill: float) -> SSAValue:
        """x with its padding, as far as windows reach."""
        n = self.rank
        before, after = ([0], [0]) if self.channels_last else ([0, 0], list[int]())
        low, high = ([*before, *side, *after] for side in (self.pads[:n], self.pads[n:]))
        rows = zip(self.weight[2:], self.strides, self.dilations, strict=True)
        return build.covered(build.pad(x, low, high, fill), len(before), rows)

    def windows(self, build: Builder, x: SSAValue) -> list[Size]:
        """The number of windows along each spatial axis of a padded x."""
        first = 1 if self.channels_last else 2
        rows = zip(self.weight[2:], self.strides, self.dilations, strict=True)
        return [windows(build, build.size(x, first + i), *row) for i, row in enumerate(rows)]


@lowers(nn.ConvOp)
def conv(build: Builder, op: nn.ConvOp, x: SSAValue, weight: SSAValue, bias: SSAValue | None = None) -> SSAValue:
    element = element_of(op.input)
    require(isinstance(element, AnyFloat), "float", f"a convolution of {element} has no defined sum")
    pads = op.resolved_pads(op.spatial(shape_of(op.input)))
    require(pads is not None, "auto-pad", "its padding depends on an unknown size")
    assert pads is not None
    shape = shape_of(op.weight)
    geometry = Geometry(shape, op.group_count, op.stride_list, op.dilation_list, pads, op.channels_last)
    return convolution(build, geometry, Contraction.of(element, element), x, weight, bias)


@lowers(ascend.Conv2DOp, ascend.Conv3DOp, ascend.DepthwiseConv2DOp)
def conv_of_the_matrix_engine(
    build: Builder,
    op: ascend.GroupedOp | ascend.DepthwiseConv2DOp,
    x: SSAValue,
    filter: SSAValue,
    bias: SSAValue | None = None,
) -> SSAValue:
    """Integer operands give int32."""
    weight, depthwise = filter, isinstance(op, ascend.DepthwiseConv2DOp)
    if op.channels_last or depthwise:
        weight = build.constant(op.nn_filter(_constant(filter, "filter")), "filter")
    groups = op.filter_sizes.channels if depthwise else op.group_count
    pads = (*(b for b, _ in op.pad_list), *(e for _, e in op.pad_list))
    geometry = Geometry(shape_of(weight), groups, op.stride_list, op.dilation_list, pads, op.channels_last)
    return convolution(
        build, geometry, Contraction.of(element_of(op.x), element_of(op.y), op.zero_point), x, weight, bias
    )


# -- transposed convolutions -------------------------------------------------------------------------------------------


@lowers(nn.ConvTransposeOp)
def conv_transpose(
    build: Builder, op: nn.ConvTransposeOp, x: SSAValue, weight: SSAValue, bias: SSAValue | None = None
) -> SSAValue:
    element = element_of(op.input)
    require(isinstance(element, AnyFloat), "float", f"a convolution of {element} has no defined sum")
    pads = op.resolved_pads(op.spatial(shape_of(op.input)))
    require(pads is not None, "auto-pad", "its padding depends on an unknown size")
    assert pads is not None
    geometry = Geometry(shape_of(op.weight), op.group_count, op.stride_list, op.dilation_list, pads, op.channels_last)
    return transposed(build, geometry, op.output_padding_list, Contraction.of(element, element), x, weight, bias)


@lowers(ascend.Conv2DTransposeOp, ascend.Conv2DBackpropInputOp, ascend.DeconvolutionOp)
def transposed_of_the_matrix_engine(build: Builder, op: ascend.TransposedOp, *operands: SSAValue) -> SSAValue:
    x, weight, *bias = (operands[i] for i in op.operand_order)
    if op.channels_last:
        weight = build.constant(op.nn_filter(_constant(weight, "filter")), "filter")
    pads = (*(b for b, _ in op.pad_list), *(e for _, e in op.pad_list))
    geometry = Geometry(shape_of(weight), op.group_count, op.stride_list, op.dilation_list, pads, op.channels_last)
    kinds = Contraction.of(element_of(op.x_value), element_of(op.results[0]), op.zero_point)
    return transposed(build, geometry, op.output_padding_list, kinds, x, weight, bias[0] if bias else None)


def transposed(
    build: Builder,
    geometry: Geometry,
    extra: Shape,
    kinds: Contraction,
    x: SSAValue,
    weight: SSAValue,
    bias: SSAValue | None,
) -> SSAValue:
    """A convolution by the flipped kernel, of x spread out by the strides; gaps and margins are the zero point.

    The weight of `geometry` is `[C, M/groups, *kernel]`; `extra` is what is added to each spatial size.
    """
    require(DYNAMIC not in geometry.weight, "dynamic-weight", "sizes of its weight are unknown")
    n, first = geometry.rank, 1 if geometry.channels_last else 2
    rows = zip(
        geometry.weight[2:], geometry.strides, geometry.dilations, geometry.pads, geometry.pads[n:], extra, strict=False
    )
    low, high = [0] * (n + 2), [0] * (n + 2)
    for axis, (kernel, stride, dilation, begin, end, more) in enumerate(rows, first):
        reach = dilation * (kernel - 1)
        low[axis], high[axis] = reach - begin, reach - end + more - (stride - 1)
    x = margins(build, _spread(build, x, geometry.strides, first, kinds.zero_point), low, high, kinds.zero_point)
    weight = _turned_weight(build, weight, geometry.groups)
    ones = (1,) * n
    plain = Geometry(
        shape_of(weight), geometry.groups, ones, geometry.dilations, (0,) * (2 * n), geometry.channels_last
    )
    return convolution(build, plain, kinds, x, weight, bias)


def _spread(build: Builder, x: SSAValue, strides: Shape, first: int, fill: float) -> SSAValue:
    """x with `stride - 1` elements after each of its own, along the axes from `first` on."""
    if not any(s > 1 for s in strides):
        return x
    sizes = build.sizes(x)
    split, groups, high = list[Size](), list[list[int]](), list[int]()
    for axis, size in enumerate(sizes):
        stride = strides[axis - first] if first <= axis < first + len(strides) else 1
        here = [len(split), len(split) + 1] if stride > 1 else [len(split)]
        groups.append(here)
        split += [size, 1] if stride > 1 else [size]
        high += [0, stride - 1] if stride > 1 else [0]
    y = build.pad(build.expand(x, groups, split), [0] * len(high), high, fill)
    return build.collapse(y, groups)


def _turned_weight(build: Builder, weight: SSAValue, groups: int) -> SSAValue:
    """`[C, M/groups, *kernel]` as the weight `[M, C/groups, *kernel]` of a convolution, its kernel flipped."""
    channels, per_group, *kernel = shape_of(weight)
    sizes, axes = (groups, channels // groups, per_group, *kernel), range(2, 2 + len(kernel))
    final = (groups * per_group, channels // groups, *kernel)
    if (array := nn.array_of(weight)) is not None:
        turned = np.flip(array, tuple(axes)).reshape(sizes).swapaxes(1, 2)
        return build.constant(turned.reshape(final), "filter")
    back = [slice(None, None, -1) if i in axes else slice(None) for i in range(len(shape_of(weight)))]
    y = reshaped(build, sliced(build, weight, back), sizes)
    return reshaped(build, build.transpose(y, (0, 2, 1, *range(3, len(sizes)))), final)


def _constant(value: SSAValue, what: str) -> Array:
    array = nn.array_of(value)
    require(array is not None, f"constant-{what}", f"its {what} is computed at run time")
    assert array is not None
    return array


def convolution(
    build: Builder, geometry: Geometry, kinds: Contraction, x: SSAValue, weight: SSAValue, bias: SSAValue | None
) -> SSAValue:
    """x `[N, C, *space]`, or channels last; the result in the layout of x."""
    require(DYNAMIC not in geometry.weight, "dynamic-weight", "sizes of its weight are unknown")
    if _is_named(build, geometry, kinds) and not geometry.channels_last:
        x = build.transpose(x, (0, 2, 3, 1))
        y = convolution(build, geometry._replace(channels_last=True), kinds, x, weight, bias)
        return build.transpose(y, (0, 3, 1, 2))
    x = geometry.padded(build, x, kinds.zero_point)
    geometry, x = _without_steps(build, geometry, kinds, x)
    start = _bias(build, kinds, weight, bias)
    if geometry.groups > 1:
        return _grouped(build, geometry, kinds, x, weight, start)
    n, last = geometry.rank, geometry.channels_last
    sizes = geometry.windows(build, x)
    out: list[Size] = (
        [build.size(x, 0), *sizes, geometry.weight[0]] if last else [build.size(x, 0), geometry.weight[0], *sizes]
    )
    target = _started(build, start, out, geometry.channel_axis, kinds.sum)
    if _is_named(build, geometry, kinds):
        y = _named(build, Conv2DNhwc_HwcfOp, geometry, (x, build.transpose(weight, (2, 3, 1, 0))), target)
        return _narrowed(build, y, kinds)
    batch, m, *d = (AffineExpr.dimension(i) for i in range(3 + 2 * n))
    places, c, window = d[:n], d[n], d[n + 1 :]
    taps = _taps(geometry, places, window)
    x_map, y_map = (
        [batch, *space, channel] if last else [batch, channel, *space] for space, channel in ((taps, c), (places, m))
    )
    y = build.contract([(x, x_map), (weight, [m, c, *window])], target, y_map, 3 + 2 * n, kinds)
    return _narrowed(build, y, kinds)


def _is_named(build: Builder, geometry: Geometry, kinds: Contraction) -> bool:
    """Whether linalg has it as a named operation, which in xDSL widens integers only."""
    return build.NAMED and geometry.rank == 2 and kinds.operand in (kinds.sum, i8)


def _named(
    build: Builder,
    kind: type[Conv2DNhwc_HwcfOp | Conv2DNhwgcGfhwcOp],
    geometry: Geometry,
    operands: Sequence[SSAValue],
    target: SSAValue,
) -> SSAValue:
    strides, dilations = (
        DenseIntElementsAttr.from_list(TensorType(i64, [2]), list(v)) for v in (geometry.strides, geometry.dilations)
    )
    return build.add(kind(operands, [target], [target.type], strides=strides, dilations=dilations))


def _without_steps(build: Builder, geometry: Geometry, kinds: Contraction, x: SSAValue) -> tuple[Geometry, SSAValue]:
    """A kernel of one element reads a part of x instead of taking steps: then it is a matrix product.

    Integers are sliced, because IREE would join a copy with the product again, which is slow. Floats are copied, because it joins
    what computes them with what reads a slice, for which its stack is too small.
    """
    if max(geometry.weight[2:]) > 1 or max(geometry.strides) == 1:
        return geometry, x
    sizes, steps = build.sizes(x), [1] * (geometry.rank + 2)
    first = 1 if geometry.channels_last else 2
    space = slice(first, first + geometry.rank)
    sizes[space], steps[space] = geometry.windows(build, x), geometry.strides
    geometry = geometry._replace(strides=(1,) * geometry.rank)
    if kinds.operand == i8 or not build.NAMED:
        return geometry, build.slice(x, [0] * len(sizes), sizes, steps)
    loops = identity(len(sizes))
    places = [loop * step for loop, step in zip(loops, steps, strict=True)]
    return geometry, build.generic(
        [(x, places)], build.empty(sizes, element_of(x)), loops, len(sizes), lambda s, each: each
    )


def _grouped(
    build: Builder, geometry: Geometry, kinds: Contraction, x: SSAValue, weight: SSAValue, start: SSAValue | None
) -> SSAValue:
    """The channels are split into groups and channels in a group, and those of the result are merged again."""
    n, last, groups, axis = geometry.rank, geometry.channels_last, geometry.groups, geometry.channel_axis
    out, per_group = geometry.weight[0] // groups, geometry.weight[1]
    sizes = geometry.windows(build, x)
    x, weight = _split(build, x, axis, (groups, per_group)), _split(build, weight, 0, (groups, out))
    start = None if start is None else _split(build, start, 0, (groups, out))
    batch = build.size(x, 0)
    result: list[Size] = [batch, *sizes, groups, out] if last else [batch, groups, out, *sizes]
    target = _started(build, start, result, axis, kinds.sum)
    if _is_named(build, geometry, kinds):
        y = _named(build, Conv2DNhwgcGfhwcOp, geometry, (x, build.transpose(weight, (0, 1, 3, 4, 2))), target)
    else:
        b, g, m, *d = (AffineExpr.dimension(i) for i in range(4 + 2 * n))
        places, c, window = d[:n], d[n], d[n + 1 :]
        taps = _taps(geometry, places, window)
        x_map, y_map = (
            [b, *space, g, channel] if last else [b, g, channel, *space] for space, channel in ((taps, c), (places, m))
        )
        y = build.contract([(x, x_map), (weight, [g, m, c, *window])], target, y_map, 4 + 2 * n, kinds)
    merged = build.collapse(y, [[i] if i < axis else [axis, axis + 1] if i == axis else [i + 1] for i in range(n + 2)])
    return _narrowed(build, merged, kinds)


def _taps(geometry: Geometry, places: Sequence[AffineExpr], window: Sequence[AffineExpr]) -> list[AffineExpr]:
    rows = zip(places, window, geometry.strides, geometry.dilations, strict=True)
    return [place * stride + tap * dilation for place, tap, stride, dilation in rows]


def windows(build: Builder, size: Size, kernel: int, stride: int, dilation: int) -> Size:
    """The number of windows in a padded axis."""
    return build.plus(build.quotient(build.plus(size, -dilation * (kernel - 1) - 1), stride), 1)


def _split(build: Builder, value: SSAValue, axis: int, sizes: tuple[int, int]) -> SSAValue:
    """A tensor whose axis is split in two."""
    shape = shape_of(value)
    if (array := nn.array_of(value)) is not None:
        return build.constant(array.reshape(*shape[:axis], *sizes, *shape[axis + 1 :]), "weight")
    groups = [[i] if i < axis else [axis, axis + 1] if i == axis else [i + 1] for i in range(len(shape))]
    rest: list[Size] = build.sizes(value)
    return build.expand(value, groups, [*rest[:axis], *sizes, *rest[axis + 1 :]])


def _bias(
    build: Builder, kinds: Contraction, weight: SSAValue, bias: SSAValue | None, axis: int = 0
) -> SSAValue | None:
    """The start of the accumulation per output channel: the bias, minus what the zero point contributes."""
    if kinds.operand == i16:
        _check_sums(kinds, _constant(weight, "filter"), None if bias is None else _constant(bias, "bias"), axis)
    if not kinds.zero_point:
        return bias
    sums = _constant(weight, "filter").astype(np.int64)
    sums = sums.sum(axis=tuple(i for i in range(sums.ndim) if i != axis % sums.ndim)) * -kinds.zero_point
    if bias is not None:
        sums = sums + _constant(bias, "bias")
    return build.constant(sums.astype(np.int32), "start")


def _check_sums(kinds: Contraction, weight: Array, bias: Array | None, axis: int) -> None:
    """Raises NotLowered where products with int16 may leave int32, in which linalg wraps around and the interpreter refuses."""
    low, high = (end - kinds.zero_point for end in integer_range(i16))
    rows = np.moveaxis(weight, axis, 0).reshape(weight.shape[axis], -1).astype(np.int64)
    above, below = np.maximum(rows, 0).sum(axis=1), np.minimum(rows, 0).sum(axis=1)
    start = 0 if bias is None else bias.astype(np.int64)
    most, least = above * high + below * low + start, above * low + below * high + start
    largest = max(int(most.max()), -int(least.min()))
    require(largest < 2**31, "int32-sums", f"its sums may reach {largest}, beyond int32, in which linalg wraps around")


def _started(build: Builder, start: SSAValue | None, sizes: Sequence[Size], axis: int, element: Attribute) -> SSAValue:
    """A tensor of these sizes that is `start` along its axes from `axis` on, otherwise 0."""
    if start is None:
        return build.filled(sizes, element, 0)
    source = element_of(start)
    d = identity(len(sizes))
    out = build.empty(sizes, element)
    along = d[axis : axis + len(shape_of(start))]
    return build.generic([(start, along)], out, d, len(sizes), lambda s, b: s.convert(b, source, element))


def _narrowed(build: Builder, sums: SSAValue, kinds: Contraction) -> SSAValue:
    """Sums in the type of the result."""
    if kinds.sum == kinds.result:
        return sums
    return build.elementwise(
        [sums], kinds.result, lambda s, x: s.convert(x, kinds.sum, kinds.result), build.sizes(sums)
    )


# -- matrix products ---------------------------------------------------------------------------------------------------


@lowers(nn.MatMulOp)
def mat_mul(build: Builder, op: nn.MatMulOp, a: SSAValue, b: SSAValue, bias: SSAValue | None = None) -> SSAValue:
    element = element_of(op.lhs)
    kinds = Contraction(element, wide(element), element)
    vectors = [len(shape_of(v)) == 1 for v in (a, b)]
    a = reshaped(build, a, [1, build.size(a, 0)]) if vectors[0] else a
    b = reshaped(build, b, [build.size(b, 0), 1]) if vectors[1] else b
    first, second = op.transpose_a is not None and not vectors[0], op.transpose_b is not None and not vectors[1]
    y = product(build, kinds, (a, first), (b, second), bias)
    rank = len(shape_of(y))
    ones = [rank - 2 + i for i, vector in enumerate(vectors) if vector]
    return reshaped(build, y, [s for i, s in enumerate(build.sizes(y)) if i not in ones]) if ones else y


@lowers(ascend.MatMulV2Op, ascend.BatchMatMulV2Op)
def mat_mul_of_the_matrix_engine(
    build: Builder, op: ascend.MatrixOp, a: SSAValue, b: SSAValue, bias: SSAValue | None = None
) -> SSAValue:
    kinds = Contraction.of(element_of(op.x1), element_of(op.y), op.zero_point)
    first, second = op.transposes
    start = bias
    if kinds.zero_point or kinds.operand == i16:
        require(len(shape_of(b)) == 2, "rank", "the zero point of a product with a weight per batch")
        start = _bias(build, kinds, b, bias, 0 if second else 1)
    return product(build, kinds, (a, first), (b, second), start)


@lowers(ascend.FullyConnectionOp)
def inner_product(
    build: Builder, op: ascend.FullyConnectionOp, x: SSAValue, w: SSAValue, b: SSAValue | None = None
) -> SSAValue:
    """The axes of x from `axis` on become one."""
    kinds = Contraction.of(element_of(op.x), element_of(op.y), op.zero_point)
    depth = shape_of(w)[0 if op.is_transposed else 1]
    require(known(depth), "dynamic-weight", "sizes of its weight are unknown")
    x = reshaped(build, x, [*build.sizes(x)[: op.first_axis], depth])
    start = _bias(build, kinds, w, b, 1 if op.is_transposed else 0)
    return product(build, kinds, (x, False), (w, not op.is_transposed), start)


@lowers(ascend.WeightQuantBatchMatmulV2Op)
def product_with_weight_quantized(
    build: Builder,
    op: ascend.WeightQuantBatchMatmulV2Op,
    x: SSAValue,
    weight: SSAValue,
    scale: SSAValue,
    offset: SSAValue,
    bias: SSAValue | None = None,
) -> SSAValue:
    """The weight is computed in float32 and rounded to the type of x; groups of rows share scales."""
    element, turned = element_of(op.x), bool(op.transpose_weight.value.data)
    if op.group_size:
        rows = shape_of(weight)[1 if turned else 0]
        require(known(rows), "dynamic-weight", "sizes of its weight are unknown")
        arrays = [np.repeat(_constant(v, "scale"), op.group_size, axis=0)[:rows] for v in (scale, offset)]
        scale, offset = (build.constant(a, "scale") for a in arrays)
    if turned:
        weight = build.transpose(weight, (1, 0))
    real = build.elementwise(
        [weight, scale, offset],
        element,
        lambda s, q, scale, offset: s.convert(real_weight(s, q, scale, offset, source=element), f32, element),
        build.sizes(weight),
    )
    if bias is not None:
        source = element_of(bias)
        bias = build.elementwise([bias], f32, lambda s, b: s.convert(b, source, f32), build.sizes(bias))
    transposed_x = bool(op.transpose_x.value.data)
    return product(build, Contraction(element, f32, element), (x, transposed_x), (real, False), bias)


def product(
    build: Builder, kinds: Contraction, lhs: tuple[SSAValue, bool], rhs: tuple[SSAValue, bool], start: SSAValue | None
) -> SSAValue:
    """The product of `[..., M, K]` and `[..., K, N]`, after their flags that tell whether they are stored transposed;
    batches broadcast.
    """
    (a, first), (b, second) = lhs, rhs
    ranks = [len(shape_of(v)) for v in (a, b)]
    require(min(ranks) >= 2, "rank", "a product with a vector")
    batches = max(ranks) - 2
    sizes: list[Size] = []
    for axis in range(batches):
        rows = [(v, axis - (max(ranks) - len(shape_of(v)))) for v in (a, b)]
        open_ = [(v, i) for v, i in rows if i >= 0 and shape_of(v)[i] != 1] or [(v, i) for v, i in rows if i >= 0]
        unknown = {build.root(v, i) for v, i in open_} if any(not known(shape_of(v)[i]) for v, i in open_) else {None}
        require(len(unknown) == 1, "broadcast", f"the unknown sizes of axis {axis} may differ, and broadcast")
        sizes.append(build.size(*open_[0]))
    sizes += [build.size(a, ranks[0] - (1 if first else 2)), build.size(b, ranks[1] - (2 if second else 1))]
    d = [AffineExpr.dimension(i) for i in range(batches + 3)]
    m, n, k = d[batches:]
    target = _started(build, start, sizes, batches + 1, kinds.sum)
    if build.NAMED and batches == 0 and not first and not second and kinds.operand == kinds.sum:
        return _narrowed(build, build.add(MatmulOp([a, b], [target], [target.type])), kinds)
    operands: list[tuple[SSAValue, Sequence[AffineExpr]]] = []
    for value, matrix in ((a, [k, m] if first else [m, k]), (b, [n, k] if second else [k, n])):
        value, batch = _batch(build, value, sizes[:batches])
        operands.append((value, [*batch, *matrix]))
    y = build.contract(operands, target, d[: batches + 2], batches + 3, kinds)
    return _narrowed(build, y, kinds)


def _batch(build: Builder, value: SSAValue, sizes: Sequence[Size]) -> tuple[SSAValue, list[AffineExpr]]:
    """A tensor without the batch axes that broadcast, and the loops of the others."""
    shape = shape_of(value)
    own = len(shape) - 2
    first = len(sizes) - own
    gone = [i for i in range(own) if shape[i] == 1 and sizes[first + i] != 1]
    left = [AffineExpr.dimension(first + i) for i in range(own) if i not in gone]
    return (build.without(value, gone) if gone else value), left
