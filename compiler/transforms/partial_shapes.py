"""Integer tensors with some known elements, such as results of `nn.shape` with some known sizes.

An unknown element is a tag in the array, a number near the smallest int32, which no size has. Operations that
only move elements run their own kernel on such arrays, so that tags move along; arithmetic gives a new tag to each element
that depends on a tag, and records the relation to another one if it is linear.
"""

from __future__ import annotations

from math import prod
from typing import NamedTuple, cast

import numpy as np
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ..dialects import nn
from ..dialects.nn.shapes import DYNAMIC, LARGEST, Shape, axes_of, element_of, known, shape_of, size
from ..ir.dtypes import integer_range
from ..runtime.kernels import Array, kernel_for

LIMIT = 64
"""Tensors with more elements are not shapes and are not tracked."""

_FIRST_TAG = -(2**31) + 1
_LAST_TAG = _FIRST_TAG + 2**30


class Dimension(NamedTuple):
    """The size of one axis of a value, known only at run time."""

    value: SSAValue
    axis: int


def root(dimension: Dimension) -> Dimension:
    """The size before operations that keep it or move its axis: sizes with the same root are equal."""
    value, axis = dimension
    while isinstance(op := value.owner, Operation) and (before := _axis_before(op, axis)) is not None:
        value, axis = op.operands[0], before
    return Dimension(value, axis)


def _axis_before(op: Operation, axis: int) -> int | None:
    """The axis of the first operand for this axis of the result; None if sizes may differ."""
    if isinstance(op, nn.NNOp) and op.KEEPS_SHAPE:
        return axis
    if isinstance(op, nn.TransposeOp):
        return nn.ints(op.perm)[axis]
    if isinstance(op, nn.SliceOp):
        taken = range(LARGEST)[op.slices(len(shape_of(op.input)))[axis]]
        return axis if len(taken) == LARGEST else None  # of any axis all, forwards or backwards
    if isinstance(op, nn.UnsqueezeOp):
        others = _axes_but(shape_of(op.result), nn.ints(op.axes))
        return others.index(axis) if axis in others else None
    if isinstance(op, nn.SqueezeOp) and op.axes is not None:
        return _axes_but(shape_of(op.input), nn.ints(op.axes))[axis]
    return None


def _axes_but(shape: Shape, axes: tuple[int, ...]) -> list[int]:
    others = axes_of(axes, len(shape))
    return [i for i in range(len(shape)) if i not in others]


class Multiple(NamedTuple):
    """A size times a number."""

    dimension: Dimension
    factor: int


class Linear(NamedTuple):
    """`factor * base + offset`; the base is a size or another run-time number, by its tag."""

    base: Dimension | int
    factor: int = 1
    offset: int = 0


_PRODUCTS = (nn.MulOp, nn.ReduceProdOp)


