"""Decides before quantization whether an operation would compute in integers, by a trial of the lowering itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, cast

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, StringAttr, UnknownLoc, i32
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ...dialects.ascend.base import i8, i16
from ...dialects.nn import ConstantOp, DequantizeOp, MatMulOp, NNOp, OriginAttr, QParamsAttr
from ...dialects.nn.shapes import static
from ...ir.dtypes import Tensor, numpy_dtype
from ...transforms.quantization.convert.pairs import quantized_pair
from ..refusal import NotLowered, require
from .linear import product_of_inputs
from .quantized import Quantizer, quantized_rules
from .rules import Builder

_INTEGERS = QParamsAttr.of(i8, 1.0)
INT16 = QParamsAttr.of(i16, 1.0)
"""Data of 16 bits, with parameters that are not known."""
_KEPT = 4096
"""How many outcomes are kept. They depend on nothing but the facts, so they hold in every module, whatever becomes of it."""


class _Facts(NamedTuple):
    """All that a trial sees of an operation."""

    kind: type[NNOp]
    operands: tuple[Attribute, ...]
    results: tuple[Attribute, ...]
    properties: tuple[tuple[str, Attribute], ...]

    @staticmethod
    def of(op: NNOp) -> _Facts:
        properties = op.properties if op.origin is None else {**op.properties, "origin": _unnamed(op.origin)}
        return _Facts(type(op), tuple(op.operand_types), tuple(op.result_types), tuple(properties.items()))

    def copy(self, operands: Sequence[SSAValue], made: Sequence[Operation], block: Block) -> NNOp:
        """The operation on other operands, after their producers."""
        copy = self.kind.create(operands=operands, result_types=self.results, properties=dict(self.properties))
        block.add_ops([*made, copy])
        return copy


def _unnamed(origin: OriginAttr) -> OriginAttr:
    """The origin without its layer's name, so that layers of one form have one trial."""
    return OriginAttr(origin.framework, origin.op_type, _NO_NAME, _NO_MODULES, origin.attributes)


_NO_NAME, _NO_MODULES = StringAttr(""), ArrayAttr[StringAttr](())


def integer_refusal(op: NNOp, data: QParamsAttr = _INTEGERS, weight: QParamsAttr = _INTEGERS) -> NotLowered | None:
    """Why an operation would not compute in integers if its operands were quantized, by the first rule that refuses it; None
    where it would.

    A copy is lowered whose activation is int8 (or as `data`), whose weight (operand 1) is a constant of int8 and whose bias
    (operand 2) one of int32. Shapes, attributes and element types decide, and the parameters of data and weight if they are
    known.
    """
    known = data not in (_INTEGERS, INT16) or weight is not _INTEGERS
    return _tried(_Facts.of(op), data, weight) if known else _tried_by_types(_Facts.of(op), data)


def product_refusal(op: MatMulOp) -> NotLowered | None:
    """`integer_refusal` for a product of two inputs, both int8 without zero points. A bias stays unchanged."""
    return _product_tried(_Facts.of(op))


@lru_cache(maxsize=_KEPT)
def _tried_by_types(facts: _Facts, data: QParamsAttr) -> NotLowered | None:
    return _tried(facts, data, _INTEGERS)


def _tried(facts: _Facts, data: QParamsAttr, weight: QParamsAttr) -> NotLowered | None:
    refusals: list[NotLowered] = []
    for rule in quantized_rules(facts.copy([*Block(arg_types=facts.operands).args], (), Block())):
        block = Block(arg_types=facts.operands[:1])
        try:
            quantize, activation = quantized_pair(block.args[0], data, UnknownLoc())
            kinds = (weight, _sums(data, weight))
            parameters = [_stand_in(*pair) for pair in zip(facts.operands[1:], kinds, strict=False)]
            values: list[SSAValue] = [activation.result, *(back.result for _, back in parameters)]
            made: list[Operation] = [quantize, activation, *(each for pair in parameters for each in pair)]
            copy = facts.copy(values, made, block)
            rule(Builder(copy), copy, Quantizer.of([quantize]).activation(activation))
        except (NotLowered, VerifyException) as e:
            refusals.append(_refusal(e))
            continue
        return None
    nothing = NotLowered("no-ascend-op", f"no ascend operation of integers stands for {facts.kind.name}")
    return refusals[0] if refusals else nothing


@lru_cache(maxsize=_KEPT)
def _product_tried(facts: _Facts) -> NotLowered | None:
    block = Block(arg_types=facts.operands)
    pairs = [quantized_pair(value, _INTEGERS, UnknownLoc()) for value in block.args[:2]]
    made: list[Operation] = [each for pair in pairs for each in pair]
    copy = facts.copy([*(back.result for _, back in pairs), *block.args[2:]], made, block)
    quantizer = Quantizer.of(quantize for quantize, _ in pairs)
    try:
        product_of_inputs(Builder(copy), cast(MatMulOp, copy), *(quantizer.activation(back) for _, back in pairs))
    except (NotLowered, VerifyException) as e:
        return _refusal(e)
    return None


def _refusal(e: NotLowered | VerifyException) -> NotLowered:
    """The refusal without the operations that its traceback refers to."""
    return NotLowered(e.rule, e.reason) if isinstance(e, NotLowered) else NotLowered("ascend-constraint", str(e))


def _sums(data: QParamsAttr, weight: QParamsAttr) -> QParamsAttr:
    """The parameters of a bias: the scales of the sums."""
    scales = (data.data.scales() * weight.data.scales()).astype(np.float32)
    return QParamsAttr.of(i32, scales, axis=0 if scales.ndim else None)


def _stand_in(type_: Attribute, qparams: QParamsAttr) -> tuple[ConstantOp, DequantizeOp]:
    """A stand-in for a weight or bias: one broadcast zero, which needs no memory."""
    shape = cast(Tensor, type_).get_shape()
    require(static(shape), "known-sizes", "the sizes of its weight are not known")
    zeros = np.broadcast_to(np.zeros((), numpy_dtype(qparams.data.storage)), shape)
    constant = ConstantOp.beside(zeros, "trial")
    return constant, DequantizeOp.make(constant.result, qparams=qparams, result_types=[type_])
