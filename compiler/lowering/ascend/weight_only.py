"""Weight-only products: the integers become reals before the product, or their scales are applied after it.

float32 uses AscendAntiQuant, which has one scale: with scales per column, the product uses the integers and is scaled
afterwards; with scales per group, the integers are scaled group by group before it. float16 uses WeightQuantBatchMatmulV2, or
AscendAntiQuantV2 for batches.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from xdsl.dialects.builtin import f16, f32
from xdsl.ir import Attribute, SSAValue

from ...dialects import ascend, nn
from ...dialects.ascend.base import i4, i8
from ...dialects.nn import NNOp, QParams
from ...dialects.nn.shapes import element_of, shape_of
from ..refusal import NotLowered, require
from .constants import Array
from .linear import multiply
from .quantized import stored_as_int8
from .rules import Builder


def has_integer_weight(op: NNOp) -> bool:
    """Whether a matrix product reads an integer constant as reals."""
    if not isinstance(op, nn.MatMulOp) or (dequantize := nn.dequantize_of(op.rhs)) is None:
        return False
    return nn.constant_of(dequantize.input) is not None


def weight_only_matmul(build: Builder, op: nn.MatMulOp) -> Sequence[SSAValue]:
    """A matrix product whose second operand satisfies `has_integer_weight`. Raises NotLowered where Ascend has no form
    for it.
    """
    dequantize = nn.dequantize_of(op.rhs)
    assert dequantize is not None
    params, element, rank = dequantize.qparams.data, element_of(op.lhs), len(shape_of(op.rhs))
    columns = rank - 2 if op.transpose_b is not None else rank - 1
    if params.block is None:
        per_column = params.axis in (None, columns)
        require(per_column, "channel-scales", f"its weight has scales along axis {params.axis}, not per output column")
    else:
        grouped = rank == 2 and params.axis == 1 - columns
        require(grouped, "channel-scales", "the groups of its weight are not those of input channels of a matrix")
    if element not in _BY_ELEMENT:
        raise NotLowered("float-type", f"quantized weights go beside float32 or float16, not {element}")
    narrow = params.storage in (i8, i4)
    require(narrow, "int8-weight", f"its weight is {params.storage}, not i8 or i4")
    return [_BY_ELEMENT[element](build, op, dequantize.input, params)]


def _single(build: Builder, op: nn.MatMulOp, weight: SSAValue, params: QParams) -> SSAValue:
    """AscendAntiQuant, with one scale and zero point; or with 1 and 0, between Sub of zero points and Mul by scales.

    It reads int8; int4 weights are stored as int8.
    """
    weight = stored_as_int8(build, weight)
    if params.axis is None:
        scale, offset = float(params.scales()), float(-params.zero_points())
        real = build.add(ascend.AscendAntiQuantOp, weight, scale=scale, offset=offset, name=f"{build.hint}_weight").y
        return multiply(build, op, op.lhs, real, op.bias)
    real = build.add(ascend.AscendAntiQuantOp, weight, scale=1.0, offset=0.0, name=f"{build.hint}_weight").y
    if params.block is not None:
        return multiply(build, op, op.lhs, _scaled_groups(build, real, params), op.bias)
    if (points := params.zero_points()).any():
        shape = (-1, 1) if op.transpose_b is not None and points.ndim else (-1,)
        constant = build.constant(points.astype(np.float32).reshape(shape), f"{build.hint}_zero_point")
        real = build.add(ascend.SubOp, real, constant, name=f"{build.hint}_weight").y
    scales = build.constant(params.scales(), f"{build.hint}_scale")
    y = build.add(ascend.MulOp, multiply(build, op, op.lhs, real, None), scales, name=f"{build.hint}_scaled").y
    return y if op.bias is None else build.add(ascend.AddOp, y, op.bias).y


def _scaled_groups(build: Builder, real: SSAValue, params: QParams) -> SSAValue:
    """The real weight from its integers as reals: Sub of zero points and Mul by scales, between reshapes to groups and back."""
    shape, axis, block = shape_of(real), params.axis, params.block
    assert axis is not None
    assert block is not None
    size = min(block, shape[axis])
    whole = shape[axis] % size == 0
    require(whole, "group-size", f"groups of {block} do not divide its {shape[axis]} input channels")
    blocks = list(nn.blocks_of(shape, axis, block))

    def reshaped(value: SSAValue, to: Sequence[int]) -> SSAValue:
        target = build.constant(np.array(to, np.int64), f"{build.hint}_shape")
        return build.add(ascend.ReshapeOp, value, target, name=f"{build.hint}_weight").y

    def by_group(values: Array, name: str) -> SSAValue:
        values = values.astype(np.float32).reshape(*blocks[: axis + 1], 1, *blocks[axis + 1 :])
        return build.constant(values, f"{build.hint}_{name}")

    real = reshaped(real, [*blocks[: axis + 1], size, *blocks[axis + 1 :]])
    if (points := params.zero_points()).any():
        points = np.broadcast_to(points, params.scales().shape)
        real = build.add(ascend.SubOp, real, by_group(points, "zero_point"), name=f"{build.hint}_weight").y
    real = build.add(ascend.MulOp, real, by_group(params.scales(), "scale"), name=f"{build.hint}_weight").y
    return reshaped(real, shape)


def _half(build: Builder, op: nn.MatMulOp, weight: SSAValue, params: QParams) -> SSAValue:
    """WeightQuantBatchMatmulV2 for matrices, with float16 scales; otherwise the real weight by AscendAntiQuantV2."""
    if len(shape_of(op.lhs)) != 2 or len(shape_of(op.rhs)) != 2:
        return _half_batches(build, op, weight, params)
    scales = params.scales().reshape(-1).astype(np.float16)
    limits = np.finfo(np.float16)
    normal = bool(np.all((scales >= limits.tiny) & (scales <= limits.max)))
    require(normal, "scale-range", "a scale of its weight leaves the normal range of float16")
    offsets, group = _offsets(params).astype(np.float16), 0
    if params.axis is not None and params.block is not None:
        blocks = nn.blocks_of(shape_of(op.rhs), params.axis, params.block)
        turned = op.transpose_b is not None
        scales, offsets = (p.reshape(blocks).T if turned else p.reshape(blocks) for p in (scales, offsets))
        group = params.block
        possible = group % 32 == 0 and group < shape_of(op.rhs)[params.axis]
        require(
            possible, "group-size", "WeightQuantBatchMatmulV2 has groups of 32, 64, ... fewer than all input channels"
        )
    operands = (
        build.constant(np.ascontiguousarray(scales), f"{build.hint}_antiquant_scale"),
        build.constant(np.ascontiguousarray(offsets), f"{build.hint}_antiquant_offset"),
    )
    return build.add(
        ascend.WeightQuantBatchMatmulV2Op,
        op.lhs,
        weight,
        *operands,
        op.bias,
        transpose_x=op.transpose_a is not None,
        transpose_weight=op.transpose_b is not None,
        antiquant_group_size=group,
    ).y


def _half_batches(build: Builder, op: nn.MatMulOp, weight: SSAValue, params: QParams) -> SSAValue:
    require(params.block is None, "channel-scales", "AscendAntiQuantV2 has scales along the last axis, not per group")
    last = params.axis is None or op.transpose_b is None
    require(last, "channel-scales", "AscendAntiQuantV2 has scales along the last axis, its weight is stored transposed")
    operands = (
        build.constant(params.scales().reshape(-1), f"{build.hint}_scale"),
        build.constant(_offsets(params), f"{build.hint}_offset") if params.zero_points().any() else None,
    )
    real = build.add(ascend.AscendAntiQuantV2Op, weight, *operands, name=f"{build.hint}_weight").y
    return multiply(build, op, op.lhs, real, op.bias)


def _offsets(params: QParams) -> Array:
    """The offsets to add to the integers: the negated zero points, float32, as many as scales."""
    return np.broadcast_to(0 - params.zero_points(), params.scales().reshape(-1).shape).astype(np.float32)


_Rule = Callable[[Builder, nn.MatMulOp, SSAValue, QParams], SSAValue]

_BY_ELEMENT: dict[Attribute, _Rule] = {f32: _single, f16: _half}
"""The lowering of a product, by the type of its input."""
