"""Elements moved between space and channels, and between space and batch."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.irdl import Operand, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from ...ir.dtypes import Tensor
from .attributes import DepthMode, DepthModeAttr
from .base import ANY_TENSOR, INT, INTS, Int, Ints, MovingOp, Result, ints, operation
from .shapes import DYNAMIC, Shape, element_of, known, shape_of, tensor, text
from .window import LayoutOp


@operation
class DepthToSpaceOp(LayoutOp, MovingOp):
    """Moves channels into space: `[N, C, H, W]` to `[N, C/b^2, H*b, W*b]` (ONNX DepthToSpace)."""

    input: Operand = operand_def(ANY_TENSOR)
    block: Int = prop_def(INT)
    mode: DepthModeAttr = prop_def(DepthModeAttr, default_value=DepthModeAttr(DepthMode.DCR))
    result: Result = result_def(ANY_TENSOR)

    def infer(self) -> Sequence[Tensor]:
        n, channels, h, w = _image(self)
        b = self.block.value.data
        if known(channels) and channels % (b * b):
            raise VerifyException(f"{channels} channels are not divisible by {b * b}")
        c = channels // (b * b) if known(channels) else DYNAMIC
        return [tensor(element_of(self.input), self.arrange(n, c, [d * b if known(d) else DYNAMIC for d in (h, w)]))]


@operation
class SpaceToDepthOp(LayoutOp, MovingOp):
    """Moves space into channels: `[N, C, H, W]` to `[N, C*b^2, H/b, W/b]` (ONNX SpaceToDepth)."""

    input: Operand = operand_def(ANY_TENSOR)
    block: Int = prop_def(INT)
    result: Result = result_def(ANY_TENSOR)

    def infer(self) -> Sequence[Tensor]:
        n, channels, h, w = _image(self)
        b = self.block.value.data
        if any(known(d) and d % b for d in (h, w)):
            raise VerifyException(f"sizes {text((h, w))} are not divisible by {b}")
        c = channels * b * b if known(channels) else DYNAMIC
        return [tensor(element_of(self.input), self.arrange(n, c, [d // b if known(d) else DYNAMIC for d in (h, w)]))]


def _image(op: DepthToSpaceOp | SpaceToDepthOp) -> tuple[int, int, int, int]:
    x = shape_of(op.input)
    if len(x) != 4:
        raise VerifyException(f"input must be of rank 4, not {len(x)}")
    if op.block.value.data < 1:
        raise VerifyException(f"block must be at least 1, not {op.block.value.data}")
    h, w = op.spatial(x)
    return x[0], x[op.channel_axis(4)], h, w


class BlockOp(LayoutOp, MovingOp):
    """Moves blocks of space into or out of the batch; `block` and `pads` concern the first spatial axes."""

    input: Operand = operand_def(ANY_TENSOR)
    block: Ints = prop_def(INTS)
    result: Result = result_def(ANY_TENSOR)

    def check_blocks(self, lists: tuple[int, ...]) -> Shape:
        x, block = shape_of(self.input), ints(self.block)
        if len(x) < 3 or not 1 <= len(block) <= len(x) - 2:
            raise VerifyException(f"block of {len(block)} axes on a tensor of rank {len(x)}")
        if any(b < 1 for b in block) or any(p < 0 for p in lists) or len(lists) != 2 * len(block):
            raise VerifyException("blocks must be at least 1, with a non-negative begin and end each")
        return x

    @property
    def acts_by_sample(self) -> bool:
        return False


@operation
class SpaceToBatchOp(BlockOp):
    """Pads space, then moves each position within a block into the batch (TensorFlow SpaceToBatchND).

    input `[N, C, *spatial]` (`layout nhwc`: channels last), result `[N * prod(block), C, *((spatial + pads) / block)]`.
    `pads`: all begins, then all ends.
    """

    pads: Ints = prop_def(INTS)

    @property
    def fill(self) -> float | None:
        return 0.0 if any(ints(self.pads)) else None

    def infer(self) -> Sequence[Tensor]:
        pads = ints(self.pads)
        x, block = self.check_blocks(pads), ints(self.block)
        spatial = list(self.spatial(x))
        for i, b in enumerate(block):
            if known(spatial[i]):
                padded = spatial[i] + pads[i] + pads[i + len(block)]
                if padded % b:
                    raise VerifyException(f"padded size {padded} of axis {i} is not divisible by {b}")
                spatial[i] = padded // b
        batch = x[0] * prod(block) if known(x[0]) else DYNAMIC
        return [tensor(element_of(self.input), self.arrange(batch, x[self.channel_axis(len(x))], spatial))]


@operation
class BatchToSpaceOp(BlockOp):
    """Moves parts of the batch back into space, then crops (TensorFlow BatchToSpaceND).

    input `[N * prod(block), C, *spatial]`, result `[N, C, *(spatial * block - crops)]`. `crops`: all begins, then all ends.
    """

    crops: Ints = prop_def(INTS)

    def infer(self) -> Sequence[Tensor]:
        crops = ints(self.crops)
        x, block = self.check_blocks(crops), ints(self.block)
        if known(x[0]) and x[0] % prod(block):
            raise VerifyException(f"batch {x[0]} is not divisible by {prod(block)}")
        spatial = list(self.spatial(x))
        for i, b in enumerate(block):
            if known(spatial[i]):
                spatial[i] = spatial[i] * b - crops[i] - crops[i + len(block)]
                if spatial[i] < 0:
                    raise VerifyException(f"crops take more of axis {i} away than there is")
        batch = x[0] // prod(block) if known(x[0]) else DYNAMIC
        return [tensor(element_of(self.input), self.arrange(batch, x[self.channel_axis(len(x))], spatial))]


__all__ = ["BatchToSpaceOp", "DepthToSpaceOp", "SpaceToBatchOp", "SpaceToDepthOp"]
