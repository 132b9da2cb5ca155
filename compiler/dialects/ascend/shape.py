"""Data movement and reductions. Index lists are operands (constants where the graph has them), as in the headers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    Operand,
    OptOperand,
    VarOperand,
    operand_def,
    opt_operand_def,
    prop_def,
    result_def,
    var_operand_def,
    var_result_def,
)
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor
from .. import nn
from ..nn.base import ANY_TENSOR, BOOL, INT, INTS, TEXT, Bool, Int, Ints, NNOp, Result, Results, Text, integer, ints
from ..nn.constant import array_of, constant_ints
from ..nn.shape import reshaped
from ..nn.shapes import (
    DYNAMIC,
    Shape,
    axes_of,
    axis_of,
    element_of,
    same_element,
    shape_of,
    tensor,
)
from .base import (
    ALL,
    FALSE,
    INDEX,
    REAL_NUMBER,
    TRUE,
    AscendOp,
    ElementTypes,
    Meaning,
    check_choice,
    declare,
    int_list,
    operation,
    stand_ins,
)

if TYPE_CHECKING:
    from .base import Array


def index_list(what: str, value: SSAValue) -> tuple[int, ...]:
    """The numbers of a constant index operand of rank 0 or 1. Raises VerifyException when they are computed at run time."""
    if (numbers := constant_ints(value)) is None:
        raise VerifyException(f"{what} must be a constant")
    if len(shape_of(value)) > 1:
        raise VerifyException(f"{what} must be of rank 0 or 1")
    return numbers


def one_index(what: str, value: SSAValue) -> int:
    """The one number of a constant index operand. Raises VerifyException like `index_list`, and for any other count."""
    numbers = index_list(what, value)
    if len(numbers) != 1:
        raise VerifyException(f"{what} must hold one number, not {len(numbers)}")
    return numbers[0]


@declare(x=ALL, shape=INDEX)
class ReshapeOp(AscendOp):
    """The elements of x in another shape; one entry of `shape` may be -1. y: the element type of x."""

    x: Operand = operand_def(ANY_TENSOR)
    shape: Operand = operand_def(ANY_TENSOR)
    axis: Int = prop_def(INT, default_value=integer(0))
    num_axes: Int = prop_def(INT, default_value=integer(-1))
    y: Result = result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        if self.axis.value.data != 0 or self.num_axes.value.data != -1:
            raise VerifyException("axis and num_axes must be 0 and -1: only the whole shape is replaced")
        if (target := constant_ints(self.shape)) is None:
            return [tensor(element_of(self.x), self._runtime_shape())]
        return [tensor(element_of(self.x), reshaped(shape_of(self.x), target, allow_zero=True))]

    def _runtime_shape(self) -> Shape:
        """A shape that is computed at run time: its rank from the operand, known sizes from the result's type."""
        declared, entries = shape_of(self.y), shape_of(self.shape)
        if len(entries) != 1:
            raise VerifyException(f"shape must be of rank 1, not {len(entries)}")
        return declared if entries[0] in (DYNAMIC, len(declared)) else (DYNAMIC,) * entries[0]

    def meaning(self) -> Meaning:
        """Drops the meaning of 0 in ONNX, which copies a size."""
        return self.as_nn(nn.ReshapeOp, allow_zero=True)


@declare(x=ALL, perm=INDEX)
class TransposeOp(AscendOp):
    """Reorders axes: axis i of y is axis `perm[i]` of x."""

    x: Operand = operand_def(ANY_TENSOR)
    perm: Operand = operand_def(ANY_TENSOR)
    y: Result = result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        if (rank := len(shape_of(self.x))) > 8:
            raise VerifyException(f"x must be of rank 8 at most, not {rank}")
        return super().derive()

    def meaning(self) -> Meaning:
        return self.as_nn(nn.TransposeOp, 1, perm=index_list("perm", self.perm))


@declare(x=ALL)
class FlattenOp(AscendOp):
    """Reshapes to two axes: the product of the sizes before `axis`, and of the sizes from `axis` on."""

    x: Operand = operand_def(ANY_TENSOR)
    axis: Int = prop_def(INT, default_value=integer(1))
    y: Result = result_def(ANY_TENSOR)

    def meaning(self) -> Meaning:
        return self.as_nn(nn.FlattenOp, axis=self.axis)


@declare(x=ALL)
class SqueezeOp(AscendOp):
    """Drops the axes `axis`, of size 1; an empty list means all of them."""

    x: Operand = operand_def(ANY_TENSOR)
    axis: Ints = prop_def(INTS, default_value=int_list())
    y: Result = result_def(ANY_TENSOR)

    def meaning(self) -> Meaning:
        return self.as_nn(nn.SqueezeOp, axes=ints(self.axis) or None)


