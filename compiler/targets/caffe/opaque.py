"""Layers that came from Caffe and are written back unchanged."""

from __future__ import annotations

from collections.abc import Sequence

from ...dialects import nn
from ...formats.caffe.opaque import blobs_and_text
from .layer import CaffeLayer, converter


@converter(nn.OpaqueOp)
def opaque(op: nn.OpaqueOp, layer: CaffeLayer) -> Sequence[str]:
    """The layer with its text; its last operands are its blobs, as many as attribute `blobs`."""
    if op.framework.data != "caffe":
        layer.fail(f"holds {op.framework.data}'s {op.op_type.data}, which only {op.framework.data} files can")
    blobs, text = blobs_and_text(op)
    operands = [v for v in op.arguments() if v is not None]
    bottoms = len(operands) - blobs
    return layer.carried(
        op.op_type.data,
        operands[:bottoms],
        [layer.array(v, "blob") for v in operands[bottoms:]],
        len(op.outputs),
        text,
    )
