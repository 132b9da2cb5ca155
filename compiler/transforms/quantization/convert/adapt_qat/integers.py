"""Makes integers: constants are quantized offline, unsigned integers become signed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import IntegerType, ModuleOp, Signedness
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, Operation, OpResult, SSAValue
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
from .....ir.dtypes import numpy_dtype
from .....ir.functions import main_function
from .....rewriting import Remarks
from .....runtime.kernels import kernel_for

Array = np.ndarray[Any, np.dtype[Any]]

_SIGNED: Mapping[Attribute, IntegerType] = {
    IntegerType(bits, Signedness.UNSIGNED): IntegerType(bits) for bits in (8, 16)
}
"""What unsigned integers become, which are larger by half of the number of values."""


def quantize_constants(module: ModuleOp) -> None:
    """Fold Quantize (and Clip, which exporters use for narrow ranges) of constants; each constant once per parameters."""
    made: dict[object, ConstantOp] = {}
    for op in [o for o in module.walk() if isinstance(o, DequantizeOp)]:
        steps = _steps(op.input)
        if steps is None or not steps:
            continue
        constant = constant_of(steps[0].operands[0])
        assert constant is not None
        key = (constant, *((type(s), tuple(s.properties.items())) for s in steps))
        if key not in made:
            integers = ConstantOp.of(_computed(constant.array, steps), f"{constant.key}.i8", constant.location)
            Rewriter.insert_op(integers, InsertPoint.after(constant))
            made[key] = integers
        op.operands[0] = made[key].result
        erase_unused(steps)


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


def _computed(array: Array, steps: list[Operation]) -> Array:
    for step in steps:
        kernel = kernel_for(step)
        assert kernel is not None
        array = np.asarray(kernel(array))
    return array


def erase_unused(steps: Sequence[Operation]) -> None:
    """Erase the unused ones of these operations, which are in program order."""
    for step in reversed(steps):
        if not step.results[0].uses:
            step.detach()
            step.erase()


def transpose_constants(module: ModuleOp) -> None:
    """Fold the transpose of a dequantized constant: PyTorch exports the weight of a linear layer so."""
    for op in [o for o in module.walk() if isinstance(o, TransposeOp)]:
        back = dequantize_of(op.input)
        constant = None if back is None else constant_of(back.input)
        if back is None or constant is None:
            continue
        perm, p = ints(op.perm), back.qparams.data
        turned = ConstantOp.of(np.ascontiguousarray(constant.array.transpose(perm)), constant.key, constant.location)
        qparams = QParamsAttr(p.transposed(perm, constant.array.shape))
        made = DequantizeOp.make(
            turned.result,
            qparams=qparams,
            bits=back.bits,
            levels=back.levels,
            result_types=op.result_types,
            location=op.location,
            name=op.result.name_hint,
        )
        Rewriter.replace_op(op, [turned, made], [made.result])
        erase_unused([back])


def store_signed(module: ModuleOp, remarks: Remarks) -> None:
    """Turn uint8 and uint16 between a quantize, or a constant, and its dequantizes into int8 and int16: same values, zero points
    shifted by as much.
    """
    for op in [o for o in module.walk() if isinstance(o, QuantizeOp | ConstantOp)]:
        value = op.results[0]
        storage = _SIGNED.get(element_of(value))
        if storage is None or not (users := _users(value)):
            continue
        name, signed = f"int{storage.width.data}", _signed(op, storage)
        if signed is None:
            remarks.missed(op, name, f"its u{name} result is taken by more than dequantize")
            continue
        for user in users:
            if isinstance(user, DequantizeOp):
                user.qparams = _moved(user.qparams, storage)
        Rewriter.replace_op(op, signed)
        if any(isinstance(user, ReturnOp) for user in users):
            reason = f"an output of u{name} becomes one of {name}, smaller by {_half(storage)}"
            remarks.note(signed, f"{name}-output", reason)
            main_function(module).update_function_type()


def _signed(op: QuantizeOp | ConstantOp, storage: IntegerType) -> QuantizeOp | ConstantOp | None:
    """The operation with signed integers; None if an operation other than dequantize, or an output, reads them."""
    users = _users(op.results[0])
    if isinstance(op, ConstantOp):
        if not all(isinstance(u, DequantizeOp) for u in users):
            return None
        moved = (op.array.astype(np.int32) - _half(storage)).astype(numpy_dtype(storage))
        return ConstantOp.of(moved, op.key, op.location)
    if not all(isinstance(u, DequantizeOp | ReturnOp) for u in users):
        return None
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
