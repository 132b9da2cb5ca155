"""Runs the interpreter with PyTorch's functions instead of its kernels, so that floats are those of PyTorch to the bit."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Operation

from ..dialects import nn
from ..dialects.nn.shapes import element_of
from ..ir.functions import input_orders, main_function
from ..rewriting import layer_of
from ..runtime.executor import Executable, usual
from ..runtime.kernels import Array, Kernel
from ..runtime.program import Program, Row, live
from .work import Work


def run_in_torch(work: Work) -> None:
    """The engine `torch`: batches one after the other. Raises CompileError as the interpreter and the watcher do."""
    executable, orders = Executable(work.module, list(work.wanted), in_torch), input_orders(main_function(work.module))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given NumPy array is not writable", UserWarning)
        for batch in work.samples.batches():
            executable.run({name: _ordered(x, orders.get(name)) for name, x in batch.items()}, work.watch)
            work.done()


def _ordered(x: Array, order: Sequence[int] | None) -> Array:
    """The array with its axes in memory in an order, the outermost first: PyTorch's convolutions depend on it."""
    return x if order is None else np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))


def in_torch(program: Program) -> Program:
    """The program with PyTorch's functions of float32; rows without one stay as they are."""
    rows = live([_row(program, row) for row in program.rows], program.asked)
    return usual(replace(program, rows=rows))


def torch_function(op: Operation) -> Callable[..., Any] | None:
    """PyTorch's function of an operation, from tensors to a tensor or a sequence of them; points are identities. None if there
    is none for float32. Imports torch.
    """
    from ..targets.torch.functions import function_of

    return function_of(op, {}) if all(isinstance(element_of(v), Float32Type) for v in op.results) else None


def _row(program: Program, row: Row) -> Row:
    from ..targets.torch.functions import silu  # imports torch

    if row.kernel is not None or (function := torch_function(row.op)) is None:
        return row
    if (x := _input_of_silu(program, row)) is not None:
        return row._replace(operands=(x,), kernel=_kernel(silu))
    return row._replace(kernel=_kernel(function))


def _input_of_silu(program: Program, row: Row) -> int | None:
    """The input slot of a SiLU of PyTorch, whose two operations of ONNX have one name: it rounds once, they round twice."""
    if not isinstance(row.op, nn.MulOp) or (sigmoid := program.made_for_one(row.operands[1])) is None:
        return None
    whole = sigmoid.operands == row.operands[:1] and layer_of(sigmoid.op) == f"{layer_of(row.op)}/Sigmoid"
    return row.operands[0] if whole and isinstance(sigmoid.op, nn.SigmoidOp) else None


def _kernel(function: Any) -> Kernel:
    torch: Any = import_module("torch")

    def run(*operands: Array) -> Array | Sequence[Array]:
        with torch.inference_mode():
            found = function(*map(torch.from_numpy, operands))
        return found.numpy() if isinstance(found, torch.Tensor) else [each.numpy() for each in found]

    return run


def power(x: Array, exponent: float) -> Array:
    """The powers of float32 numbers as PyTorch rounds them, which depends on the processor."""
    return _kernel(lambda x: x**exponent)(x)  # type: ignore[return-value]
