"""Folds padding before a window into the window's own padding."""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from sys import float_info
from typing import cast

from xdsl.dialects.builtin import IntegerType, f16, f32, f64
from xdsl.ir import Attribute
from xdsl.pattern_rewriter import PatternRewriter

from ...dialects import nn
from ...dialects.nn.base import rebuilt
from ...dialects.nn.shapes import element_of, shape_of
from ...ir.dtypes import integer_range
from ...rewriting import Remarks, fused_location, layer_of
from .rules import rule

LOWEST: dict[Attribute, float] = {f16: -65504.0, f32: -float.fromhex("0x1.fffffep+127"), f64: -float_info.max}
"""The lowest finite number of a type, which wins against no finite element."""

Window = nn.ConvolutionOp | nn.PoolOp


@rule(nn.ConvOp, *nn.kinds(nn.PoolOp))
def merge_pad(op: Window, rewriter: PatternRewriter, remarks: Remarks) -> None:
    """Folds constant padding of the spatial axes, if its value is that of the window's own padding."""
    pad = op.input.owner
    if not isinstance(pad, nn.PadOp):
        return
    for name, reason in CONDITIONS.items():
        if (why := reason(pad, op)) is not None:
            remarks.missed(pad, name, f"not merged into {layer_of(op)}: {why}")
            return
    properties: dict[str, object] = {"pads": _merged_pads(pad, op)}
    if isinstance(op, nn.AveragePoolOp):
        properties["count_include_pad"] = True
    types = [op.result.type]
    merged = rebuilt(op, [pad.input, *op.operands[1:]], types, **properties)
    merged.location = fused_location(pad, op)
    remarks.applied(op, "pad", f"{layer_of(pad)} merged into its padding")
    rewriter.replace(op, merged)


def _spatial_axes(op: Window) -> range:
    rank = op.spatial_rank + 2
    return range(1, rank - 1) if op.channels_last else range(2, rank)


def _merged_pads(pad: nn.PadOp, op: Window) -> tuple[int, ...]:
    pads, rank = nn.ints(pad.pads), len(shape_of(pad.input))
    outer = [pads[side + axis] for side in (0, rank) for axis in _spatial_axes(op)]
    return tuple(a + b for a, b in zip(op.pad_list, outer, strict=True))


def _constant_mode(pad: nn.PadOp, op: Window) -> str | None:
    if pad.mode.data is nn.PadMode.CONSTANT:
        return None
    return f"it pads with mode {pad.mode.data.value}, not with a constant"


def _padding_value(pad: nn.PadOp, op: Window) -> str | None:
    neutral, value = _neutral(op), pad.value.value.data
    lowest = LOWEST.get(element_of(op.input)) if isinstance(op, nn.MaxPoolOp) else None
    return None if value in (neutral, lowest) else f"it pads with {value}, not with {neutral}"


def _neutral(op: Window) -> float:
    """The value of this window's padding: zero, or for max_pool the lowest number."""
    if not isinstance(op, nn.MaxPoolOp):
        return 0.0
    element = element_of(op.input)
    return integer_range(cast(IntegerType, element))[0] if isinstance(element, IntegerType) else -inf


def _spatial_only(pad: nn.PadOp, op: Window) -> str | None:
    pads, rank = nn.ints(pad.pads), len(shape_of(pad.input))
    others = set(range(rank)) - set(_spatial_axes(op))
    return "it pads batch or channels" if any(pads[a] or pads[a + rank] for a in others) else None


def _non_negative(pad: nn.PadOp, op: Window) -> str | None:
    return "it crops" if min(nn.ints(pad.pads)) < 0 else None


def _explicit_pads(pad: nn.PadOp, op: Window) -> str | None:
    return None if op.auto_pad is None else f"the pads of {layer_of(op)} follow from sizes (auto_pad)"


def _no_ceil_mode(pad: nn.PadOp, op: Window) -> str | None:
    """ceil_mode drops windows that start in the end padding, but not those that start in a padded tensor."""
    if not isinstance(op, nn.PoolOp) or op.ceil_mode is None:
        return None
    return "ceil_mode distinguishes padding from what was padded before"


def _counts_alike(pad: nn.PadOp, op: Window) -> str | None:
    if not isinstance(op, nn.AveragePoolOp) or op.count_include_pad is not None or not any(op.pad_list):
        return None
    return f"{layer_of(op)} does not count its own padding, but counts what was padded before"


def _pads_below_kernel(pad: nn.PadOp, op: Window) -> str | None:
    """A pooling window must contain at least one element (ONNX checkers and onnxruntime reject others)."""
    outside = any(p >= k for p, k in zip(_merged_pads(pad, op), op.kernel_shape * 2, strict=True))
    return "a window would hold nothing but padding" if outside and isinstance(op, nn.PoolOp) else None


CONDITIONS: dict[str, Callable[[nn.PadOp, Window], str | None]] = {
    "constant-mode": _constant_mode,
    "padding-value": _padding_value,
    "spatial-only": _spatial_only,
    "non-negative": _non_negative,
    "explicit-pads": _explicit_pads,
    "no-ceil-mode": _no_ceil_mode,
    "counts-alike": _counts_alike,
    "pads-below-kernel": _pads_below_kernel,
}
"""The conditions for a pad and the window after it, by name: None, or the reason why they fail."""
