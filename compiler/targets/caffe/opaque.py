"""Layers that came from Caffe and go back as they were."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import DictionaryAttr, IntegerAttr, StringAttr

from ...dialects import nn
from .layer import Layer, converter


@converter(nn.OpaqueOp)
def opaque(op: nn.OpaqueOp, layer: Layer) -> Sequence[str]:
    """The layer with its text; its last operands are its blobs, as attribute `blobs` says."""
    if op.framework.data != "caffe":
        layer.fail(f"holds {op.framework.data}'s {op.op_type.data}, which only {op.framework.data} files can")
    attributes = (op.attrs if op.attrs is not None else DictionaryAttr({})).data
    count, text = attributes.get("blobs"), attributes.get("text")
    operands = [v for v in op.arguments() if v is not None]
    bottoms = len(operands) - (count.value.data if isinstance(count, IntegerAttr) else 0)
    return layer.carried(
        op.op_type.data,
        operands[:bottoms],
        [layer.array(v, "blob") for v in operands[bottoms:]],
        len(op.outputs),
        text.data if isinstance(text, StringAttr) else "",
    )
