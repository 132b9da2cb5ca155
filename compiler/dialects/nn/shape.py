"""Data movement and shapes."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod
from typing import cast

from xdsl.dialects.builtin import DenseArrayBase, IntegerType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    Operand,
    OptOperand,
    VarOperand,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    var_operand_def,
    var_result_def,
)
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor
from .attributes import (
    Coordinates,
    CoordinatesAttr,
    Nearest,
    NearestAttr,
    PadMode,
    PadModeAttr,
    RealsAttr,
    ResizeMode,
    ResizeModeAttr,
)
from .base import (
    ANY_TENSOR,
    DOUBLE,
    FLAG,
    INT,
    INTS,
    REAL,
    Double,
    Flag,
    Int,
    Ints,
    MovingOp,
    NNOp,
    Real,
    Result,
    Results,
    double,
    integer,
    ints,
    operation,
    real,
)
from .constant import constant_ints, constant_of
from .permutations import Moved, Perm, along_axis, identity, keeps_order, permuted, without
from .shapes import (
    DYNAMIC,
    Shape,
    axes_of,
    axis_of,
    broadcast,
    element_of,
    known,
    merge_dim,
    merge_shape,
    require_rank,
    same_element,
    scaled_size,
    shape_of,
    size,
    size_left,
    static,
    tensor,
    text,
)


@operation
class ConcatOp(MovingOp):
    """Joins tensors along one axis (ONNX Concat). inputs agree in all other sizes."""

    inputs: VarOperand = var_operand_def(ANY_TENSOR)
    axis: Int = prop_def(INT)
    result: Result = result_def(ANY_TENSOR)

    @property
    def moved(self) -> Sequence[SSAValue]:
        return self.inputs

    @property
    def acts_by_sample(self) -> bool:
        return axis_of(self.axis.value.data, len(shape_of(self.inputs[0]))) != 0

    def commuted(self, perm: Perm) -> Moved | None:
        return along_axis(self, axis_of(self.axis.value.data, len(perm)), perm)

    def infer(self) -> Sequence[Tensor]:
        if not self.inputs:
            raise VerifyException("expected at least one input")
        shapes = [shape_of(v) for v in self.inputs]
        rank = len(shapes[0])
        if any(len(s) != rank for s in shapes):
            raise VerifyException(f"inputs differ in rank: {', '.join(map(text, shapes))}")
        axis = axis_of(self.axis.value.data, rank)
        joined = list(shapes[0])
        for shape in shapes[1:]:
            for i, d in enumerate(shape):
                if i == axis:
                    joined[i] = joined[i] + d if known(joined[i]) and known(d) else DYNAMIC
                else:
                    joined[i] = merge_dim(joined[i], d, f"sizes of axis {i}")
        return [tensor(same_element(*self.inputs), joined)]


@operation
class SplitOp(MovingOp):
    """Cuts a tensor along one axis into parts of the given sizes (ONNX Split, TensorFlow SplitV), one result each."""

    input: Operand = operand_def(ANY_TENSOR)
    axis: Int = prop_def(INT, default_value=integer(0))
    sizes: Ints = prop_def(INTS)
    parts: Results = var_result_def(ANY_TENSOR)

    @classmethod
    def result_count(cls, properties: dict[str, Attribute | None]) -> int:
        sizes = properties.get("sizes")
        return len(sizes) if isinstance(sizes, DenseArrayBase) else 1  # pyright: ignore[reportUnknownArgumentType]

    @property
    def acts_by_sample(self) -> bool:
        return axis_of(self.axis.value.data, len(shape_of(self.input))) != 0

    def commuted(self, perm: Perm) -> Moved | None:
        return along_axis(self, axis_of(self.axis.value.data, len(perm)), perm)

    def infer(self) -> Sequence[Tensor]:
        x = shape_of(self.input)
        axis = axis_of(self.axis.value.data, len(x))
        sizes = ints(self.sizes)
        if any(s < 0 for s in sizes):
            raise VerifyException(f"sizes {list(sizes)} must not be negative")
        merge_dim(x[axis], sum(sizes), "size of the axis and sum of the parts")
        return [tensor(element_of(self.input), (*x[:axis], s, *x[axis + 1 :])) for s in sizes]


@operation
class SliceOp(MovingOp):
    """Takes ranges of some axes, with steps of either sign (ONNX Slice with constant ranges).

    Starts and ends count from the end when negative and are clamped, as in Python; with a negative step an end below `-size`
    takes the first element too. `axes` absent means the first ones, `steps` ones.
    """

    input: Operand = operand_def(ANY_TENSOR)
    starts: Ints = prop_def(INTS)
    ends: Ints = prop_def(INTS)
    axes: Ints | None = opt_prop_def(INTS)
    steps: Ints | None = opt_prop_def(INTS)
    result: Result = result_def(ANY_TENSOR)

    def slices(self, rank: int) -> tuple[slice, ...]:
        """One Python slice per axis of the input. Raises VerifyException when the lists do not fit together."""
        starts, ends = ints(self.starts), ints(self.ends)
        axes = axes_of(ints(self.axes, range(len(starts))), rank)
        steps = ints(self.steps, (1,) * len(starts))
        if not len(starts) == len(ends) == len(axes) == len(steps):
            raise VerifyException("starts, ends, axes and steps differ in length")
        if 0 in steps:
            raise VerifyException("steps must not be 0")
        result = [slice(None)] * rank
        for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
            result[axis] = slice(start, end, step)
        return tuple(result)

    def axis_behind(self, axis: int) -> int | None:
        return axis if self.slices(len(shape_of(self.input)))[axis] == slice(None) else None

    def commuted(self, perm: Perm) -> Moved | None:
        axes = axes_of(ints(self.axes, range(len(ints(self.starts)))), len(perm))
        return Moved((perm,), {"axes": [perm.index(a) for a in axes]}, (perm,))

    def infer(self) -> Sequence[Tensor]:
        x = shape_of(self.input)
        shape = [
            d if s == slice(None) else (len(range(*s.indices(d))) if known(d) else DYNAMIC)
            for d, s in zip(x, self.slices(len(x)), strict=True)
        ]
        return [tensor(element_of(self.input), shape)]


@operation
class GatherOp(MovingOp):
    """Picks slices of `axis` by index, negative ones from the end (ONNX Gather).

    input `[..., A, ...]`, indices of any integer shape, result: the indices' shape in place of the axis. The first `batch_dims`
    axes of input and indices are the same: each batch is looked up in on its own (TensorFlow GatherV2).
    """

    input: Operand = operand_def(ANY_TENSOR)
    indices: Operand = operand_def(ANY_TENSOR)
    axis: Int = prop_def(INT, default_value=integer(0))
    batch_dims: Int = prop_def(INT, default_value=integer(0))
    result: Result = result_def(ANY_TENSOR)

    @property
    def batch_count(self) -> int:
        return self.batch_dims.value.data

    @property
    def acts_by_sample(self) -> bool:
        """Whether samples look up in a constant table, or each in itself."""
        if constant_of(self.input) is not None:
            return self.axis.value.data == 0
        apart = self.batch_count > 0 or constant_of(self.indices) is not None
        return apart and axis_of(self.axis.value.data, len(shape_of(self.input))) != 0

    def axis_behind(self, axis: int) -> int | None:
        picked = axis_of(self.axis.value.data, len(shape_of(self.input)))
        added = len(shape_of(self.indices)) - self.batch_count - 1
        return None if axis == picked else axis + added * (picked < axis)

    def commuted(self, perm: Perm) -> Moved | None:
        axis, rank = axis_of(self.axis.value.data, len(perm)), len(shape_of(self.indices))
        if rank > 1 or self.batch_count:
            return None
        return Moved((perm, None), {"axis": perm.index(axis)}, (perm if rank else without(perm, [axis]),))

    def infer(self) -> Sequence[Tensor]:
        x, indices, n = shape_of(self.input), shape_of(self.indices), self.batch_count
        axis = axis_of(self.axis.value.data, len(x))
        if not isinstance(element_of(self.indices), IntegerType):
            raise VerifyException(f"indices must be integers, not {element_of(self.indices)}")
        if not 0 <= n <= min(axis, len(indices)):
            raise VerifyException(f"batch_dims {n} must not exceed axis {axis} and the {len(indices)} axes of indices")
        batch = merge_shape(x[:n], indices[:n], "batches of input and indices")
        return [tensor(element_of(self.input), (*batch, *x[n:axis], *indices[n:], *x[axis + 1 :]))]


class ReshapingOp(MovingOp):
    """Base of operations that return the same elements in the same order, in another shape."""

    input: Operand = operand_def(ANY_TENSOR)
    result: Result = result_def(ANY_TENSOR)

    @property
    def acts_by_sample(self) -> bool:
        return 0 <= size(shape_of(self.input)[1:]) == size(shape_of(self.result)[1:])


@operation
class ReshapeOp(ReshapingOp):
    """The elements of the input in another shape (ONNX Reshape).

    The shape is the property `to`, or a run-time operand. One entry may be -1 (what is left); 0 copies the input's size
    unless `allow_zero`.
    """

    input: Operand = operand_def(ANY_TENSOR)
    shape: OptOperand = opt_operand_def(ANY_TENSOR)
    to: Ints | None = opt_prop_def(INTS)
    allow_zero: Flag | None = opt_prop_def(FLAG)

    def target(self) -> tuple[int, ...] | None:
        """The requested shape, if it is known at compile time."""
        return ints(self.to) if self.to is not None else _constant(self.shape)

    def commuted(self, perm: Perm) -> Moved | None:
        return _in_order(self, perm)

    def infer(self) -> Sequence[Tensor]:
        if (self.to is None) == (self.shape is None):
            raise VerifyException("expected either a shape operand or the property 'to'")
        if (target := self.target()) is not None:
            return [tensor(element_of(self.input), reshaped(shape_of(self.input), target, self.allow_zero is not None))]
        unknown = (DYNAMIC,) * _runtime_rank(cast(SSAValue, self.shape), self.result)
        return [tensor(element_of(self.input), _refined(unknown, self.result))]


def _in_order(op: ReshapingOp, perm: Perm) -> Moved | None:
    """A reshape commutes if the permutation keeps the elements in order: the result is the same."""
    target = tuple(-1 if d == DYNAMIC else d for d in shape_of(op.result))
    if len(op.operands) > 1 or not keeps_order(shape_of(op.input), perm) or target.count(-1) > 1 or 0 in target:
        return None
    return Moved((perm,), {"to": target}, (identity(len(target)),), ReshapeOp)


def _constant(value: SSAValue | None) -> tuple[int, ...] | None:
    return None if value is None else constant_ints(value)


def _runtime_rank(shape: SSAValue, result: SSAValue) -> int:
    """The length of a shape that is computed at run time, otherwise the declared rank of the result."""
    require_rank(shape, 1, "shape")
    if known(length := shape_of(shape)[0]):
        return length
    if not shape_of(result):
        raise VerifyException("the rank of the result is not known")
    return len(shape_of(result))


def _refined(shape: Shape, result: SSAValue) -> Shape:
    """A shape, with unknown sizes taken from the result's type."""
    declared = shape_of(result)
    if len(declared) != len(shape):
        return shape
    return tuple(d if known(d) else already for d, already in zip(shape, declared, strict=True))


