"""The interpreter with PyTorch's functions in the place of its kernels, so that floats are those of PyTorch to the bit."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
from xdsl.dialects.builtin import Float32Type

from ..dialects.nn.shapes import element_of
from ..ir.functions import input_orders, main_function
from ..runtime.executor import Executable, usual
from ..runtime.kernels import Array, Kernel
from ..runtime.program import Program, Row
from .work import Work


def run_in_torch(work: Work) -> None:
    """The backend `torch`: batches one after the other. Raises CompileError as the interpreter and the watcher do."""
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
    """The program with PyTorch's functions of float32; what has none stays as it is."""
    return usual(replace(program, rows=[_row(row) for row in program.rows]))


def _row(row: Row) -> Row:
    from ..targets.torch.functions import function_of  # imports torch

    if row.kernel is not None or not all(isinstance(element_of(v), Float32Type) for v in row.op.results):
        return row
    function = function_of(row.op, {})
    return row if function is None else row._replace(kernel=_kernel(function))


def _kernel(function: Any) -> Kernel:
    torch: Any = import_module("torch")

    def run(*operands: Array) -> Array | Sequence[Array]:
        with torch.inference_mode():
            found = function(*map(torch.from_numpy, operands))
        return found.numpy() if isinstance(found, torch.Tensor) else [each.numpy() for each in found]

    return run
