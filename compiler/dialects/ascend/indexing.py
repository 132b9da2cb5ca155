"""Parts and repetitions of tensors, their shapes, and the indices of their largest and smallest elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from xdsl.dialects.builtin import IntegerAttr, i32, i64
from xdsl.ir import Attribute
from xdsl.irdl import (
    Operand,
    operand_def,
    prop_def,
    result_def,
    var_result_def,
)
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor
from ..nn.base import ANY_TENSOR, BOOL, INT, Bool, Int, Result, Results, integer
from ..nn.constant import constant_ints
from ..nn.shapes import (
    DYNAMIC,
    axis_of,
    element_of,
    known,
    merge_shape,
    same_element,
    shape_of,
    size,
    tensor,
    text,
)
from .arithmetic import ManyOp
from .base import ALL, FALSE, INDEX, REAL_NUMBER, TRUE, AscendOp, ElementTypes, check_false, declare, operation
from .shape import index_list, one_index


@declare(x=ALL, indices=INDEX)
class GatherOp(AscendOp):
    """Picks slices of the first axis of x by index, 0 or more. y: the shape of indices, then that of a slice."""

    x: Operand = operand_def(ANY_TENSOR)
    indices: Operand = operand_def(ANY_TENSOR)
    validate_indices: Bool = prop_def(BOOL, default_value=TRUE)
    batch_dims: Int = prop_def(INT, default_value=integer(0))
    negative_index_support: Bool = prop_def(BOOL, default_value=FALSE)
    y: Result = result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        if self.batch_dims.value.data:
            raise VerifyException("batch_dims must be 0")
        check_false("negative_index_support", self.negative_index_support)
        if not shape_of(self.x):
            raise VerifyException("x must be of rank 1 or more, not 0")
        return [tensor(element_of(self.x), (*shape_of(self.indices), *shape_of(self.x)[1:]))]


@declare(x=ALL, indices=INDEX)
class GatherNdOp(AscendOp):
    """Picks slices by several indices at once, 0 or more: the last axis of indices counts along the first axes of x."""

    x: Operand = operand_def(ANY_TENSOR)
    indices: Operand = operand_def(ANY_TENSOR)
    negative_index_support: Bool = prop_def(BOOL, default_value=FALSE)
    y: Result = result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        check_false("negative_index_support", self.negative_index_support)
        x, indices = shape_of(self.x), shape_of(self.indices)
        if not indices or not known(indices[-1]) or indices[-1] > len(x):
            raise VerifyException(f"indices {text(indices)} must end in at most {len(x)}, the rank of x")
        return [tensor(element_of(self.x), (*indices[:-1], *x[indices[-1] :]))]


@declare(x=ALL, multiples=INDEX)
class TileOp(AscendOp):
    """Repeats x along each axis by the number in `multiples`, one per axis."""

    x: Operand = operand_def(ANY_TENSOR)
    multiples: Operand = operand_def(ANY_TENSOR)
    y: Result = result_def(ANY_TENSOR)

    @property
    def counts(self) -> tuple[int, ...] | None:
        """The numbers; None if they are computed at run time."""
        if constant_ints(self.multiples) is None:
            merge_shape((len(shape_of(self.x)),), shape_of(self.multiples), "rank of x and entries of multiples")
            return None
        counts = index_list("multiples", self.multiples)
        if len(counts) != len(shape_of(self.x)):
            raise VerifyException(f"multiples has {len(counts)} entries for x of rank {len(shape_of(self.x))}")
        if any(n < 0 for n in counts):
            raise VerifyException(f"multiples {list(counts)} must not be negative")
        return counts

    def derive(self) -> Sequence[Tensor]:
        shape, counts = shape_of(self.x), self.counts
        if counts is None:
            return [tensor(element_of(self.x), (DYNAMIC,) * len(shape))]
        rows = zip(shape, counts, strict=True)
        return [tensor(element_of(self.x), [d * n if known(d) else DYNAMIC for d, n in rows])]


@declare(x=ALL)
class PackOp(ManyOp):
    """Joins `N` tensors of one shape along a new axis; `axis` is its index in y."""

    axis: Int = prop_def(INT, default_value=integer(0))

    @property
    def new_axis(self) -> int:
        return axis_of(self.axis.value.data, len(shape_of(self.x[0])) + 1)

    def derive(self) -> Sequence[Tensor]:
        (one,), axis = super().derive(), self.new_axis
        shape = one.get_shape()
        return [tensor(one.element_type, (*shape[:axis], len(self.x), *shape[axis:]))]


class PartsOp(AscendOp):
    """An operation whose number of results is one of its properties."""

    COUNT: ClassVar[str]

    @classmethod
    def result_count(cls, properties: dict[str, Attribute | None]) -> int:
        count = properties.get(cls.COUNT)
        return count.value.data if isinstance(count, IntegerAttr) else 1  # pyright: ignore[reportUnknownMemberType]


@declare(x=ALL)
class UnpackOp(PartsOp):
    """Cuts x along `axis` into its `num` slices, without that axis; one result each."""

    COUNT: ClassVar[str] = "num"

    x: Operand = operand_def(ANY_TENSOR)
    num: Int = prop_def(INT)
    axis: Int = prop_def(INT, default_value=integer(0))
    y: Results = var_result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        x, num = shape_of(self.x), self.num.value.data
        axis = axis_of(self.axis.value.data, len(x))
        if x[axis] not in (num, DYNAMIC):
            raise VerifyException(f"num is {num}, axis {axis} is of size {x[axis]}")
        return [tensor(element_of(self.x), (*x[:axis], *x[axis + 1 :]))] * num


@declare(split_dim=(i32,), x=ALL)
class SplitOp(PartsOp):
    """Cuts x along the axis `split_dim` into `num_split` equal parts, one result each."""

    COUNT: ClassVar[str] = "num_split"

    split_dim: Operand = operand_def(ANY_TENSOR)
    x: Operand = operand_def(ANY_TENSOR)
    num_split: Int = prop_def(INT)
    y: Results = var_result_def(ANY_TENSOR)

    @property
    def split_axis(self) -> int:
        return axis_of(one_index("split_dim", self.split_dim), len(shape_of(self.x)), "split_dim")

    def derive(self) -> Sequence[Tensor]:
        x, axis, num = shape_of(self.x), self.split_axis, self.num_split.value.data
        if num < 1 or (known(x[axis]) and x[axis] % num):
            raise VerifyException(f"axis {axis} of size {x[axis]} cannot be cut into {num} equal parts")
        part = x[axis] // num if known(x[axis]) else DYNAMIC
        return [tensor(element_of(self.x), (*x[:axis], part, *x[axis + 1 :]))] * num


@declare(x=ALL, offsets=INDEX, size=INDEX)
class SliceOp(AscendOp):
    """Takes `size` elements from `offsets` on along each axis, both constants; -1: all following elements."""

    x: Operand = operand_def(ANY_TENSOR)
    offsets: Operand = operand_def(ANY_TENSOR)
    size: Operand = operand_def(ANY_TENSOR)
    y: Result = result_def(ANY_TENSOR)

    def slices(self) -> tuple[slice, ...]:
        """One Python slice per axis of x."""
        offsets, sizes = index_list("offsets", self.offsets), index_list("size", self.size)
        x = shape_of(self.x)
        if not len(offsets) == len(sizes) == len(x):
            raise VerifyException(f"offsets and size must have {len(x)} entries, the rank of x")
        for d, begin, count in zip(x, offsets, sizes, strict=True):
            if begin < 0 or count < -1 or (known(d) and begin + max(count, 0) > d):
                raise VerifyException(
                    f"{count} elements from {begin} on are not in an axis of size {d if known(d) else '?'}"
                )
        rows = zip(offsets, sizes, strict=True)
        return tuple(slice(begin, None if count == -1 else begin + count) for begin, count in rows)

    def derive(self) -> Sequence[Tensor]:
        shape = [
            s.stop - s.start if s.stop is not None else d - s.start if known(d) else DYNAMIC
            for d, s in zip(shape_of(self.x), self.slices(), strict=True)
        ]
        return [tensor(element_of(self.x), shape)]


@declare(dims=INDEX, value=ALL)
class FillOp(AscendOp):
    """A tensor of shape `dims` whose elements are all `value`, one number."""

    dims: Operand = operand_def(ANY_TENSOR)
    value: Operand = operand_def(ANY_TENSOR)
    y: Result = result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        if size(shape_of(self.value)) != 1:
            raise VerifyException("value must hold one number")
        return [tensor(element_of(self.value), self._sizes())]

    def _sizes(self) -> Sequence[int]:
        entries = shape_of(self.dims)
        if constant_ints(self.dims) is None:
            if len(entries) != 1 or not known(entries[0]):
                raise VerifyException("dims must be of rank 1, with a known number of entries")
            return (DYNAMIC,) * entries[0]
        dims = index_list("dims", self.dims)
        if any(d < 0 for d in dims):
            raise VerifyException(f"dims {list(dims)} must not be negative")
        return dims


@declare(start=INDEX, limit=INDEX, delta=INDEX)
class RangeOp(AscendOp):
    """`start`, `start + delta`, ... below `limit` (above it if delta is negative), operands of rank 0; y is of rank 1."""

    DEVIATION: ClassVar[str] = "of integers only: how floats are rounded is not said"

    start: Operand = operand_def(ANY_TENSOR)
    limit: Operand = operand_def(ANY_TENSOR)
    delta: Operand = operand_def(ANY_TENSOR)
    is_closed: Bool = prop_def(BOOL, default_value=FALSE)
    y: Result = result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        check_false("is_closed", self.is_closed)
        for name, value in (("start", self.start), ("limit", self.limit), ("delta", self.delta)):
            if rank := len(shape_of(value)):
                raise VerifyException(f"{name} must be of rank 0, not {rank}")
        element, numbers = same_element(*self.operands), [constant_ints(value) for value in self.operands]
        if any(n is None for n in numbers):
            return [tensor(element, [DYNAMIC])]
        start, limit, delta = (n[0] for n in numbers if n is not None)
        if delta == 0:
            raise VerifyException("delta must not be 0")
        return [tensor(element, [len(range(start, limit, delta))])]


@declare(x=ALL)
class ShapeOp(AscendOp):
    """The sizes of x, as int32 (`dtype 3`) or int64 (9)."""

    x: Operand = operand_def(ANY_TENSOR)
    dtype: Int = prop_def(INT, default_value=integer(3))
    y: Result = result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        return [tensor(index_type(self.dtype), [len(shape_of(self.x))])]


class ArgOp(AscendOp):
    """The index of an element along the axis `dimension`, a constant; the first of equal elements.

    As int64 (`dtype 9`) or int32 (3); y loses the axis.
    """

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {"x": REAL_NUMBER, "dimension": INDEX}

    x: Operand = operand_def(ANY_TENSOR)
    dimension: Operand = operand_def(ANY_TENSOR)
    dtype: Int = prop_def(INT, default_value=integer(9))
    y: Result = result_def(ANY_TENSOR)

    @property
    def searched_axis(self) -> int:
        return axis_of(one_index("dimension", self.dimension), len(shape_of(self.x)), "dimension")

    def derive(self) -> Sequence[Tensor]:
        x, axis = shape_of(self.x), self.searched_axis
        return [tensor(index_type(self.dtype), (*x[:axis], *x[axis + 1 :]))]


@operation
class ArgMaxV2Op(ArgOp):
    """The index of the largest element along the axis `dimension`, a constant; the first of equal elements.

    As int64 (`dtype 9`) or int32 (3); y loses the axis.
    """


@operation
class ArgMinOp(ArgOp):
    """The index of the smallest element along the axis `dimension`, a constant. Types and shapes as ArgMaxV2."""


def index_type(dtype: IntegerAttr) -> Attribute:
    """The element type of indices for `dtype` 3 or 9. Raises VerifyException for another number."""
    number = dtype.value.data
    if number not in (3, 9):
        raise VerifyException(f"dtype {number} is neither 3 (int32) nor 9 (int64)")
    return i32 if number == 3 else i64


__all__ = [
    "ArgMaxV2Op",
    "ArgMinOp",
    "ArgOp",
    "FillOp",
    "GatherNdOp",
    "GatherOp",
    "PackOp",
    "RangeOp",
    "ShapeOp",
    "SliceOp",
    "SplitOp",
    "TileOp",
    "UnpackOp",
]
