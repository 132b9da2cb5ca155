"""Data movement whose operands are not those of what it means."""

from __future__ import annotations

from ...dialects import ascend
from ...dialects.ascend.shape import one_index
from ..tensorflow.layer import Layer
from .table import converter


@converter(ascend.ConcatV2Op)
def concat(op: ascend.ConcatV2Op, layer: Layer) -> str:
    return layer.node("ConcatV2", *op.x, layer.int(one_index("concat_dim", op.concat_dim), "axis"))


@converter(ascend.GatherV2Op)
def gather(op: ascend.GatherV2Op, layer: Layer) -> str:
    return layer.node("GatherV2", op.x, op.indices, layer.int(op.gather_axis, "axis"))
