"""Computing operations followed by a squeeze, TensorFlow's form of convolutions over one axis (Conv1D)."""

from __future__ import annotations

from typing import Protocol

from xdsl.ir import OpResult, SSAValue

from ...dialects.nn import BatchNormOp, BiasAddOp, SqueezeOp, ints
from ...dialects.nn.shapes import axes_of, shape_of
from ...rewriting import condition
from .computing import Computing, channel_axis, computing


class Squeezed(Protocol):
    """A match of a computing operation, the squeeze behind it, and an operation per channel."""

    @property
    def compute(self) -> Computing: ...
    @property
    def squeeze(self) -> SqueezeOp: ...
    @property
    def per_channel(self) -> BiasAddOp | BatchNormOp: ...


def squeezed(value: SSAValue) -> tuple[Computing, SqueezeOp] | None:
    """The computing operation whose squeezed result a value is."""
    if not isinstance(value, OpResult) or not isinstance(value.op, SqueezeOp):
        return None
    compute = computing(value.op.input)
    return None if compute is None else (compute, value.op)


class SqueezedConditions:
    """The conditions of every fold through a squeeze."""

    @condition
    def squeeze_used_once(self, m: Squeezed) -> str | None:
        """the result of the squeeze is used once (a graph output is a use)"""
        count = m.squeeze.result.uses.get_length()
        return None if count == 1 else f"the result of the squeeze has {count} uses"

    @condition
    def channels_stay(self, m: Squeezed) -> str | None:
        """the channels stay the channels when axes are dropped"""
        shape = shape_of(m.squeeze.input)
        dropped = [i for i, size in enumerate(shape) if size == 1]
        if m.squeeze.axes is not None:
            dropped = list(axes_of(ints(m.squeeze.axes), len(shape)))
        channels = channel_axis(m.compute)
        if channels is None or channels in dropped:
            return "the squeeze leaves no channels"
        left = channels - sum(axis < channels for axis in dropped)
        axis = m.per_channel.channel_axis(len(shape_of(m.squeeze.result)))
        return None if axis == left else f"it runs along axis {axis}, the output channels are axis {left} then"
