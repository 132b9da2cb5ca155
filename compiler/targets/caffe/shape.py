"""Data movement and reductions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

import numpy as np

from ...dialects import nn
from ...dialects.nn.shapes import Shape, axes_of, axis_of, known, shape_of, static
from .layer import Bottom, CaffeLayer, Written, converter


@converter(nn.ConcatOp)
def concat(op: nn.ConcatOp, layer: CaffeLayer) -> Written:
    axis = axis_of(op.axis.value.data, len(shape_of(op.result)))
    return layer.layer("Concat", *op.inputs, concat_param={"axis": axis})


@converter(nn.SplitOp)
def split(op: nn.SplitOp, layer: CaffeLayer) -> Written:
    """Slice; parts that nothing reads are not outputs."""
    sizes, axis = nn.ints(op.sizes), axis_of(op.axis.value.data, len(shape_of(op.input)))
    if 0 in sizes:
        layer.fail("has parts without elements, Caffe's Slice has none")
    if len(sizes) == 1:
        return layer.layer("Power", op.input)
    points = list(accumulate(sizes))[:-1]
    tops = layer.several("Slice", op.input, len(sizes), slice_param={"axis": axis, "slice_point": points})
    layer.silence([t for t, r in zip(tops, op.results, strict=True) if not layer.net.is_read(r)])
    return tops


@converter(nn.SliceOp)
def slice_(op: nn.SliceOp, layer: CaffeLayer) -> Written:
    """A Slice along each cut axis, then a copy with the operation's name; steps are not supported."""
    shape = shape_of(op.input)
    blob: Bottom = op.input
    for axis, (size, part) in enumerate(zip(shape, op.slices(len(shape)), strict=True)):
        if part == slice(None):
            continue
        if not known(size):
            layer.fail("cuts an axis of unknown size", "--input-shape gives sizes")
        begin, end, step = part.indices(size)
        if step != 1 or end <= begin:
            layer.fail(f"takes {begin}:{end}:{step} of an axis, Caffe's Slice takes neighbours")
        blob = layer.cut(blob, axis, begin, end, size)
    return layer.layer("Power", blob)


@converter(nn.PadOp)
def pad(op: nn.PadOp, layer: CaffeLayer) -> Written:
    """Only negative pads: Caffe pads in windows."""
    pads, shape = nn.ints(op.pads), shape_of(op.input)
    rank = len(shape)
    if max(pads, default=0) > 0:
        layer.fail(
            "adds elements, Caffe pads in windows only", "--canonicalize moves padding into convolutions and pools"
        )
    blob: Bottom = op.input
    for axis, (size, begin, end) in enumerate(zip(shape, pads[:rank], pads[rank:], strict=True)):
        if not known(size) and (begin or end):
            layer.fail("cuts an axis of unknown size", "--input-shape gives sizes")
        blob = layer.cut(blob, axis, -begin, size + end, size) if begin or end else blob
    return layer.layer("Power", blob)


@converter(nn.FlattenOp)
def flatten(op: nn.FlattenOp, layer: CaffeLayer) -> Written:
    if op.axis.value.data in (1, 1 - len(shape_of(op.input))):
        return layer.layer("Flatten", op.input)
    return _reshape(op, layer, lambda axis: False)


@converter(nn.ReshapeOp)
def reshape(op: nn.ReshapeOp, layer: CaffeLayer) -> Written:
    target = op.target() or ()
    return _reshape(op, layer, lambda axis: axis < len(target) and target[axis] == 0)


@converter(nn.SqueezeOp, nn.UnsqueezeOp)
def squeeze(op: nn.SqueezeOp | nn.UnsqueezeOp, layer: CaffeLayer) -> Written:
    rank = max(len(shape_of(op.input)), len(shape_of(op.result)))
    moved = axes_of(nn.ints(op.axes, ()), rank)
    return _reshape(op, layer, lambda axis: all(axis < m for m in moved))


def _reshape(op: nn.ReshapingOp, layer: CaffeLayer, copied: Callable[[int], bool]) -> str:
    """Reshape, with 0 for a size that is the input's at the same place, -1 for an inferred one."""
    before, after = shape_of(op.input), shape_of(op.result)
    if before == after and static(after):
        return layer.layer("Power", op.input)
    dims = [d if known(d) else 0 if copied(axis) else -1 for axis, d in enumerate(after)]
    if before[:1] == after[:1] and static(after[:1]):
        dims[0] = 0  # so that the net can be given another batch
    if dims.count(-1) > 1:
        layer.fail("makes a shape with several unknown sizes", "--input-shape gives sizes")
    return layer.layer("Reshape", op.input, reshape_param={"shape": {"dim": dims}})


