"""Converts shapes and windows of a source graph of any framework to properties of `nn` operations, if possible."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, cast

from xdsl.dialects.builtin import DenseArrayBase, TensorType, i64

from ..dialects import nn
from ..dialects.nn import WindowOp, ints
from ..dialects.nn.shapes import DYNAMIC, element_of, known, shape_of
from .building import Array, Size, Unmapped
from .node import SourceNode

_Window = TypeVar("_Window", bound=WindowOp)

_DEFAULTS = {"strides": 1, "dilations": 1, "pads": 0, "output_padding": 0}


def reshape_target(node: SourceNode, entries: Sequence[Size], allow_zero: bool) -> list[int] | None:
    """The value of `to` for sizes of which some are known only at run time: 0 copies the input's size there, -1 for one more."""
    copied = 0 if allow_zero else len(node.shape(0))
    target = [0 if i < copied and node.has_size(0, i, e) else e for i, e in enumerate(entries)]
    target = [e if isinstance(e, int) else -1 for e in target]
    return target if target.count(-1) <= 1 else None


def runtime_shape(node: SourceNode, entries: Sequence[Size] | None, least: int, index: int = 1) -> list[int]:
    """The known part of the shape in an input: its rank, and the sizes that are numbers of at least `least`."""
    if entries is not None:
        return [e if isinstance(e, int) and e >= least else DYNAMIC for e in entries]
    shape = node.shape(index)
    if len(shape) != 1 or not known(shape[0]):
        raise node.error("has a result of unknown rank", hint="the length of the shape it is given must be known")
    return [DYNAMIC] * shape[0]


def expanded(node: SourceNode, data: int = 0, shape: int = 1) -> nn.ExpandOp:
    """Broadcasts input `data` to the shape in input `shape`. A size that the data has at run time is kept."""
    x, entries = node.value(data), node.sizes(shape)
    rank = len(node.shape(data))
    if entries is not None:
        offset = len(entries) - rank
        target = [1 if i >= offset and node.has_size(data, i - offset, e) else e for i, e in enumerate(entries)]
        if all(isinstance(e, int) for e in target):
            return node.emit(nn.ExpandOp, x, to=target)
    sizes = runtime_shape(node, entries, 2, shape)
    sizes = [DYNAMIC] * (rank - len(sizes)) + sizes
    return node.emit(nn.ExpandOp, x, node.value(shape), result_types=[TensorType(element_of(x), sizes)])


def kept_sizes(node: SourceNode, entries: Sequence[Size]) -> list[int]:
    """`sizes` of nn.resize: 0 for an unknown size that input 0 keeps. Raises Unmapped for other unknown sizes."""
    sizes = [0 if node.has_size(0, i, e) else e for i, e in enumerate(entries)]
    if any(not isinstance(e, int) for e in sizes):
        raise Unmapped("its sizes are computed at run time")
    if any(e == 0 and d not in (0, DYNAMIC) for e, d in zip(entries, node.shape(0), strict=True)):
        raise node.error("makes an axis of size 0")
    return cast("list[int]", sizes)


def exact(array: Array) -> bool:
    """Whether float64, the type of properties, represents a number exactly; it does not for large integers."""
    return array.dtype.kind not in "iu" or int(float(array)) == int(array)


def normalized(op: _Window) -> _Window:
    """The operation without lists that equal the default, so that one meaning has one text."""
    for name, default in _DEFAULTS.items():
        values = op.properties.get(name)
        if isinstance(values, DenseArrayBase) and all(v == default for v in ints(cast("DenseArrayBase[Any]", values))):
            del op.properties[name]
    return op


def with_pads(op: _Window) -> _Window:
    """Replaces `auto_pad` by explicit pads if the sizes are known."""
    pads = None if op.auto_pad is None else op.resolved_pads(op.spatial(shape_of(op.operands[0])))
    if pads is not None:
        del op.properties["auto_pad"]
        op.properties["pads"] = DenseArrayBase.from_list(i64, pads)
    return normalized(op)
