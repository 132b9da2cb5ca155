"""space_to_batch, convolution, batch_to_space: TensorFlow's form of a dilated convolution."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter

from ...dialects import nn
from ...dialects.nn.base import rebuilt
from ...rewriting import Roots, StepPattern, condition, fused_location, layer_of


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


class FormDilation(StepPattern[Blocks]):
    """A convolution on blocks of space is one whose window takes every block-th element."""

    name = "form-dilation"
    roots: ClassVar[Roots] = (nn.BatchToSpaceOp,)

    @condition
    def same_blocks(self, m: Blocks) -> str | None:
        """space is divided into the blocks that are put together again"""
        if m.into.block == m.out_of.block:
            return None
        return f"blocks {list(nn.ints(m.into.block))} and {list(nn.ints(m.out_of.block))} differ"

    @condition
    def same_layout(self, m: Blocks) -> str | None:
        """all three have one layout"""
        return None if m.into.layout == m.conv.layout == m.out_of.layout else "the three have different layouts"

    @condition
    def used_once(self, m: Blocks) -> str | None:
        """the result of the convolution is used once"""
        return None if m.conv.result.has_one_use() else f"the result of {layer_of(m.conv)} is used elsewhere"

    @condition
    def stride_one(self, m: Blocks) -> str | None:
        """the strides of the convolution are 1"""
        if all(s == 1 for s in m.conv.stride_list):
            return None
        return f"{layer_of(m.conv)} has strides {list(m.conv.stride_list)}"

    @condition
    def explicit_pads(self, m: Blocks) -> str | None:
        """the pads of the convolution do not follow from sizes (auto_pad)"""
        return None if m.conv.auto_pad is None else f"the pads of {layer_of(m.conv)} follow from sizes (auto_pad)"

    @condition
    def crops_within_pads(self, m: Blocks) -> str | None:
        """the crops take away no more than the padding added"""
        return None if min(m.pads) >= 0 else "the crops take away more than the padding added"

    def match(self, op: Operation) -> Blocks | None:
        conv = op.operands[0].owner
        into = conv.input.owner if isinstance(conv, nn.ConvOp) else None
        if not isinstance(op, nn.BatchToSpaceOp) or not isinstance(conv, nn.ConvOp):
            return None
        return Blocks(into, conv, op) if isinstance(into, nn.SpaceToBatchOp) else None

    def rewrite(self, m: Blocks, rewriter: PatternRewriter) -> None:
        dilations = [d * b for d, b in zip(m.conv.dilation_list, m.block, strict=True)]
        operands = [m.into.input, *m.conv.operands[1:]]
        dilated = rebuilt(m.conv, operands, [m.out_of.result.type], pads=m.pads, dilations=dilations)
        dilated.location = fused_location(m.into, m.conv, m.out_of)
        reason = f"{layer_of(m.conv)} is a convolution with dilations {dilations}"
        self.remarks.applied(m.out_of, "dilation", reason)
        rewriter.replace(m.out_of, dilated)