_WHOLE: Mapping[type[nn.NNOp], str] = {nn.ReduceMeanOp: "AVE", nn.ReduceMaxOp: "MAX"}
_OPERATIONS: Mapping[type[nn.NNOp], str] = {nn.ReduceMeanOp: "MEAN", nn.ReduceSumOp: "SUM"}


@converter(nn.ReduceMeanOp, nn.ReduceSumOp, nn.ReduceMaxOp)
def reduction(op: nn.ReduceOp, layer: CaffeLayer) -> Written:
    """A global Pooling over all of space; over the last axes Caffe's Reduction, which OpenCV lacks."""
    shape, axes = shape_of(op.input), sorted(op.axis_list())
    rank = len(shape)
    if rank == 4 and axes == [2, 3] and (pool := _WHOLE.get(type(op))) is not None:
        parameters: dict[str, object] = {"pool": pool, "global_pooling": True}
        if op.keepdims is not None:
            return layer.layer("Pooling", op.input, pooling_param=parameters)
        return _reshaped(layer, layer.layer("Pooling", op.input, pooling_param=parameters), shape_of(op.result), True)
    if axes != list(range(rank - len(axes), rank)) or not axes or (operation := _OPERATIONS.get(type(op))) is None:
        layer.fail(f"reduces axes {axes} of {rank}, Caffe's Reduction sums or averages the last ones")
    parameters = {"operation": operation, "axis": axes[0]}
    reduced = layer.layer("Reduction", op.input, reduction_param=parameters)
    return reduced if op.keepdims is None else _reshaped(layer, reduced, shape_of(op.result), axes[0] > 0)


def _reshaped(layer: CaffeLayer, blob: str, shape: Shape, batch: bool) -> str:
    """A blob in another shape; `batch` says that its first axis keeps its size."""
    dims = [0 if i == 0 and batch else d for i, d in enumerate(shape)]
    if not all(map(known, dims)):
        layer.fail("makes a shape with unknown sizes", "--input-shape gives sizes")
    return layer.helper("Reshape", blob, reshape_param={"shape": {"dim": dims}})


@converter(nn.ResizeOp)
def resize(op: nn.ResizeOp, layer: CaffeLayer) -> Written:
    """Repeats elements by a Deconvolution of ones; bilinear with aligned corners is Interp, a layer of forks."""
    before, after = shape_of(op.input), shape_of(op.result)
    if len(before) != 4 or not static(before[1:]) or not static(after[1:]) or before[:2] != after[:2]:
        layer.fail("does not resize the two spatial axes of four, by known sizes")
    if op.mode.data is nn.ResizeMode.LINEAR and op.coordinates.data is nn.Coordinates.ALIGN_CORNERS:
        return layer.layer("Interp", op.input, interp_param={"height": after[2], "width": after[3]})
    factors = [b // a for a, b in zip(before[2:], after[2:], strict=True)]
    if op.mode.data is not nn.ResizeMode.NEAREST or not _repeats(op, before[2:], after[2:], factors):
        layer.fail("resizes otherwise than Caffe's layers", "nearest by whole numbers, or linear with align_corners")
    channels, [high, wide] = before[1], factors
    ones = np.ones((channels, 1, high, wide), np.float32)
    sizes = {"kernel_h": high, "kernel_w": wide, "stride_h": high, "stride_w": wide}
    parameters: dict[str, object] = {"num_output": channels, "group": channels, "bias_term": False, **sizes}
    return layer.layer("Deconvolution", op.input, blobs=[ones], convolution_param=parameters)


_REPEATING = (
    (nn.Coordinates.ASYMMETRIC, nn.Nearest.FLOOR),
    (nn.Coordinates.HALF_PIXEL, nn.Nearest.ROUND_PREFER_FLOOR),
    (nn.Coordinates.HALF_PIXEL, nn.Nearest.ROUND_PREFER_CEIL),
)


def _repeats(op: nn.ResizeOp, before: Sequence[int], after: Sequence[int], factors: Sequence[int]) -> bool:
    """Whether each element is repeated `factors` times along its axis: so it is by whole numbers."""
    whole = all(a * f == b for a, f, b in zip(before, factors, after, strict=True))
    return whole and (op.coordinates.data, op.nearest.data) in _REPEATING
