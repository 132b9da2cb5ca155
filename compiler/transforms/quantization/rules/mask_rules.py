"""What keeps masks out of ranges: attention masks scores by adding or choosing -10000, the lowest float or -inf."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from ....dialects import nn
from ..sites import Site
from .layer_rules import rule

_SCORES = (
    nn.AddOp,
    nn.CastOp,
    nn.DivOp,
    nn.ExpandOp,
    nn.FlattenOp,
    nn.MaxOp,
    nn.MinOp,
    nn.MulOp,
    nn.ReshapeOp,
    nn.SliceOp,
    nn.SqueezeOp,
    nn.SubOp,
    nn.TransposeOp,
    nn.UnsqueezeOp,
    nn.WhereOp,
)
"""What scales, biases, masks and moves scores and masks."""
_POINTS = (nn.ObserveOp, nn.QuantizeOp, nn.DequantizeOp, nn.ShiftAccumulatorOp)


@rule("softmax-input")
def feeds_more_than_softmax(site: Site) -> str | None:
    """not only a Softmax, which takes floats, reads the result, be it directly or by way of what scales, masks and moves it"""
    if not _only_feeds_softmax(site.owner.results[0]):
        return None
    return "it only feeds Softmax, which takes floats; masked scores (-10000, -inf) would widen its range"


def _only_feeds_softmax(value: SSAValue) -> bool:
    readers = [use.operation for use in value.uses]
    return bool(readers) and all(map(_is_softmax_or_feeds_it, readers))


def _is_softmax_or_feeds_it(op: Operation) -> bool:
    if isinstance(op, nn.SoftmaxOp | nn.LogSoftmaxOp):
        return True
    return isinstance(op, _SCORES + _POINTS) and _only_feeds_softmax(op.results[0])
