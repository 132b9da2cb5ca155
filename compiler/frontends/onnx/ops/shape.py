"""Data movement: the same elements, or some of them, in another order or shape."""

from __future__ import annotations

from math import prod

import numpy as np
from xdsl.dialects.builtin import TensorType

from ....dialects import nn
from ....dialects.nn.shapes import axes_of, axis_of, element_of, known, static
from ...shapes import exact, expanded, reshape_target, runtime_shape
from ..node import Constant, Converted, Node, Unmapped, converter
from ..rows import by_row, list_of


@converter("Split")
def split(node: Node) -> Converted:
    """Converts Split. Without part sizes, the parts are equal (`num_outputs` of opset 18)."""
    shape = node.shape(0)
    axis = axis_of(node.int("axis", 0), len(shape))
    sizes = list_of(node, "sizes")
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
    """Converts Slice. Steps of 1 are the same as no steps."""
    if node.has(4) and all(step == 1 for step in node.known_ints(4)):
        return by_row(node, steps=None)
    return by_row(node)


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
    """Converts Squeeze. Without axes, all of size 1 are removed."""
    if node.has(1) or "axes" in node.attributes:
        return by_row(node)
    shape = node.shape(0)
    if not static(shape):
        raise Unmapped("which axes it drops depends on sizes at run time")
    return by_row(node, axes=[i for i, d in enumerate(shape) if d == 1])


@converter("Pad")
def pad(node: Node) -> Converted:
    """The value is an attribute before opset 11, an input since; opset 18 names the axes."""
    if node.version < 11:
        return by_row(node)
    value = node.number(2) if node.has(2) and node.shape(2) != (0,) else np.zeros(())
    if not exact(value):
        raise Unmapped(f"its value {value} is not exact as float64")
    return by_row(node, value=float(value), **({"pads": _on_all_axes(node)} if node.has(3) else {}))


def _on_all_axes(node: Node) -> list[int]:
    pads, axes, rank = node.known_ints(1), node.known_ints(3), len(node.shape(0))
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


@converter("GatherND")
def gather_nd(node: Node) -> Converted:
    """A Gather along the first axis, where indices are of one axis, as PyTorch's exporter writes `x[i]`."""
    if node.int("batch_dims", 0) or not node.shape(1) or node.shape(1)[-1] != 1:
        raise Unmapped("it looks up in several axes, or in batches")
    return node.emit(
        nn.GatherOp, node.value(0), node.emit(nn.SqueezeOp, node.value(1), axes=[-1]).result, axis=0
    ).result
