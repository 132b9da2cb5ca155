"""Kernels: how each operation computes. A module per family, registered by operation class.

A kernel is made once per operation, when a plan is compiled, and then called with arrays only: no IR on the hot path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, TypeVar, cast

import numpy as np
from xdsl.ir import Operation

from ...dialects.nn import expanded
from ...ir.array import Array

Kernel = Callable[..., "Array | Sequence[Array]"]
"""Maps the operands' arrays to the result's array, or to one array per result. Must not write to its operands."""

_Op = TypeVar("_Op", bound=Operation)

_KERNELS: dict[type[Operation], Callable[[Any], Kernel]] = {}

_FAMILIES = {
    "nn": (
        "convolution",
        "linear",
        "normalization",
        "elementwise",
        "pooling",
        "shape",
        "quantization",
        "opaque",
        "fused",
    ),
    "ascend": ("ascend",),
}


def kernel(*ops: type[_Op]) -> Callable[[Callable[[_Op], Kernel]], Callable[[_Op], Kernel]]:
    """Registers a function from operation to kernel for these operation classes."""

    def register(make: Callable[[_Op], Kernel]) -> Callable[[_Op], Kernel]:
        for op in ops:
            _KERNELS[op] = make
        return make

    return register


def kernel_for(op: Operation) -> Kernel | None:
    """The kernel of an operation, with numpy's warnings off; None if its class has neither one nor an expansion."""
    made = bare_kernel_for(op)
    return None if made is None else np.errstate(all="ignore")(made)


def bare_kernel_for(op: Operation) -> Kernel | None:
    """The kernel of an operation, its own or that of its expansion, for callers that turn numpy's warnings off themselves."""
    if type(op) not in _KERNELS:
        for family in _FAMILIES.get(op.name.partition(".")[0], ()):
            import_module(f".{family}", __name__)
    make = _KERNELS.get(type(op))
    return _by_steps(op) if make is None else make(op)


def _by_steps(op: Operation) -> Kernel | None:
    """The kernels of an expansion, one after the other."""
    if (expansion := expanded(op)) is None:
        return None
    with expansion:
        arrays = {each: each.array for each in expansion.constants}
        kernels = {each: kernel for each in expansion.steps if (kernel := bare_kernel_for(each)) is not None}

    def run(*operands: Array) -> Sequence[Array]:
        return expansion.computed(operands, arrays.__getitem__, lambda step, xs: cast(Array, kernels[step](*xs)))

    if len(kernels) < len(expansion.steps):
        return None
    return run if len(op.results) > 1 else lambda *operands: run(*operands)[0]
