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
    known,
    merge_dim,
    merge_shape,
    same_element,
    shape_of,
    size,
    static,
    tensor,
    text,
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


@operation
class ReshapeOp(AscendOp):
    """The same elements in another shape; one entry of `shape` may be -1. y: the element type of x."""

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {"x": ALL, "shape": INDEX}

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


@operation
class TransposeOp(AscendOp):
    """Reorders axes: axis i of y is axis `perm[i]` of x."""

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {"x": ALL, "perm": INDEX}

    x: Operand = operand_def(ANY_TENSOR)
    perm: Operand = operand_def(ANY_TENSOR)
    y: Result = result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        x, perm = shape_of(self.x), index_list("perm", self.perm)
        if len(x) > 8:
            raise VerifyException(f"x must be of rank 8 at most, not {len(x)}")
        if sorted(perm) != list(range(len(x))):
            raise VerifyException(f"perm {list(perm)} is not a permutation of {len(x)} axes")
        return [tensor(element_of(self.x), [x[p] for p in perm])]

    def meaning(self) -> Meaning:
        return self.as_nn(nn.TransposeOp, 1, perm=index_list("perm", self.perm))


@operation
class FlattenOp(AscendOp):
    """Reshapes to two axes: the product of the sizes before `axis`, and of the sizes from `axis` on."""

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {"x": ALL}

    x: Operand = operand_def(ANY_TENSOR)
    axis: Int = prop_def(INT, default_value=integer(1))
    y: Result = result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        x, axis = shape_of(self.x), self.axis.value.data
        if not -len(x) <= axis <= len(x):
            raise VerifyException(f"axis {axis} is out of range for rank {len(x)}")
        axis = axis + len(x) if axis < 0 else axis
        return [tensor(element_of(self.x), (size(x[:axis]), size(x[axis:])))]

    def meaning(self) -> Meaning:
        return self.as_nn(nn.FlattenOp, axis=self.axis)


@operation
class SqueezeOp(AscendOp):
    """Drops the axes `axis`, of size 1; an empty list means all of them."""

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {"x": ALL}

    x: Operand = operand_def(ANY_TENSOR)
    axis: Ints = prop_def(INTS, default_value=int_list())
    y: Result = result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        x = shape_of(self.x)
        if not (axes := axes_of(ints(self.axis), len(x))):
            if not static(x):
                raise VerifyException("axis is needed where sizes are not known")
            return [tensor(element_of(self.x), [d for d in x if d != 1])]
        for axis in axes:
            if x[axis] not in (1, DYNAMIC):
                raise VerifyException(f"axis {axis} is of size {x[axis]}, not 1")
        return [tensor(element_of(self.x), [d for i, d in enumerate(x) if i not in axes])]

    def meaning(self) -> Meaning:
        return self.as_nn(nn.SqueezeOp, axes=ints(self.axis) or None)


@operation
class UnsqueezeOp(AscendOp):
    """Inserts axes of size 1; `axes` count in y."""

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {"x": ALL}

    x: Operand = operand_def(ANY_TENSOR)
    axes: Ints = prop_def(INTS, default_value=int_list())
    y: Result = result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        x = shape_of(self.x)
        axes = axes_of(ints(self.axes), len(x) + len(ints(self.axes)))
        rest = iter(x)
        return [tensor(element_of(self.x), [1 if i in axes else next(rest) for i in range(len(x) + len(axes))])]

    def meaning(self) -> Meaning:
        return self.as_nn(nn.UnsqueezeOp, axes=self.axes)


@operation
class ConcatV2Op(AscendOp):
    """Joins the tensors x along the axis `concat_dim`; all other sizes are equal. `N` is the number of inputs."""

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {"x": ALL, "concat_dim": INDEX}

    x: VarOperand = var_operand_def(ANY_TENSOR)
    concat_dim: Operand = operand_def(ANY_TENSOR)
    N = prop_def(INT, default_value=integer(1))
    y: Result = result_def(ANY_TENSOR)

    def derive(self) -> Sequence[Tensor]:
        if len(self.x) != self.N.value.data:
            raise VerifyException(f"N is {self.N.value.data}, but there are {len(self.x)} inputs")
        shapes = [shape_of(v) for v in self.x]
        if any(len(s) != len(shapes[0]) for s in shapes):
            raise VerifyException(f"inputs {', '.join(map(text, shapes))} differ in rank")
        axis = axis_of(one_index("concat_dim", self.concat_dim), len(shapes[0]), "concat_dim")
        joined = list(shapes[0])
        for shape in shapes[1:]:
            for i, d in enumerate(shape):
                if i != axis:
                    joined[i] = merge_dim(joined[i], d, f"sizes of axis {i}")
                else:
                    joined[i] = joined[i] + d if known(joined[i]) and known(d) else DYNAMIC
        return [tensor(same_element(*self.x), joined)]

    def meaning(self) -> Meaning:
        axis = one_index("concat_dim", self.concat_dim)
        return Meaning(nn.ConcatOp.make(stand_ins([v.type for v in self.x]), axis=axis), lambda arrays: arrays[:-1])


