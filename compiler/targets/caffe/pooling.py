"""Pooling. Caffe rounds sizes up, and counts padding in averages; forks say otherwise in fields that others do not know.

Therefore sizes that are rounded down are cut if they differ, and fields that forks read differently are not written.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ...dialects import nn
from ...dialects.nn.shapes import DYNAMIC, shape_of
from .convolution import spatial
from .layer import Bottom, CaffeLayer, Written, converter
from .quantization import dequantized, integers_in

_POOLS: dict[type[nn.NNOp], str] = {
    nn.MaxPoolOp: "MAX",
    nn.AveragePoolOp: "AVE",
    nn.GlobalMaxPoolOp: "MAX",
    nn.GlobalAveragePoolOp: "AVE",
}


@converter(nn.GlobalAveragePoolOp, nn.GlobalMaxPoolOp)
def global_pool(op: nn.GlobalPoolOp, layer: CaffeLayer) -> Written:
    _check_rank(op, layer)
    return layer.layer("Pooling", op.input, pooling_param={"pool": _POOLS[type(op)], "global_pooling": True})


@converter(nn.MaxPoolOp, nn.AveragePoolOp)
def pool(op: nn.PoolOp, layer: CaffeLayer) -> Written:
    _check_rank(op, layer)
    if any(d != 1 for d in op.dilation_list):
        layer.fail("has dilations, Caffe's Pooling has none")
    pads = op.resolved_pads(op.spatial(shape_of(op.input)))
    if pads is None:
        layer.fail("has an auto_pad that depends on sizes which are not known", "--input-shape gives sizes")
    parameters = {
        "pool": _POOLS[type(op)],
        **spatial("pad", pads[:2], 0),
        **spatial("kernel_size", op.kernel_shape),
        **spatial("stride", op.stride_list, 1),
    }
    integers = integers_in(op, layer)
    deployed = integers is not None and layer.net.form == "deploy"
    x, kept = _cut(op, layer, pads, integers.quantize.result if integers is not None and deployed else op.input)
    pooled = layer.layer("Pooling", x, pooling_param=parameters)
    for axis, (size, written) in enumerate(kept, 2):
        pooled = layer.cut(pooled, axis, 0, size, written)
    return pooled if integers is None else dequantized(layer, pooled, integers)


def _check_rank(op: nn.LayoutOp, layer: CaffeLayer) -> None:
    if (rank := len(shape_of(op.operands[0]))) != 4:
        layer.fail(f"reads an input of rank {rank}, Caffe's Pooling one of rank 4")


class Axis(NamedTuple):
    """The geometry of a window along one axis."""

    size: int
    kernel: int
    stride: int
    begin: int
    end: int

    def counts(self, outputs: int, padding: bool) -> list[int]:
        """The number of elements that each window counts: those of the input, with `padding` also those of the padding."""
        low, high = (-self.begin, self.size + self.end) if padding else (0, self.size)
        starts = [i * self.stride - self.begin for i in range(outputs)]
        return [min(s + self.kernel, high) - max(s, low) for s in starts]

    def caffe_outputs(self, padded: bool) -> int:
        """The number of Caffe's windows on an axis with pads `begin` at both ends; `padded` if any axis has padding."""
        outputs = -((self.kernel - self.size - 2 * self.begin) // self.stride) + 1
        return outputs - (padded and (outputs - 1) * self.stride >= self.size + self.begin)


def _cut(op: nn.PoolOp, layer: CaffeLayer, pads: Sequence[int], x: Bottom) -> tuple[Bottom, list[tuple[int, int]]]:
    """Cuts the input to the elements that the windows see, and gives the number of Caffe's windows to keep on each
    axis. Raises CompileError if Caffe's windows would count, or lie, otherwise.

    Raises CompileError where Caffe's windows would count, or lie, otherwise.
    """
    space = op.spatial(shape_of(op.input))
    outputs = op.window_output(space, ceil=op.ceil_mode is not None)
    axes = [Axis(*row) for row in zip(space, op.kernel_shape, op.stride_list, pads[:2], pads[2:], strict=True)]
    if DYNAMIC in space:
        _check_unknown(op, layer, axes)
        return x, []
    padded, kept = any(a.begin for a in axes), list[tuple[int, int]]()
    for i, (axis, wanted) in enumerate(zip(axes, outputs, strict=True)):
        if not padded and axis.caffe_outputs(padded) > wanted:
            seen = (wanted - 1) * axis.stride + axis.kernel
            x = layer.cut(x, 2 + i, 0, seen, axis.size)
            axis = axis._replace(size=seen)
        made = axis.caffe_outputs(padded)
        if made < wanted or not _counts_agree(op, axis, wanted):
            layer.fail(
                f"has pads {list(pads)}, with which Caffe's Pooling would give other results",
                "Caffe pads both ends alike, and counts padding in averages",
            )
        kept.append((wanted, made))
    return x, kept


def _counts_agree(op: nn.PoolOp, axis: Axis, outputs: int) -> bool:
    """Whether each window averages as many elements as Caffe's; always true for max pools."""
    if not isinstance(op, nn.AveragePoolOp):
        return True
    caffe = axis._replace(end=axis.begin).counts(outputs, padding=True)
    return caffe == axis.counts(outputs, padding=op.count_include_pad is not None)


def _check_unknown(op: nn.PoolOp, layer: CaffeLayer, axes: Sequence[Axis]) -> None:
    """Checks a pool of unknown sizes, which can only be written if it matches Caffe's definition."""
    padding = any(a.begin or a.end for a in axes)
    averages_input = isinstance(op, nn.AveragePoolOp) and padding and op.count_include_pad is None
    rounds_down = op.ceil_mode is None and any(s != 1 for s in op.stride_list)
    if averages_input or rounds_down or any(a.begin != a.end for a in axes):
        layer.fail("pools an input of unknown size otherwise than Caffe does", "--input-shape gives sizes")
