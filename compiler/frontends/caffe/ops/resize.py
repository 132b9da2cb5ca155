"""Interp and Upsample, layers of forks, in the forms that all forks agree on."""

from __future__ import annotations

from ....dialects import nn
from ....formats.caffe.schema import Message
from ..node import Converted, Node, Unmapped, converter


@converter("Interp", bottoms=(1, 2))
def interp(node: Node) -> Converted:
    """Bilinear resizing with aligned corners, after cutting off negative pads."""
    p = node.proto.interp_param
    if len(node.inputs) == 2:
        raise Unmapped("its size is that of another blob")
    if len(node.shape(0)) != 4:
        raise node.error(f"reads a blob of rank {len(node.shape(0))}, but it needs rank 4")
    if max(p.pad_beg, p.pad_end) > 0:
        raise node.error(f"pads by {p.pad_beg} and {p.pad_end}, it can only cut off")
    x = node.value(0)
    if p.pad_beg or p.pad_end:
        sides = [p.pad_beg, p.pad_end]
        x = node.emit(nn.PadOp, x, pads=[0, 0, *sides[:1] * 2, 0, 0, *sides[1:] * 2]).result
    given = (node.size(2), p.height), (node.size(3), p.width)
    sizes = [_size(node, p, size + p.pad_beg + p.pad_end, wanted) for size, wanted in given]
    return node.emit(nn.ResizeOp, x, sizes=[0, 0, *sizes], mode="linear", coordinates="align_corners").result


def _size(node: Node, p: Message, size: int, wanted: int) -> int:
    """The result size: `shrink_factor` and `zoom_factor` count the steps between elements, and win over `height` and `width`."""
    shrinks, zooms = p.HasField("shrink_factor"), p.HasField("zoom_factor")
    if not shrinks and not zooms:
        if wanted < 1:
            raise node.error("has neither height and width nor a factor")
        return wanted
    if min(p.shrink_factor, p.zoom_factor) < 1:
        raise node.error(f"has shrink_factor {p.shrink_factor} and zoom_factor {p.zoom_factor}")
    size = (size - 1) // p.shrink_factor + 1
    return size + (size - 1) * (p.zoom_factor - 1)


@converter("Upsample", bottoms=(1, 2), tops=(1, 1))
def upsample(node: Node) -> Converted:
    """Repeats every element `scale` times along height and width. Forks differ for masks and other modes."""
    p = node.proto.upsample_param
    if len(node.inputs) == 2 or {f.name for f, _ in p.ListFields()} - {"scale"}:
        raise Unmapped("forks differ in what it means with a mask, or sizes")
    if len(node.shape(0)) != 4 or p.scale < 1:
        raise node.error(
            f"reads a blob of rank {len(node.shape(0))} with scale {p.scale}, but it needs rank 4 and 1 or more"
        )
    scales = (1.0, 1.0, float(p.scale), float(p.scale))
    properties = {"mode": "nearest", "coordinates": "asymmetric", "nearest": "floor"}
    return node.emit(nn.ResizeOp, node.value(0), scales=scales, **properties).result
