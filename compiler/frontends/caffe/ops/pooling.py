"""Pooling."""

from __future__ import annotations

from ....dialects import nn
from ....dialects.nn.shapes import known
from ....formats.caffe.schema import Message
from ..node import Converted, Node, Unmapped, converter, enum_name
from .window import geometry, per_axis

_POOLS: dict[str, tuple[type[nn.PoolOp], type[nn.GlobalPoolOp]]] = {
    "MAX": (nn.MaxPoolOp, nn.GlobalMaxPoolOp),
    "AVE": (nn.AveragePoolOp, nn.GlobalAveragePoolOp),
}


@converter("Pooling", tops=(1, 2))
def pooling(node: Node) -> Converted:
    """Pooling up to the end of the padding; sizes are rounded up by default, without a window that starts in the end padding.

    AVE divides by the number of elements of a window inside the padded input: padding counts, elements beyond it do not.
    """
    p = node.proto.pooling_param
    kind = enum_name(p, "pool")
    if kind not in _POOLS:
        raise Unmapped("it picks elements at random")
    if node.tops == 2:
        raise Unmapped("its second top holds the indices of the largest elements")
    if len(node.shape(0)) != 4:
        raise node.error(f"reads a blob of rank {len(node.shape(0))}, but it needs rank 4")
    window, whole = _POOLS[kind]
    if p.global_pooling:
        return _whole(node, p, whole)
    properties = geometry(node, p, 2)
    kernel = per_axis(node, p, "kernel_size", 2)
    pads = properties["pads"]
    if pads is not None and any(pad >= k for pad, k in zip(pads, kernel, strict=False)):
        raise node.error(f"pads by {pads[:2]}, which is not less than its kernel {kernel}")
    if pads is not None and issubclass(window, nn.AveragePoolOp):
        properties["count_include_pad"] = True
    op = node.emit(window, node.value(0), kernel=kernel, ceil_mode=rounds_up(node, p), **properties)
    _check_windows(node, op)
    return op.result


def _whole(node: Node, p: Message, op: type[nn.GlobalPoolOp]) -> Converted:
    if p.HasField("kernel_size") or p.HasField("kernel_h") or p.HasField("kernel_w"):
        raise node.error("pools globally, and has a kernel")
    if any(per_axis(node, p, "pad", 2, 0)) or set(per_axis(node, p, "stride", 2, 1)) != {1}:
        raise node.error("pools globally, and has strides or padding")
    return node.emit(op, node.value(0)).result


def rounds_up(node: Node, p: Message) -> bool:
    """Whether sizes are rounded up: BVLC has `round_mode: FLOOR`, other forks `ceil_mode: false`."""
    floor = enum_name(p, "round_mode") == "FLOOR"
    if floor and p.HasField("ceil_mode") and p.ceil_mode:
        raise node.error("has round_mode FLOOR and ceil_mode true")
    return p.ceil_mode and not floor


def _check_windows(node: Node, op: nn.PoolOp) -> None:
    """Raises CompileError for a last window outside the input; Caffe keeps it without padding, with an undefined result."""
    if op.ceil_mode is None or op.pads is not None:
        return
    for size, k, stride in zip(node.shape(0)[2:], op.kernel_shape, op.stride_list, strict=True):
        if known(size) and -(-(size - k) // stride) * stride >= size:
            raise node.error(
                f"has a last window outside of its input of size {size}: kernel {k}, stride {stride}",
                hint="`round_mode: FLOOR` (`ceil_mode: false`) leaves it out",
            )