class PartialShapes:
    """The known parts of the integer tensors of a block, filled by visiting its operations in order."""

    def __init__(self) -> None:
        self._arrays: dict[SSAValue, Array] = {}
        self._tags: dict[Dimension, int] = {}
        self._terms: dict[int, Linear] = {}
        self._next = _FIRST_TAG

    def visit(self, op: Operation) -> list[Array] | None:
        """Tracks an operation. Returns its results if all their elements are known."""
        arrays = self._results(op)
        if arrays is None:
            return None
        if not any(_is_tag(a).any() for a in arrays):
            return arrays
        self._arrays.update(zip(op.results, arrays, strict=True))
        return None

    def elements(self, value: SSAValue) -> list[int | Dimension | None] | None:
        """The elements of a tracked tensor: numbers, dimensions whose size they are, or None."""
        if (found := self.multiples(value)) is None:
            return None
        return [(m.dimension if m.factor == 1 else None) if isinstance(m, Multiple) else m for m in found]

    def multiples(self, value: SSAValue) -> list[int | Multiple | None] | None:
        """Like `elements`, with products of a dimension and a number."""
        return None if (found := self.linear(value)) is None else [_multiple(e) for e in found]

    def linear(self, value: SSAValue) -> list[int | Linear] | None:
        """The elements of a tracked tensor: numbers, or linear terms of run-time numbers."""
        if (array := self._arrays.get(value)) is None:
            return None
        elements = cast("list[int]", array.reshape(-1).tolist())
        return [self._terms.get(e, e) for e in elements]

    def _results(self, op: Operation) -> list[Array] | None:
        if isinstance(op, nn.ShapeOp):
            axis = op.start.value.data
            first = max(axis + len(shape_of(op.input)), 0) if axis < 0 else axis
            sizes = enumerate(op.sizes(), first)
            return [np.array([d if known(d) else self._tag(Dimension(op.input, i)) for i, d in sizes], np.int64)]
        if not any(o in self._arrays for o in op.operands) or not _is_followed(op):
            return None
        arrays = [self._array(o) for o in op.operands]
        if any(a is None for a in arrays):
            return None
        operands = cast("list[Array]", arrays)
        if isinstance(op, nn.CastOp):
            return [operands[0].astype(np.int64)]
        if isinstance(op, nn.MovingOp) and op.only_moves:
            if any(_is_tag(a).any() for a in operands[len(op.moved) :]):
                return None
            return _run(op, operands)
        if isinstance(op, nn.BinaryOp):
            return self._arithmetic(op, operands)
        if isinstance(op, nn.ReduceProdOp) and operands[0].ndim == 1 and size(shape_of(op.result)) == 1:
            return self._arithmetic(op, operands)
        return None

    def _arithmetic(self, op: Operation, operands: list[Array]) -> list[Array] | None:
        """Tracks arithmetic: a result element depends on one element of each operand; that of a reduction on all."""
        if (results := _run(op, [np.where(_is_tag(a), 1, a) for a in operands])) is None:
            return None
        result = results[0]
        rows = (
            operands
            if isinstance(op, nn.ReduceProdOp)
            else [np.broadcast_to(a, result.shape).reshape(-1) for a in operands]
        )
        terms = np.stack(rows, axis=-1).reshape(result.size, -1)
        made = [self._computed(op, t, r) for t, r in zip(terms, result.reshape(-1).tolist(), strict=True)]
        return [np.array(made, np.int64).reshape(result.shape)]

    def _computed(self, op: Operation, terms: Array, rest: int) -> int:
        """A number, or a tag for a result of unknown terms; `rest` is the result of the known ones."""
        unknown: list[int] = terms[_is_tag(terms)].tolist()
        if not unknown or (isinstance(op, _PRODUCTS) and 0 in terms):
            return rest
        return self._new_tag(self._term(op, terms.tolist()) if len(unknown) == 1 else None)

    def _term(self, op: Operation, terms: list[int]) -> Linear | None:
        """The result of an operation on terms, one of them unknown, if it is linear."""
        at = next(i for i, t in enumerate(terms) if t in self._terms)
        (base, factor, offset), rest = self._terms[terms[at]], [*terms[:at], *terms[at + 1 :]]
        if isinstance(op, _PRODUCTS):
            times = prod(rest)
            return Linear(base, factor * times, offset * times)
        if isinstance(op, nn.AddOp):
            return Linear(base, factor, offset + rest[0])
        if isinstance(op, nn.SubOp):
            return Linear(base, -factor, rest[0] - offset) if at else Linear(base, factor, offset - rest[0])
        return None

    def _array(self, value: SSAValue) -> Array | None:
        """The known elements, with tags; None if nothing is known, or a number could be confused with a tag."""
        if (array := self._arrays.get(value)) is not None:
            return array
        if not 0 <= size(shape_of(value)) <= LIMIT or (array := nn.array_of(value)) is None:
            return None
        array = array.astype(np.int64)
        return None if _is_tag(array).any() else array

    def _tag(self, dimension: Dimension) -> int:
        if (tag := self._tags.get(dimension)) is None:
            tag = self._tags[dimension] = self._new_tag(Linear(dimension))
        return tag

    def _new_tag(self, term: Linear | None) -> int:
        self._next += 1
        self._terms[self._next] = term or Linear(self._next)
        return self._next


def _multiple(element: int | Linear) -> int | Multiple | None:
    if isinstance(element, int):
        return element
    base, factor, offset = element
    return Multiple(base, factor) if isinstance(base, Dimension) and not offset else None


def _is_followed(op: Operation) -> bool:
    """Whether all results have few elements, and integers wide enough for a tag."""
    for result in op.results:
        element = element_of(result)
        if not isinstance(element, IntegerType) or integer_range(cast(IntegerType, element))[1] < 2**31 - 1:
            return False
        if not 0 <= size(shape_of(result)) <= LIMIT:
            return False
    return True


def _is_tag(array: Array) -> Array:
    return (array >= _FIRST_TAG) & (array < _LAST_TAG)


def _run(op: Operation, operands: list[Array]) -> list[Array] | None:
    """Runs the operation's own kernel on these arrays; None if it raises."""
    if (kernel := kernel_for(op)) is None:
        return None
    try:
        with np.errstate(all="ignore"):
            result = kernel(*operands)
    except (ValueError, IndexError, VerifyException):
        return None
    results = result if isinstance(result, list | tuple) else [result]
    return [np.asarray(r, np.int64) for r in results]


def reshape_target(op: nn.ReshapeOp, elements: list[int | Dimension | None]) -> tuple[int, ...] | None:
    """`to` for a reshape whose run-time shape is `elements`; None if more than one size stays unknown.

    The size of the input's axis at the same place is 0 (copied), one other unknown size is -1 (inferred).
    """
    copies = op.allow_zero is None
    target: list[int] = []
    for i, element in enumerate(elements):
        if isinstance(element, int):
            target.append(element)
        else:
            target.append(0 if copies and element == Dimension(op.input, i) else -1)
    return tuple(target) if target.count(-1) <= 1 and min(target, default=0) >= -1 else None


def expand_target(op: nn.ExpandOp, elements: list[int | Dimension | None]) -> tuple[int, ...] | None:
    """`to` for an expand whose run-time shape is `elements`: 1 for the size of the input's own axis; others must be known."""
    offset = len(elements) - len(shape_of(op.input))
    own = [Dimension(op.input, i - offset) for i in range(len(elements))]
    target = [1 if e == o else e for e, o in zip(elements, own, strict=True)]
    return tuple(cast("list[int]", target)) if all(isinstance(e, int) for e in target) else None


def known_sizes(elements: list[int | Dimension | None]) -> Shape:
    """The certain sizes of a shape with these elements (0 and -1 of a reshape mean other sizes)."""
    return tuple(e if isinstance(e, int) and e > 0 else DYNAMIC for e in elements)
