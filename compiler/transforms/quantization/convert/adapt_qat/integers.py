"""Makes integers: constants are quantized offline, unsigned integers become signed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, cast

import numpy as np
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Operation, OpResult, SSAValue
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint, Rewriter

from .....dialects.nn import (
    ClipOp,
    ConstantOp,
    DequantizeOp,
    QParamsAttr,
    QuantizeOp,
    TransposeOp,
    constant_of,
    dequantize_of,
    ints,
)
from .....dialects.nn.shapes import element_of
from .....ir.array import Array
from .....ir.dtypes import numpy_dtype
from .....ir.functions import main_function
from .....rewriting import M, Remarks, Roots, StepPattern, condition
from .....runtime.kernels import kernel_for

_SIGNED: Mapping[Attribute, IntegerType] = {
    IntegerType(bits, Signedness.UNSIGNED): IntegerType(bits) for bits in (8, 16)
}
"""Signed types for unsigned integers, which are larger by half of the number of values."""


class AdaptPattern(StepPattern[M]):
    """A part of `--adapt-qat`."""

    def __init__(self, remarks: Remarks, module: ModuleOp):
        super().__init__(remarks)
        self.module = module


@dataclass(frozen=True)
class QuantizedConstant:
    """A constant that the graph quantizes, by operations in order."""

    steps: Sequence[Operation]
    dequantize: DequantizeOp


class FoldQuantize(AdaptPattern[QuantizedConstant]):
    """integers in place of Quantize of a constant (and Clip, which exporters use for narrow ranges), once per parameters"""

    name = "fold-quantize"
    roots: ClassVar[Roots] = (DequantizeOp,)

    def __init__(self, remarks: Remarks, module: ModuleOp):
        super().__init__(remarks, module)
        self._made: dict[object, ConstantOp] = {}

    def match(self, op: Operation) -> QuantizedConstant | None:
        steps = _steps(op.operands[0])
        return QuantizedConstant(steps, cast(DequantizeOp, op)) if steps else None

    def rewrite(self, m: QuantizedConstant, rewriter: PatternRewriter) -> None:
        constant = constant_of(m.steps[0].operands[0])
        assert constant is not None
        key = (constant, *((type(s), tuple(s.properties.items())) for s in m.steps))
        if key not in self._made:
            integers = ConstantOp.of(_computed(constant.array, m.steps), f"{constant.key}.i8", constant.location)
            rewriter.insert(integers, InsertPoint.after(constant))
            self._made[key] = integers
        m.dequantize.operands[0] = self._made[key].result
        erase_unused(m.steps, rewriter.erase)


def _steps(value: SSAValue) -> list[Operation] | None:
    """The operations from a constant to a value, in order; None if the value is not computed from a constant that way."""
    steps: list[Operation] = []
    while constant_of(value) is None:
        op = value.op if isinstance(value, OpResult) else None
        if not isinstance(op, QuantizeOp | ClipOp):
            return None
        steps.insert(0, op)
        value = op.operands[0]
    return steps


def _computed(array: Array, steps: Sequence[Operation]) -> Array:
    for step in steps:
        kernel = kernel_for(step)
        assert kernel is not None
        array = np.asarray(kernel(array))
    return array


def erase_unused(steps: Sequence[Operation], erase: Callable[[Operation], None] = Rewriter.erase_op) -> None:
    """Erase the unused ones of these operations, which are in program order."""
    for step in reversed(steps):
        if not step.results[0].uses:
            erase(step)


@dataclass(frozen=True)
class TransposedConstant:
    """The transpose of a dequantized constant."""

    transpose: TransposeOp
    dequantize: DequantizeOp
    constant: ConstantOp


class FoldTranspose(AdaptPattern[TransposedConstant]):
    """transposed integers in place of the transpose of a dequantized constant: PyTorch exports the weight of a linear layer so"""

    name = "fold-transpose"
    roots: ClassVar[Roots] = (TransposeOp,)

    def match(self, op: Operation) -> TransposedConstant | None:
        back = dequantize_of(op.operands[0])
        constant = None if back is None else constant_of(back.input)
        return None if back is None or constant is None else TransposedConstant(cast(TransposeOp, op), back, constant)

    def rewrite(self, m: TransposedConstant, rewriter: PatternRewriter) -> None:
        op, back, constant = m.transpose, m.dequantize, m.constant
        perm = ints(op.perm)
        turned = ConstantOp.of(np.ascontiguousarray(constant.array.transpose(perm)), constant.key, constant.location)
        made = DequantizeOp.make(
            turned.result,
            qparams=QParamsAttr(back.qparams.data.transposed(perm, constant.array.shape)),
            bits=back.bits,
            levels=back.levels,
            result_types=op.result_types,
            location=op.location,
            name=op.result.name_hint,
        )
        rewriter.replace(op, [turned, made], [made.result])
        erase_unused([back], rewriter.erase)


class StoreSigned(AdaptPattern[QuantizeOp | ConstantOp]):
    """int8 and int16 in place of uint8 and uint16 before dequantizes: same values, zero points shifted by as much"""

    name = "signed"
    roots: ClassVar[Roots] = (QuantizeOp, ConstantOp)

    @condition
    def signed_integers(self, m: QuantizeOp | ConstantOp) -> str | None:
        """only dequantize reads the integers; those that are quantized at run time may be an output as well"""
        readers = DequantizeOp if isinstance(m, ConstantOp) else DequantizeOp | ReturnOp
        if all(isinstance(user, readers) for user in _users(m.result)):
            return None
        return f"its uint{_storage(m).width.data} result is taken by more than dequantize"

    def match(self, op: Operation) -> QuantizeOp | ConstantOp | None:
        value = op.results[0]
        return cast(QuantizeOp | ConstantOp, op) if element_of(value) in _SIGNED and value.uses else None

    def rewrite(self, m: QuantizeOp | ConstantOp, rewriter: PatternRewriter) -> None:
        users, storage = _users(m.result), _storage(m)
        for user in users:
            if isinstance(user, DequantizeOp):
                user.qparams = _moved(user.qparams, storage)
        signed = _signed(m, storage)
        rewriter.replace(m, signed)
        if any(isinstance(user, ReturnOp) for user in users):
            name = f"int{storage.width.data}"
            reason = f"an output of u{name} becomes one of {name}, smaller by {_half(storage)}"
            self.remarks.note(signed, f"{name}-output", reason)
            main_function(self.module).update_function_type()


def _storage(op: QuantizeOp | ConstantOp) -> IntegerType:
    return _SIGNED[element_of(op.result)]


def _signed(op: QuantizeOp | ConstantOp, storage: IntegerType) -> QuantizeOp | ConstantOp:
    if isinstance(op, ConstantOp):
        moved = (op.array.astype(np.int32) - _half(storage)).astype(numpy_dtype(storage))
        return ConstantOp.of(moved, op.key, op.location)
    return QuantizeOp.make(
        op.input,
        qparams=_moved(op.qparams, storage),
        source=op.source,
        origin=op.origin,
        location=op.location,
        name=op.result.name_hint,
    )


def _users(value: SSAValue) -> list[Operation]:
    return [use.operation for use in value.uses]


def _half(storage: IntegerType) -> int:
    return 1 << (storage.width.data - 1)


def _moved(params: QParamsAttr, storage: IntegerType) -> QParamsAttr:
    p = params.data
    return QParamsAttr(replace(p, storage=storage, zero_point=tuple(z - _half(storage) for z in p.zero_point)))
