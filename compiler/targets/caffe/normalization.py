"""Batch norms and local response normalization."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import FloatAttr

from ...dialects import nn
from .layer import CaffeLayer, Written, converter
from .rows import by_row


def _property_number(attribute: FloatAttr[Any]) -> float:
    return attribute.value.data


@converter(nn.BatchNormOp)
def batch_norm(op: nn.BatchNormOp, layer: CaffeLayer) -> Written:
    """BatchNorm, whose third blob divides the other two, and the Scale after it if it changes anything."""
    mean, variance = layer.array(op.mean, "mean"), layer.array(op.variance, "variance")
    scale, offset = layer.array(op.scale, "scale"), layer.array(op.offset, "offset")
    blobs = [mean, variance, np.ones(1, np.float32)]
    parameters: dict[str, object] = {"use_global_stats": True, "eps": _property_number(op.epsilon)}
    normalized = layer.layer("BatchNorm", op.input, blobs=blobs, batch_norm_param=parameters)
    if (scale == 1).all() and not offset.any():
        return normalized
    return layer.helper("Scale", normalized, blobs=[scale, offset], scale_param={"bias_term": True})


@converter(nn.LRNOp)
def lrn(op: nn.LRNOp, layer: CaffeLayer) -> Written:
    size = op.size.value.data
    if size % 2 == 0:
        layer.fail(f"has size {size}, Caffe's LRN an odd one")
    return by_row(op, layer)