def reshaped(x: Shape, target: Sequence[int], allow_zero: bool = False) -> Shape:
    """The shape that `target` (with -1 and 0) gives to a tensor of shape x. Raises VerifyException when sizes differ."""
    if target.count(-1) > 1 or min((0, *target)) < -1:
        raise VerifyException(f"shape {list(target)} is malformed")
    shape = list(target)
    copied: list[int] = []
    for i, d in enumerate(target):
        if d == 0 and not allow_zero:
            if i >= len(x):
                raise VerifyException(f"shape {list(target)} copies axis {i} of a tensor of rank {len(x)}")
            shape[i] = x[i]
            copied.append(i)
    if -1 not in target:
        if static(x) and static(shape) and prod(x) != prod(shape):
            raise VerifyException(f"{text(x)} has {prod(x)} elements, {text(shape)} has {prod(shape)}")
        return tuple(shape)
    hole = target.index(-1)
    # copied axes cancel on both sides, so that an unknown batch does not hide what is left
    left = [d for i, d in enumerate(x) if i not in copied]
    rest = [d for i, d in enumerate(shape) if i not in (*copied, hole)]
    if not static(left) or not static(rest):
        shape[hole] = DYNAMIC
        return tuple(shape)
    if prod(rest) == 0 or prod(left) % prod(rest):
        raise VerifyException(f"{text(x)} cannot be reshaped to {list(target)}")
    shape[hole] = prod(left) // prod(rest)
    return tuple(shape)


