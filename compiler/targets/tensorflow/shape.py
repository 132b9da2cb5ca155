"""Data movement, shapes and reductions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...dialects import nn
from ...dialects.nn.shapes import DYNAMIC, Shape, known, shape_of, size, static
from ...dialects.nn.space import BlockOp
from .layer import Operand, TensorFlowLayer, converter
from .movement import Axis, cut, pad_all, reshaped
from .rows import by_row

_INDICES = frozenset({"int32", "int64"})


@converter(nn.ConcatOp)
def concat(op: nn.ConcatOp, layer: TensorFlowLayer) -> str:
    if len(op.inputs) == 1:
        return layer.node("Identity", op.inputs[0])
    return layer.node("ConcatV2", *op.inputs, layer.int(op.axis.value.data, "axis"))


@converter(nn.SplitOp)
def split(op: nn.SplitOp, layer: TensorFlowLayer) -> Sequence[str]:
    sizes = nn.ints(op.sizes)
    inputs = [op.input, layer.ints(sizes, "sizes"), layer.int(op.axis.value.data, "axis")]
    return layer.emit("SplitV", inputs, {"num_split": len(sizes)}, layer.label, outputs=len(sizes))


@converter(nn.SliceOp)
def slice_(op: nn.SliceOp, layer: TensorFlowLayer) -> str:
    """A bound; None beyond the other end, because with a negative step an end of -1 would mean the last element."""
    return cut(layer, layer.value(op.input), op.slices(len(shape_of(op.input))), layer.label)


@converter(nn.GatherOp)
def gather(op: nn.GatherOp, layer: TensorFlowLayer) -> str:
    """Adds the size of the axis to negative indices, which TensorFlow does not support; for constants at once."""
    axis, shape = op.axis.value.data % len(shape_of(op.input)), shape_of(op.input)
    batches = op.batch_count or None
    return layer.node(
        "GatherV2", op.input, _indices(op, layer, shape, axis), layer.int(axis, "axis"), batch_dims=batches
    )


def _indices(op: nn.GatherOp, layer: TensorFlowLayer, shape: Shape, axis: int) -> str:
    array = nn.array_of(op.indices)
    if array is not None and (array >= 0).all():
        return _as_index(layer, op.indices)
    if array is not None and known(shape[axis]):
        wide = array.astype(np.int64)
        return layer.constant(np.where(wide < 0, wide + shape[axis], wide), "indices")
    x = _as_index(layer, op.indices)
    if layer.graph.elements[x].startswith("u"):
        return x
    if known(shape[axis]):
        length = layer.scalar(shape[axis], x, "size")
    else:
        length = layer.helper("GatherV2", layer.sizes(op.input), layer.int(axis, "which"), layer.int(0, "axis"))
        length = layer.cast(length, layer.graph.elements[x])
    negative = layer.helper("Less", x, layer.scalar(0, x, "zero"))
    return layer.helper("SelectV2", negative, layer.helper("AddV2", x, length), x)


def _as_index(layer: TensorFlowLayer, value: Operand) -> str:
    """Casts to int32 or int64."""
    name = layer.value(value)
    return name if layer.graph.elements[name] in _INDICES else layer.cast(name, "int64")


@converter(nn.ReshapeOp)
def reshape(op: nn.ReshapeOp, layer: TensorFlowLayer) -> str:
    """Zeros that copy a size are resolved; a shape that is computed must not have any."""
    x = shape_of(op.input)
    if (target := op.target()) is None:
        assert op.shape is not None
        return layer.node("Reshape", op.input, _as_index(layer, _without_zeros(op, layer)))
    copies = op.allow_zero is None
    sizes = [Axis(i) if t == 0 and copies else t for i, t in enumerate(target)]
    result = shape_of(op.result)
    if static(result):
        sizes = list(result)
    return reshaped(layer, layer.value(op.input), x, sizes, layer.label)


def _without_zeros(op: nn.ReshapeOp, layer: TensorFlowLayer) -> str:
    """A run-time shape with zeros replaced by the sizes of the input."""
    assert op.shape is not None
    shape = layer.value(op.shape)
    length, rank = shape_of(op.shape)[0], len(shape_of(op.input))
    if op.allow_zero is not None or not known(length):
        return shape
    own = layer.cast(layer.sizes(op.input), layer.graph.elements[shape])
    if length < rank:
        own = cut(layer, own, [slice(None, length)])
    elif length > rank:
        own = pad_all(layer, own, [0], [length - rank], 0)
    zero = layer.helper("Equal", shape, layer.scalar(0, shape, "zero"))
    return layer.helper("SelectV2", zero, own, shape)


@converter(nn.ExpandOp)
def expand(op: nn.ExpandOp, layer: TensorFlowLayer) -> str:
    """Writes Expand by BroadcastTo, which goes in one direction: its shape is that of the result."""
    if static(result := shape_of(op.result)):
        return layer.node("BroadcastTo", op.input, layer.ints(result, "shape"))
    target = op.target()
    shape = layer.ints(target, "shape") if target is not None else _as_index(layer, op.shape or "")
    own = layer.cast(layer.sizes(op.input), layer.graph.elements[shape])
    return layer.node("BroadcastTo", op.input, layer.helper("BroadcastArgs", own, shape))


@converter(nn.FlattenOp)
def flatten(op: nn.FlattenOp, layer: TensorFlowLayer) -> str:
    """Writes Flatten. If both products are unknown, the first is computed; both next to 0 elements, from which no other
    size follows.
    """
    x, shape = layer.value(op.input), shape_of(op.input)
    axis = op.axis.value.data + len(shape) if op.axis.value.data < 0 else op.axis.value.data
    result = [size(shape[:axis]), size(shape[axis:])]
    if static(result) or (0 not in result and result.count(DYNAMIC) < 2):
        return layer.node("Reshape", x, layer.ints([s if known(s) else -1 for s in result], "shape"))
    sizes, axes = layer.sizes(x), layer.ints([0], "axes")

    def product(part: slice) -> str:
        return layer.helper("Prod", cut(layer, sizes, [part]), axes, keep_dims=True)

    rest = product(slice(axis, None)) if 0 in result else layer.ints([-1], "rest")
    vector = layer.helper("ConcatV2", product(slice(None, axis)), rest, layer.int(0, "axis"))
    return layer.node("Reshape", x, vector)


@converter(nn.SqueezeOp)
def squeeze(op: nn.SqueezeOp, layer: TensorFlowLayer) -> str:
    """An empty list of axes drops nothing in `nn`, and all of size 1 in TensorFlow."""
    shape = shape_of(op.input)
    axes = [i for i, d in enumerate(shape) if d == 1] if op.axes is None else list(nn.ints(op.axes))
    return layer.node("Squeeze", op.input, squeeze_dims=axes) if axes else layer.node("Identity", op.input)


@converter(nn.UnsqueezeOp)
def unsqueeze(op: nn.UnsqueezeOp, layer: TensorFlowLayer) -> str:
    rank = len(shape_of(op.result))
    x, axes = layer.value(op.input), sorted(a % rank for a in nn.ints(op.axes))
    if not axes:
        return layer.node("Identity", x)
    for axis in axes[:-1]:
        x = layer.helper("ExpandDims", x, layer.int(axis, "axis"))
    return layer.node("ExpandDims", x, layer.int(axes[-1], "axis"))


@converter(nn.PadOp)
def pad(op: nn.PadOp, layer: TensorFlowLayer) -> str:
    """Writes Pad: constants by PadV2; others by picking elements if sizes are known, reflections of unknown sizes by
    MirrorPad.
    """
    x, pads, shape = layer.value(op.input), nn.ints(op.pads), shape_of(op.input)
    begins, ends = pads[: len(shape)], pads[len(shape) :]
    if op.mode.data is nn.PadMode.CONSTANT:
        y = pad_all(layer, x, begins, ends, op.value.value.data, layer.label)
        return layer.node("Identity", x) if y == x else y
    padded = [i for i in range(len(shape)) if begins[i] or ends[i]]
    if op.mode.data is nn.PadMode.REFLECT and min((0, *pads)) == 0 and _mirrors(shape, begins, ends):
        return layer.node("MirrorPad", x, layer.pairs(list(zip(begins, ends, strict=True)), "paddings"), mode="REFLECT")
    for axis in padded:
        if not known(shape[axis]):
            message = f"pads an axis of unknown size in mode {op.mode.data.value}"
            raise layer.error(message, "--infer-shapes sets the sizes of inputs")
        begin, end = begins[axis], ends[axis]
        kept = np.arange(shape[axis])[max(-begin, 0) : min(end, 0) or None]
        indices = np.pad(kept, (max(begin, 0), max(end, 0)), mode=op.mode.data.value)
        x = layer.helper("GatherV2", x, layer.ints(indices.tolist(), "indices"), layer.int(axis, "axis"))
    return x if padded else layer.node("Identity", x)


def _mirrors(shape: Shape, begins: Sequence[int], ends: Sequence[int]) -> bool:
    """Whether pads are less than sizes, as far as these are known."""
    return all(not known(d) or max(b, e) < max(d, 1) for d, b, e in zip(shape, begins, ends, strict=True))


@converter(nn.ShapeOp)
def shape(op: nn.ShapeOp, layer: TensorFlowLayer) -> str:
    start = op.start.value.data or None
    end = None if op.end is None else op.end.value.data
    if start is None and end is None:
        return layer.node("Shape", op.input, out_type=np.dtype(np.int64))
    whole = layer.helper("Shape", op.input, out_type=np.dtype(np.int64))
    return cut(layer, whole, [slice(start, end)], layer.label)


@converter(*nn.kinds(nn.ReduceOp))
def reduction(op: nn.ReduceOp, layer: TensorFlowLayer) -> str:
    if not (axes := op.axis_list()):
        return layer.node("Identity", op.input)
    return by_row(op, layer, axes=axes)


_ARGUMENTS: Mapping[type[nn.ArgOp], str] = {nn.ArgMaxOp: "ArgMax", nn.ArgMinOp: "ArgMin"}


@converter(*_ARGUMENTS)
def argument(op: nn.ArgOp, layer: TensorFlowLayer) -> str:
    """Writes ArgMax and ArgMin. TensorFlow returns the first of equal elements; for the last one the axis and the index
    are reversed.
    """
    axis, x = op.axis.value.data % len(shape_of(op.input)), layer.value(op.input)
    if op.last is not None:
        turned = [slice(None)] * len(shape_of(op.input))
        turned[axis] = slice(None, None, -1)
        x = cut(layer, x, turned)
    at = layer.int(axis, "axis")
    y = layer.node(_ARGUMENTS[type(op)], x, at, output_type=np.dtype(np.int64))
    if op.last is not None:
        length = layer.helper(
            "GatherV2", layer.helper("Shape", x, out_type=np.dtype(np.int64)), at, layer.int(0, "axis")
        )
        y = layer.helper("Sub", layer.helper("Sub", length, layer.scalar(1, length, "one")), y)
    return y if op.keepdims is None else layer.helper("ExpandDims", y, at)


@converter(nn.DepthToSpaceOp)
def depth_to_space(op: nn.DepthToSpaceOp, layer: TensorFlowLayer) -> str:
    """Writes DepthToSpace. TensorFlow has depth before column and row; for the other order the channels are permuted."""
    block, channels = op.block.value.data, shape_of(op.input)[op.channel_axis(4)]
    columns_first = op.mode.data is nn.DepthMode.CRD
    if block == 1:
        return layer.node("Identity", op.input)
    if columns_first and not known(channels):
        raise layer.error("needs a known number of channels", "--infer-shapes sets the sizes of inputs")
    x = layer.value(op.input)
    if columns_first:
        order = np.arange(channels).reshape(-1, block * block).T.reshape(-1)
        x = layer.helper("GatherV2", x, layer.ints(order.tolist(), "order"), layer.int(3, "axis"))
    return layer.node("DepthToSpace", x, block_size=block)


@converter(nn.SpaceToDepthOp)
def space_to_depth(op: nn.SpaceToDepthOp, layer: TensorFlowLayer) -> str:
    block = op.block.value.data
    if block == 1:
        return layer.node("Identity", op.input)
    return layer.node("SpaceToDepth", op.input, block_size=block)


@converter(nn.SpaceToBatchOp)
def space_to_batch(op: nn.SpaceToBatchOp, layer: TensorFlowLayer) -> str:
    return _blocks("SpaceToBatchND", op, layer, nn.ints(op.pads))


@converter(nn.BatchToSpaceOp)
def batch_to_space(op: nn.BatchToSpaceOp, layer: TensorFlowLayer) -> str:
    return _blocks("BatchToSpaceND", op, layer, nn.ints(op.crops))


def _blocks(op_type: str, op: BlockOp, layer: TensorFlowLayer, edges: Shape) -> str:
    block = nn.ints(op.block)
    pairs = list(zip(edges[: len(block)], edges[len(block) :], strict=True))
    inputs = layer.ints(block, "block"), layer.pairs(pairs, "edges")
    return layer.node(op_type, op.input, *inputs)
