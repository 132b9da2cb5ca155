"""Compares native code with the interpreter: every operation runs in the interpreter, on the operands that native code
computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ...runtime.kernels import Array
from ...session import Engine, Session
from .bounds import errors_of
from .following import LEAST, Graph, Known, distance


class NativeGraph(Graph):
    """A module whose values are those of an engine."""

    def __init__(self, module: ModuleOp, session: Session, engine: Engine):
        """Raises CompileError as the engine does."""
        super().__init__(module)
        rows = self.program.rows
        self._shown: dict[SSAValue, int] = {
            v: s for row in rows for v, s in zip(row.op.results, row.results, strict=True)
        }
        self._native = engine(module, session, list(self._shown))

    def trace(self, inputs: Mapping[str, Array], known: Known | None = None) -> dict[int, Array]:
        """Computes all values of a run, by slot. Raises RunError for inputs that do not fit."""
        values = self.begin(inputs)
        self._native.run(inputs, lambda value, array: values.update({self._shown[value]: array}))
        return values


class Operations(NamedTuple):
    """Differences between native code and the interpreter on the same operands, over all operations and samples."""

    integers: int
    differing: int
    """Number of integers that differ."""
    floats: int
    beyond: int
    """Number of floats that are further apart than rounding explains."""
    share: float
    """The largest difference of floats, as a part of its bound."""


def operations_apart(graph: NativeGraph, runs: Sequence[Mapping[str, Array]]) -> Operations:
    """Compares every result with the interpreter's on the operands that native code had.

    Integers and truth values must be equal. Two floats are each within `errors_of` of the exact result, so that they are at most
    twice that apart; what is computed exactly must be equal. Raises CompileError for operations that cannot be run.
    """
    integers = differing = floats = beyond = 0
    share = 0.0
    for inputs in runs:
        values = graph.trace(inputs)
        for row in graph.program.rows:
            operands = [values[slot] for slot in row.operands]
            made = graph.run(row, values)
            errors = errors_of(row.op, operands, [None] * len(operands), made)
            for slot, own, error in zip(row.results, made, errors, strict=True):
                apart = distance(own, values[slot])
                if own.dtype.kind in "iub":
                    integers += own.size
                    differing += int(np.count_nonzero(apart))
                    continue
                bound = np.broadcast_to(0.0 if error is None else 2 * error.astype(np.float64), apart.shape) + LEAST
                floats += own.size
                beyond += int(np.count_nonzero(~(apart <= bound)))
                share = max(share, float(np.max(apart / bound, initial=0.0)))
    return Operations(integers, differing, floats, beyond, share)