@operation
class ExpandOp(MovingOp):
    """Broadcasts to a shape, in both directions (ONNX Expand). The shape is the property `to`, or a run-time operand."""

    input: Operand = operand_def(ANY_TENSOR)
    shape: OptOperand = opt_operand_def(ANY_TENSOR)
    to: Ints | None = opt_prop_def(INTS)
    result: Result = result_def(ANY_TENSOR)

    def target(self) -> tuple[int, ...] | None:
        return ints(self.to) if self.to is not None else _constant(self.shape)

    def infer(self) -> Sequence[Tensor]:
        if (self.to is None) == (self.shape is None):
            raise VerifyException("expected either a shape operand or the property 'to'")
        if (target := self.target()) is not None:
            if min((0, *target)) < 0:
                raise VerifyException(f"shape {list(target)} must not be negative")
            return [tensor(element_of(self.input), broadcast(shape_of(self.input), target))]
        unknown = (DYNAMIC,) * _runtime_rank(cast(SSAValue, self.shape), self.result)
        return [tensor(element_of(self.input), _refined(broadcast(shape_of(self.input), unknown), self.result))]


@operation
class TransposeOp(MovingOp):
    """Reorders axes: result axis i is input axis `perm[i]` (ONNX Transpose)."""

    input: Operand = operand_def(ANY_TENSOR)
    perm: Ints = prop_def(INTS)
    result: Result = result_def(ANY_TENSOR)

    def axis_behind(self, axis: int) -> int | None:
        return ints(self.perm).index(axis)

    def infer(self) -> Sequence[Tensor]:
        x, perm = shape_of(self.input), ints(self.perm)
        if sorted(perm) != list(range(len(x))):
            raise VerifyException(f"perm {list(perm)} is not a permutation of {len(x)} axes")
        return [tensor(element_of(self.input), [x[p] for p in perm])]


