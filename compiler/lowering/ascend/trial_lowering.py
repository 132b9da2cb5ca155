"""Decides before quantization whether an operation would compute in integers, by a trial of the lowering itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, cast

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, StringAttr, UnknownLoc, i32
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ...dialects.ascend import AscendOp
from ...dialects.ascend.base import i8
from ...dialects.nn import ConstantOp, DequantizeOp, MatMulOp, NNOp, OriginAttr, QParamsAttr
from ...dialects.nn.shapes import static
from ...ir.dtypes import Tensor, numpy_dtype
from ...rewriting import Refusal
from ...transforms.quantization.convert.pairs import quantized_pair
from ...transforms.quantization.decide.rows import INT16, Judge
from .chips.kernels import Kernel, kernel_of, lacking
from .linear import ProductOfInputs
from .lower import in_integers
from .quantizer import Quantizer

_INTEGERS = QParamsAttr.of(i8, 1.0)
_KEPT = 4096
"""Number of outcomes that are kept. They depend only on the facts, so they apply in every module, whatever becomes of it."""


class _Facts(NamedTuple):
    """The facts of an operation that a trial depends on."""

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


def integer_refusal(op: NNOp, data: QParamsAttr = _INTEGERS, weight: QParamsAttr = _INTEGERS) -> Refusal | None:
    """The reason why an operation would not compute in integers if its operands were quantized, by the first rule that
    refuses it; None if it would.

    A copy is lowered whose activation is int8 (or as `data`), whose weight (operand 1) is a constant of int8 and whose bias
    (operand 2) one of int32. Shapes, attributes and element types decide, and the parameters of data and weight if they are
    known.
    """
    return _integer_trial(op, data, weight, None).refusal


def product_refusal(op: MatMulOp) -> Refusal | None:
    """`integer_refusal` for a product of two inputs, both int8 without zero points. A bias stays unchanged."""
    return _product_tried(_Facts.of(op), None).refusal


@dataclass(frozen=True)
class _OnChip:
    """The judge for a chip: what is lowered needs kernels there."""

    chip: str

    def integer_refusal(
        self, op: NNOp, data: QParamsAttr = _INTEGERS, weight: QParamsAttr = _INTEGERS
    ) -> Refusal | None:
        return _integer_trial(op, data, weight, self.chip).refusal

    def product_refusal(self, op: MatMulOp) -> Refusal | None:
        return _product_tried(_Facts.of(op), self.chip).refusal

    def recurrent_refusal(self, kind: str) -> str | None:
        return lacking(f"Basic{kind}InplaceFillWindowCache", self.chip)

    def on(self, chip: str) -> Judge:
        return on(chip)


def recurrent_refusal(kind: str) -> str | None:
    """None: the layer's own conditions say which types have an operator."""
    return None


def on(chip: str) -> Judge:
    """The judge for a chip."""
    return _OnChip(chip)


def kernels_in_integers(op: NNOp, two_inputs: bool, chip: str) -> tuple[Kernel, ...]:
    """The kernels of a chip for an operation in integers of 8 bits, or for a product of two inputs; none if it is refused."""
    if two_inputs:
        return _product_tried(_Facts.of(op), chip).kernels
    return _integer_trial(op, _INTEGERS, _INTEGERS, chip).kernels


class _Trial(NamedTuple):
    """The outcome of a trial."""

    refusal: Refusal | None
    kernels: tuple[Kernel, ...] = ()
    """Those of the chip, if there is one, for what was built."""


def _integer_trial(op: NNOp, data: QParamsAttr, weight: QParamsAttr, chip: str | None) -> _Trial:
    known = data not in (_INTEGERS, INT16) or weight is not _INTEGERS
    return _tried(_Facts.of(op), data, weight, chip) if known else _tried_by_types(_Facts.of(op), data, chip)


@lru_cache(maxsize=_KEPT)
def _tried_by_types(facts: _Facts, data: QParamsAttr, chip: str | None) -> _Trial:
    return _tried(facts, data, _INTEGERS, chip)


def _tried(facts: _Facts, data: QParamsAttr, weight: QParamsAttr, chip: str | None) -> _Trial:
    patterns = in_integers(facts.copy([*Block(arg_types=facts.operands).args], (), Block()))
    if not patterns:
        return _Trial(Refusal("no-ascend-op", f"no ascend operation of integers stands for {facts.kind.name}"))
    if not all(static(cast(Tensor, type_).get_shape()) for type_ in facts.operands[1:3]):
        return _Trial(Refusal("known-sizes", "the sizes of its weight are not known"))
    try:
        copy, quantizer = _quantized(facts, data, weight)
    except VerifyException as e:
        return _Trial(Refusal("ascend-constraint", str(e)))
    refusals: list[Refusal] = []
    for pattern in patterns:
        found = pattern.attempt(copy, quantizer)
        if isinstance(found, Refusal):
            refusals.append(found)
        elif found is not None:
            return _built(copy, chip)
    return _Trial(refusals[0] if refusals else None)


def _built(copy: NNOp, chip: str | None) -> _Trial:
    """The outcome of a trial that succeeded: on a chip, what was built before the copy needs kernels."""
    block = copy.parent
    assert block is not None
    found = [kernel_of(op, chip) for op in block.ops if isinstance(op, AscendOp)] if chip is not None else []
    refusal = next((each for each in found if isinstance(each, Refusal)), None)
    kernels = tuple(each for each in found if isinstance(each, Kernel)) if refusal is None else ()
    return _Trial(refusal, kernels)


def _quantized(facts: _Facts, data: QParamsAttr, weight: QParamsAttr) -> tuple[NNOp, Quantizer]:
    """A copy on quantized operands. Raises VerifyException if a value cannot have the parameters."""
    block = Block(arg_types=facts.operands[:1])
    quantize, activation = quantized_pair(block.args[0], data, UnknownLoc())
    parameters = [_stand_in(*pair) for pair in zip(facts.operands[1:], (weight, _sums(data, weight)), strict=False)]
    values: list[SSAValue] = [activation.result, *(back.result for _, back in parameters)]
    made: list[Operation] = [quantize, activation, *(each for pair in parameters for each in pair)]
    return facts.copy(values, made, block), Quantizer.of([quantize])


@lru_cache(maxsize=_KEPT)
def _product_tried(facts: _Facts, chip: str | None) -> _Trial:
    block = Block(arg_types=facts.operands)
    pairs = [quantized_pair(value, _INTEGERS, UnknownLoc()) for value in block.args[:2]]
    made: list[Operation] = [each for pair in pairs for each in pair]
    copy = facts.copy([*(back.result for _, back in pairs), *block.args[2:]], made, block)
    found = ProductOfInputs().attempt(copy, Quantizer.of(quantize for quantize, _ in pairs))
    return _Trial(found) if isinstance(found, Refusal) else _built(copy, chip)


def _sums(data: QParamsAttr, weight: QParamsAttr) -> QParamsAttr:
    """The parameters of a bias: the scales of the sums."""
    scales = (data.data.scales() * weight.data.scales()).astype(np.float32)
    return QParamsAttr.of(i32, scales, axis=0 if scales.ndim else None)


def _stand_in(type_: Attribute, qparams: QParamsAttr) -> tuple[ConstantOp, DequantizeOp]:
    """A stand-in for a weight or bias: one broadcast zero, which needs no memory."""
    shape = cast(Tensor, type_).get_shape()
    zeros = np.broadcast_to(np.zeros((), numpy_dtype(qparams.data.storage)), shape)
    constant = ConstantOp.beside(zeros, "trial")
    return constant, DequantizeOp.make(constant.result, qparams=qparams, result_types=[type_])
