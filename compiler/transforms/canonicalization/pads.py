"""Folds padding before a window into the window's own padding."""

from __future__ import annotations

from math import inf
from sys import float_info
from typing import Any, ClassVar, NamedTuple, cast

from xdsl.dialects.builtin import IntegerType, f16, f32, f64
from xdsl.ir import Attribute, Operation
from xdsl.pattern_rewriter import PatternRewriter

from ...dialects import nn
from ...dialects.nn.base import rebuilt
from ...dialects.nn.shapes import element_of
from ...ir.dtypes import integer_range
from ...rewriting import Condition, Refusal, Roots, StepPattern, condition, fused_location, layer_of, requires

LOWEST: dict[Attribute, float] = {f16: -65504.0, f32: -float.fromhex("0x1.fffffep+127"), f64: -float_info.max}
"""The lowest finite number of a type, which wins against no finite element."""

Window = nn.ConvolutionOp | nn.PoolOp


class PaddedWindow(NamedTuple):
    """Padding, and the window that reads it."""

    pad: nn.PadOp
    window: Window

    @property
    def outer(self) -> tuple[int, ...]:
        """The sizes of the padding: the begins of all axes, then their ends."""
        return nn.ints(self.pad.pads)

    @property
    def axes(self) -> range:
        """The spatial axes."""
        rank = self.window.spatial_rank + 2
        return range(1, rank - 1) if self.window.channels_last else range(2, rank)

    @property
    def merged(self) -> tuple[int, ...]:
        """The padding of both on the spatial axes."""
        outer = [self.outer[side + axis] for side in (0, len(self.outer) // 2) for axis in self.axes]
        return tuple(a + b for a, b in zip(self.window.pad_list, outer, strict=True))

    @property
    def neutral(self) -> float:
        """The value of this window's padding: zero, or for max_pool the lowest number."""
        if not isinstance(self.window, nn.MaxPoolOp):
            return 0.0
        element = element_of(self.window.input)
        return integer_range(cast(IntegerType, element))[0] if isinstance(element, IntegerType) else -inf


class MergePad(StepPattern[PaddedWindow]):
    """Padding of the spatial axes is that of the convolution or pool after it."""

    name = "merge-pad"
    roots: ClassVar[Roots] = (nn.ConvOp, *nn.kinds(nn.PoolOp))

    @condition
    def constant_mode(self, m: PaddedWindow) -> str | None:
        """it pads with a constant"""
        mode = m.pad.mode.data
        return None if mode is nn.PadMode.CONSTANT else f"it pads with mode {mode.value}, not with a constant"

    @condition
    def padding_value(self, m: PaddedWindow) -> str | None:
        """the constant is that of the window's own padding: 0, or for a max pool the lowest number"""
        lowest = LOWEST.get(element_of(m.window.input)) if isinstance(m.window, nn.MaxPoolOp) else None
        value = m.pad.value.value.data
        return None if value in (m.neutral, lowest) else f"it pads with {value}, not with {m.neutral}"

    @condition
    def spatial_only(self, m: PaddedWindow) -> str | None:
        """it pads neither batch nor channels"""
        rank = len(m.outer) // 2
        others = set(range(rank)) - set(m.axes)
        return "it pads batch or channels" if any(m.outer[a] or m.outer[a + rank] for a in others) else None

    non_negative: Condition[Any] = requires(lambda m: min(m.outer) >= 0, "it does not crop", "it crops")

    @condition
    def explicit_pads(self, m: PaddedWindow) -> str | None:
        """the window's own padding does not follow from sizes (auto_pad)"""
        return None if m.window.auto_pad is None else f"the pads of {layer_of(m.window)} follow from sizes (auto_pad)"

    @condition
    def no_ceil_mode(self, m: PaddedWindow) -> str | None:
        """a pool has no ceil_mode: it drops windows that start in the end padding, but not those in a padded tensor"""
        rounds_up = isinstance(m.window, nn.PoolOp) and m.window.ceil_mode is not None
        return "ceil_mode distinguishes padding from what was padded before" if rounds_up else None

    @condition
    def counts_alike(self, m: PaddedWindow) -> str | None:
        """an average pool counts its own padding, if it has any"""
        op = m.window
        if not isinstance(op, nn.AveragePoolOp) or op.count_include_pad is not None or not any(op.pad_list):
            return None
        return f"{layer_of(op)} does not count its own padding, but counts what was padded before"

    @condition
    def pads_below_kernel(self, m: PaddedWindow) -> str | None:
        """a window of a pool holds at least one element (ONNX checkers and onnxruntime reject others)"""
        outside = any(p >= k for p, k in zip(m.merged, m.window.kernel_shape * 2, strict=True))
        return "a window would hold nothing but padding" if outside and isinstance(m.window, nn.PoolOp) else None

    def match(self, op: Operation) -> PaddedWindow | None:
        pad = op.operands[0].owner
        return PaddedWindow(pad, cast(Window, op)) if isinstance(pad, nn.PadOp) else None

    def subject(self, m: PaddedWindow, root: Operation) -> Operation:
        return m.pad

    def refusal(self, m: PaddedWindow) -> Refusal | None:
        if (found := super().refusal(m)) is None:
            return None
        return found._replace(reason=f"not merged into {layer_of(m.window)}: {found.reason}")

    def rewrite(self, m: PaddedWindow, rewriter: PatternRewriter) -> None:
        op, properties = m.window, dict[str, object](pads=m.merged)
        if isinstance(op, nn.AveragePoolOp):
            properties["count_include_pad"] = True
        merged = rebuilt(op, [m.pad.input, *op.operands[1:]], [op.result.type], **properties)
        merged.location = fused_location(m.pad, op)
        self.remarks.applied(op, "pad", f"{layer_of(m.pad)} merged into its padding")
        rewriter.replace(op, merged)
