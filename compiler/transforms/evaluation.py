"""Constant folding, one engine for frontends and `--fold-constants`: what an operation on constants computes, by its own kernel.

So a folded constant is what a run of the model would have computed, bit for bit, and it is held against its inferred type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float16Type, f32
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ..diagnostics import CompileError, op_error
from ..dialects import nn
from ..dialects.nn.shapes import Shape, compatible, element_of, shape_of, static, tensor, tensor_of
from ..ir.dtypes import element_type, numpy_dtype
from ..rewriting import QUANTIZATION_OPS, Refusal
from ..runtime.kernels import Array, kernel_for

HALF_WEIGHTS = "nn.half_weights"
"""Marks a function whose weights were float16 or bfloat16 before they were folded (AMCT's rule `float16-off`)."""

MAX_ELEMENTS = 1 << 24
"""Results of more elements are left to the program, unless they take no more memory than what they are computed from."""


def is_constant(op: Operation, known: Mapping[SSAValue, Array]) -> bool:
    """Whether an operation depends on constants alone; `known` are values that are about to be constants."""
    return all(o in known or nn.constant_of(o) is not None for o in op.operands)


def widens_half(op: Operation) -> bool:
    """Whether an operation makes float32 of float16 or bfloat16: once it is folded, nothing else says that weights were such."""
    halves = Float16Type | BFloat16Type
    return (
        isinstance(op, nn.CastOp)
        and isinstance(element_of(op.operands[0]), halves)
        and element_of(op.results[0]) == f32
    )


def evaluated(
    op: nn.NNOp | nn.FusedOp, known: Mapping[SSAValue, Array], max_elements: int = MAX_ELEMENTS
) -> list[Array] | Refusal | None:
    """The results of an operation on constants (`is_constant`), else why it must stay; None for quantization, which does.

    What a carried operator gives must have the type that its framework infers, else it stays. Raises CompileError, located,
    where a result of any other operation contradicts the declared type, and where an array cannot be read.
    """
    if isinstance(op, QUANTIZATION_OPS):
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
    """How results differ from what is declared of them."""
    for result, array in zip(op.results, arrays, strict=True):
        type_ = tensor_of(result)
        if array.shape == type_.get_shape() and array.dtype == numpy_dtype(type_.element_type):
            continue
        made = tensor(element_type(array.dtype), array.shape)
        if not compatible(type_, made):
            return f"result is declared {type_}, evaluation gives {made}"
    return None


def _too_large(op: Operation, shapes: Sequence[Shape], operands: Sequence[Array], limit: int) -> Refusal | None:
    """Results of these shapes, where known, may not exceed the limit and take more memory than the operands."""
    if not all(static(s) for s in shapes) or (count := sum(map(prod, shapes))) <= limit:
        return None
    sizes = [numpy_dtype(tensor_of(r).element_type).itemsize for r in op.results]
    if sum(prod(s) * b for s, b in zip(shapes, sizes, strict=True)) <= sum(map(_held_bytes, operands)):
        return None
    return Refusal("max-elements", f"its {count} elements exceed the limit of {limit}")


def _held_bytes(array: np.ndarray[Any, Any]) -> int:
    """The memory behind an array: a broadcast axis takes that of one element."""
    return array.itemsize * prod(n for n, step in zip(array.shape, array.strides, strict=True) if step or not n)
