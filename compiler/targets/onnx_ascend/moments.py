"""Normalizations. Files have no place for mean and variance, which Ascend's operators also return."""

from __future__ import annotations

from ...dialects import ascend
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
