"""Sizes at run time: values that follow only from the shapes of arrays are computed once per combination of shapes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from ..dialects import nn
from ..dialects.nn.shapes import shape_of
from .kernels import Array, Kernel
from .plan import plan_of
from .program import Program, Row, live

_SHAPES = frozenset({"nn.shape", "ascend.Shape"})


def once_per_shape(program: Program) -> Program:
    """Rewrites rows: a row that computes sizes for others reads the arrays whose shapes determine them; slots stay the same."""
    if not any(row.op.name in _SHAPES for row in program.rows):
        return program
    arrays = _sources(program)
    sizes = replace(program, rows=[row for row in program.rows if not arrays.keys().isdisjoint(row.results)])
    others = (row for row in program.rows if arrays.keys().isdisjoint(row.results))
    # requested values belong to the caller
    read = arrays.keys() & {slot for row in others for slot in row.operands} - program.asked

    def remembering(row: Row) -> Row:
        if read.isdisjoint(row.results):
            return row
        (slot,) = row.results
        return Row(row.op, arrays[slot], row.results, _remembered(sizes, arrays[slot], slot))

    return replace(program, rows=live([remembering(row) for row in program.rows], program.asked))


def _sources(program: Program) -> Mapping[int, tuple[int, ...]]:
    """Slots of sizes, each with the arrays whose shapes determine it."""
    found: dict[int, tuple[int, ...]] = {}
    for row in program.rows:
        if len(row.results) != 1 or isinstance(row.op, nn.OpaqueOp) or len(shape_of(row.op.results[0])) > 1:
            continue
        if row.op.name in _SHAPES:
            (array,) = row.operands
            found[row.results[0]] = found.get(array, (array,))  # the shape of sizes follows from what they follow from
        elif all(slot in found or slot in program.constants for slot in row.operands):
            arrays = dict.fromkeys(array for slot in row.operands for array in found.get(slot, ()))
            if arrays:
                found[row.results[0]] = tuple(arrays)
    return found


def _remembered(sizes: Program, arrays: Sequence[int], slot: int) -> Kernel:
    """Maps arrays to values that follow from their shapes; the last result is kept."""
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
