"""Sizes, and the same elements in another shape."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import TensorType, i64
from xdsl.ir import SSAValue

from ....dialects import nn
from ....dialects.nn.shapes import axis_of, element_of, shape_of, static
from ....ir.dtypes import element_type
from ...shapes import exact, expanded, reshape_target, runtime_shape
from ..node import Binding, Constant, Converted, Node, Unmapped, converter
from .indexing import FIRST

# Sizes


@converter("Shape", "ShapeN")
def shape(node: Node) -> Converted:
    """The shape of each input, in `out_type`."""
    return [_integers(node, node.emit(nn.ShapeOp, node.value(i)).result) for i in range(len(node.inputs))]


@converter("Size")
def size(node: Node) -> Converted:
    sizes = node.emit(nn.ShapeOp, node.value(0)).result
    return _integers(node, node.emit(nn.ReduceProdOp, sizes).result)


@converter("Rank")
def rank(node: Node) -> Converted:
    return Constant(node.layer.name, np.asarray(len(node.shape(0)), np.int32))


def _integers(node: Node, sizes: SSAValue) -> SSAValue:
    """Sizes, which are int64, in the requested type."""
    element = element_type(node.type("out_type")) if "out_type" in node.attributes else element_type(np.dtype(np.int32))
    if element == i64:
        return sizes
    return node.emit(nn.CastOp, sizes, result_types=[TensorType(element, shape_of(sizes))]).result


# Other shapes


@converter("Reshape")
def reshape(node: Node) -> Converted:
    """The shape is a property if all sizes are known or expressible as 0 or -1 of `nn.reshape`, otherwise an operand."""
    x, entries = node.value(0), node.sizes(1)
    if entries is not None:
        if entries.count(-1) > 1:
            raise node.error("leaves two sizes open")
        sizes = node.shape(0)
        empty = any(e == 0 and (i >= len(sizes) or sizes[i] != 0) for i, e in enumerate(entries))
        target = reshape_target(node, entries, empty)
        if target is not None and not (empty and -1 in target):  # what is left of nothing is not known
            return node.emit(nn.ReshapeOp, x, to=target, allow_zero=empty).result
    type_ = TensorType(element_of(x), runtime_shape(node, entries, 0))
    return node.emit(nn.ReshapeOp, x, node.value(1), allow_zero=True, result_types=[type_]).result


@converter("BroadcastTo")
def broadcast_to(node: Node) -> Converted:
    return expanded(node).result


@converter("BroadcastArgs")
def broadcast_args(node: Node) -> Converted:
    """The shape to which two shapes broadcast. Sizes that are known stay known."""
    lengths = [length for i in range(2) for length in node.shape(i)]
    if len(lengths) != 2 or not static(lengths):
        raise Unmapped("the ranks of the shapes that it broadcasts are not known")
    rank = max(lengths)
    pairs = zip(_sizes(node, 0, rank), _sizes(node, 1, rank), strict=True)
    sizes = [_broadcast_size(node, a, b) for a, b in pairs]
    known = [s.array for s in sizes if isinstance(s, Constant)]
    if len(known) == rank:
        return Constant(node.layer.name, np.concatenate([np.ones(0, node.dtype(0)), *known]))
    return node.emit(nn.ConcatOp, [node.sink.value(s) for s in sizes], axis=0).result


def _sizes(node: Node, index: int, rank: int) -> list[Binding]:
    """The elements of a shape, with ones before them up to `rank`: a constant each, or a slice of the shape."""
    count, dtype = node.shape(index)[0], node.dtype(index)
    made: list[Binding] = [Constant(node.layer.name, np.ones(1, dtype))] * (rank - count)
    for i, element in enumerate(node.sizes(index) or [None] * count):
        if isinstance(element, int):
            made.append(Constant(node.layer.name, np.array([element], dtype)))
        else:
            made.append(node.emit(nn.SliceOp, node.value(index), starts=[i], ends=[i + 1], axes=[0]).result)
    return made


def _broadcast_size(node: Node, a: Binding, b: Binding) -> Binding:
    """The size of one axis. An unknown size next to a known one other than 1 is taken to fit."""
    if isinstance(b, Constant) and not isinstance(a, Constant):
        a, b = b, a
    if not isinstance(a, Constant):
        one = node.constant(np.ones(1, node.dtype(0)), ".one")
        is_one = node.emit(nn.CompareOp, a, one, predicate="eq").result
        return node.emit(nn.WhereOp, is_one, node.sink.value(b), a).result
    size = a.array[0]
    if size == 1:
        return b
    if isinstance(b, Constant) and b.array[0] not in (1, size):
        raise node.error(f"does not fit together: sizes {size} and {b.array[0]} of one axis")
    return a


@converter("Squeeze")
def squeeze(node: Node) -> Converted:
    """Drops the given axes, otherwise all of size 1."""
    axes, sizes = node.ints("squeeze_dims"), node.shape(0)
    if axes is None:
        if not static(sizes):
            hint = "--input-shape gives inputs a known shape"
            raise node.error("drops the axes of size 1, but not all sizes are known", hint)
        axes = [i for i, d in enumerate(sizes) if d == 1]
    return node.emit(nn.SqueezeOp, node.value(0), axes=axes).result


@converter("ExpandDims")
def expand_dims(node: Node) -> Converted:
    return node.emit(nn.UnsqueezeOp, node.value(0), axes=[int(node.number(1))]).result


@converter("Transpose")
def transpose(node: Node) -> Converted:
    perm = node.known_ints(1)
    if sorted(perm) != list(range(len(node.shape(0)))):
        raise node.error(f"has {perm}, which is not a permutation of {len(node.shape(0))} axes")
    return node.transposed(0, perm)


# Joining and splitting


@converter("Concat")
def concat(node: Node) -> Converted:
    """The axis is the first input."""
    return _joined(node, range(1, len(node.inputs)), int(node.number(0)))


@converter("ConcatV2")
def concat_v2(node: Node) -> Converted:
    """The axis is the last input."""
    last = max(len(node.inputs) - 1, 0)
    return _joined(node, range(last), int(node.number(last)))


def _joined(node: Node, indices: range, axis: int) -> Converted:
    if len(indices) == 1:
        return node.binding(indices[0])
    return node.emit(nn.ConcatOp, [node.value(i) for i in indices], axis=axis).result


@converter("Pack")
def pack(node: Node) -> Converted:
    """Joins the inputs along a new axis. Known inputs get it at once, so that shapes stay tracked."""
    axis = node.int("axis", 0)
    parts = [_with_axis(node, i, axis) for i in range(len(node.inputs))]
    if len(parts) == 1:
        return parts[0]
    return node.emit(nn.ConcatOp, [node.sink.value(p) for p in parts], axis=axis).result


def _with_axis(node: Node, index: int, axis: int) -> Binding:
    found = node.binding(index)
    if isinstance(found, Constant):
        return Constant(found.key, np.expand_dims(found.array, axis_of(axis, found.array.ndim + 1)))
    return node.emit(nn.UnsqueezeOp, found, axes=[axis]).result


@converter("Unpack")
def unpack(node: Node) -> Converted:
    """The slices along an axis, without that axis."""
    axis, count = node.int("axis", 0), node.int("num", 0)
    parts = node.emit(nn.SplitOp, node.value(0), axis=axis, sizes=[1] * _moderate(node, count)).parts
    return [node.emit(nn.SqueezeOp, part, axes=[axis]).result for part in parts]


@converter("Split")
def split(node: Node) -> Converted:
    """Splits into equal parts; the axis is the first input."""
    axis, count = int(node.number(0)), _moderate(node, node.int("num_split", 0))
    size = _size_along(node, 1, axis)
    if count < 1 or size % count:
        raise node.error(f"cannot split {size} elements into {count} equal parts")
    return node.emit(nn.SplitOp, node.value(1), axis=axis, sizes=[size // count] * count).parts


@converter("SplitV")
def split_v(node: Node) -> Converted:
    """Splits into parts of the sizes in input 1; one may be -1: the remainder."""
    axis, sizes = int(node.number(2)), node.known_ints(1)
    if -1 in sizes:
        left = _size_along(node, 0, axis) - sum(s for s in sizes if s != -1)
        sizes = [left if s == -1 else s for s in sizes]
    return node.emit(nn.SplitOp, node.value(0), axis=axis, sizes=sizes).parts


_MOST_PARTS = 1 << 12


def _moderate(node: Node, count: int) -> int:
    if count > _MOST_PARTS:
        raise node.error(f"has {count} parts, more than {_MOST_PARTS}")
    return count


def _size_along(node: Node, index: int, axis: int) -> int:
    """The size of an axis of an input. Raises Unmapped if it is unknown, CompileError for an axis out of range."""
    sizes = node.shape(index)
    if not -len(sizes) <= axis < len(sizes):
        raise node.error(f"axis {axis} is out of range for rank {len(sizes)}")
    if not static([sizes[axis]]):
        raise Unmapped("it splits an axis of unknown size")
    return sizes[axis]


# More elements

_MOST_COPIES = 1 << 8


@converter("Tile")
def tile(node: Node) -> Converted:
    """Repeats axes: axes of size 1 broadcast, others are concatenated with themselves."""
    sizes, entries = node.shape(0), node.sizes(1)
    if entries is None or len(entries) != len(sizes):
        raise Unmapped("how often it repeats is computed at run time")
    if all(d == 1 or e == 1 for d, e in zip(sizes, entries, strict=True)):
        return node.binding(0) if all(e == 1 for e in entries) else expanded(node).result
    x = node.value(0)
    for axis, (d, count) in enumerate(zip(sizes, node.known_ints(1), strict=True)):
        if count < 0:
            raise node.error(f"repeats {count} times")
        if count > _MOST_COPIES and d != 1:
            raise Unmapped(f"it repeats {count} times")
        if d == 1 and count != 1:
            x = node.emit(nn.ExpandOp, x, to=[count if i == axis else 1 for i in range(len(sizes))]).result
        elif count == 0:
            x = node.emit(nn.SliceOp, x, starts=[0], ends=[0], axes=[axis]).result
        elif count > 1:
            x = node.emit(nn.ConcatOp, [x] * count, axis=axis).result
    return x


@converter("Pad", "PadV2")
def pad(node: Node) -> Converted:
    """Pads with 0, or with the number in input 2."""
    value = node.number(2) if node.has(2) else np.zeros(())
    if not exact(value):
        raise Unmapped(f"its value {value} is not exact as float64")
    return padded(node, float(value))


def padded(node: Node, value: float) -> Converted:
    """The first input with the paddings of input 1, filled with a number."""
    return node.emit(nn.PadOp, node.value(0), pads=pads_of(node), value=value).result


@converter("MirrorPad")
def mirror_pad(node: Node) -> Converted:
    """REFLECT excludes the outermost elements; SYMMETRIC repeats them, which `nn.pad` cannot: reversed slices are joined."""
    pads, x = pads_of(node), node.value(0)
    if node.choice("mode", "REFLECT", ("REFLECT", "SYMMETRIC")) == "REFLECT":
        return node.emit(nn.PadOp, x, pads=pads, mode="reflect").result
    count = len(pads) // 2
    for axis, (begin, end) in enumerate(zip(pads[:count], pads[count:], strict=True)):
        parts = [x]
        if begin:
            parts.insert(0, _reversed(node, x, axis, begin - 1, FIRST))
        if end:
            parts.append(_reversed(node, x, axis, -1, -end - 1))
        if len(parts) > 1:
            x = node.emit(nn.ConcatOp, parts, axis=axis).result
    return x


def _reversed(node: Node, x: SSAValue, axis: int, start: int, end: int) -> SSAValue:
    return node.emit(nn.SliceOp, x, starts=[start], ends=[end], axes=[axis], steps=[-1]).result


def pads_of(node: Node) -> list[int]:
    """All begins, then all ends, of the pairs in input 1."""
    pairs, rank = node.known(1), len(node.shape(0))
    if pairs.shape != (rank, 2) or pairs.dtype.kind not in "iu":
        raise node.error(f"has paddings {pairs.dtype}{list(pairs.shape)} for rank {rank}")
    if pairs.min(initial=0) < 0:
        raise node.error(f"has the paddings {pairs.tolist()}, which must not be negative")
    return pairs.T.reshape(-1).tolist()
