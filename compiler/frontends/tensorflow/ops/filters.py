"""The filters of convolutions in the axis order of `nn`: constants, constants stored as integers, and values of run time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from xdsl.ir import SSAValue

from ....dialects import nn
from ....dialects.nn.base import rebuilt
from ....dialects.nn.shapes import known
from ....transforms.transposition import commute, permuted_type
from ..node import Constant, Node


def transposed_filter(node: Node, index: int, perm: Sequence[int]) -> SSAValue:
    """Input `index` with its axes in another order. For integers that are dequantized, it transposes the integers: they
    stay constant.
    """
    if (stored := _stored(node, index)) is None:
        return node.transposed(index, perm)
    dequantize, integers = stored
    order = tuple(perm)
    moved = commute(dequantize, order)
    assert moved is not None
    turned = permuted_type(dequantize.result.type, order)
    made = rebuilt(dequantize, [node.sink.value(integers.transposed(order))], [turned], **moved.properties)
    node.sink.body.append(made)
    return made.result


def depthwise_filter(node: Node, index: int) -> SSAValue:
    """Input `index`, `[h, w, C, M]`, as `[C*M, 1, h, w]`."""
    perm, (h, w, channels, multiplier) = (2, 3, 0, 1), node.shape(index)
    shape = (channels * multiplier, 1, h, w)
    found = node.binding(index)
    if isinstance(found, Constant):
        return node.sink.value(found.transposed(perm).reshaped(shape))
    if (stored := _stored(node, index)) is not None:
        dequantize, integers = stored
        operand = node.sink.value(integers.transposed(perm).reshaped(shape))
        return node.emit(nn.DequantizeOp, operand, qparams=_repeated(dequantize.qparams, channels)).result
    filters = shape[0] if known(channels) and known(multiplier) else -1
    return node.emit(nn.ReshapeOp, node.transposed(index, perm), to=[filters, 1, 0, 0]).result


def _repeated(qparams: nn.QParamsAttr, channels: int) -> nn.QParamsAttr:
    """Parameters of `[h, w, C, M]`, per tensor or along M, for `[C*M, 1, h, w]`."""
    params = qparams.data
    if params.axis is None:
        return qparams
    scales, points = params.scales(), np.broadcast_to(params.zero_points(), params.scales().shape)
    return nn.QParamsAttr.of(params.storage, np.tile(scales, channels), [*np.tile(points, channels)], axis=0)


def _stored(node: Node, index: int) -> tuple[nn.DequantizeOp, Constant] | None:
    """The dequantize after input `index`, and the constant that it reads."""
    found = node.binding(index)
    owner = None if isinstance(found, Constant) else found.owner
    if not isinstance(owner, nn.DequantizeOp) or (constant := nn.constant_of(owner.input)) is None:
        return None
    return owner, Constant(constant.key, constant.array)
