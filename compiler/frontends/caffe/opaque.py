"""Layers without an equivalent in `nn`: carried with their text and blobs, if the shapes of their results are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import TensorType, f32

from ...dialects import nn
from ...dialects.nn.shapes import DYNAMIC, Shape
from ...formats.caffe.opaque import carried
from ...formats.prototxt import Entry
from ..building import Constant
from .node import Node

SAME_SHAPE = frozenset(
    {
        "BNLL",
        "BatchNorm",
        "Dropout",
        "LRN",
        "MVN",
        "Normalize",
    }
)
"""Types whose single result has the shape of their first bottom, for any parameters."""

_STRUCTURE = frozenset(
    {"name", "type", "bottom", "top", "include", "exclude", "blobs", "phase", "loss_weight", "propagate_down"}
)
_TRAINING = frozenset({"param", "blobs_lr", "weight_decay"})


def carry(node: Node, text: Entry, shapes: Mapping[str, Sequence[int]]) -> nn.OpaqueOp:
    """The layer as `nn.opaque`: its bottoms, then its blobs as operands; attribute `blobs` counts these, `text`
    contains the layer's text in the prototxt apart from names and rules.

    `shapes` are those that the user gives, by blob. A layer works in place only on a result of its input's shape, so there, and
    for types in SAME_SHAPE, the shape is known. Raises CompileError where it is not.
    """
    blobs = node.blobs or []
    constants = [Constant(f"{node.layer.name}.{i}", b.shaped(b.dims)) for i, b in enumerate(blobs)]
    rest = [e for e in text.entries if e.name not in _STRUCTURE and e.name not in _TRAINING]
    return node.emit(
        nn.OpaqueOp,
        [node.sink.value(b) for b in (*node.inputs, *constants) if b is not None],
        result_types=[TensorType(f32, _shape(node, i, shapes)) for i in range(node.tops)],
        framework="caffe",
        op_type=node.op_type,
        attrs=carried(len(blobs), "\n".join({(e.line, e.column): e.text for e in rest}.values())),
        origin=nn.OriginAttr.of("caffe", node.op_type, node.layer.name),
    )


def _shape(node: Node, index: int, shapes: Mapping[str, Sequence[int]]) -> Shape:
    top = node.proto.top[index]
    if top in shapes:
        return tuple(d if d >= 0 else DYNAMIC for d in shapes[top])
    if top in node.proto.bottom:
        return node.shape(list(node.proto.bottom).index(top))
    if node.op_type in SAME_SHAPE and node.tops == 1:
        return node.shape(0)
    raise node.error(
        f"has no equivalent here, and the shape of its result '{top}' is not known",
        hint=f"--input-shape '{top}:...' gives the shape, or --outputs names blobs before it",
    )
