"""The interpreter's `--fp16`: rounds float32 `ascend` modules where a device with only float16 would round.

| values of float32 | in float16 |
|---|---|
| operands of every `ascend` operation: the model's inputs, constants, results before | rounded to float16 when they are read |
| results of every `ascend` operation: of AscendDequant and AscendAntiQuant, of operations on floats | rounded once computed |
| between operand and result: sums of the matrix engine and of averages, AscendQuant's product and sum | float32, as without |
| scales (`deq_scale`, `req_scale`), and the parameters that are float32 next to float16 data too (BNInfer) | as they are |
| numbers in attributes; integers; operations of `nn` | as they are |

A number beyond 65504 becomes infinite.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from xdsl.dialects.builtin import ModuleOp, f16, f32
from xdsl.ir import Operation

from ..dialects import ascend
from ..support.diagnostics import CompileError
from .kernels import Array, Kernel
from .plan import kernel_of
from .program import Program

_F32 = np.dtype(np.float32)


def in_half(program: Program) -> Program:
    """Rewrites rows: operands and results of `ascend` operations are rounded to float16; slots stay the same."""
    rows = [row._replace(kernel=half_kernel(row.op, kernel_of(row))) for row in program.rows]
    return replace(program, rows=rows)


def half_kernel(op: Operation, kernel: Kernel) -> Kernel:
    """The kernel of an `ascend` operation with operands and results rounded to float16, except operands that are never float16;
    other kernels unchanged.
    """
    if not isinstance(op, ascend.AscendOp):
        return kernel
    kept = [getattr(op, name) for name, types in op.TYPES.items() if f32 in types and f16 not in types]
    rounded = [not any(value is each for each in kept) for value in op.operands]

    def run(*arrays: Array) -> Array | Sequence[Array]:
        result = kernel(*(to_half(a) if r else a for a, r in zip(arrays, rounded, strict=True)))
        return to_half(result) if isinstance(result, np.ndarray) else [to_half(each) for each in result]

    return run


def to_half(array: Array) -> Array:
    """float32 numbers rounded to float16 values, ties to even; any other array unchanged."""
    if array.dtype != _F32:
        return array
    with np.errstate(over="ignore"):
        return array.astype(np.float16).astype(np.float32)


def require_ascend(module: ModuleOp) -> None:
    """Raises CompileError unless the module has operations of `ascend`, the only ones that are rounded."""
    if not any(isinstance(op, ascend.AscendOp) for op in module.walk()):
        raise CompileError("--fp16 is for modules of the ascend dialect", hint="run amct-opt --lower-to-ascend first")
