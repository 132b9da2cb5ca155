"""Constant folding, one engine for frontends and `--fold-constants`: evaluates operations on constants by their own kernels.

A folded constant is what a run of the model would have computed, bit for bit, and is checked against its inferred type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float16Type, f32
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ..dialects import nn
from ..dialects.ascend import AscendQuantOp
from ..dialects.nn.shapes import Shape, compatible, element_of, shape_of, static, tensor, tensor_of
from ..ir.dtypes import element_type, numpy_dtype
from ..rewriting import QUANTIZATION_OPS, Refusal
from ..runtime.kernels import Array, kernel_for
from ..support.diagnostics import CompileError, op_error

HALF_WEIGHTS = "nn.half_weights"
"""Marks a function whose weights were float16 or bfloat16 before they were folded (AMCT's rule `float16-off`)."""

MAX_ELEMENTS = 1 << 24
"""Larger results are left to the program, unless they need no more memory than their operands."""


def is_constant(op: Operation, known: Mapping[SSAValue, Array]) -> bool:
    """Whether an operation depends only on constants; `known` are values that will be constants."""
    return all(o in known or nn.constant_of(o) is not None for o in op.operands)


def widens_half(op: Operation) -> bool:
    """Whether an operation converts float16 or bfloat16 to float32: after folding, nothing else shows the weights' type."""
    halves = Float16Type | BFloat16Type
    return (
        isinstance(op, nn.CastOp)
        and isinstance(element_of(op.operands[0]), halves)
        and element_of(op.results[0]) == f32
    )


def evaluated(
    op: nn.NNOp | nn.FusedOp, known: Mapping[SSAValue, Array], max_elements: int = MAX_ELEMENTS
) -> list[Array] | Refusal | None:
    """The results of an operation on constants (`is_constant`), otherwise why it must stay; None for quantization, which stays.

    Results of a carried operator must have the type that its framework infers, otherwise it stays. Raises CompileError, located,
    if a result of any other operation contradicts the declared type, or an array cannot be read.
    """
    if isinstance(op, (*QUANTIZATION_OPS, AscendQuantOp)):
        return None
    if isinstance(op, nn.OpaqueOp):
        if op.quantizes:
            return None
        if op.is_random:
            return Refusal("random", f"{op.op_type.data} draws random numbers")
        if not op.is_bounded and not all(static(shape_of(r)) for r in op.results):
            return Refusal("max-elements", "the size of its result is not known")
    operands = [known[o] if o in known else cast(Array, nn.array_of(o)) for o in op.operands]
    if (refusal := _too_large(op, [shape_of(r) for r in op.results], operands, max_elements)) is not None:
        return refusal
    try:
        if (kernel := kernel_for(op)) is None:
            return Refusal("kernel", f"{op.name} has no kernel")
        result = kernel(*operands)
    except (ValueError, IndexError, VerifyException, MemoryError, CompileError) as e:
        reason = e.message if isinstance(e, CompileError) else str(e)
        return Refusal("runs", f"cannot be evaluated: {reason or type(e).__name__}")
    several = isinstance(result, list | tuple)
    arrays = [np.asarray(a) for a in (cast("Sequence[Array]", result) if several else [result])]
    if (reason := _contradiction(op, arrays)) is not None:
        if isinstance(op, nn.OpaqueOp):
            return Refusal("declared-type", reason)
        raise op_error(op, reason)
    return _too_large(op, [a.shape for a in arrays], operands, max_elements) or arrays


def _contradiction(op: Operation, arrays: Sequence[Array]) -> str | None:
    """The difference between results and their declared types; None if there is none."""
    for result, array in zip(op.results, arrays, strict=True):
        type_ = tensor_of(result)
        if array.shape == type_.get_shape() and array.dtype == numpy_dtype(type_.element_type):
            continue
        made = tensor(element_type(array.dtype), array.shape)
        if not compatible(type_, made):
            return f"result is declared {type_}, evaluation gives {made}"
    return None


def _too_large(op: Operation, shapes: Sequence[Shape], operands: Sequence[Array], limit: int) -> Refusal | None:
    """Whether results of these shapes, if known, exceed both the limit and the memory of the operands."""
    if not all(static(s) for s in shapes) or (count := sum(map(prod, shapes))) <= limit:
        return None
    sizes = [numpy_dtype(tensor_of(r).element_type).itemsize for r in op.results]
    if sum(prod(s) * b for s, b in zip(shapes, sizes, strict=True)) <= sum(map(_held_bytes, operands)):
        return None
    return Refusal("max-elements", f"its {count} elements exceed the limit of {limit}")


def _held_bytes(array: np.ndarray[Any, Any]) -> int:
    """The memory of an array: a broadcast axis counts as one element."""
    return array.itemsize * prod(n for n, step in zip(array.shape, array.strides, strict=True) if step or not n)
