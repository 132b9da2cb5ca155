"""Pools. On int8, Ascend's dialect sums and ONNX's operator averages: the count moves from the scales to the operator."""

from __future__ import annotations

from collections.abc import Sequence

from ...dialects import ascend
from ...dialects.ascend.base import i8
from ...dialects.nn.shapes import element_of, shape_of
from ..onnx.layer import OnnxLayer
from .table import by_meaning, converter, require_channels_second


@converter(ascend.AvgPoolV2Op, ascend.AvgPoolOp, ascend.PoolingOp)
def average_pool(op: ascend.AveragingOp, layer: OnnxLayer) -> str | Sequence[str | None]:
    if element_of(op.x) != i8:
        return by_meaning(op, layer)
    require_channels_second(op, layer)
    if op.is_global:
        return layer.unchecked("GlobalAveragePool", [op.x], {}, layer.label)
    sizes = op.spatial(shape_of(op.x))
    pads = op.resolved_pads(sizes)
    attributes = {
        "kernel_shape": list(op.kernel(sizes)),
        "strides": list(op.stride_list),
        "pads": None if pads is None else [*(b for b, _ in pads), *(e for _, e in pads)],
        "auto_pad": "SAME_UPPER" if pads is None else None,
        "count_include_pad": 1 if op.counts_padding else None,
        "ceil_mode": 1 if op.rounds_up else None,
    }
    return layer.unchecked("AveragePool", [op.x], attributes, layer.label)
