"""Expansions of operations into simpler ones: a fallback for targets, lowerings and kernels whose own table lacks an operation.

An expansion computes what the operation's kernel computes, within rounding; `test_expansions.py` holds the two together. Steps on
float16 and bfloat16 compute in float32 and round once, unless there is only one step, which rounds once itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import pi, prod, sqrt
from typing import TYPE_CHECKING, Any, TypeVar, cast

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    TensorType,
    f32,
    i32,
)
from xdsl.ir import Attribute, Operation, SSAValue

from ...ir.dtypes import numpy_dtype
from . import convolution, elementwise, linear, normalization, pooling, reduction, shape, space
from .attributes import DepthMode, Layout, Predicate
from .base import NNOp, defined_in
from .constant import ConstantOp, array_of
from .elementwise import CastOp
from .properties import value_of
from .shapes import DYNAMIC, LARGEST, element_of, known, shape_of, static

if TYPE_CHECKING:
    from ...ir.array import Array

_FAMILIES = (convolution, elementwise, linear, normalization, pooling, reduction, shape, space)
_KINDS: Mapping[str, type[NNOp]] = {
    kind.name.removeprefix("nn."): kind for family in _FAMILIES for kind in defined_in(family, NNOp)
}

_Value = TypeVar("_Value")


class Steps:
    """Builds the steps of an expansion: `b.mul(x, 2)` is an `nn.mul`, as every operation has a method of its name (`not_`).

    Numbers and arrays among operands become constants of the type that the steps compute in.
    """

    def __init__(self, op: NNOp, widens: bool):
        self.op = op
        self.made: list[Operation] = []
        self.element: Attribute = element_of(op.operands[0])
        """The element type that the steps compute in."""
        if widens:
            self.widen()

    def __getattr__(self, name: str) -> Callable[..., SSAValue]:
        if (kind := _KINDS.get(name.rstrip("_"))) is None:
            raise AttributeError(f"nn has no operation {name}")
        return partial(self._step, kind)

    def widen(self) -> None:
        """Makes further steps compute in float32 or wider."""
        self.element = f32 if _is_narrow(self.element) else self.element

    def shaped(self, x: SSAValue, shape: Sequence[int]) -> SSAValue:
        """`x` in another shape; a constant becomes another one."""
        if (array := array_of(x)) is not None:
            return self.constant(array.reshape(tuple(shape)))
        return x if shape_of(x) == tuple(shape) else self.reshape(x, to=shape)

    def grouped(self, x: SSAValue, scale: SSAValue, groups: int, layout: Layout) -> tuple[SSAValue, Sequence[int]]:
        """`x` with its groups of channels on an axis of their own, and the axes of the elements in a group."""
        if layout is not Layout.NHWC:
            return self.reshape(x, to=(0, groups, -1)), (2,)
        (channels,) = shape_of(scale)
        if not known(channels):
            raise NoExpansion
        return self.reshape(x, to=(0, -1, groups, channels // groups)), (1, 3)

    def identity(self, x: SSAValue) -> SSAValue:
        """`x` as a step of its own."""
        return self.clip(x)

    def cast(self, x: SSAValue, element: Attribute | None = None) -> SSAValue:
        """`x` in another element type, by default that of the steps."""
        type_ = TensorType(element or self.element, shape_of(x))
        return x if x.type == type_ else self._step(CastOp, x, result_types=[type_])

    def _step(self, kind: type[NNOp], *operands: Any, **properties: Any) -> SSAValue:
        given = [self._operand(v) for v in operands]
        return self._add(kind.make(*given, location=self.op.location, **properties))

    def _operand(self, v: Any) -> Any:
        if isinstance(v, list):
            return [self._operand(each) for each in cast(list[Any], v)]
        return cast(Any, v) if v is None or isinstance(v, SSAValue) else self.constant(v)

    def constant(self, numbers: float | Array) -> SSAValue:
        """Numbers in the type of the steps."""
        import numpy as np

        array = np.asarray(numbers).astype(numpy_dtype(self.element))
        return self._add(ConstantOp.of(array, "number", self.op.location))

    def ints(self, numbers: Sequence[int]) -> SSAValue:
        """A vector of int64."""
        import numpy as np

        return self._add(ConstantOp.of(np.array(numbers, np.int64), "number", self.op.location))

    def _add(self, op: Operation) -> SSAValue:
        self.made.append(op)
        return op.results[0]


@dataclass(frozen=True)
class Expansion:
    """The steps of one operation, on its operands, in no block."""

    op: NNOp
    made: Sequence[Operation]
    results: Sequence[SSAValue]

    @property
    def steps(self) -> Sequence[NNOp]:
        """The operations without the constants that they read."""
        return [step for step in self.made if isinstance(step, NNOp)]

    @property
    def constants(self) -> Sequence[ConstantOp]:
        return [step for step in self.made if isinstance(step, ConstantOp)]

    def computed(
        self,
        operands: Sequence[_Value],
        constant: Callable[[ConstantOp], _Value],
        step: Callable[[NNOp, Sequence[_Value]], _Value],
    ) -> Sequence[_Value]:
        """Computes the results from these operands, with functions that give the values of constants and steps.

        A value is given up after the last step that reads it: memory that is free again serves the next one.
        """
        values = dict(zip(self.op.operands, operands, strict=True))
        values.update((each.result, constant(each)) for each in self.constants)
        readers = Counter([*self.results, *(v for each in self.steps for v in each.operands)])
        for each in self.steps:
            values[each.results[0]] = step(each, [values[v] for v in each.operands])
            readers.subtract(each.operands)
            for v in {v for v in each.operands if not readers[v]}:
                del values[v]
        return [values[v] for v in self.results]

    def __enter__(self) -> Expansion:
        return self

    def __exit__(self, *_: object) -> None:
        """The steps no longer use the operands of the operation."""
        for each in self.made:
            each.drop_all_references()


_Expand = Callable[..., SSAValue | Sequence[SSAValue]]
_Registered = TypeVar("_Registered", bound=_Expand)
_EXPANSIONS: dict[type[Operation], _Expand] = {}
_STEPWISE: set[type[Operation]] = set()


def expands(kind: type[NNOp], *, stepwise: bool = False) -> Callable[[_Registered], _Registered]:
    """Registers the expansion of an operation: a function of a builder, the operands, and the properties by name.

    `stepwise`: each step rounds to the type of the operands, as the operation is defined to.
    """

    def register(expand: _Registered) -> _Registered:
        _EXPANSIONS[kind] = expand
        if stepwise:
            _STEPWISE.add(kind)
        return expand

    return register


def expanded(op: Operation) -> Expansion | None:
    """Expands an operation into simpler ones; None if it has no expansion, or none for these sizes and properties."""
    if not isinstance(op, NNOp) or (expand := _EXPANSIONS.get(type(op))) is None:
        return None
    found = _expanded(op, expand, widens=False)
    rounds_once = found is not None and len(found.steps) > 1 and type(op) not in _STEPWISE
    if rounds_once and any(_is_narrow(element_of(v)) for v in op.operands):
        with cast(Expansion, found):
            return _expanded(op, expand, widens=True)
    return found


def expandable() -> Sequence[type[Operation]]:
    """The operations that have an expansion."""
    return [*_EXPANSIONS]


def _expanded(op: NNOp, expand: _Expand, *, widens: bool) -> Expansion | None:
    b = Steps(op, widens)
    operands = [b.cast(v) if widens and _is_narrow(element_of(v)) else v for v in op.operands]
    properties = {name: value_of(value) for name, value in op.properties.items() if name != "origin"}
    try:
        made = expand(b, *operands, **properties)
    except NoExpansion:
        with Expansion(op, b.made, ()):
            return None
    made = [made] if isinstance(made, SSAValue) else made
    results = [b.cast(v, element_of(r)) for v, r in zip(made, op.results, strict=True)]
    return Expansion(op, b.made, results)


class NoExpansion(Exception):
    """An operation with these sizes and properties has no expansion."""


def _is_narrow(element: Attribute) -> bool:
    return isinstance(element, Float16Type | BFloat16Type)


# -- functions of single elements --------------------------------------------------------------------------------------


@expands(elementwise.Relu6Op)
def relu6(b: Steps, x: SSAValue) -> SSAValue:
    return b.clip(x, min=0, max=6)


@expands(elementwise.LeakyReluOp)
def leaky_relu(b: Steps, x: SSAValue, alpha: float) -> SSAValue:
    return b.where(b.compare(x, 0, predicate="lt"), b.mul(x, alpha), x)


@expands(elementwise.PReluOp)
def prelu(b: Steps, x: SSAValue, slope: SSAValue) -> SSAValue:
    return b.where(b.compare(x, 0, predicate="lt"), b.mul(x, slope), x)


@expands(elementwise.EluOp)
def elu(b: Steps, x: SSAValue, alpha: float) -> SSAValue:
    """Uses `elu` of factor 1, which is `exp(x) - 1` below 0, exact near 0."""
    if alpha == 1:
        raise NoExpansion
    y = b.elu(x)
    return b.where(b.compare(x, 0, predicate="gt"), y, b.mul(y, alpha))


@expands(elementwise.SeluOp)
def selu(b: Steps, x: SSAValue, alpha: float, gamma: float) -> SSAValue:
    return b.mul(b.elu(x, alpha=alpha), gamma)


@expands(elementwise.HardSigmoidOp)
def hard_sigmoid(b: Steps, x: SSAValue, alpha: float, beta: float) -> SSAValue:
    return b.clip(b.add(b.mul(x, alpha), beta), min=0, max=1)


@expands(elementwise.HardSwishOp)
def hard_swish(b: Steps, x: SSAValue) -> SSAValue:
    return b.mul(x, hard_sigmoid(b, x, 1 / 6, 0.5))


@expands(elementwise.HardShrinkOp)
def hard_shrink(b: Steps, x: SSAValue, lambd: float) -> SSAValue:
    return b.where(b.compare(b.abs(x), lambd, predicate="gt"), x, 0)


@expands(elementwise.GeluOp)
def gelu(b: Steps, x: SSAValue, tanh_approximation: bool = False) -> SSAValue:
    if tanh_approximation:
        y = b.mul(b.add(b.mul(b.mul(x, x), 0.044715), 1), x)
        bent = b.tanh(b.mul(y, sqrt(2 / pi)))
    else:
        bent = b.erf(b.mul(x, 1 / sqrt(2)))
    return b.mul(b.mul(b.add(bent, 1), x), 0.5)


@expands(elementwise.SigmoidOp)
def sigmoid(b: Steps, x: SSAValue) -> SSAValue:
    return b.reciprocal(b.add(b.exp(b.neg(x)), 1))


@expands(elementwise.SoftsignOp)
def softsign(b: Steps, x: SSAValue) -> SSAValue:
    return b.div(x, b.add(b.abs(x), 1))


@expands(elementwise.MishOp)
def mish(b: Steps, x: SSAValue) -> SSAValue:
    return b.mul(x, b.tanh(b.softplus(x)))


@expands(elementwise.RsqrtOp)
def rsqrt(b: Steps, x: SSAValue) -> SSAValue:
    return b.reciprocal(b.sqrt(x))


@expands(elementwise.ReciprocalOp)
def reciprocal(b: Steps, x: SSAValue) -> SSAValue:
    return b.div(1, x)


@expands(elementwise.CompareOp)
def compare(b: Steps, x: SSAValue, y: SSAValue, predicate: Predicate) -> SSAValue:
    if predicate is not Predicate.NE:
        raise NoExpansion
    return b.not_(b.compare(x, y, predicate="eq"))


# -- normalizations ----------------------------------------------------------------------------------------------------


def _standardized(b: Steps, x: SSAValue, axes: Sequence[int], epsilon: float) -> SSAValue:
    """`(x - mean) / sqrt(variance + epsilon)` over axes."""
    centered = b.sub(x, b.reduce_mean(x, axes=axes, keepdims=True))
    variance = b.reduce_mean(b.mul(centered, centered), axes=axes, keepdims=True)
    return b.div(centered, b.sqrt(b.add(variance, epsilon)))


def _channels(b: Steps, values: SSAValue, layout: Layout, rank: int) -> SSAValue:
    """A number per channel in a shape that broadcasts to inputs of this rank."""
    return values if layout is Layout.NHWC or rank == 2 else b.shaped(values, [-1, *[1] * (rank - 2)])


def _affine(b: Steps, y: SSAValue, scale: SSAValue, bias: SSAValue, layout: Layout) -> SSAValue:
    """`y * scale + bias` per channel, without factors of 1 and summands of 0 throughout."""
    rank, (factor, summand) = len(shape_of(y)), map(array_of, (scale, bias))
    if factor is None or (factor != 1).any():
        y = b.mul(y, _channels(b, scale, layout, rank))
    if summand is None or summand.any():
        y = b.add(y, _channels(b, bias, layout, rank))
    return y


@expands(normalization.LayerNormOp)
def layer_norm(
    b: Steps, x: SSAValue, scale: SSAValue, bias: SSAValue | None = None, *, axis: int, epsilon: float
) -> SSAValue:
    rank = len(shape_of(x))
    y = b.mul(_standardized(b, x, range(axis % rank, rank), epsilon), scale)
    return y if bias is None else b.add(y, bias)


@expands(normalization.InstanceNormOp)
def instance_norm(b: Steps, x: SSAValue, scale: SSAValue, bias: SSAValue, epsilon: float, layout: Layout) -> SSAValue:
    return _affine(b, _standardized(b, x, _space(x, layout), epsilon), scale, bias, layout)


@expands(normalization.GroupNormOp)
def group_norm(
    b: Steps, x: SSAValue, scale: SSAValue, bias: SSAValue, num_groups: int, epsilon: float, layout: Layout
) -> SSAValue:
    """Normalizes groups as the channels of an instance norm; with channels last, as an additional axis."""
    import numpy as np

    grouped, axes = b.grouped(x, scale, num_groups, layout)
    if layout is Layout.NHWC:
        y = _standardized(b, grouped, axes, epsilon)
    else:
        y = b.instance_norm(grouped, np.ones(num_groups), np.zeros(num_groups), epsilon=epsilon)
    return _affine(b, _as(b, y, x, shape_of(x)), scale, bias, layout)


def _as(b: Steps, y: SSAValue, x: SSAValue, shape: Sequence[int]) -> SSAValue:
    """`y` reshaped to the sizes of `x`, which has as many elements."""
    if shape.count(DYNAMIC) <= 1:
        return b.reshape(y, to=[d if known(d) else -1 for d in shape])
    return b.reshape(y, b.shape(x), result_types=[TensorType(element_of(y), shape)])


@expands(normalization.LRNOp)
def lrn(b: Steps, x: SSAValue, size: int, alpha: float, beta: float, bias: float, layout: Layout) -> SSAValue:
    """The squares of the nearest channels are slices of padded squares."""
    rank = len(shape_of(x))
    axis, before = rank - 1 if layout is Layout.NHWC else 1, (size - 1) // 2
    pads = [0] * (2 * rank)
    pads[axis], pads[rank + axis] = before, size - 1 - before
    squares = b.pad(b.mul(x, x), pads=pads)
    ends = (i + 1 - size or LARGEST for i in range(size))
    near = [b.slice(squares, starts=[i], ends=[end], axes=[axis]) for i, end in enumerate(ends)]
    total = near[0]
    for each in near[1:]:
        total = b.add(total, each)
    return b.div(x, b.pow(b.add(b.mul(total, alpha / size), bias), beta))


@expands(normalization.SoftmaxOp)
def softmax(b: Steps, x: SSAValue, axis: int) -> SSAValue:
    powers = b.exp(_below_largest(b, x, axis))
    return b.div(powers, b.reduce_sum(powers, axes=[axis], keepdims=True))


@expands(normalization.LogSoftmaxOp)
def log_softmax(b: Steps, x: SSAValue, axis: int) -> SSAValue:
    below = _below_largest(b, x, axis)
    return b.sub(below, b.log(b.reduce_sum(b.exp(below), axes=[axis], keepdims=True)))


def _below_largest(b: Steps, x: SSAValue, axis: int) -> SSAValue:
    return b.sub(x, b.reduce_max(x, axes=[axis], keepdims=True))


@expands(normalization.BatchNormOp)
def batch_norm(
    b: Steps,
    x: SSAValue,
    scale: SSAValue,
    offset: SSAValue,
    mean: SSAValue,
    variance: SSAValue,
    epsilon: float,
    layout: Layout,
) -> SSAValue:
    """Uses one factor and one summand per channel."""
    rank, arrays = len(shape_of(x)), [array_of(v) for v in b.op.operands[1:]]
    constants = [a for a in arrays if a is not None]
    if len(constants) == 4:
        factor, summand = cast(normalization.BatchNormOp, b.op).factor_and_summand(*constants)
        after = (1,) * (0 if layout is Layout.NHWC else rank - 2)
        return b.add(b.mul(x, factor.reshape(-1, *after)), summand.reshape(-1, *after))
    scale, offset, mean, variance = (b.cast(v) for v in (scale, offset, mean, variance))
    divided = b.div(scale, b.sqrt(b.add(variance, epsilon)))
    return _affine(b, x, divided, b.sub(offset, b.mul(mean, divided)), layout)


@expands(linear.BiasAddOp)
def bias_add(b: Steps, x: SSAValue, bias: SSAValue, layout: Layout) -> SSAValue:
    return b.add(x, _channels(b, bias, layout, len(shape_of(x))))


@expands(linear.MatMulIntegerOp)
def matmul_integer(b: Steps, x: SSAValue, y: SSAValue, lhs_zero_point: int, rhs_zero_point: int) -> SSAValue:
    b.element = i32
    factors = ((b.cast(each), point) for each, point in ((x, lhs_zero_point), (y, rhs_zero_point)))
    return b.matmul(*(b.sub(each, point) if point else each for each, point in factors))


__all__ = ["Expansion", "expandable", "expanded"]


# -- pools, and elements moved between space, channels and batch -------------------------------------------------------


def _space(x: SSAValue, layout: Layout) -> Sequence[int]:
    rank = len(shape_of(x))
    return range(1, rank - 1) if layout is Layout.NHWC else range(2, rank)


@expands(pooling.GlobalAveragePoolOp)
def global_average_pool(b: Steps, x: SSAValue, layout: Layout) -> SSAValue:
    return b.reduce_mean(x, axes=_space(x, layout), keepdims=True)


@expands(pooling.GlobalMaxPoolOp)
def global_max_pool(b: Steps, x: SSAValue, layout: Layout) -> SSAValue:
    return b.reduce_max(x, axes=_space(x, layout), keepdims=True)


_Sizes = Sequence[int] | SSAValue
"""The sizes of a tensor: numbers (-1 for at most one unknown), or a vector computed at run time."""


def _divided(b: Steps, x: SSAValue, factors: Sequence[int]) -> _Sizes:
    """The sizes of `x`, divided by factors. The batch stays open where the others are known: it may be another at run time."""
    sizes = shape_of(x)
    if static(sizes[1:]):
        sizes = (DYNAMIC, *sizes[1:])
    if sizes.count(DYNAMIC) == 1:
        return [d // f if known(d) else -1 for d, f in zip(sizes, factors, strict=True)]
    return b.div(b.shape(x), b.ints(factors))


def _multiplied(b: Steps, sizes: _Sizes, factors: Sequence[int]) -> _Sizes:
    if isinstance(sizes, SSAValue):
        return b.mul(sizes, b.ints(factors))
    return [d if d == -1 else d * f for d, f in zip(sizes, factors, strict=True)]


def _joined(b: Steps, sizes: _Sizes, block: Sequence[int], order: Sequence[int]) -> _Sizes:
    """Sizes and blocks in one list, in this order."""
    if isinstance(sizes, SSAValue):
        return b.gather(b.concat([sizes, b.ints(block)], axis=0), b.ints(order))
    return [[*sizes, *block][i] for i in order]


def _to(b: Steps, x: SSAValue, sizes: _Sizes) -> SSAValue:
    return b.reshape(x, sizes) if isinstance(sizes, SSAValue) else b.reshape(x, to=sizes)


@expands(space.DepthToSpaceOp, stepwise=True)
def depth_to_space(b: Steps, x: SSAValue, block: int, mode: DepthMode, layout: Layout) -> SSAValue:
    """Makes the blocks axes of their own, in front of the channels or (CRD) after them, and moves them after rows and columns."""
    depth_first = mode is DepthMode.DCR
    if layout is Layout.NHWC:
        before, after = [1, 1, 1, block**2], [1, block, block, 1]
        order, perm = (
            ((0, 1, 2, 4, 5, 3), (0, 1, 3, 2, 4, 5)) if depth_first else ((0, 1, 2, 3, 4, 5), (0, 1, 4, 2, 5, 3))
        )
    else:
        before, after = [1, block**2, 1, 1], [1, 1, block, block]
        order, perm = (
            ((0, 4, 5, 1, 2, 3), (0, 3, 4, 1, 5, 2)) if depth_first else ((0, 1, 4, 5, 2, 3), (0, 1, 4, 2, 5, 3))
        )
    sizes = _divided(b, x, before)
    moved = b.transpose(_to(b, x, _joined(b, sizes, [block, block], order)), perm=perm)
    return _to(b, moved, _multiplied(b, sizes, after))


@expands(space.SpaceToDepthOp, stepwise=True)
def space_to_depth(b: Steps, x: SSAValue, block: int, layout: Layout) -> SSAValue:
    """Makes the blocks axes of their own, after rows and columns, and moves them in front of the channels."""
    if layout is Layout.NHWC:
        before, after = [1, block, block, 1], [1, 1, 1, block**2]
        order, perm = (0, 1, 4, 2, 5, 3), (0, 1, 3, 2, 4, 5)
    else:
        before, after = [1, 1, block, block], [1, block**2, 1, 1]
        order, perm = (0, 1, 2, 4, 3, 5), (0, 3, 5, 1, 2, 4)
    sizes = _divided(b, x, before)
    moved = b.transpose(_to(b, x, _joined(b, sizes, [block, block], order)), perm=perm)
    return _to(b, moved, _multiplied(b, sizes, after))


@expands(space.SpaceToBatchOp, stepwise=True)
def space_to_batch(b: Steps, x: SSAValue, block: Sequence[int], pads: Sequence[int], layout: Layout) -> SSAValue:
    """Sees padded sizes `s*b` as `[s, b]`, and moves the blocks in front of the batch."""
    rank, n, first = len(shape_of(x)), len(block), 1 if layout is Layout.NHWC else 2
    if any(pads):
        x = b.pad(x, pads=[*_around(pads[:n], first, rank), *_around(pads[n:], first, rank)])
    sizes = _divided(b, x, [*[1] * first, *block, *[1] * (rank - first - n)])
    order = [*range(first), *(i for a in range(n) for i in (first + a, rank + a)), *range(first + n, rank)]
    front = [first + 1 + 2 * a for a in range(n)]
    split = _to(b, x, _joined(b, sizes, block, order))
    moved = b.transpose(split, perm=[*front, *(i for i in range(rank + n) if i not in front)])
    return _to(b, moved, _multiplied(b, sizes, [prod(block), *[1] * (rank - 1)]))


@expands(space.BatchToSpaceOp, stepwise=True)
def batch_to_space(b: Steps, x: SSAValue, block: Sequence[int], crops: Sequence[int], layout: Layout) -> SSAValue:
    """Batches `b*N` are seen as `[b, N]`, the blocks move after their axes, and the edges are cut off."""
    rank, n, first = len(shape_of(x)), len(block), 1 if layout is Layout.NHWC else 2
    sizes = _divided(b, x, [prod(block), *[1] * (rank - 1)])
    split = _to(b, x, _joined(b, sizes, block, [*range(rank, rank + n), *range(rank)]))
    behind = (i for a in range(n) for i in (n + first + a, a))
    moved = b.transpose(split, perm=[*range(n, n + first), *behind, *range(2 * n + first, n + rank)])
    y = _to(b, moved, _multiplied(b, sizes, [*[1] * first, *block, *[1] * (rank - first - n)]))
    ends = [-c or LARGEST for c in crops[n:]]
    return b.slice(y, starts=crops[:n], ends=ends, axes=range(first, first + n)) if any(crops) else y


def _around(amounts: Sequence[int], first: int, rank: int) -> list[int]:
    """Amounts for the axes with blocks as one per axis."""
    return [*[0] * first, *amounts, *[0] * (rank - first - len(amounts))]
