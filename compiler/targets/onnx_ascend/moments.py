"""Normalizations. Files have no place for the mean and variance that Ascend's operators give too."""

from __future__ import annotations

import numpy as np

from ...dialects import ascend, nn
from ...dialects.ascend.base import FormatOp
from ...dialects.nn import NNOp
from ...runtime.kernels.ascend_float import stand_ins
from ..onnx.layer import CONVERTERS as NN_CONVERTERS
from ..onnx.layer import Layer
from .table import converter, require_channels_second


@converter(ascend.LayerNormOp)
def layer_norm(op: ascend.LayerNormOp, layer: Layer) -> list[str | None]:
    return _normalized(
        op, nn.LayerNormOp.make(*stand_ins(op.operand_types), axis=op.first_axis, epsilon=op.epsilon), layer
    )


@converter(ascend.InstanceNormOp)
def instance_norm(op: ascend.InstanceNormOp, layer: Layer) -> list[str | None]:
    return _normalized(op, nn.InstanceNormOp.make(*stand_ins(op.operand_types), epsilon=op.epsilon), layer)


@converter(ascend.GroupNormOp)
def group_norm(op: ascend.GroupNormOp, layer: Layer) -> list[str | None]:
    groups = op.num_groups.value.data
    return _normalized(op, nn.GroupNormOp.make(*stand_ins(op.operand_types), num_groups=groups, epsilon=op.eps), layer)


def _normalized(op: ascend.MomentsOp, meaning: NNOp, layer: Layer) -> list[str | None]:
    """y as `nn` writes it. Raises CompileError where the moments are used."""
    if isinstance(op, FormatOp):
        require_channels_second(op, layer)
    if op.mean.uses.get_length() or op.variance.uses.get_length():
        raise layer.error("gives mean and variance, which files have no place for")
    for stand_in, operand in zip(meaning.operands, op.operands, strict=True):
        layer.graph.bind(stand_in, layer.value(operand))
    y = NN_CONVERTERS[type(meaning)](meaning, layer)
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
