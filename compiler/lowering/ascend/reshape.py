"""Reshape. Ascend's shape cannot copy sizes: a 0 of ONNX is replaced by the size, or by the input's size at run time."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from ...dialects.nn.shapes import DYNAMIC, known, shape_of
from ...rewriting import condition
from .indexing import INT64, as_int64, sizes_of
from .rules import Builder, Lowering, Values


class Reshape(Lowering[nn.ReshapeOp]):
    """Reshape"""

    @condition
    def known_sizes(self, op: nn.ReshapeOp) -> str | None:
        """a shape that is computed at run time, and whose zeros copy sizes, has a known number of sizes"""
        if op.shape is None or op.target() is not None or op.allow_zero is not None or known(shape_of(op.shape)[0]):
            return None
        return "its shape is computed at run time, and how many sizes it has is not known"

    def rewrite(self, build: Builder, op: nn.ReshapeOp) -> Values:
        if (target := op.target()) is None:
            assert op.shape is not None
            wanted = op.shape if op.allow_zero is not None else _without_zeros(build, op.input, op.shape)
            return [build.add(ascend.ReshapeOp, op.input, wanted, result_types=op.result_types).y]
        (inferred,) = op.infer()
        shape = inferred.get_shape()
        if shape.count(DYNAMIC) > 1:
            return [build.add(ascend.ReshapeOp, op.input, _run_time_shape(build, op, target, shape)).y]
        listed = build.ints([-1 if d == DYNAMIC else d for d in shape], "shape")
        return [build.add(ascend.ReshapeOp, op.input, listed).y]


def _without_zeros(build: Builder, x: SSAValue, wanted: SSAValue) -> SSAValue:
    """A shape that is computed at run time, with zeros replaced by the sizes of x."""
    (count,), rank = shape_of(wanted), len(shape_of(x))
    sizes = sizes_of(build, x, 0, min(count, rank), "x")
    if count > rank:
        parts = [sizes, build.ints([0] * (count - rank), "none")]
        sizes = build.add(ascend.ConcatV2Op, parts, build.index(0, "axis"), N=2, name=f"{build.hint}_kept").output_data
    wanted = as_int64(build, wanted)
    copied = build.add(ascend.EqualOp, wanted, build.index(0, "zero"), name=f"{build.hint}_copied").y
    return build.add(ascend.SelectOp, copied, sizes, wanted, name=f"{build.hint}_shape").y


def _run_time_shape(build: Builder, op: nn.ReshapeOp, target: Sequence[int], shape: Sequence[int]) -> SSAValue:
    """A shape joined from numbers and unknown sizes copied from the input."""
    sizes = build.add(ascend.ShapeOp, op.input, dtype=INT64, name=f"{build.hint}_sizes").y

    def is_copied(axis: int) -> bool:
        return shape[axis] == DYNAMIC and target[axis] == 0

    def part(axes: Sequence[int]) -> SSAValue:
        if not is_copied(axes[0]):
            return build.ints([-1 if shape[a] == DYNAMIC else shape[a] for a in axes], "shape")
        offsets, count = build.ints(axes[:1], "offsets"), build.ints([len(axes)], "size")
        return build.add(ascend.SliceOp, sizes, offsets, count, name=f"{build.hint}_copied").y

    parts = [part(list(axes)) for _, axes in groupby(range(len(shape)), is_copied)]
    if len(parts) == 1:
        return parts[0]
    return build.add(
        ascend.ConcatV2Op, parts, build.index(0, "axis"), N=len(parts), name=f"{build.hint}_shape"
    ).output_data


PATTERNS = (Reshape,)
