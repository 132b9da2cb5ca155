"""Regions that a target runs as one operation: building them, and Horizon's names for them."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, OpResult, Region, SSAValue

from ...dialects.nn import ConvolutionOp, ConvTransposeOp, DequantizeOp, FusedOp, NNOp, WeightedOp, YieldOp, constant_of
from ...dialects.nn.fused import single_block
from .computing import weight_of


def in_region(op: Operation) -> bool:
    """Whether an operation is inside a fused region."""
    return isinstance(op.parent_op(), FusedOp)


def region(kind: str, ops: Sequence[NNOp]) -> FusedOp:
    """An `nn.fused` of operations of one block, each after its operands, which replaces the last one.

    All but the last move inside; the last is copied, so that it can be replaced. Every use of a value from outside is an
    input of its own, in the order of the operations: a value that is both convolved and added can then be quantized for the
    convolution alone. The region has the origin of the first operation.
    """
    *moved, last = ops
    made = {result for op in moved for result in op.results}
    copy = last.clone()
    copy.location = last.location
    inside: list[NNOp] = [*moved, copy]
    outer = [(op, i) for op in inside for i, operand in enumerate(op.operands) if operand not in made]
    inputs = [op.operands[i] for op, i in outer]
    block = single_block(inputs)
    for (op, i), argument in zip(outer, block.args, strict=True):
        op.operands[i] = argument
    for op in moved:
        op.detach()
    block.add_ops([*inside, YieldOp(copy.results[0])])
    fused = FusedOp.of(kind, inputs, Region(block))
    fused.origin = ops[0].origin
    fused.result.name_hint = last.results[0].name_hint
    return fused


def compute_kind(compute: WeightedOp, *parts: str) -> str:
    """Horizon's name of a computing operation with its followers: `ConvAddReLU2d`, `ConvReLU62d`, `LinearReLU`.

    A product of two computed values is `MatMul`: it has no weights that would make it a linear layer.
    """
    if not isinstance(compute, ConvolutionOp):
        return "".join(("Linear" if _is_parameter(weight_of(compute)) else "MatMul", *parts))
    name = "ConvTranspose" if isinstance(compute, ConvTransposeOp) else "Conv"
    return "".join((name, *parts, f"{compute.spatial_rank}d"))


def _is_parameter(value: SSAValue) -> bool:
    """A constant, also in quantized form."""
    if isinstance(value, OpResult) and isinstance(value.op, DequantizeOp):
        value = value.op.input
    return constant_of(value) is not None
