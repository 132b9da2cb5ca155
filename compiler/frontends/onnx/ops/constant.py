"""Operators whose values are known at import, and operators that do nothing."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
from xdsl.dialects.builtin import TensorType

from ....dialects import nn
from ....dialects.nn.shapes import check_sizes, element_of
from ....formats.onnx.tensors import Array
from ...shapes import runtime_shape
from ..node import Constant, Converted, Node, Unmapped, converter

_FILLED_ELEMENTS = 1 << 31
"""The largest tensor of equal elements, which takes no memory."""

_VALUES: dict[str, Callable[[Node, str], Array | None]] = {
    "value": lambda node, name: node.tensor(name),
    "value_int": lambda node, name: np.asarray(node.int(name, 0), np.int64),
    "value_ints": lambda node, name: np.asarray(node.ints(name), np.int64),
    "value_float": lambda node, name: np.asarray(node.float(name, 0.0), np.float32),
    "value_floats": lambda node, name: np.asarray(node.floats(name), np.float32),
}
"""The attributes that may contain the value of a Constant."""


@converter("Constant")
def constant(node: Node) -> Converted:
    """The value; exactly one attribute contains it."""
    if len(node.attributes) != 1:
        raise node.error(f"has {len(node.attributes)} values, expected one")
    name = next(iter(node.attributes))
    if name not in _VALUES or (array := _VALUES[name](node, name)) is None:
        raise node.error(f"has a value of the kind '{name}', which is not supported")
    return Constant(node.outputs[0], array)


@converter("ConstantOfShape")
def constant_of_shape(node: Node) -> Converted:
    """A tensor of equal elements as a view of one element, so that it needs no memory; if its size is known only at run
    time, that element, expanded.
    """
    value = node.tensor("value")
    value = np.zeros(1, np.float32) if value is None else value
    if value.size != 1:
        raise node.error(f"attribute 'value' must hold one number, not {value.size}")
    if node.array(0) is None:
        element = node.constant(value.reshape(()), ".value")
        sizes = runtime_shape(node, node.sizes(0), 0, 0)
        made = [TensorType(element_of(element), sizes)]
        return node.emit(nn.ExpandOp, element, node.value(0), result_types=made).result
    shape = node.known_ints(0)
    check_sizes(shape)
    if min((0, *shape)) < 0:
        raise node.error(f"asks for the shape {shape}")
    if prod(shape) > _FILLED_ELEMENTS:
        raise node.error(f"makes a tensor of {prod(shape)} elements", hint="is the file damaged?")
    return Constant(node.outputs[0], np.broadcast_to(value.reshape(()), shape))


@converter("Identity")
def identity(node: Node) -> Converted:
    return node.binding(0)


@converter("Dropout")
def dropout(node: Node) -> Converted:
    """Removes Dropout, which does nothing at inference. `training_mode` (opset 12) and a use of the mask are training."""
    if node.uses_output(1):
        raise Unmapped("its mask is used")
    if node.has(2) and bool(node.known(2).any()):
        raise Unmapped("it is in training mode")
    return node.binding(0)
