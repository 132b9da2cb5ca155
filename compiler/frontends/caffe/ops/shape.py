"""Data movement: Concat, Slice, Split, Flatten, Reshape, Permute, Crop, Dropout."""

from __future__ import annotations

from itertools import pairwise

from xdsl.ir import SSAValue

from ....dialects import nn
from ....dialects.nn.shapes import known
from ..node import MANY, Converted, Node, Unmapped, converter


@converter("Concat", bottoms=(1, MANY))
def concat(node: Node) -> Converted:
    """`concat_dim` is the older name of `axis`."""
    p = node.proto.concat_param
    axis = node.axis(p.concat_dim if p.HasField("concat_dim") else p.axis)
    if len(node.inputs) == 1:
        return node.binding(0)
    return node.emit(nn.ConcatOp, [node.value(i) for i in range(len(node.inputs))], axis=axis).result


@converter("Slice", tops=(1, MANY))
def slice_(node: Node) -> Converted:
    """Cuts before each `slice_point`, otherwise into equal parts. `slice_dim` is the older name of `axis`."""
    p = node.proto.slice_param
    axis = node.axis(p.slice_dim if p.HasField("slice_dim") else p.axis)
    points, size = list(p.slice_point), node.size(axis)
    if points and len(points) != node.tops - 1:
        raise node.error(f"has {len(points)} slice points for {node.tops} tops")
    if not points and size % node.tops:
        raise node.error(f"cannot cut size {size} into {node.tops} equal parts")
    bounds = [0, *(points or range(size // node.tops, size, size // node.tops)), size]
    sizes = [end - begin for begin, end in pairwise(bounds)]
    if min(sizes) < 1:
        raise node.error(f"has slice points {points}, which do not cut size {size} into parts")
    if node.tops == 1:
        return node.binding(0)
    return node.emit(nn.SplitOp, node.value(0), axis=axis, sizes=sizes).results


@converter("Split", tops=(1, MANY))
def split(node: Node) -> Converted:
    return [node.binding(0)] * node.tops


@converter("Dropout")
def dropout(node: Node) -> Converted:
    if node.trains:
        raise Unmapped("its phase is TRAIN: it drops elements at random")
    return node.binding(0)


@converter("Flatten")
def flatten(node: Node) -> Converted:
    p = node.proto.flatten_param
    return flattened(node, node.axis(p.axis), node.axis(p.end_axis))


def flattened(node: Node, first: int, last: int) -> SSAValue:
    """Input 0 with the axes from `first` to `last` merged into one."""
    x, rank = node.value(0), len(node.shape(0))
    if first == last:
        return x
    if first > last:
        raise node.error(f"flattens from axis {first} to axis {last}")
    if first == 1 and last == rank - 1:
        return node.emit(nn.FlattenOp, x, axis=1).result
    return node.emit(nn.ReshapeOp, x, to=_kept(node, [*[0] * first, -1], last + 1)).result


def _kept(node: Node, target: list[int], source: int) -> list[int]:
    """A target of nn.reshape, followed by the sizes of input 0 from axis `source` on."""
    shape = node.shape(0)
    for axis in range(source, len(shape)):
        if len(target) == axis:
            target.append(0)
        elif known(shape[axis]):
            target.append(shape[axis])
        elif -1 not in target:
            target.append(-1)
        else:
            raise Unmapped("more than one size of its result is not known before run time")
    return target


@converter("Reshape")
def reshape(node: Node) -> Converted:
    """Replaces `num_axes` axes from `axis` on (-1: all of them): 0 copies a size, -1 is inferred."""
    p = node.proto.reshape_param
    rank, dims = len(node.shape(0)), list(p.shape.dim)
    first = p.axis if p.axis >= 0 else rank + p.axis + 1
    last = rank if p.num_axes == -1 else first + p.num_axes
    if not 0 <= first <= last <= rank:
        raise node.error(f"replaces {p.num_axes} axes from axis {p.axis} on of a blob of rank {rank}")
    return node.emit(nn.ReshapeOp, node.value(0), to=_kept(node, [*[0] * first, *dims], last)).result


@converter("Permute")
def permute(node: Node) -> Converted:
    """Transposes; axes that `order` does not list follow in their order."""
    order = list(node.proto.permute_param.order)
    rest = [axis for axis in range(len(node.shape(0))) if axis not in order]
    return node.emit(nn.TransposeOp, node.value(0), perm=[*order, *rest]).result


@converter("Crop", bottoms=(2, 2))
def crop(node: Node) -> Converted:
    """Cuts the first bottom to the sizes of the second from `axis` on, at `offset`: one for all axes, or one for each."""
    p = node.proto.crop_param
    first, rank = node.axis(p.axis), len(node.shape(0))
    axes = list(range(first, rank))
    if len(node.shape(1)) != rank:
        raise node.error(f"reads blobs of rank {rank} and {len(node.shape(1))}")
    offsets = list(p.offset) or [0]
    if len(offsets) not in (1, len(axes)):
        raise node.error(f"has {len(offsets)} offsets for {len(axes)} axes")
    starts = offsets * (len(axes) // len(offsets))
    ends = [start + node.size(axis, 1) for start, axis in zip(starts, axes, strict=True)]
    for axis, end in zip(axes, ends, strict=True):
        if end > node.size(axis):
            raise node.error(f"cuts axis {axis} up to {end}, its size is {node.size(axis)}")
    return node.emit(nn.SliceOp, node.value(0), starts=starts, ends=ends, axes=axes).result
