"""Data movement whose operands differ from those of its meaning."""

from __future__ import annotations

from collections.abc import Sequence

from ...dialects import ascend
from ...dialects.ascend.shape import one_index
from ..deployed import part_of_another
from ..tensorflow.layer import TensorFlowLayer
from .table import by_meaning, converter, written_as


@converter(ascend.ConcatV2Op)
def concat(op: ascend.ConcatV2Op, layer: TensorFlowLayer) -> str:
    return layer.node("ConcatV2", *op.x, layer.int(one_index("concat_dim", op.concat_dim), "axis"))


@converter(ascend.SqueezeOp, ascend.UnsqueezeOp)
def squeeze(op: ascend.SqueezeOp | ascend.UnsqueezeOp, layer: TensorFlowLayer) -> str | Sequence[str]:
    """The name below the layer that it is part of; its convolution has the layer's name."""
    if part_of_another(op):
        layer.label = f"{layer.label}/{'Squeeze' if isinstance(op, ascend.SqueezeOp) else 'ExpandDims'}"
    return by_meaning(op, layer)


@converter(ascend.GatherV2Op)
def gather(op: ascend.GatherV2Op, layer: TensorFlowLayer) -> str | Sequence[str]:
    """Writes Gather. TensorFlow does not count indices from the end, so that these are written as `nn` writes them."""
    if not op.negative_index_support.value.data:
        batches = op.batch_dims.value.data or None
        return layer.node("GatherV2", op.x, op.indices, layer.int(op.gather_axis, "axis"), batch_dims=batches)
    return written_as(op.meaning().op, op, layer)
