"""Pools. On int8, Ascend's dialect sums and ONNX's operator averages: the count leaves the scales for the operator."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import OpResult, SSAValue

from ...deq_scale import before_averaging
from ...dialects import ascend
from ...dialects.ascend.base import i8
from ...dialects.nn.shapes import element_of, shape_of
from ..onnx.graph import Array
from ..onnx.layer import Layer
from .table import by_meaning, converter, require_channels_second


@converter(ascend.AvgPoolV2Op, ascend.AvgPoolOp, ascend.PoolingOp)
def average_pool(op: ascend.AveragingOp, layer: Layer) -> str | Sequence[str | None]:
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


def unaveraged(accumulator: SSAValue, scale: Array, layer: Layer) -> Array:
    """The scales of averages from those of window sums; other sums' stay as they are."""
    pool = accumulator.op if isinstance(accumulator, OpResult) else None
    if not isinstance(pool, ascend.AveragingOp):
        return scale
    if (count := pool.constant_count()) is None:
        raise layer.error("dequantizes a pool whose windows do not all count the same number of elements")
    if (found := before_averaging(scale, count, _reciprocal(pool))) is None:
        message = f"has a scale that no float32 number divided by {count}, the size of a window, gives"
        raise layer.error(message, hint="write the module before --fuse-requant")
    return found


def _reciprocal(pool: ascend.AveragingOp) -> np.float32 | None:
    """The scale of the AscendQuant before a pool."""
    quant = pool.x.op if isinstance(pool.x, OpResult) else None
    return np.float32(quant.scale.value.data) if isinstance(quant, ascend.AscendQuantOp) else None