@declare(x=ALL)
class UnsqueezeOp(AscendOp):
    """Inserts axes of size 1; `axes` count in y."""

    x: Operand = operand_def(ANY_TENSOR)
    axes: Ints = prop_def(INTS, default_value=int_list())
    y: Result = result_def(ANY_TENSOR)

    def meaning(self) -> Meaning:
        return self.as_nn(nn.UnsqueezeOp, axes=self.axes)


@declare(x=ALL, concat_dim=INDEX)
class ConcatV2Op(AscendOp):
    """Joins the tensors x along the axis `concat_dim`; all other sizes are equal. `N` is the number of inputs."""

    x: VarOperand = var_operand_def(ANY_TENSOR)
    concat_dim: Operand = operand_def(ANY_TENSOR)
    N = prop_def(INT, default_value=integer(1))
    output_data: Result = result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        if len(self.x) != self.N.value.data:
            raise VerifyException(f"N is {self.N.value.data}, but there are {len(self.x)} inputs")
        return super().derive()

    def meaning(self) -> Meaning:
        axis = one_index("concat_dim", self.concat_dim)
        return Meaning(nn.ConcatOp.make(stand_ins([v.type for v in self.x]), axis=axis), lambda arrays: arrays[:-1])


@declare(x=ALL, size_splits=INDEX, split_dim=INDEX)
class SplitVOp(AscendOp):
    """Cuts x along the axis `split_dim` into `num_split` parts of the sizes `size_splits`, one result each."""

    x: Operand = operand_def(ANY_TENSOR)
    size_splits: Operand = operand_def(ANY_TENSOR)
    split_dim: Operand = operand_def(ANY_TENSOR)
    num_split: Int = prop_def(INT)
    y: Results = var_result_def(ANY_TENSOR)

    @classmethod
    def result_count(cls, properties: dict[str, Attribute | None]) -> int:
        count = properties.get("num_split")
        return count.value.data if isinstance(count, IntegerAttr) else 1  # pyright: ignore[reportUnknownMemberType]

    def derive(self) -> Sequence[Tensor]:
        if (count := len(index_list("size_splits", self.size_splits))) != self.num_split.value.data:
            raise VerifyException(f"num_split is {self.num_split.value.data}, size_splits has {count} entries")
        return super().derive()

    def meaning(self) -> Meaning:
        sizes, axis = index_list("size_splits", self.size_splits), one_index("split_dim", self.split_dim)
        return self.as_nn(nn.SplitOp, 1, sizes=sizes, axis=axis)


@declare(x=ALL, begin=INDEX, end=INDEX, axes=INDEX, strides=INDEX)
class StridedSliceV2Op(AscendOp):
    """Takes ranges of the axes `axes` with steps `strides` of either sign; begins and ends count and clamp as in ONNX Slice.

    The header's masks are left out: they are 0.
    """

    x: Operand = operand_def(ANY_TENSOR)
    begin: Operand = operand_def(ANY_TENSOR)
    end: Operand = operand_def(ANY_TENSOR)
    axes: Operand = operand_def(ANY_TENSOR)
    strides: Operand = operand_def(ANY_TENSOR)
    y: Result = result_def(ANY_TENSOR)

    def meaning(self) -> Meaning:
        names = ("begin", "end", "axes", "strides")
        lists = (index_list(n, v) for n, v in zip(names, self.operands[1:], strict=True))
        return self.as_nn(nn.SliceOp, 1, **dict(zip(("starts", "ends", "axes", "steps"), lists, strict=True)))


@declare(x=ALL, indices=INDEX, axis=INDEX)
class GatherV2Op(AscendOp):
    """Picks slices of the axis `axis` of x by index; with `negative_index_support` negative indices count from the end.

    y: the shape of x with that of indices in place of the axis. The first `batch_dims` axes of x and indices are the same: each
    batch is looked up in on its own.
    """

    x: Operand = operand_def(ANY_TENSOR)
    indices: Operand = operand_def(ANY_TENSOR)
    axis: Operand = operand_def(ANY_TENSOR)
    batch_dims: Int = prop_def(INT, default_value=integer(0))
    is_preprocessed: Bool = prop_def(BOOL, default_value=FALSE)
    negative_index_support: Bool = prop_def(BOOL, default_value=FALSE)
    y: Result = result_def(ANY_TENSOR)

    @property
    def gather_axis(self) -> int:
        return axis_of(one_index("axis", self.axis), len(shape_of(self.x)))

    def meaning(self) -> Meaning:
        negative = bool(self.negative_index_support.value.data)

        def arrange(arrays: Sequence[Array]) -> Sequence[Array]:
            x, indices, _ = arrays
            if not negative and indices.size and indices.min() < 0:
                raise ValueError(f"index {indices.min()} is negative, and negative_index_support is not set")
            return x, indices

        meaning = nn.GatherOp.make(
            *stand_ins(self.operand_types[:2]), axis=self.gather_axis, batch_dims=self.batch_dims
        )
        return Meaning(meaning, arrange)