@operation
class FlattenOp(ReshapingOp):
    """Two axes: the product of the sizes before `axis`, and of those from it on (ONNX Flatten)."""

    axis: Int = prop_def(INT, default_value=integer(1))

    def commuted(self, perm: Perm) -> Moved | None:
        return _in_order(self, perm)

    def infer(self) -> Sequence[Tensor]:
        x = shape_of(self.input)
        axis = self.axis.value.data
        if not -len(x) <= axis <= len(x):
            raise VerifyException(f"axis {axis} is out of range for rank {len(x)}")
        axis = axis + len(x) if axis < 0 else axis
        return [tensor(element_of(self.input), (size(x[:axis]), size(x[axis:])))]


@operation
class SqueezeOp(ReshapingOp):
    """Drops axes of size 1; `axes` absent means all of them (ONNX Squeeze)."""

    axes: Ints | None = opt_prop_def(INTS)

    def commuted(self, perm: Perm) -> Moved | None:
        shape = shape_of(self.input)
        axes = axes_of(ints(self.axes, [i for i, d in enumerate(shape) if d == 1]), len(shape))
        return Moved((perm,), {"axes": sorted(perm.index(a) for a in axes)}, (without(perm, axes),))

    def infer(self) -> Sequence[Tensor]:
        x = shape_of(self.input)
        if self.axes is None:
            if not static(x):
                raise VerifyException("axes are needed where sizes are not known")
            return [tensor(element_of(self.input), [d for d in x if d != 1])]
        axes = axes_of(ints(self.axes), len(x))
        for axis in axes:
            if known(x[axis]) and x[axis] != 1:
                raise VerifyException(f"axis {axis} has size {x[axis]}, only 1 can be dropped")
        return [tensor(element_of(self.input), [d for i, d in enumerate(x) if i not in axes])]


