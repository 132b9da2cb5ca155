"""Data movement and shapes."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from ....dialects import nn
from ....dialects.nn.shapes import DYNAMIC, axis_of, known, static
from ..node import Constant, Converted, Node, Unmapped, converter


@converter("Constant")
def constant(node: Node) -> Converted:
    """Exactly one of the attributes holds the value."""
    given = sorted(node.attributes)
    if len(given) != 1:
        raise node.error(f"has {len(given)} values, expected one")
    name, key = given[0], node.outputs[0]
    match name:
        case "value":
            return Constant(key, _not_none(node.tensor(name)))
        case "value_int":
            return Constant(key, np.asarray(node.int(name, 0), np.int64))
        case "value_ints":
            return Constant(key, np.asarray(node.ints(name), np.int64))
        case "value_float":
            return Constant(key, np.asarray(node.float(name, 0.0), np.float32))
        case "value_floats":
            return Constant(key, np.asarray(node.floats(name), np.float32))
        case _:
            raise node.error(f"of kind '{name}' is not supported")


def _not_none(array):
    return array


@converter("Concat")
def concat(node: Node) -> Converted:
    operands = [node.value(i) for i in range(len(node.inputs))]
    return node.emit(nn.ConcatOp, operands, axis=node.int("axis", 1)).result


@converter("Flatten")
def flatten(node: Node) -> Converted:
    return node.emit(nn.FlattenOp, node.value(0), axis=node.int("axis", 1)).result


@converter("Reshape")
def reshape(node: Node) -> Converted:
    target = node.known_ints(1)
    return node.emit(nn.ReshapeOp, node.value(0), to=target, allow_zero=bool(node.int("allowzero", 0))).result


@converter("Transpose")
def transpose(node: Node) -> Converted:
    perm = node.ints("perm")
    rank = len(node.shape(0))
    return node.emit(nn.TransposeOp, node.value(0), perm=range(rank)[::-1] if perm is None else perm).result
