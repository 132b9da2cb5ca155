"""Scales of activations in float16 precision, for AMCT's FORCE_FP16_QUANT."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import ModuleOp, UnitAttr

from ....configuration.record import Record
from ....configuration.settings import Settings
from ....diagnostics import op_error
from ....dialects.nn import ObserveOp, QParamsAttr
from ....ir.precision import FORCE_FP16, float16_scales, force_fp16
from ....rewriting import Remarks

_MODES = (None, "DEFAULT", FORCE_FP16)


def wants_fp16(settings: Settings, record: Record | None) -> bool:
    """Whether settings or a record request FORCE_FP16_QUANT.

    AMCT's entries of single inputs, which have no scale_w, may leave it out. Raises CompileError, located in the record's file,
    for another mode, and if layers have different modes.
    """
    layers = {} if record is None else {n: r for n, r in record.layers.items() if r.scale_d is not None}
    forced = any(layer.fakequant_precision_mode == FORCE_FP16 for layer in layers.values())
    for name, layer in layers.items():
        assert record is not None
        if (mode := layer.fakequant_precision_mode) not in _MODES:
            raise record.error(name, f"fakequant_precision_mode must be DEFAULT or {FORCE_FP16}, not {mode}")
        if forced and mode != FORCE_FP16 and layer.scale_w:
            raise record.error(name, f"fakequant_precision_mode must be {FORCE_FP16}, as in other layers")
    return forced or settings.fakequant_precision_mode is not None


def mark_fp16(module: ModuleOp) -> None:
    """Mark all points to keep only float16's precision in their scales."""
    for point in (op for op in module.walk() if isinstance(op, ObserveOp)):
        point.fp16_scale = UnitAttr()


def round_scales(module: ModuleOp, remarks: Remarks) -> None:
    """Round the scales of the marked points to float16's precision; zero points do not change. The lowering reads the mode from
    the module's metadata.

    Raises CompileError, located at the point, for a scale that is too large.
    """
    marked = (op for op in module.walk() if isinstance(op, ObserveOp) and op.fp16_scale is not None)
    points = [(op, op.qparams.data) for op in marked if op.qparams is not None]
    for point, params in points:
        scales = params.scales()
        rounded = float16_scales(scales)
        if not np.all(np.isfinite(rounded)):
            raise op_error(point, f"has a scale of {float(scales.max()):.6g}, which {FORCE_FP16} cannot hold")
        if np.array_equal(rounded, scales):
            continue
        point.qparams = QParamsAttr.of(
            params.storage, rounded, params.zero_point, params.axis, f"{point.point.data}.scale"
        )
        if params.axis is None:
            remarks.note(
                point, "fp16-scale", f"scale {float(scales):.9g} of {point.point.data} becomes {float(rounded):.9g}"
            )
    if points:
        force_fp16(module)