@declare(x=ALL, paddings=INDEX)
class PadV3Op(AscendOp):
    """Adds elements around x. `paddings` lists begin and end per axis; all begins, then all ends where not contiguous.

    `mode`: `constant` (constant_values, 0 where absent), `reflect` or `edge`.
    """

    x: Operand = operand_def(ANY_TENSOR)
    paddings: Operand = operand_def(ANY_TENSOR)
    constant_values: OptOperand = opt_operand_def(ANY_TENSOR)
    mode: Text = prop_def(TEXT, default_value=StringAttr("constant"))
    paddings_contiguous: Bool = prop_def(BOOL, default_value=TRUE)
    y: Result = result_def(ANY_TENSOR)

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """(begin, end) per axis of x."""
        numbers, rank = index_list("paddings", self.paddings), len(shape_of(self.x))
        if len(numbers) != 2 * rank:
            raise VerifyException(f"paddings has {len(numbers)} entries, expected {2 * rank}")
        if any(n < 0 for n in numbers):
            raise VerifyException(f"paddings {list(numbers)} must not be negative")
        if self.paddings_contiguous.value.data:
            return tuple(zip(numbers[::2], numbers[1::2], strict=True))
        return tuple(zip(numbers[:rank], numbers[rank:], strict=True))

    def derive(self) -> Sequence[Tensor]:
        check_choice("mode", self.mode, ("constant", "reflect", "edge"))
        if self.constant_values is not None and shape_of(self.constant_values) not in ((), (1,)):
            raise VerifyException("constant_values must hold one number")
        same_element(self.x, self.constant_values)
        return super().derive()

    def meaning(self) -> Meaning:
        value = array_of(self.constant_values)
        pads = (*(b for b, _ in self.pairs), *(e for _, e in self.pairs))
        return self.as_nn(nn.PadOp, 1, pads=pads, mode=self.mode.data, value=0.0 if value is None else value.item())


class ReduceOp(AscendOp):
    """Reduces the axes `axes` of x, which `keep_dims` keeps as size 1."""

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {"x": REAL_NUMBER, "axes": INDEX}
    REDUCES: ClassVar[type[NNOp]]

    x: Operand = operand_def(ANY_TENSOR)
    axes: Operand = operand_def(ANY_TENSOR)
    keep_dims: Bool = prop_def(BOOL, default_value=FALSE)
    y: Result = result_def(ANY_TENSOR)

    @property
    def axis_list(self) -> tuple[int, ...]:
        axes = axes_of(index_list("axes", self.axes), len(shape_of(self.x)))
        if not axes:
            raise VerifyException("expected at least one axis")
        return axes

    def meaning(self) -> Meaning:
        return self.as_nn(self.REDUCES, 1, axes=self.axis_list, keepdims=bool(self.keep_dims.value.data))


@operation
class ReduceMeanOp(ReduceOp):
    """The mean over axes. `noop_with_empty_axes` is of no effect, as there is at least one."""

    REDUCES: ClassVar[type[NNOp]] = nn.ReduceMeanOp

    noop_with_empty_axes: Bool = prop_def(BOOL, default_value=TRUE)


@operation
class ReduceSumOp(ReduceOp):
    """The sum over axes."""

    REDUCES: ClassVar[type[NNOp]] = nn.ReduceSumOp


@operation
class ReduceMaxOp(ReduceOp):
    """The largest element over axes."""

    REDUCES: ClassVar[type[NNOp]] = nn.ReduceMaxOp


@operation
class ReduceMinOp(ReduceOp):
    """The smallest element over axes."""

    REDUCES: ClassVar[type[NNOp]] = nn.ReduceMinOp


@operation
class ReduceProdOp(ReduceOp):
    """The product over axes."""

    REDUCES: ClassVar[type[NNOp]] = nn.ReduceProdOp


__all__ = [
    "ConcatV2Op",
    "FlattenOp",
    "GatherV2Op",
    "PadV3Op",
    "ReduceMaxOp",
    "ReduceMeanOp",
    "ReduceMinOp",
    "ReduceOp",
    "ReduceProdOp",
    "ReduceSumOp",
    "ReshapeOp",
    "SplitVOp",
    "SqueezeOp",
    "StridedSliceV2Op",
    "TransposeOp",
    "UnsqueezeOp",
]
