"""Decides before quantization whether an operation would compute in integers, by a trial of the lowering itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import numpy as np
from xdsl.dialects.builtin import i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ...dialects.ascend.base import i8
from ...dialects.nn import ConstantOp, DequantizeOp, MatMulOp, NNOp, QParamsAttr
from ...dialects.nn.shapes import shape_of, static
from ...ir.dtypes import numpy_dtype
from ...transforms.quantization.pairs import quantized_pair
from .linear import product_of_inputs
from .quantized import Quantizer, quantized_rules
from .rules import Builder, NotLowered, require

_Op = TypeVar("_Op", bound=NNOp)

_INTEGERS = QParamsAttr.of(i8, 1.0)


def integer_refusal(op: NNOp, data: QParamsAttr = _INTEGERS, weight: QParamsAttr = _INTEGERS) -> NotLowered | None:
    """Why an operation would not compute in integers if its operands were quantized, by the first rule that refuses it; None
    where it would.

    A copy is lowered whose activation is int8, whose weight (operand 1) is a constant of int8 and whose bias (operand 2) one
    of int32. Shapes, attributes and element types decide, and the parameters of data and weight if they are known.
    """
    refusals: list[NotLowered] = []
    for rule in quantized_rules(op):
        block = Block(arg_types=[op.operands[0].type])
        try:
            quantize, activation = quantized_pair(block.args[0], data, op.location)
            kinds = (weight, _sums(data, weight))
            parameters = [_stand_in(*pair) for pair in zip(op.operands[1:], kinds, strict=False)]
            values: list[SSAValue] = [activation.result, *(back.result for _, back in parameters)]
            made: list[Operation] = [quantize, activation, *(each for pair in parameters for each in pair)]
            copy = _copy(op, values, made, block)
            rule(Builder(copy), copy, Quantizer.of([quantize]).activation(activation))
        except (NotLowered, VerifyException) as e:
            refusals.append(_refusal(e))
            continue
        return None
    return (
        refusals[0] if refusals else NotLowered("no-ascend-op", f"no ascend operation of integers stands for {op.name}")
    )


def product_refusal(op: MatMulOp) -> NotLowered | None:
    """`integer_refusal` for a product of two inputs, both int8 without zero points. A bias stays unchanged."""
    block = Block(arg_types=[value.type for value in op.operands])
    pairs = [quantized_pair(value, _INTEGERS, op.location) for value in block.args[:2]]
    made: list[Operation] = [each for pair in pairs for each in pair]
    copy = _copy(op, [*(back.result for _, back in pairs), *block.args[2:]], made, block)
    quantizer = Quantizer.of(quantize for quantize, _ in pairs)
    try:
        product_of_inputs(Builder(copy), copy, *(quantizer.activation(back) for _, back in pairs))
    except (NotLowered, VerifyException) as e:
        return _refusal(e)
    return None


def _copy(op: _Op, operands: Sequence[SSAValue], made: Sequence[Operation], block: Block) -> _Op:
    """A copy of an operation after the producers of its operands."""
    copy = op.clone()
    copy.operands = operands
    block.add_ops([*made, copy])
    return copy


def _refusal(e: NotLowered | VerifyException) -> NotLowered:
    return e if isinstance(e, NotLowered) else NotLowered("ascend-constraint", str(e))


def _sums(data: QParamsAttr, weight: QParamsAttr) -> QParamsAttr:
    """The parameters of a bias: the scales of the sums."""
    scales = (data.data.scales() * weight.data.scales()).astype(np.float32)
    return QParamsAttr.of(i32, scales, axis=0 if scales.ndim else None)


def _stand_in(value: SSAValue, qparams: QParamsAttr) -> tuple[ConstantOp, DequantizeOp]:
    """A stand-in for a weight or bias: one broadcast zero, which needs no memory."""
    shape = shape_of(value)
    require(static(shape), "known-sizes", "the sizes of its weight are not known")
    zeros = np.broadcast_to(np.zeros((), numpy_dtype(qparams.data.storage)), shape)
    constant = ConstantOp.beside(zeros, "trial")
    return constant, DequantizeOp.make(constant.result, qparams=qparams, result_types=[value.type])
