"""Matrix products: MatMulV2 is Gemm, BatchMatMulV2 is MatMul; and BiasAdd."""

from __future__ import annotations

from xdsl.ir import SSAValue

from ...dialects import ascend, nn
from ...dialects.nn.shapes import shape_of
from ..deployed import is_integer
from ..onnx.layer import OnnxLayer, Operand
from ..onnx.rows import unsqueezed
from ..onnx.several import Steps
from .table import converter, name_beside, packed, product


@converter(ascend.MatMulV2Op)
def gemm(op: ascend.MatMulV2Op, layer: OnnxLayer) -> str:
    transposes = {f"trans{name}": 1 if flag else None for name, flag in zip("AB", op.transposes, strict=True)}
    weight = packed(op, op.x2, 1 if op.transposes[1] else 0, layer)
    return product(layer, "Gemm", op.x1, [weight, op.bias], transposes)


@converter(ascend.BatchMatMulV2Op)
def matmul(op: ascend.BatchMatMulV2Op, layer: OnnxLayer) -> str:
    """Writes MatMul, which has neither transposes nor a bias: separate nodes, an int32 bias before the dequantization as in
    AMCT.
    """
    weight = op.x2 if op.transposes[1] else packed(op, op.x2, len(shape_of(op.x2)) - 2, layer)
    x1 = _transposed(op.x1, layer) if op.transposes[0] else layer.value(op.x1)
    x2 = _transposed(op.x2, layer) if op.transposes[1] else layer.value(weight)
    if not is_integer(op):
        return layer.node("MatMul", x1, x2) if op.bias is None else _biased_product(layer, op.x1, x1, x2, op.bias)
    result = layer.unchecked("MatMul", [x1, x2], {}, layer.label)
    return result if op.bias is None else layer.unchecked("Add", [result, op.bias], {}, f"{layer.label}/Add")


@converter(ascend.FullyConnectionOp)
def inner_product(op: ascend.FullyConnectionOp, layer: OnnxLayer) -> str:
    """Writes Gemm on a matrix of the axes that are summed over; along axis 2 a MatMul, with its bias after it."""
    rank, axis = len(shape_of(op.x)), op.first_axis
    if axis == 1:
        x = layer.value(op.x) if rank == 2 else layer.helper("Flatten", op.x, axis=1)
        return product(layer, "Gemm", op.x, [op.w, op.b], {"transB": None if op.is_transposed else 1}, data=x)
    x = layer.value(op.x) if rank == 3 else layer.helper("Reshape", op.x, layer.ints([0, 0, -1], "shape"))
    w = layer.value(op.w) if op.is_transposed else _transposed(op.w, layer)
    if op.b is not None and not is_integer(op):
        return _biased_product(layer, op.x, x, w, op.b)
    result = product(layer, "MatMul", op.x, [w], {}, data=x)
    return result if op.b is None else layer.unchecked("Add", [result, op.b], {}, f"{layer.label}/Add")


def _biased_product(layer: OnnxLayer, like: SSAValue, lhs: str, rhs: str, bias: SSAValue) -> str:
    """MatMul and Add: a bias is added before the one rounding."""
    steps = Steps(layer, like)
    result = layer.node("MatMul", steps.take(lhs), steps.take(rhs))
    return steps.rounded(layer.emit("Add", [result, steps.take(bias)], {}, f"{layer.label}/Add")[0])


def _transposed(value: SSAValue, layer: OnnxLayer) -> str:
    rank = len(shape_of(value))
    return layer.helper("Transpose", value, perm=[*range(rank - 2), rank - 1, rank - 2])


@converter(ascend.BiasAddOp)
def bias_add(op: ascend.BiasAddOp, layer: OnnxLayer) -> str:
    """An Add; the bias gets an axis of size 1 for each axis after the channels."""
    behind = len(shape_of(op.x)) - 1 - op.channel_axis
    return layer.emit("Add", [op.x, _bias(op.bias, behind, layer)], {}, name_beside(op, layer, "Add"))[0]


def _bias(bias: SSAValue, behind: int, layer: OnnxLayer) -> Operand:
    if behind == 0:
        return bias
    if (array := nn.array_of(bias)) is not None:
        return layer.constant(array.reshape(-1, *[1] * behind), "bias")
    return unsqueezed(bias, range(1, behind + 1), layer)
