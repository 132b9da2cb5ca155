"""Weight-only products: the integers become reals before the product, or their scales are applied after it.

float32 uses AscendAntiQuant, which has one scale: with scales per column, the product uses the integers and is scaled
afterwards; with scales per group, the integers are scaled group by group before it. float16 uses WeightQuantBatchMatmulV2, for
batches of rows too; what that operator does not take uses AscendAntiQuantV2, or AscendAntiQuant as float32 does and a Cast.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import Operation, SSAValue

from ...dialects import ascend, nn
from ...dialects.ascend.base import data_type_number, i8
from ...dialects.nn import NNOp, QParams
from ...dialects.nn.shapes import DYNAMIC, element_of, shape_of
from ...rewriting import Condition, condition, layer_of, requires
from ...session import Session
from ...support.diagnostics import op_error
from ...support.tables import some
from .constants import Array
from .indexing import sizes_of
from .linear import IN_FLOATS, IN_INTEGERS, OfLayer, Operands, columns
from .quantized import IntegerWeight, int8_behind
from .rules import Builder, Values


def has_integer_weight(op: NNOp) -> bool:
    """Whether a matrix product reads an integer constant as reals."""
    if not isinstance(op, nn.MatMulOp) or (dequantize := nn.dequantize_of(op.rhs)) is None:
        return False
    return nn.constant_of(dequantize.input) is not None


def _weight(op: nn.MatMulOp) -> nn.DequantizeOp:
    dequantize = nn.dequantize_of(op.rhs)
    assert dequantize is not None
    return dequantize


def _params(op: nn.MatMulOp) -> QParams:
    return _weight(op).qparams.data


class WeightOnly(IntegerWeight[nn.MatMulOp]):
    """A product whose second operand is a constant of integers that are read as reals."""

    def match(self, op: Operation) -> nn.MatMulOp | None:
        return op if isinstance(op, nn.MatMulOp) and has_integer_weight(op) else None

    @condition
    def channel_scales(self, op: nn.MatMulOp) -> str | None:
        """the weight has one scale, one per output column, or those of groups of input channels of a matrix"""
        params, axis = _params(op), columns(op)
        if params.block is not None:
            grouped = len(shape_of(op.rhs)) == 2 and params.axis == 1 - axis
            return None if grouped else "the groups of its weight are not those of input channels of a matrix"
        per_column = params.axis in (None, axis)
        return None if per_column else f"its weight has scales along axis {params.axis}, not per output column"


class RealWeight(OfLayer, WeightOnly):
    """The weight becomes reals, and the operation of the layer multiplies by them."""

    RANK_OF_VECTOR: ClassVar[int] = 1

    @condition
    def group_size(self, op: nn.MatMulOp) -> str | None:
        """groups divide the input channels"""
        params = _params(op)
        if params.block is None or params.axis is None:
            return None
        size = shape_of(op.rhs)[params.axis]
        whole = size % min(params.block, size) == 0
        return None if whole else f"groups of {params.block} do not divide its {size} input channels"

    def multiply(self, build: Builder, op: nn.MatMulOp, rhs: SSAValue, bias: SSAValue | None) -> SSAValue:
        return self.make(build, op, Operands(op.lhs, rhs, bias))


class WeightOnlyFloat32(RealWeight):
    """AscendAntiQuant, with one scale and zero point; or with 1 and 0, between Sub of zero points and Mul by scales.

    It reads int8; int4 weights are stored as int8, with a note.
    """

    def match(self, op: Operation) -> nn.MatMulOp | None:
        found = super().match(op)
        return None if found is None or element_of(found.lhs) == f16 else found

    float_type: Condition[Any] = requires(
        lambda op: element_of(op.lhs) == f32,
        "the other operand is float32 (or float16, which has patterns of its own)",
        lambda op: f"quantized weights go next to float32 or float16, not {element_of(op.lhs)}",
    )

    def rewrite(self, build: Builder, op: nn.MatMulOp) -> Values:
        params = _params(op)
        if params.axis is None:
            real = _integers(build, op, float(params.scales()), float(-params.zero_points()))
            return [self.multiply(build, op, real, op.bias)]
        real = _integers(build, op)
        if params.block is not None:
            return [self.multiply(build, op, _scaled(build, real, params), op.bias)]
        if (points := params.zero_points()).any():
            shape = (-1, 1) if op.transpose_b is not None and points.ndim else (-1,)
            constant = build.constant(points.astype(np.float32).reshape(shape), f"{build.hint}_zero_point")
            real = build.add(ascend.SubOp, real, constant, name=f"{build.hint}_weight").y
        scales = build.constant(params.scales(), f"{build.hint}_scale")
        y = build.add(ascend.MulOp, self.multiply(build, op, real, None), scales, name=f"{build.hint}_scaled").y
        return [y if op.bias is None else build.add(ascend.AddOp, y, op.bias).y]


def _integers(build: Builder, op: nn.MatMulOp, scale: float = 1.0, offset: float = 0.0) -> SSAValue:
    """The integers of the weight as float32 numbers, `(q + offset) * scale`."""
    weight, name = int8_behind(build, op.rhs), f"{build.hint}_weight"
    return build.add(ascend.AscendAntiQuantOp, weight, scale=scale, offset=offset, name=name).y


def _scaled(build: Builder, real: SSAValue, params: QParams) -> SSAValue:
    """The real weight from its integers as reals: Sub of zero points and Mul by scales; of groups between reshapes."""
    shape, axis, block = shape_of(real), params.axis, params.block
    assert axis is not None
    size = 1 if block is None else min(block, shape[axis])
    blocks = list(shape if block is None else nn.blocks_of(shape, axis, block))

    def reshaped(value: SSAValue, to: Sequence[int]) -> SSAValue:
        if block is None:
            return value
        target = build.constant(np.array(to, np.int64), f"{build.hint}_shape")
        return build.add(ascend.ReshapeOp, value, target, name=f"{build.hint}_weight").y

    def spread(values: Array, name: str) -> SSAValue:
        groups = [*blocks[: axis + 1], 1, *blocks[axis + 1 :]]
        channels = [-1 if i == axis else 1 for i in range(len(shape))]
        to = channels if block is None else groups
        return build.constant(values.astype(np.float32).reshape(to), f"{build.hint}_{name}")

    real = reshaped(real, [*blocks[: axis + 1], size, *blocks[axis + 1 :]])
    if (points := params.zero_points()).any():
        points = np.broadcast_to(points, params.scales().shape)
        real = build.add(ascend.SubOp, real, spread(points, "zero_point"), name=f"{build.hint}_weight").y
    real = build.add(ascend.MulOp, real, spread(params.scales(), "scale"), name=f"{build.hint}_weight").y
    return reshaped(real, shape)


class WeightOnlyFloat16(WeightOnly):
    """WeightQuantBatchMatmulV2, with float16 scales; batches of rows become one matrix before it, and batches again after it"""

    def match(self, op: Operation) -> nn.MatMulOp | None:
        found = super().match(op)
        return found if found is not None and element_of(found.lhs) == f16 else None

    @condition
    def one_matrix(self, op: nn.MatMulOp) -> str | None:
        """the weight is a matrix, and so is the input if it is stored transposed"""
        matrices = len(shape_of(op.rhs)) == 2 and (op.transpose_a is None or len(shape_of(op.lhs)) == 2)
        return None if matrices else "WeightQuantBatchMatmulV2 multiplies one matrix by another"

    @condition
    def scale_range(self, op: nn.MatMulOp) -> str | None:
        """the scales are normal float16 numbers"""
        scales, limits = np.abs(_params(op).scales().astype(np.float16)), np.finfo(np.float16)
        normal = bool(np.all((scales >= limits.tiny) & (scales <= limits.max)))
        return None if normal else "a scale of its weight leaves the normal range of float16"

    @condition
    def group_size(self, op: nn.MatMulOp) -> str | None:
        """groups are of 32, 64, ... input channels, or of all"""
        params = _params(op)
        if params.block is None or params.axis is None:
            return None
        possible = params.block % 32 == 0 or params.block >= shape_of(op.rhs)[params.axis]
        return None if possible else "WeightQuantBatchMatmulV2 has groups of 32, 64, ... or all input channels"

    def rewrite(self, build: Builder, op: nn.MatMulOp) -> Values:
        params, group = _params(op), 0
        scales, offsets = params.scales().reshape(-1).astype(np.float16), _offsets(params).astype(np.float16)
        if params.axis is not None and params.block is not None and params.block < shape_of(op.rhs)[params.axis]:
            blocks = nn.blocks_of(shape_of(op.rhs), params.axis, params.block)
            turned = op.transpose_b is not None
            scales, offsets = (p.reshape(blocks).T if turned else p.reshape(blocks) for p in (scales, offsets))
            group = params.block
        operands = (
            build.constant(np.ascontiguousarray(scales), f"{build.hint}_antiquant_scale"),
            build.constant(np.ascontiguousarray(offsets), f"{build.hint}_antiquant_offset"),
        )
        made = build.add(
            ascend.WeightQuantBatchMatmulV2Op,
            _rows(build, op),
            _weight(op).input,
            *operands,
            op.bias,
            transpose_x=op.transpose_a is not None,
            transpose_weight=op.transpose_b is not None,
            antiquant_group_size=group,
        )
        return [_batches(build, op, made.y)]


def _rows(build: Builder, op: nn.MatMulOp) -> SSAValue:
    """The vectors of the left operand as the rows of one matrix."""
    if len(shape_of(op.lhs)) == 2:
        return op.lhs
    channels = shape_of(op.rhs)[0 if op.transpose_b is None else 1]
    return build.add(ascend.ReshapeOp, op.lhs, build.ints([-1, channels], "matrix"), name=f"{build.hint}_rows").y


def _batches(build: Builder, op: nn.MatMulOp, rows: SSAValue) -> SSAValue:
    """The rows of a product in the shape of its result."""
    if len(shape_of(op.lhs)) == 2:
        return rows
    *batch, columns = shape_of(op.result)
    if batch.count(DYNAMIC) < 2:
        to = build.ints([-1 if d == DYNAMIC else d for d in (*batch, columns)], "shape")
        return build.add(ascend.ReshapeOp, rows, to).y
    parts = [sizes_of(build, op.lhs, 0, len(batch), "batch"), build.ints([columns], "columns")]
    to = build.add(ascend.ConcatV2Op, parts, build.index(0, "axis"), N=2, name=f"{build.hint}_shape").output_data
    return build.add(ascend.ReshapeOp, rows, to, result_types=[op.result.type]).y


class WeightOnlyOtherFloat16(RealWeight):
    """What WeightQuantBatchMatmulV2 does not take: the real weight by AscendAntiQuantV2 or, where its scales are not one for each
    last index, by AscendAntiQuant, Sub of zero points and Mul by scales in float32, then a Cast
    """

    def match(self, op: Operation) -> nn.MatMulOp | None:
        found = super().match(op)
        return None if found is None or element_of(found.lhs) != f16 else found

    def rewrite(self, build: Builder, op: nn.MatMulOp) -> Values:
        params = _params(op)
        if params.axis is not None and (params.block is not None or op.transpose_b is not None):
            real = _scaled(build, _integers(build, op), params)
            half = build.add(ascend.CastOp, real, dst_type=data_type_number(f16), name=f"{build.hint}_weight").y
            return [self.multiply(build, op, half, op.bias)]
        operands = (
            build.constant(params.scales().reshape(-1), f"{build.hint}_scale"),
            build.constant(_offsets(params), f"{build.hint}_offset") if params.zero_points().any() else None,
        )
        real = build.add(ascend.AscendAntiQuantV2Op, _weight(op).input, *operands, name=f"{build.hint}_weight").y
        return [self.multiply(build, op, real, op.bias)]


def _offsets(params: QParams) -> Array:
    """The offsets to add to the integers: the negated zero points, float32, as many as scales."""
    return np.broadcast_to(0 - params.zero_points(), params.scales().reshape(-1).shape).astype(np.float32)


def check_weights(module: ModuleOp, session: Session) -> None:
    """Notes weights of fewer bits that are stored as int8. Raises CompileError, at the product, for a weight that is quantized by
    itself and that no operator reads as integers.
    """
    wider = list[str]()
    for op in module.walk():
        if not isinstance(op, nn.MatMulOp) or not has_integer_weight(op) or nn.dequantize_of(op.lhs) is not None:
            continue
        if element_of(op.lhs) == f32 and element_of(_weight(op).input) != i8:
            wider.append(layer_of(op))
        refusals = [pattern.refusal(found) for pattern in _ALONE if (found := pattern.match(op)) is not None]
        if refusals and None not in refusals:
            reasons = "; ".join(dict.fromkeys(each.reason for each in refusals if each is not None))
            message = f"has a quantized weight that this target cannot read as integers: {reasons}"
            raise op_error(
                op, message, hint=f"another group-size or weight-bits for it, or --skip-layers {layer_of(op)}"
            )
    if wider:
        session.note(
            f"{some(wider)}: stored in 8 bits, because no operator reads fewer with float32 inputs; with float16 inputs one does"
        )


_ALONE: tuple[WeightOnly, ...] = (WeightOnlyFloat32(), WeightOnlyFloat16(), WeightOnlyOtherFloat16())

PATTERNS = (*IN_INTEGERS, WeightOnlyFloat32, WeightOnlyFloat16, WeightOnlyOtherFloat16, *IN_FLOATS)
"""Patterns for all matrix products: with quantized activations, with integer weights alone, in floats."""
