"""Nodes that came from TensorFlow and are written back unchanged."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DictionaryAttr

from ...dialects import nn
from ...formats.tensorflow.attributes import attr_value
from .graph import element_of
from .layer import TensorFlowLayer, converter


@converter(nn.OpaqueOp)
def opaque(op: nn.OpaqueOp, layer: TensorFlowLayer) -> Sequence[str]:
    """The node with its attributes. Raises CompileError if it is of another framework, or TensorFlow cannot express it."""
    if op.framework.data != "tensorflow":
        raise layer.error(f"holds {op.framework.data}'s {op.op_type.data}, which only {op.framework.data} files can")
    attributes = DictionaryAttr({}) if op.attrs is None else op.attrs
    try:
        values = {name: attr_value(value) for name, value in sorted(attributes.data.items())}
    except ValueError as e:
        raise layer.error(f"cannot be written: {e}") from None
    inputs = [layer.value(v) for v in op.inputs]
    return layer.add(op.op_type.data, inputs, values, layer.label, [element_of(r) for r in op.outputs])
