"""A block as operations on slots, before kernels are made, so that rewrites can change it."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from xdsl.ir import Operation

from .kernels import Array, Kernel


class Row(NamedTuple):
    """An operation on slots, computed by `kernel` if given, otherwise by the operation's own kernel."""

    op: Operation
    operands: tuple[int, ...]
    results: tuple[int, ...]
    kernel: Kernel | None = None


@dataclass(frozen=True)
class Program:
    """A block as rows in order."""

    slots: int
    constants: Mapping[int, Array]
    rows: Sequence[Row]
    asked: frozenset[int]
    """Slots that leave the program: outputs and watched values."""

    @cached_property
    def readers(self) -> Mapping[int, Sequence[Row]]:
        """The rows that read a slot, once per operand."""
        readers: dict[int, list[Row]] = {}
        for row in self.rows:
            for slot in row.operands:
                readers.setdefault(slot, []).append(row)
        return readers

    @cached_property
    def _makers(self) -> Mapping[int, Row]:
        return {slot: row for row in self.rows for slot in row.results}

    def made_for_one(self, slot: int) -> Row | None:
        """The row that computes a value, if the value has one reader."""
        one = slot not in self.asked and len(self.readers[slot]) == 1
        return self._makers.get(slot) if one else None


Rewrite = Callable[[Program], Program]
"""Another way to compute the same slots: in integers (`integer_plan`), with fewer casts (`ascend_plan`), in float16 (`half`)."""


def live(rows: Sequence[Row], asked: frozenset[int]) -> list[Row]:
    """The rows that requested slots depend on."""
    needed, found = set(asked), list[Row]()
    for row in reversed(rows):
        if not needed.isdisjoint(row.results):
            needed.update(row.operands)
            found.append(row)
    return found[::-1]


def late(rows: Sequence[Row], constants: Container[int]) -> list[Row]:
    """The rows in an order in which values that are computed from constants alone, such as floats of weights, are
    computed where they are read.
    """
    waiting: dict[int, Row] = {}
    placed: list[Row] = []

    def place(row: Row) -> None:
        for slot in row.operands:
            if slot in waiting:
                place(waiting[slot])
        for slot in row.results:
            waiting.pop(slot, None)
        placed.append(row)

    for row in rows:
        if row.operands and all(slot in constants or slot in waiting for slot in row.operands):
            waiting.update(dict.fromkeys(row.results, row))
        else:
            place(row)
    while waiting:  # outputs of the program
        place(next(iter(waiting.values())))
    return placed
