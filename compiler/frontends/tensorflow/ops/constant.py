"""Operators that depend on constants and sizes only: filled tensors, and operators that `nn` does not have, which are
computed here.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil

import numpy as np

from ....dialects import nn
from ....dialects.nn.shapes import static
from ....transforms.evaluation import MAX_ELEMENTS
from ...shapes import expanded
from ..node import Array, Constant, Converted, Node, Unmapped, converter


@converter("Fill")
def fill(node: Node) -> Converted:
    """A tensor with the shape in input 0, filled with input 1."""
    return expanded(node, 1, 0).result


@converter("OnesLike", "ZerosLike")
def filled_like(node: Node) -> Converted:
    shape, value = node.shape(0), node.scalar(node.op_type == "OnesLike")
    if static(shape):
        return node.emit(nn.ExpandOp, value, to=shape).result
    sizes = node.emit(nn.ShapeOp, node.value(0)).result
    return node.emit(nn.ExpandOp, value, sizes, result_types=[node.value(0).type]).result


@converter("Range")
def range_(node: Node) -> Converted:
    """Numbers from input 0 to input 1, exclusive, in steps of input 2."""
    start, limit, delta = (node.number(i) for i in range(3))
    if not (delta and np.isfinite([start, limit, delta]).all()):
        raise node.error(f"goes from {start} to {limit} by {delta}")
    # exact for integers, which float division is not
    number = int if start.dtype.kind in "iu" else float
    count = ceil(Fraction(number(limit) - number(start)) / Fraction(number(delta)))
    return Constant(node.layer.name, (start + delta * np.arange(_moderate(node, count))).astype(start.dtype))


@converter("LinSpace")
def lin_space(node: Node) -> Converted:
    start, stop, count = (node.number(i) for i in range(3))
    if count < 1:
        raise node.error(f"makes {count} elements, but it must be at least 1")
    return Constant(node.layer.name, np.linspace(start, stop, _moderate(node, int(count)), dtype=start.dtype))


def _moderate(node: Node, count: int) -> int:
    """A number of elements. Raises CompileError if it exceeds the limit for import."""
    if count > MAX_ELEMENTS:
        raise node.error(f"makes {count} elements, more than {MAX_ELEMENTS}")
    return max(count, 0)


def _inverse(permutation: Array) -> Array:
    return np.argsort(permutation).astype(permutation.dtype)


_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "Acos": np.arccos,
    "Asin": np.arcsin,
    "Atan": np.arctan,
    "Cosh": np.cosh,
    "InvertPermutation": _inverse,
    "Sinh": np.sinh,
    "Tan": np.tan,
}
"""Operators that numpy computes like TensorFlow, with results no larger than the inputs."""


@converter(*_FUNCTIONS)
def computed(node: Node) -> Converted:
    """Computes the node by numpy. Raises Unmapped if an input is computed at run time."""
    return _result(node, _FUNCTIONS[node.op_type], *(node.known(i) for i in range(len(node.inputs))))


@converter("Cumsum", "Cumprod")
def accumulated(node: Node) -> Converted:
    x, axis = node.known(0), int(node.number(1))
    if node.flag("exclusive") or node.flag("reverse"):
        raise Unmapped("it is exclusive or in reverse")
    accumulate = np.cumsum if node.op_type == "Cumsum" else np.cumprod
    return _result(node, lambda: accumulate(x, axis=axis, dtype=x.dtype))


def _result(node: Node, function: Callable[..., Array], *arrays: Array) -> Constant:
    """The result of a function. Raises CompileError if it does not accept these arrays."""
    try:
        with np.errstate(all="ignore"):
            return Constant(node.layer.name, np.asarray(function(*arrays)))
    except (TypeError, ValueError) as e:
        raise node.error(f"does not fit together: {e}") from None
