"""Data movement: the same elements, or some of them, in another order or shape."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import TensorType

from ....dialects import nn
from ....dialects.nn.shapes import axes_of, axis_of, element_of, known, static
from ...shapes import exact, expanded, reshape_target, runtime_shape
from ..node import Constant, Converted, Node, Unmapped, converter
from ..rows import by_row


@converter("Split")
def split(node: Node) -> Converted:
    """Part sizes: the attribute `split` before opset 13, an input since; absent, equal parts (`num_outputs` of opset 18)."""
    shape = node.shape(0)
    axis = axis_of(node.int("axis", 0), len(shape))
    sizes = node.known_ints(1) if node.has(1) else node.ints("split") if node.version < 13 else None
    if sizes is None:
        if (count := node.int("num_outputs", len(node.outputs))) != len(node.outputs):
            raise node.error(f"has {len(node.outputs)} outputs, num_outputs is {count}")
        sizes = _equal_parts(node, shape[axis], count)
    return node.emit(nn.SplitOp, node.value(0), axis=axis, sizes=sizes).parts


def _equal_parts(node: Node, size: int, count: int) -> list[int]:
    """Parts of one size; the last one is smaller if the size is not divisible."""
    if not known(size):
        raise Unmapped("it splits an axis of unknown size into equal parts")
    part = -(-size // count)
    if node.version < 18 and part * count != size:
        raise node.error(f"cannot split {size} elements into {count} equal parts")
    return [min(part, size - i * part) for i in range(count)]


@converter("Slice")
def slice_(node: Node) -> Converted:
    """Ranges are attributes before opset 10, inputs since."""
    x = node.value(0)
    if node.version < 10:
        starts, ends = node.required_ints("starts"), node.required_ints("ends")
        return node.emit(nn.SliceOp, x, starts=starts, ends=ends, axes=node.ints("axes")).result
    axes, steps = (node.known_ints(i) if node.has(i) else None for i in (3, 4))
    steps = None if steps is None or all(s == 1 for s in steps) else steps
    return node.emit(nn.SliceOp, x, starts=node.known_ints(1), ends=node.known_ints(2), axes=axes, steps=steps).result


@converter("Reshape")
def reshape(node: Node) -> Converted:
    """The shape is a property if all sizes are known or expressible as 0 or -1 of `nn.reshape`, otherwise an operand."""
    x, allow_zero = node.value(0), bool(node.int("allowzero", 0))
    entries = node.sizes(1)
    if entries is not None and (target := reshape_target(node, entries, allow_zero)) is not None:
        return node.emit(nn.ReshapeOp, x, to=target, allow_zero=allow_zero and 0 in target).result
    least = 0 if allow_zero else 1
    type_ = TensorType(element_of(x), runtime_shape(node, entries, least))
    return node.emit(nn.ReshapeOp, x, node.value(1), allow_zero=allow_zero, result_types=[type_]).result


@converter("Expand")
def expand(node: Node) -> Converted:
    return expanded(node).result


@converter("Transpose")
def transpose(node: Node) -> Converted:
    perm = node.ints("perm")
    return by_row(node, perm=range(len(node.shape(0)))[::-1] if perm is None else perm)


@converter("Squeeze")
def squeeze(node: Node) -> Converted:
    """Without axes, all of size 1."""
    if node.has(1) or "axes" in node.attributes:
        return by_row(node)
    shape = node.shape(0)
    if not static(shape):
        raise Unmapped("which axes it drops depends on sizes at run time")
    return by_row(node, axes=[i for i, d in enumerate(shape) if d == 1])


@converter("Unsqueeze")
def unsqueeze(node: Node) -> Converted:
    if not node.has(1) and "axes" not in node.attributes:
        raise node.error("has no axes")
    return by_row(node)


@converter("Pad")
def pad(node: Node) -> Converted:
    """Pads and value are attributes before opset 11, inputs since; opset 18 names the axes."""
    x, rank = node.value(0), len(node.shape(0))
    mode = node.choice("mode", "constant", [m.value for m in nn.PadMode])
    if node.version < 11:
        return node.emit(nn.PadOp, x, pads=node.required_ints("pads"), mode=mode, value=node.float("value", 0.0)).result
    value = node.number(2) if node.has(2) and node.shape(2) != (0,) else np.zeros(())
    if not exact(value):
        raise Unmapped(f"its value {value} is not exact as float64")
    pads = node.known_ints(1)
    if node.has(3):
        pads = _on_all_axes(node, pads, node.known_ints(3), rank)
    return node.emit(nn.PadOp, x, pads=pads, mode=mode, value=float(value)).result


def _on_all_axes(node: Node, pads: Sequence[int], axes: Sequence[int], rank: int) -> list[int]:
    if len(pads) != 2 * len(axes):
        raise node.error(f"has {len(pads)} pads for {len(axes)} axes")
    result = [0] * (2 * rank)
    for i, axis in enumerate(axes_of(axes, rank)):
        result[axis], result[axis + rank] = pads[i], pads[i + len(axes)]
    return result


@converter("Shape")
def shape(node: Node) -> Converted:
    attribute = node.attributes.get("end")
    end = None if attribute is None else node.int("end", 0)
    return node.emit(nn.ShapeOp, node.value(0), start=node.int("start", 0), end=end).result


@converter("Size")
def size(node: Node) -> Converted:
    """The number of elements, if known."""
    shape = node.shape(0)
    if not static(shape):
        raise Unmapped("the number of elements is not known")
    return Constant(node.outputs[0], np.asarray(prod(shape), np.int64))
