"""Normalizations. Files have no place for mean and variance, which Ascend's operators also return."""

from __future__ import annotations

import numpy as np

from ...dialects import ascend, nn
from ...dialects.ascend.base import FormatOp
from ..onnx.layer import Layer
from .table import converter, require_channels_second, written_as


@converter(ascend.LayerNormOp, ascend.InstanceNormOp, ascend.GroupNormOp)
def normalization(op: ascend.MomentsOp, layer: Layer) -> list[str | None]:
    """Writes y like `nn`. Raises CompileError if the moments are used."""
    if isinstance(op, FormatOp):
        require_channels_second(op, layer)
    if op.mean.uses or op.variance.uses:
        raise layer.error("gives mean and variance, which files have no place for")
    y = written_as(op.normalization(), op, layer)
    return [y if isinstance(y, str) else y[0], None, None]


@converter(ascend.BNInferenceOp)
def bn_inference(op: ascend.BNInferenceOp, layer: Layer) -> str:
    """Caffe's statistics are divided by their factor first; where that is 0 they are 0."""
    arrays = [nn.array_of(v) for v in (op.mean, op.variance, op.momentum)]
    if any(a is None for a in arrays):
        raise layer.error("has statistics that are computed at run time")
    mean, variance, momentum = (np.asarray(a) for a in arrays)
    divisor = float(momentum.reshape(())[()])
    factor = 1 / divisor if divisor else 0.0
    parameters = {
        "scale": np.ones_like(mean),
        "offset": np.zeros_like(mean),
        "mean": (mean.astype(np.float64) * factor).astype(mean.dtype),
        "variance": (variance.astype(np.float64) * factor).astype(variance.dtype),
    }
    names = [layer.constant(array, role) for role, array in parameters.items()]
    return layer.node("BatchNormalization", op.x, *names, epsilon=op.epsilon.value.data)
