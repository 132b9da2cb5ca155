"""Blocks of space that are moved into the batch and back, which is TensorFlow's form of dilated convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.ir import Block, Operation, SSAValue

from ....dialects import nn
from ....dialects.nn.base import rebuilt
from ....dialects.nn.shapes import DYNAMIC, axes_of, element_of, shape_of, tensor
from ....ir.dtypes import Tensor
from ....rewriting import fused_location
from ....transforms.partial_shapes import Linear
from ...shapes import normalized
from ..node import Converted, Node, Unmapped, converter


class _Blocks(NamedTuple):
    """Blocks of space, and the pads or crops of each axis, begins and ends."""

    layout: str
    block: tuple[int, ...]
    begins: tuple[int | Linear, ...]
    ends: tuple[int | Linear, ...]

    @staticmethod
    def of(rank: int, block: Sequence[int], pairs: Sequence[int | Linear]) -> _Blocks:
        """The blocks of all axes after the batch but the last, or of all of them if the first is left alone: then it
        holds channels.
        """
        begins, ends = tuple(pairs[::2]), tuple(pairs[1::2])
        if 0 < len(block) == rank - 1 and (block[0], begins[0], ends[0]) == (1, 0, 0):
            return _Blocks("nchw", tuple(block[1:]), begins[1:], ends[1:])
        return _Blocks("nhwc", tuple(block), begins, ends)

    @staticmethod
    def padded(op: nn.SpaceToBatchOp) -> _Blocks:
        pads, n = nn.ints(op.pads), len(nn.ints(op.block))
        return _Blocks(op.layout.data.value, nn.ints(op.block), pads[:n], pads[n:])

    def widened(self, place: int) -> _Blocks:
        """Inserts one more axis of space, at this place, that is left alone."""
        begins, ends = ((*row[:place], 0, *row[place:]) for row in (self.begins, self.ends))
        return _Blocks(self.layout, (*self.block[:place], 1, *self.block[place:]), begins, ends)

    @property
    def numbers(self) -> list[int] | None:
        """All begins, then all ends, if known."""
        numbers = [n for n in (*self.begins, *self.ends) if isinstance(n, int)]
        return numbers if len(numbers) == 2 * len(self.block) else None


@converter("SpaceToBatch", "SpaceToBatchND")
def space_to_batch(node: Node) -> Converted:
    blocks = _blocks(node)
    if (pads := blocks.numbers) is None:
        raise Unmapped("its padding is computed at run time", [_spread(node, blocks)])
    return _moved(node, nn.SpaceToBatchOp, blocks, pads=pads)


def _spread(node: Node, blocks: _Blocks) -> Tensor:
    """The type of the input, with unknown sizes of batch and space."""
    first = 2 if blocks.layout == "nchw" else 1
    changed = {0, *range(first, first + len(blocks.block))}
    return tensor(element_of(node.value(0)), [DYNAMIC if i in changed else d for i, d in enumerate(node.shape(0))])


@converter("BatchToSpace", "BatchToSpaceND")
def batch_to_space(node: Node) -> Converted:
    blocks = _blocks(node)
    if (dilated := _dilated(node, blocks)) is not None:
        return dilated
    if (crops := blocks.numbers) is None:
        raise Unmapped("its crops are computed at run time")
    return _moved(node, nn.BatchToSpaceOp, blocks, crops=crops)


def _moved(
    node: Node, kind: type[nn.SpaceToBatchOp | nn.BatchToSpaceOp], blocks: _Blocks, **amounts: Sequence[int]
) -> SSAValue:
    """The operation; if blocks take all axes after the batch, an axis of size 1 is added for channels."""
    x, rank = node.value(0), len(node.shape(0))
    if blocks.layout == "nchw" or len(blocks.block) < rank - 1:
        return node.emit(kind, x, block=blocks.block, layout=blocks.layout, **amounts).result
    widened = node.emit(nn.UnsqueezeOp, x, axes=[rank]).result
    moved = node.emit(kind, widened, block=blocks.block, layout=blocks.layout, **amounts).result
    return node.emit(nn.SqueezeOp, moved, axes=[rank]).result


def _blocks(node: Node) -> _Blocks:
    """The blocks of a node. Older operators have one size for height and width."""
    rank, newer = len(node.shape(0)), node.op_type.endswith("ND")
    block = node.known_ints(1) if newer else [node.int("block_size", 0)] * 2
    pairs = _pairs(node, node.sink.value(node.binding(2 if newer else 1)))
    if pairs is None or len(pairs) != 2 * len(block):
        raise Unmapped("its padding is computed at run time")
    return _Blocks.of(rank, block, pairs)


def _pairs(node: Node, value: SSAValue) -> list[int] | list[int | Linear] | None:
    array = nn.array_of(value)
    return node.sink.shapes.linear(value) if array is None else [int(n) for n in array.reshape(-1)]


class _Between(NamedTuple):
    """A convolution, the producer of its input, and the axis added around it if it has fewer."""

    conv: nn.ConvOp
    into: Operation | Block
    axis: int | None

    @staticmethod
    def before(value: SSAValue) -> _Between | None:
        op = value.owner
        if isinstance(op, nn.ConvOp):
            return _Between(op, op.input.owner, None)
        conv = op.input.owner if isinstance(op, nn.SqueezeOp) and op.axes is not None else None
        added = conv.input.owner if isinstance(conv, nn.ConvOp) else None
        if not isinstance(op, nn.SqueezeOp) or not isinstance(conv, nn.ConvOp) or not isinstance(added, nn.UnsqueezeOp):
            return None
        dropped, inserted = (axes_of(nn.ints(a), conv.spatial_rank + 2) for a in (op.axes, added.axes))
        return _Between(conv, added.input.owner, dropped[0]) if dropped == inserted and len(dropped) == 1 else None


def _dilated(node: Node, crops: _Blocks) -> SSAValue | None:
    """The convolution between blocks, dilated: padding that fills up the last block is cropped again, whatever its size.

    None for other graphs, and if --canonicalize handles it: the padding is known and no axis is added.
    """
    if (between := _Between.before(node.value(0))) is None:
        return None
    conv, into, axis = between
    known_pads = _Blocks.padded(into) if isinstance(into, nn.SpaceToBatchOp) and axis is not None else None
    pads = _carried_blocks(node, into) if isinstance(into, nn.OpaqueOp) else known_pads
    if pads is None or not isinstance(into, Operation):
        return None
    if axis is not None:
        place = axis - (2 if crops.layout == "nchw" else 1)
        pads, crops = pads.widened(place), crops.widened(place)
    plain = set(conv.stride_list) == {1} and conv.auto_pad is None and conv.layout.data.value == crops.layout
    more = _difference(pads, crops)
    if more is None or not plain or conv.spatial_rank != len(crops.block):
        return None
    x = into.operands[0] if axis is None else node.emit(nn.UnsqueezeOp, into.operands[0], axes=[axis]).result
    dilated = rebuilt(
        conv,
        [x, *conv.operands[1:]],
        [conv.result.type],
        pads=[p + s * q for p, s, q in zip(more, crops.block * 2, conv.pad_list, strict=True)],
        dilations=[s * d for s, d in zip(crops.block, conv.dilation_list, strict=True)],
    )
    nn.set_type(dilated.result, dilated.infer()[0])
    dilated.location = fused_location(into, conv)
    node.sink.body.append(normalized(dilated))
    return dilated.result if axis is None else node.emit(nn.SqueezeOp, dilated.result, axes=[axis]).result


def _carried_blocks(node: Node, op: nn.OpaqueOp) -> _Blocks | None:
    """The blocks of a SpaceToBatchND that is carried because its padding depends on sizes."""
    if op.op_type.data != "SpaceToBatchND":
        return None
    x, block, pads = op.operands
    sizes, pairs = nn.array_of(block), _pairs(node, pads)
    return None if sizes is None or pairs is None else _Blocks.of(len(shape_of(x)), [*map(int, sizes)], pairs)


def _difference(pads: _Blocks, crops: _Blocks) -> list[int] | None:
    """The excess of padding over cropping, if known and not negative."""
    if (pads.layout, pads.block) != (crops.layout, crops.block):
        return None
    result: list[int] = []
    for pad, crop in zip((*pads.begins, *pads.ends), (*crops.begins, *crops.ends), strict=True):
        m, n = (Linear(0, 0, v) if isinstance(v, int) else v for v in (pad, crop))
        if (m.base, m.factor) != (n.base, n.factor) or m.offset < n.offset:
            return None
        result.append(m.offset - n.offset)
    return result
