"""space_to_batch, convolution, batch_to_space: TensorFlow's form of a dilated convolution."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from xdsl.pattern_rewriter import PatternRewriter

from ...dialects import nn
from ...dialects.nn.base import rebuilt
from ...rewriting import Remarks, fused_location, layer_of
from .rules import rule


class Blocks(NamedTuple):
    """The three operations in order."""

    into: nn.SpaceToBatchOp
    conv: nn.ConvOp
    out_of: nn.BatchToSpaceOp

    @property
    def block(self) -> tuple[int, ...]:
        """The block of every spatial axis."""
        block = nn.ints(self.into.block)
        return (*block, *(1,) * (self.conv.spatial_rank - len(block)))

    @property
    def pads(self) -> tuple[int, ...]:
        """Padding of the dilated convolution. Position t of the block's result reads the padded input at t, t + block, ...

        Padding before the blocks stays, the convolution's own pads each block, so it is multiplied by the block, and crops remove
        positions that the padding made.
        """
        n, b = self.conv.spatial_rank, self.block * 2
        before = _all_axes(nn.ints(self.into.pads), n)
        crops = _all_axes(nn.ints(self.out_of.crops), n)
        return tuple(p + s * q - c for p, s, q, c in zip(before, b, self.conv.pad_list, crops, strict=True))


def _all_axes(numbers: tuple[int, ...], n: int) -> tuple[int, ...]:
    """Begins and ends of the first axes, extended by zeros to n axes."""
    half = len(numbers) // 2
    rest = (0,) * (n - half)
    return (*numbers[:half], *rest, *numbers[half:], *rest)


@rule(nn.BatchToSpaceOp)
def form_dilation(op: nn.BatchToSpaceOp, rewriter: PatternRewriter, remarks: Remarks) -> None:
    """A convolution on blocks of space is one whose window takes every block-th element."""
    conv = op.input.owner
    into = conv.input.owner if isinstance(conv, nn.ConvOp) else None
    if not isinstance(conv, nn.ConvOp) or not isinstance(into, nn.SpaceToBatchOp):
        return
    blocks = Blocks(into, conv, op)
    for name, reason in CONDITIONS.items():
        if (why := reason(blocks)) is not None:
            remarks.missed(op, name, why)
            return
    dilations = [d * b for d, b in zip(conv.dilation_list, blocks.block, strict=True)]
    operands = [into.input, *conv.operands[1:]]
    dilated = rebuilt(conv, operands, [op.result.type], pads=blocks.pads, dilations=dilations)
    dilated.location = fused_location(into, conv, op)
    remarks.applied(op, "dilation", f"{layer_of(conv)} is a convolution with dilations {dilations}")
    rewriter.replace(op, dilated)


def _same_blocks(m: Blocks) -> str | None:
    if m.into.block == m.out_of.block:
        return None
    return f"blocks {list(nn.ints(m.into.block))} and {list(nn.ints(m.out_of.block))} differ"


def _same_layout(m: Blocks) -> str | None:
    return None if m.into.layout == m.conv.layout == m.out_of.layout else "the three have different layouts"


def _used_once(m: Blocks) -> str | None:
    return None if m.conv.result.has_one_use() else f"the result of {layer_of(m.conv)} is used elsewhere"


def _stride_one(m: Blocks) -> str | None:
    if all(s == 1 for s in m.conv.stride_list):
        return None
    return f"{layer_of(m.conv)} has strides {list(m.conv.stride_list)}"


def _explicit_pads(m: Blocks) -> str | None:
    return None if m.conv.auto_pad is None else f"the pads of {layer_of(m.conv)} follow from sizes (auto_pad)"


def _crops_within_pads(m: Blocks) -> str | None:
    return None if min(m.pads) >= 0 else "the crops take away more than the padding added"


CONDITIONS: dict[str, Callable[[Blocks], str | None]] = {
    "same-blocks": _same_blocks,
    "same-layout": _same_layout,
    "used-once": _used_once,
    "stride-one": _stride_one,
    "explicit-pads": _explicit_pads,
    "crops-within-pads": _crops_within_pads,
}
"""The conditions for the three operations, by name: None, or the reason why they fail."""
