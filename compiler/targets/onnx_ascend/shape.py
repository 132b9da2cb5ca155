"""Data movement whose operands differ from those of its meaning, or that may be part of another layer."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import i64

from ...dialects import ascend, nn
from ...dialects.ascend.shape import one_index
from ...dialects.nn.shapes import element_of
from ..onnx.layer import OnnxLayer
from ..onnx.rows import with_list
from .table import converter, name_beside, written_as


@converter(ascend.ReshapeOp)
def reshape(op: ascend.ReshapeOp, layer: OnnxLayer) -> str:
    """A 0 in Ascend's shape is a size; to ONNX it means the input's, unless `allowzero` (opset 14) is set."""
    target = nn.constant_ints(op.shape)
    if target is None:
        shape = layer.value(op.shape) if element_of(op.shape) == i64 else layer.helper("Cast", op.shape, to=7)
        return layer.node("Reshape", op.x, shape)
    if 0 in target:
        layer.require(14, "Reshape with allowzero")
    return layer.node("Reshape", op.x, layer.ints(target, "shape"), allowzero=1 if 0 in target else None)


@converter(ascend.SqueezeOp, ascend.UnsqueezeOp)
def squeeze(op: ascend.SqueezeOp | ascend.UnsqueezeOp, layer: OnnxLayer) -> str:
    """Writes Squeeze and Unsqueeze; an empty list of axes means all axes of size 1 for Squeeze, none for Unsqueeze."""
    op_type = "Squeeze" if isinstance(op, ascend.SqueezeOp) else "Unsqueeze"
    axes = nn.ints(op.axis if isinstance(op, ascend.SqueezeOp) else op.axes)
    name = name_beside(op, layer, op_type)
    if axes:
        return layer.emit(*with_list(op_type, op.x, axes, layer), name)[0]
    return layer.emit("Squeeze" if op_type == "Squeeze" else "Identity", [op.x], {}, name)[0]


@converter(ascend.ConcatV2Op)
def concat(op: ascend.ConcatV2Op, layer: OnnxLayer) -> str:
    return layer.node("Concat", *op.x, axis=one_index("concat_dim", op.concat_dim))


@converter(ascend.GatherV2Op)
def gather(op: ascend.GatherV2Op, layer: OnnxLayer) -> str | Sequence[str | None]:
    """Gather, of batches GatherND, as `nn` writes them."""
    return written_as(op.meaning().op, op, layer)
