"""Data movement and reductions: properties become constant index operands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from ...dialects.nn import PadMode, ints
from ...dialects.nn.shapes import element_of, shape_of
from ...ir.dtypes import numpy_dtype
from ..refusal import require
from .rules import Builder, lowers


@lowers(nn.FlattenOp)
def flatten(build: Builder, op: nn.FlattenOp) -> Sequence[SSAValue]:
    return [build.add(ascend.FlattenOp, op.input, axis=op.axis).y]


@lowers(nn.TransposeOp)
def transpose(build: Builder, op: nn.TransposeOp) -> Sequence[SSAValue]:
    return [build.add(ascend.TransposeOp, op.input, build.ints(ints(op.perm), "perm")).y]


@lowers(nn.SqueezeOp)
def squeeze(build: Builder, op: nn.SqueezeOp) -> Sequence[SSAValue]:
    return [build.add(ascend.SqueezeOp, op.input, axis=ints(op.axes)).y]


@lowers(nn.UnsqueezeOp)
def unsqueeze(build: Builder, op: nn.UnsqueezeOp) -> Sequence[SSAValue]:
    return [build.add(ascend.UnsqueezeOp, op.input, axes=op.axes).y]


@lowers(nn.ConcatOp)
def concat(build: Builder, op: nn.ConcatOp) -> Sequence[SSAValue]:
    axis = build.index(op.axis.value.data, "axis")
    return [build.add(ascend.ConcatV2Op, list(op.inputs), axis, N=len(op.inputs)).y]


@lowers(nn.SplitOp)
def split(build: Builder, op: nn.SplitOp) -> Sequence[SSAValue]:
    sizes = build.ints(ints(op.sizes), "sizes")
    axis = build.index(op.axis.value.data, "axis")
    return build.add(ascend.SplitVOp, op.input, sizes, axis, num_split=len(op.sizes)).results


@lowers(nn.SliceOp)
def slice_(build: Builder, op: nn.SliceOp) -> Sequence[SSAValue]:
    starts = ints(op.starts)
    lists = {
        "begin": starts,
        "end": ints(op.ends),
        "axes": ints(op.axes, range(len(starts))),
        "strides": ints(op.steps, (1,) * len(starts)),
    }
    return [build.add(ascend.StridedSliceV2Op, op.input, *(build.ints(v, k) for k, v in lists.items())).y]


@lowers(nn.GatherOp)
def gather(build: Builder, op: nn.GatherOp) -> Sequence[SSAValue]:
    """Gather; negative indices, which ONNX allows, must be enabled unless indices are known not to be negative."""
    axis = build.index(op.axis.value.data, "axis")
    indices = nn.constant_ints(op.indices)
    negative = indices is None or min(indices, default=0) < 0
    properties: dict[str, Any] = {"batch_dims": op.batch_dims, "negative_index_support": negative}
    return [build.add(ascend.GatherV2Op, op.input, op.indices, axis, **properties).y]


@lowers(nn.PadOp)
def pad(build: Builder, op: nn.PadOp) -> Sequence[SSAValue]:
    mode = op.mode.data
    require(mode is not PadMode.WRAP, "pad-mode", "PadV3 does not wrap around")
    pads = build.ints(ints(op.pads), "pads")
    value = None
    if mode is PadMode.CONSTANT:
        value = build.constant(np.array(op.value.value.data, numpy_dtype(element_of(op.input))), f"{build.hint}_value")
    return [build.add(ascend.PadV3Op, op.input, pads, value, mode=mode.value, paddings_contiguous=False).y]


_REDUCTIONS: dict[type[nn.ReduceOp], type[ascend.ReduceOp]] = {
    nn.ReduceMeanOp: ascend.ReduceMeanOp,
    nn.ReduceSumOp: ascend.ReduceSumOp,
    nn.ReduceMaxOp: ascend.ReduceMaxOp,
    nn.ReduceMinOp: ascend.ReduceMinOp,
    nn.ReduceProdOp: ascend.ReduceProdOp,
}


@lowers(*_REDUCTIONS)
def reduce(build: Builder, op: nn.ReduceOp) -> Sequence[SSAValue]:
    require(len(shape_of(op.input)) > 0, "some-axis", "there is no axis to reduce")
    axes = build.ints(op.axis_list(), "axes")
    return build.add(_REDUCTIONS[type(op)], op.input, axes, keep_dims=op.keepdims is not None).results
