"""Computing what is known at import: shape arithmetic, and parameters made by small nodes."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
from onnx import GraphProto, TypeProto

from ...dialects.nn import RANDOM
from .attributes import GRAPHS
from .node import Binding, Constant, Node
from .single import evaluated, function_body, inferred_types
from .source import STANDARD
from .tensors import ELEMENT_NAMES

FOLDED_ELEMENTS = 1 << 24
"""Larger results are left to the program: 64 MiB of float32."""

_FILLED_ELEMENTS = 1 << 31
"""The largest tensor of equal elements, which takes no memory."""

_KEPT = frozenset({"QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear"})
"""Quantization is what later passes look for, so it stays visible, on constants too."""

_REMOVED = frozenset({"Identity", "Dropout"})
"""Their converters hand the input on as it is, so that shared weights stay shared."""

_BOUNDED = frozenset({"NonZero", "Unique", "Compress", "NonMaxSuppression"})
"""Results of unknown size that are no larger than the inputs."""

_LEFT = _KEPT | _REMOVED | RANDOM["onnx"]


def folded(node: Node) -> list[Binding] | None:
    """The outputs of a node as constants; None when they are not known, or too large."""
    if node.domain != STANDARD or node.op_type in _LEFT:
        return None
    arrays = [b.array for b in node.inputs if isinstance(b, Constant)]
    if len(arrays) != sum(b is not None for b in node.inputs) or not arrays:
        return None
    if any(a.type in GRAPHS for a in node.attributes.values()):
        return None
    if node.op_type == "ConstantOfShape":
        return _filled(node)
    if not _is_small(node, inferred_types(node)):
        return None
    results = evaluated(node, arrays)
    if results is None or not all(r.dtype.name in ELEMENT_NAMES.values() for r in results):
        return None
    return [Constant(name, r) for name, r in zip(node.outputs, results, strict=True)]


def defining_function(node: Node) -> tuple[GraphProto, int] | None:
    """The function that defines the node's operator, and its opset; None without one, and for what must stay visible or is
    random."""
    if node.op_type in _LEFT or any(a.type in GRAPHS for a in node.attributes.values()):
        return None
    return function_body(node)


def _is_small(node: Node, types: Mapping[int, TypeProto]) -> bool:
    return all(_bounded(node, types.get(i)) for i in range(len(node.outputs)))


def _bounded(node: Node, type_: TypeProto | None) -> bool:
    if type_ is None or not type_.tensor_type.HasField("shape"):
        return node.op_type in _BOUNDED
    dims = type_.tensor_type.shape.dim
    if not all(d.HasField("dim_value") for d in dims):
        return node.op_type in _BOUNDED
    return prod(d.dim_value for d in dims) <= FOLDED_ELEMENTS


def _filled(node: Node) -> list[Binding] | None:
    """A tensor of equal elements as a view of one: it takes no memory, however large."""
    shape = [int(d) for d in node.known_ints(0)]
    value = node.tensor("value")
    value = np.zeros(1, np.float32) if value is None else value
    if value.size != 1:
        raise node.error(f"attribute 'value' must hold one number, not {value.size}")
    if min((0, *shape)) < 0:
        raise node.error(f"asks for the shape {shape}")
    if prod(shape) > _FILLED_ELEMENTS:
        raise node.error(f"makes a tensor of {prod(shape)} elements", hint="is the file damaged?")
    return [Constant(node.outputs[0], np.broadcast_to(value.reshape(()), shape))]
