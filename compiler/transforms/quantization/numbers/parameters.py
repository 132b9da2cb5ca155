"""Parameters from ranges, and integers from floats, rounding half to even; scales in float16 for AMCT's FORCE_FP16_QUANT."""

from __future__ import annotations

import numpy as np
from xdsl.dialects.builtin import IntegerType, ModuleOp, UnitAttr

from ....configuration.record import Record
from ....configuration.settings import Settings
from ....dialects.nn import ObserveOp, QParamsAttr, spread
from ....ir.array import Array
from ....ir.precision import FORCE_FP16, float16_scales, force_fp16
from ....rewriting import Remarks
from ....runtime.affine import LEAST_SCALE, affine, in_blocks
from ....support.diagnostics import op_error


def activation_params(low: float, high: float, bits: int, symmetric: bool) -> QParamsAttr:
    """Per-tensor parameters of signed integers for values in [low, high]; the range is widened to include 0."""
    return QParamsAttr.of(IntegerType(bits), *affine(low, high, bits, symmetric=symmetric))


NO_OFFSET = np.zeros((), np.int32)
"""The zero point of symmetric integers."""
_PIECE = 1 << 17
"""Number of elements that are quantized at a time, so that intermediate results stay in the cache."""


def quantized(
    values: Array,
    scales: Array,
    bits: int,
    axis: int | None = None,
    zero_points: Array = NO_OFFSET,
    block: int | None = None,
) -> Array:
    """`saturate(round_half_even(values / scale) + zero_point)` as int8 (bits <= 8) or int32, the division in float32.

    Scales and zero points have shape [], along `axis` [channels], or [blocks].
    """
    if axis is None or block is None:
        return _quantized(values, bits, *(spread(p, values.shape, axis) for p in (scales, zero_points)))
    parts = in_blocks(values, axis, block)
    blocks = (*parts.shape[: axis + 1], 1, *parts.shape[axis + 2 :])
    found = _quantized(parts, bits, *(p.reshape(blocks) if p.ndim else p for p in (scales, zero_points)))
    padded = found.reshape(*values.shape[:axis], -1, *values.shape[axis + 1 :])
    return np.ascontiguousarray(padded[(slice(None),) * axis + (slice(values.shape[axis]),)])


def _quantized(values: Array, bits: int, scales: Array, zero_points: Array) -> Array:
    """The same with parameters that broadcast to the values."""
    limit = 2 ** (bits - 1)
    result = np.empty(values.shape, np.int8 if bits <= 8 else np.int32)
    pieces = np.nditer(
        [values, scales, zero_points, result],
        ["external_loop", "buffered", "zerosize_ok"],
        [["readonly"], ["readonly"], ["readonly"], ["writeonly"]],
        op_dtypes=[np.float32, np.float32, np.float32, result.dtype],
        casting="same_kind",
        buffersize=_PIECE,
    )
    with pieces:
        for some, scale, zero_point, integers in pieces:
            steps = some / scale
            np.rint(steps, out=steps)
            steps += zero_point
            np.clip(steps, -limit, limit - 1, out=steps)
            integers[...] = steps
    return result


BIAS_LIMIT = 2**30
"""Largest bias in accumulator units: leaves the other half of the int32 range to the products."""


def widened(scales: Array, bias: Array | None, input_scale: float) -> Array:
    """Weight scales, float32, raised until `input_scale * scale`, the unit of the sums, is a normal float32 number in which the
    bias fits into int32.

    The latter happens in channels whose weights are nearly zero compared with the bias. With an int8 input the weights lose less
    than the last bit of the bias, with an int16 input, whose scale is 256 times smaller, a 2^15th of it per product.
    """
    least = np.float64(LEAST_SCALE / input_scale)
    if bias is not None:
        needed = np.abs(bias.astype(np.float64)) / (float(input_scale) * BIAS_LIMIT)
        least = np.maximum(least, needed.max(initial=0.0) if scales.ndim == 0 else needed)
    return np.maximum(scales, least.astype(np.float32))


def sum_scales(weight: Array, activation: Array) -> Array:
    """The scales of the sums of products: float32, of the weight's shape. They may be no normal numbers (`are_normal`)."""
    with np.errstate(over="ignore", under="ignore"):
        return np.asarray(weight * activation, np.float32)


def bias_fits(bias: Array, scales: Array, dtype: type[np.floating] = np.float64) -> bool:
    """Whether the results of `quantized_bias` fit into int32."""
    with np.errstate(all="ignore"):
        steps = _bias_steps(bias, scales, dtype)
    return bool(np.all((steps >= -(2**31)) & (steps < 2**31)))


def quantized_bias(bias: Array, scales: Array, dtype: type[np.floating] = np.float64) -> Array:
    """`round_half_even(bias / scale)` as int32, divided in `dtype`; scales are float32, [] or [channels]."""
    return _bias_steps(bias, scales, dtype).astype(np.int32)


def _bias_steps(bias: Array, scales: Array, dtype: type[np.floating]) -> Array:
    return np.rint(bias.astype(dtype) / scales.astype(dtype))


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
