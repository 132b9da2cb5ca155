"""Some of the numbers that readers read: bounded, spread over the runs, and the same ones each time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from .....backends import Runner
from .....backends.findings import Finding, State, show
from .....diagnostics import op_error
from .....dialects.nn import QParams
from .....runtime.data import Samples
from .....session import Session
from ...calibrate.observing import in_batches
from ..round_weights.networks import rounding_by
from ..round_weights.sums import some_of
from .places import Places
from .readers import Reader

Array = np.ndarray[Any, np.dtype[Any]]

NUMBERS = 1 << 18
"""About how many numbers are kept for each reader."""


@dataclass
class Kept:
    """Rows that a reader reads. Those of different runs merge."""

    op: Operation
    """The reader."""
    places: Places
    runs: int
    """The number of all runs."""
    parts: list[Array] = field(default_factory=list[Array])
    picked: int = 0
    """The number of places that are kept, of all those in `present`."""
    present: int = 0

    def show(self, array: Array, run: int) -> None:
        if not np.isfinite(array).all():
            raise op_error(self.op, "has NaN or Inf in its input", "look for an overflow in the model or its data")
        count, numbers = self.places.counted(array)
        self.present += count
        if wanted := _due(NUMBERS / (self.runs * max(numbers, 1)), run):
            chosen = some_of(count, wanted, run)
            self.parts.append(self.places.rows(array, chosen))
            self.picked += chosen.size

    def state(self) -> State:
        parts = {f"{i:08}": part for i, part in enumerate(self.parts)}
        return {"counts": np.array([self.picked, self.present]), **parts}

    def merge(self, state: State) -> None:
        self.parts += [state[name] for name in sorted(state) if name != "counts"]
        self.picked += int(state["counts"][0])
        self.present += int(state["counts"][1])

    @property
    def numbers(self) -> int:
        return sum(part.size for part in self.parts)


def _due(each: float, run: int) -> int:
    """How many places of a run are kept, if it is `each` on average. Of less than one, the first run has one."""
    rounded = round if each >= 1 else ceil
    return rounded((run + 1) * each) - rounded(run * each)


def kept_of(
    module: ModuleOp, readers: Sequence[Reader], samples: Samples, session: Session, runner: Runner
) -> list[Kept]:
    """What is kept for each reader, while the samples run through the module.

    Raises CompileError, located at a reader, for NaN and Inf.
    """
    samples = in_batches(module, (), samples)
    found = [Kept(reader.op, reader.places, samples.runs) for reader in readers]
    findings: dict[SSAValue, list[Finding]] = {}
    for reader, kept in zip(readers, found, strict=True):
        findings.setdefault(reader.value, []).append(kept)
    show(module, findings, samples, session, runner, "fit-ranges")
    return found


class Errors:
    """The errors of readers' outputs, on what is kept of what they read."""

    def __init__(self, readers: Sequence[Reader], kept: Sequence[Kept]):
        self._parts: list[tuple[Reader, Array, Array, float]] = []
        """What is read, the outputs, and how many times as many there were."""
        for reader, each in zip(readers, kept, strict=True):
            parts = each.parts if reader.axis is None else [np.concatenate(each.parts, axis=reader.axis)]
            self._parts += [(reader, part, reader.outputs(part), each.present / each.picked) for part in parts]
        self.signal: float = sum(times * _energy(outputs) for _, _, outputs, times in self._parts)
        """The sum of squares of all outputs."""

    def __call__(self, params: QParams) -> float:
        """The sum of squares of all outputs' errors, if the value is rounded by these parameters."""
        on_grid = rounding_by(params)
        return sum(times * _energy(r.outputs(on_grid(rows)) - outputs) for r, rows, outputs, times in self._parts)


def _energy(array: Array) -> float:
    flat = array.reshape(-1)
    return float(np.dot(flat, flat))
