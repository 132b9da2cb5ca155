"""The rules for a layer that was trained with fake quantization (AMCT's `convert_qat_model`), and for what the target
computes.
"""

from __future__ import annotations

from .....dialects.ascend.base import i8, i16
from .....dialects.nn import DequantizeOp, MatMulOp, QuantizeOp, constant_of
from .....dialects.nn.shapes import shape_of
from ...decide.conditions import DecideLayer
from ...decide.layers import channel_axis
from ...decide.sites import Site
from ...profiles import Row

Broken = tuple[str, str]
"""The name of a rule, and what is wrong, as one sentence."""


def broken(site: Site, row: Row, data: DequantizeOp | None, weight: DequantizeOp | None) -> Broken | None:
    """The first rule that a layer with dequantized data or weight breaks; None if it can be quantized."""
    if data is None or not isinstance(data.input.owner, QuantizeOp):
        return "quantized-data", "its weight is quantized, its data is not"
    if weight is None:
        return "quantized-weight", "its data is quantized, its weight is not"
    return _broken_data(data) or _broken_weight(site, row, weight) or _broken_operator(site, row, data, weight)


def _broken_data(data: DequantizeOp) -> Broken | None:
    params = data.qparams.data
    if params.storage not in (i8, i16):
        return "integer-data", f"its data is {params.storage}, not of 8 or 16 bits"
    if params.axis is not None:
        return "per-tensor-data", "its data has more than one scale"
    return None


def _broken_weight(site: Site, row: Row, weight: DequantizeOp) -> Broken | None:
    params = weight.qparams.data
    if constant_of(weight.input) is None:
        return "constant-weight", "its weight is computed at run time"
    if params.storage != i8:
        return "int8-weight", f"its weight is {params.storage}, not i8 or ui8"
    if params.zero_points().any():
        return "symmetric-weight", "its weight has zero points that are not 0"
    if isinstance(site.compute, MatMulOp):
        if (rank := len(shape_of(weight.result))) != 2:
            return "matrix-weight", f"its weight is of rank {rank}, not 2"
        if params.axis is not None and not row.per_channel:
            return "per-tensor-weight", "its weight has a scale per channel, as only convolutions may"
    if params.block is not None:
        return "channel-scales", "its weight has scales per group, not per output channel"
    if params.axis not in (None, channel_axis(site.compute)):
        return "channel-scales", f"its weight has scales along axis {params.axis}, not per output channel"
    return None


def _broken_operator(site: Site, row: Row, data: DequantizeOp, weight: DequantizeOp) -> Broken | None:
    """The reason why the lowering refuses the layer with these parameters, if the profile requires the lowering."""
    if DecideLayer.integer_operator not in row.rules:
        return None
    from .....lowering.ascend.trial import integer_refusal

    refusal = integer_refusal(site.compute, data.qparams, weight.qparams)
    return None if refusal is None else (DecideLayer.integer_operator.name, refusal.reason)