@operation
class UnsqueezeOp(ReshapingOp):
    """Inserts axes of size 1; `axes` count in the result (ONNX Unsqueeze)."""

    axes: Ints = prop_def(INTS)

    def infer(self) -> Sequence[Tensor]:
        x = shape_of(self.input)
        axes = axes_of(ints(self.axes), len(x) + len(ints(self.axes)))
        rest = iter(x)
        shape = [1 if i in axes else next(rest) for i in range(len(x) + len(axes))]
        return [tensor(element_of(self.input), shape)]


@operation
class PadOp(MovingOp):
    """Adds elements around a tensor; negative pads remove elements (ONNX Pad with constant pads).

    `pads` lists all begins, then all ends, for every axis; `value` is what `mode constant` fills in.
    """

    input: Operand = operand_def(ANY_TENSOR)
    pads: Ints = prop_def(INTS)
    mode: PadModeAttr = prop_def(PadModeAttr, default_value=PadModeAttr(PadMode.CONSTANT))
    value: Double = prop_def(DOUBLE, default_value=double(0.0))
    result: Result = result_def(ANY_TENSOR)

    @property
    def fill(self) -> float | None:
        adds = self.mode.data is PadMode.CONSTANT and any(p > 0 for p in ints(self.pads))
        return self.value.value.data if adds else None

    def axis_behind(self, axis: int) -> int | None:
        return None if any(ints(self.pads)[axis :: len(shape_of(self.input))]) else axis

    def commuted(self, perm: Perm) -> Moved | None:
        n, pads = len(perm), ints(self.pads)
        return Moved((perm,), {"pads": (*permuted(pads[:n], perm), *permuted(pads[n:], perm))}, (perm,))

    def infer(self) -> Sequence[Tensor]:
        x, pads = shape_of(self.input), ints(self.pads)
        if len(pads) != 2 * len(x):
            raise VerifyException(f"pads has {len(pads)} entries, expected {2 * len(x)}")
        rows = zip(x, pads[: len(x)], pads[len(x) :], strict=True)
        what = "pads take more away than there is"
        return [
            tensor(element_of(self.input), [size_left(d + b + e, what) if known(d) else DYNAMIC for d, b, e in rows])
        ]