@operation
class SplitVOp(AscendOp):
    """Cuts x along the axis `split_dim` into `num_split` parts of the sizes `size_splits`, one result each."""

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {"x": ALL, "size_splits": INDEX, "split_dim": INDEX}

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
        x, sizes = shape_of(self.x), index_list("size_splits", self.size_splits)
        axis = axis_of(one_index("split_dim", self.split_dim), len(x), "split_dim")
        if len(sizes) != self.num_split.value.data:
            raise VerifyException(f"num_split is {self.num_split.value.data}, size_splits has {len(sizes)} entries")
        if any(s < 0 for s in sizes):
            raise VerifyException(f"size_splits {list(sizes)} must not be negative")
        merge_dim(x[axis], sum(sizes), "size of the axis and sum of the parts")
        return [tensor(element_of(self.x), (*x[:axis], s, *x[axis + 1 :])) for s in sizes]

    def meaning(self) -> Meaning:
        sizes, axis = index_list("size_splits", self.size_splits), one_index("split_dim", self.split_dim)
        return self.as_nn(nn.SplitOp, 1, sizes=sizes, axis=axis)


@operation
class StridedSliceV2Op(AscendOp):
    """Takes ranges of the axes `axes` with steps `strides` of either sign; begins and ends count and clamp as in ONNX Slice.

    The header's masks are left out: they are 0.
    """

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {
        "x": ALL,
        "begin": INDEX,
        "end": INDEX,
        "axes": INDEX,
        "strides": INDEX,
    }

    x: Operand = operand_def(ANY_TENSOR)
    begin: Operand = operand_def(ANY_TENSOR)
    end: Operand = operand_def(ANY_TENSOR)
    axes: Operand = operand_def(ANY_TENSOR)
    strides: Operand = operand_def(ANY_TENSOR)
    y: Result = result_def(ANY_TENSOR)

    def slices(self) -> tuple[slice, ...]:
        """One Python slice per axis of x."""
        names = ("begin", "end", "axes", "strides")
        begin, end, axes, strides = (index_list(n, v) for n, v in zip(names, self.operands[1:], strict=True))
        if not len(begin) == len(end) == len(axes) == len(strides):
            raise VerifyException("begin, end, axes and strides differ in length")
        if 0 in strides:
            raise VerifyException("strides must not be 0")
        rank = len(shape_of(self.x))
        result = [slice(None)] * rank
        for b, e, axis, step in zip(begin, end, axes_of(axes, rank), strides, strict=True):
            # Python has no number for "past the first element" with a negative step; a far negative end means that
            result[axis] = slice(b, None if step < 0 and e <= -(2**31) else e, step)
        return tuple(result)

    def derive(self) -> Sequence[Tensor]:
        shape = [
            d if s == slice(None) else (len(range(*s.indices(d))) if known(d) else DYNAMIC)
            for d, s in zip(shape_of(self.x), self.slices(), strict=True)
        ]
        return [tensor(element_of(self.x), shape)]

    def meaning(self) -> Meaning:
        names = ("begin", "end", "axes", "strides")
        lists = (index_list(n, v) for n, v in zip(names, self.operands[1:], strict=True))
        return self.as_nn(nn.SliceOp, 1, **dict(zip(("starts", "ends", "axes", "steps"), lists, strict=True)))


@operation
class GatherV2Op(AscendOp):
    """Picks slices of the axis `axis` of x by index; with `negative_index_support` negative indices count from the end.

    y: the shape of x with that of indices in place of the axis. The first `batch_dims` axes of x and indices are the same: each
    batch is looked up in on its own.
    """

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {"x": ALL, "indices": INDEX, "axis": INDEX}

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

    def derive(self) -> Sequence[Tensor]:
        x, indices, axis, n = shape_of(self.x), shape_of(self.indices), self.gather_axis, self.batch_dims.value.data
        if not 0 <= n <= min(axis, len(indices)):
            raise VerifyException(f"batch_dims {n} must not exceed axis {axis} and the {len(indices)} axes of indices")
        batch = merge_shape(x[:n], indices[:n], "batches of x and indices")
        return [tensor(element_of(self.x), (*batch, *x[n:axis], *indices[n:], *x[axis + 1 :]))]

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


@operation
class PadV3Op(AscendOp):
    """Adds elements around x. `paddings` lists begin and end per axis; all begins, then all ends where not contiguous.

    `mode`: `constant` (constant_values, 0 where absent), `reflect` or `edge`.
    """

    TYPES: ClassVar[Mapping[str, ElementTypes]] = {"x": ALL, "paddings": INDEX}

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
        shape = [d + b + e if known(d) else DYNAMIC for d, (b, e) in zip(shape_of(self.x), self.pairs, strict=True)]
        return [tensor(element_of(self.x), shape)]

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

    @property
    def keeps_axes(self) -> bool:
        return bool(self.keep_dims.value.data)

    def derive(self) -> Sequence[Tensor]:
        x, axes = shape_of(self.x), self.axis_list
        kept = [1 if i in axes else d for i, d in enumerate(x) if self.keeps_axes or i not in axes]
        return [tensor(element_of(self.x), kept)]

    def meaning(self) -> Meaning:
        return self.as_nn(self.REDUCES, 1, axes=self.axis_list, keepdims=self.keeps_axes)


@operation
class ReduceMeanOp(ReduceOp):
    """The mean over axes."""

    REDUCES: ClassVar[type[NNOp]] = nn.ReduceMeanOp


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
