"""Some of the numbers that readers read: bounded, spread over the batches, and the same ones each time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from ....backends import Runner, Wanted, Work
from ....diagnostics import op_error
from ....dialects.nn import QParams
from ....runtime.data import Samples
from ....session import Session
from ..calibrate.observing import in_batches
from ..round_weights.layer_data import rounding_by
from .readers import Reader

Array = np.ndarray[Any, np.dtype[Any]]

NUMBERS = 1 << 18
"""About how many numbers are kept for each reader."""


@dataclass
class Kept:
    """Numbers that a reader reads, in the form of its `pick`. Those of different batches merge."""

    parts: list[Array] = field(default_factory=list[Array])
    picked: float = 0.0
    """The sum over batches of the part that is kept of each."""
    batches: int = 0

    def merge(self, other: Kept) -> None:
        """Add what is kept of other batches."""
        self.parts += other.parts
        self.picked += other.picked
        self.batches += other.batches

    @property
    def numbers(self) -> int:
        return sum(part.size for part in self.parts)


def kept_of(
    module: ModuleOp, readers: Sequence[Reader], samples: Samples, session: Session, runner: Runner
) -> list[Kept]:
    """What is kept for each reader, while the samples run through the module.

    Raises CompileError, located at a reader, for NaN and Inf.
    """
    samples = in_batches(module, (), samples)
    found = [Kept() for _ in readers]
    by_value: dict[SSAValue, list[tuple[Reader, Kept]]] = {}
    for reader, kept in zip(readers, found, strict=True):
        by_value.setdefault(reader.value, []).append((reader, kept))
    done = count(1)

    def watch(value: SSAValue, array: Array) -> None:
        for reader, kept in by_value[value]:
            if not np.isfinite(array).all():
                raise op_error(
                    reader.op, "has NaN or Inf in its input", "look for an overflow in the model or its data"
                )
            wanted = NUMBERS * (kept.batches + 1) / samples.runs - kept.numbers
            kept.merge(Kept(batches=1) if wanted <= 0 else _picked(reader, array, wanted, kept.batches))

    def report() -> None:
        session.progress("fit-ranges", next(done), samples.runs)

    runner.run(Work(module, dict.fromkeys(by_value, Wanted()), samples, watch, report, session))
    return found


def _picked(reader: Reader, x: Array, numbers: float, seed: int) -> Kept:
    rows, part = reader.pick(x, numbers, seed)
    return Kept([rows], part, 1)


class Errors:
    """The errors of readers' outputs, on what is kept of what they read."""

    def __init__(self, readers: Sequence[Reader], kept: Sequence[Kept]):
        self._parts: list[tuple[Reader, Array, Array, float]] = []
        """What is read, the outputs, and how many times as many there were."""
        for reader, each in zip(readers, kept, strict=True):
            parts = each.parts if reader.axis is None else [np.concatenate(each.parts, axis=reader.axis)]
            self._parts += [(reader, part, reader.outputs(part), each.batches / each.picked) for part in parts]
        self.signal: float = sum(times * _energy(outputs) for _, _, outputs, times in self._parts)
        """The sum of squares of all outputs."""

    def __call__(self, params: QParams) -> float:
        """The sum of squares of all outputs' errors, if the value is rounded by these parameters."""
        on_grid = rounding_by(params)
        return sum(times * _energy(r.outputs(on_grid(rows)) - outputs) for r, rows, outputs, times in self._parts)


def _energy(array: Array) -> float:
    flat = array.reshape(-1)
    return float(np.dot(flat, flat))
