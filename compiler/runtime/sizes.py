"""Sizes computed at run time: what follows from the shapes of arrays alone is computed once for each of these shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..dialects import nn
from ..dialects.nn.shapes import shape_of
from .executor import plan_of
from .kernels import Array, Kernel
from .program import Program, Row, live

_SHAPES = frozenset({"nn.shape", "ascend.Shape"})


def once_per_shape(program: Program) -> Program:
    """The same slots; a row that makes sizes for others takes the arrays whose shapes these follow from."""
    if not any(row.op.name in _SHAPES for row in program.rows):
        return program
    arrays = _sources(program)
    sizes = replace(program, rows=[row for row in program.rows if not arrays.keys().isdisjoint(row.results)])
    others = (row for row in program.rows if arrays.keys().isdisjoint(row.results))
    # what is asked for belongs to the caller
    read = arrays.keys() & {slot for row in others for slot in row.operands} - program.asked

    def remembering(row: Row) -> Row:
        if read.isdisjoint(row.results):
            return row
        (slot,) = row.results
        return Row(row.op, arrays[slot], row.results, _remembered(sizes, arrays[slot], slot))

    return replace(program, rows=live([remembering(row) for row in program.rows], program.asked))


def _sources(program: Program) -> Mapping[int, tuple[int, ...]]:
    """Slots of sizes, and of the arrays whose shapes each follows from."""
    found: dict[int, tuple[int, ...]] = {}
    for row in program.rows:
        if len(row.results) != 1 or isinstance(row.op, nn.OpaqueOp) or len(shape_of(row.op.results[0])) > 1:
            continue
        if row.op.name in _SHAPES:
            found[row.results[0]] = row.operands
        elif all(slot in found or slot in program.constants for slot in row.operands):
            arrays = dict.fromkeys(array for slot in row.operands for array in found.get(slot, ()))
            if arrays:
                found[row.results[0]] = tuple(arrays)
    return found


def _remembered(sizes: Program, arrays: Sequence[int], slot: int) -> Kernel:
    """From arrays to what follows from their shapes; the last result is kept."""
    plan = plan_of(replace(sizes, rows=live(sizes.rows, frozenset({slot}))), arrays, [slot])
    last: tuple[Sequence[tuple[int, ...]], Array | None] = ((), None)

    def run(*operands: Array) -> Array:
        nonlocal last
        shapes = [array.shape for array in operands]
        known, result = last
        if result is None or known != shapes:
            result = np.asarray(plan.run(operands)[0])
            result.flags.writeable = False
            last = shapes, result
        return result

    return run
