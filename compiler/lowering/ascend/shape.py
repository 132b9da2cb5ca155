"""Data movement and reductions: properties become constant index operands."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from ...dialects import ascend, nn
from ...dialects.nn import PadMode, ints
from ...dialects.nn.shapes import element_of, shape_of
from ...ir.dtypes import numpy_dtype
from ...rewriting import Condition, Roots, requires
from .rules import Builder, Lowering, Values, lowers, lowers_each


@lowers(nn.TransposeOp)
def transpose(build: Builder, op: nn.TransposeOp) -> Values:
    return [build.add(ascend.TransposeOp, op.input, build.ints(ints(op.perm), "perm")).y]


lowers_each(
    {
        nn.FlattenOp: (ascend.FlattenOp, lambda op: {"axis": op.axis}),
        nn.SqueezeOp: (ascend.SqueezeOp, lambda op: {"axis": ints(op.axes)}),
        nn.UnsqueezeOp: (ascend.UnsqueezeOp, lambda op: {"axes": op.axes}),
    }
)


@lowers(nn.ConcatOp)
def concat(build: Builder, op: nn.ConcatOp) -> Values:
    axis = build.index(op.axis.value.data, "axis")
    return [build.add(ascend.ConcatV2Op, list(op.inputs), axis, N=len(op.inputs)).output_data]


@lowers(nn.SplitOp)
def split(build: Builder, op: nn.SplitOp) -> Values:
    sizes = build.ints(ints(op.sizes), "sizes")
    axis = build.index(op.axis.value.data, "axis")
    return build.add(ascend.SplitVOp, op.input, sizes, axis, num_split=len(op.sizes)).results


@lowers(nn.SliceOp)
def slice_(build: Builder, op: nn.SliceOp) -> Values:
    starts = ints(op.starts)
    lists = {
        "begin": starts,
        "end": ints(op.ends),
        "axes": ints(op.axes, range(len(starts))),
        "strides": ints(op.steps, (1,) * len(starts)),
    }
    return [build.add(ascend.StridedSliceV2Op, op.input, *(build.ints(v, k) for k, v in lists.items())).y]


@lowers(nn.GatherOp)
def gather(build: Builder, op: nn.GatherOp) -> Values:
    """Gather; negative indices, which ONNX allows, must be enabled unless indices are known not to be negative."""
    axis = build.index(op.axis.value.data, "axis")
    indices = nn.constant_ints(op.indices)
    negative = indices is None or min(indices, default=0) < 0
    properties: dict[str, Any] = {"batch_dims": op.batch_dims, "negative_index_support": negative}
    return [build.add(ascend.GatherV2Op, op.input, op.indices, axis, **properties).y]


class Pad(Lowering[nn.PadOp]):
    """PadV3"""

    pad_mode: Condition[Any] = requires(
        lambda op: op.mode.data is not PadMode.WRAP, "the mode is not wrap", "PadV3 does not wrap around"
    )

    def rewrite(self, build: Builder, op: nn.PadOp) -> Values:
        mode, pads, value = op.mode.data, build.ints(ints(op.pads), "pads"), None
        if mode is PadMode.CONSTANT:
            number = np.array(op.value.value.data, numpy_dtype(element_of(op.input)))
            value = build.constant(number, f"{build.hint}_value")
        return [build.add(ascend.PadV3Op, op.input, pads, value, mode=mode.value, paddings_contiguous=False).y]


_REDUCTIONS: dict[type[nn.ReduceOp], type[ascend.ReduceOp]] = {
    nn.ReduceMeanOp: ascend.ReduceMeanOp,
    nn.ReduceSumOp: ascend.ReduceSumOp,
    nn.ReduceMaxOp: ascend.ReduceMaxOp,
    nn.ReduceMinOp: ascend.ReduceMinOp,
    nn.ReduceProdOp: ascend.ReduceProdOp,
}


class Reduction(Lowering[nn.ReduceOp]):
    """ReduceMean, ReduceSum, ReduceMax, ReduceMin or ReduceProd"""

    roots: ClassVar[Roots] = tuple(_REDUCTIONS)

    some_axis: Condition[Any] = requires(
        lambda op: len(shape_of(op.input)) > 0, "the operand has axes", "the operand has no axis to reduce"
    )

    def rewrite(self, build: Builder, op: nn.ReduceOp) -> Values:
        axes = build.ints(op.axis_list(), "axes")
        return build.add(_REDUCTIONS[type(op)], op.input, axes, keep_dims=op.keepdims is not None).results


PATTERNS = (Pad, Reduction)