@operation
class ResizeOp(MovingOp):
    """Resizes a tensor (ONNX Resize without antialiasing; TensorFlow ResizeBilinear, ResizeNearestNeighbor).

    Either `sizes` (of all axes, 0 where an axis keeps its size) or `scales` (`output = floor(input * scale)`). `coordinates`
    says where output elements lie, `nearest` how positions round, `cubic_coeff` and `exclude_outside` how cubic weights are
    made. With `cubic_steps` these are for positions between two elements rounded to one of that many (TensorFlow
    ResizeBicubic: 1024).
    """

    input: Operand = operand_def(ANY_TENSOR)
    sizes: Ints | None = opt_prop_def(INTS)
    scales: RealsAttr | None = opt_prop_def(RealsAttr)
    mode: ResizeModeAttr = prop_def(ResizeModeAttr, default_value=ResizeModeAttr(ResizeMode.NEAREST))
    coordinates: CoordinatesAttr = prop_def(CoordinatesAttr, default_value=CoordinatesAttr(Coordinates.HALF_PIXEL))
    nearest: NearestAttr = prop_def(NearestAttr, default_value=NearestAttr(Nearest.ROUND_PREFER_FLOOR))
    cubic_coeff: Real = prop_def(REAL, default_value=real(-0.75))
    exclude_outside: Flag | None = opt_prop_def(FLAG)
    cubic_steps: Int | None = opt_prop_def(INT)
    result: Result = result_def(ANY_TENSOR)

    @property
    def only_moves(self) -> bool:
        return self.mode.data is ResizeMode.NEAREST

    @property
    def overshoots(self) -> bool:
        return self.mode.data is ResizeMode.CUBIC

    @property
    def acts_by_sample(self) -> bool:
        return ints(self.sizes)[:1] == (0,) if self.scales is None else self.scales.data[:1] == (1,)

    def axis_behind(self, axis: int) -> int | None:
        if self.scales is not None:
            return axis if self.scales.data[axis] == 1 else None
        return axis if ints(self.sizes)[axis] in (0, shape_of(self.input)[axis]) else None

    def commuted(self, perm: Perm) -> Moved | None:
        if self.scales is not None:
            return Moved((perm,), {"scales": [self.scales.data[i] for i in perm]}, (perm,))
        return Moved((perm,), {"sizes": permuted(ints(self.sizes), perm)}, (perm,))

    def infer(self) -> Sequence[Tensor]:
        x = shape_of(self.input)
        if (self.sizes is None) == (self.scales is None):
            raise VerifyException("expected either sizes or scales")
        entries = ints(self.sizes) if self.scales is None else self.scales.data
        if len(entries) != len(x):
            raise VerifyException(f"{len(entries)} entries for {len(x)} axes")
        if any(not (0 < e < inf or (e == 0 and self.scales is None)) for e in entries):
            raise VerifyException("scales must be positive and finite, sizes not negative")
        if self.cubic_steps is not None and self.cubic_steps.value.data < 1:
            raise VerifyException(f"cubic_steps must be at least 1, not {self.cubic_steps.value.data}")
        return [tensor(element_of(self.input), self.output_sizes(x))]

    def output_sizes(self, shape: Shape) -> Shape:
        """The sizes of the result for an input of this shape."""
        if self.scales is None:
            return tuple(s or d for d, s in zip(shape, ints(self.sizes), strict=True))
        return tuple(map(scaled_size, shape, self.scales.data))


@operation
class ShapeOp(NNOp):
    """The sizes of axes `start` to `end` as i64 (ONNX Shape). input of any shape, result `[end - start]`."""

    input: Operand = operand_def(ANY_TENSOR)
    start: Int = prop_def(INT, default_value=integer(0))
    end: Int | None = opt_prop_def(INT)
    result: Result = result_def(ANY_TENSOR)

    def infer(self) -> Sequence[Tensor]:
        return [tensor(i64, [len(self.sizes())])]

    def sizes(self) -> Shape:
        """The requested sizes, DYNAMIC if unknown."""
        x = shape_of(self.input)
        return x[self.start.value.data : None if self.end is None else self.end.value.data]


__all__ = [
    "ConcatOp",
    "ExpandOp",
    "FlattenOp",
    "GatherOp",
    "PadOp",
    "ReshapeOp",
    "ReshapingOp",
    "ResizeOp",
    "ShapeOp",
    "SliceOp",
    "SplitOp",
    "SqueezeOp",
    "TransposeOp",
    "UnsqueezeOp",
]
