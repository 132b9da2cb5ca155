"""Runs a module layer after layer over all batches, so that findings about one layer can change what the next ones read."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation

from ..dialects.nn import OpaqueOp
from .executor import Executable, usual
from .kernels import Array, Kernel
from .plan import kernel_of
from .program import Program, Row

IN_MEMORY = 64 << 20
"""Bytes of values between two layers, of all batches, that stay in memory; the values of further batches wait in files."""


class Layerwise:
    """Runs a module over batches that all wait in front of the same layer, with the values that are needed from there on."""

    def __init__(
        self,
        module: ModuleOp,
        layers: Iterable[Operation],
        batches: Iterable[Mapping[str, Array]],
        folder: Path,
        kernels: Mapping[Operation, Kernel] | None = None,
    ):
        """`layers` are asked for in the order of the module. `kernels` take the place of operations' own. Values wait in
        `folder`.

        Raises CompileError for operations that cannot be run, and for data that does not fit.
        """
        asked = {*layers}
        self.operands: dict[Operation, dict[int, Array]] = {op: {} for op in module.walk() if op in asked}
        """Changed weights and biases, by operand index, which layers read instead of their own, until all batches are after them.
        """
        self._kernels = kernels or {}
        self._at: dict[Operation, int] = {}
        self._reads: dict[Operation, int] = {}
        executable = Executable(module, rewrite=self._rewritten)
        self._names = executable.outputs
        self._plan = executable.plan
        self._constant = [slot for slot, array in enumerate(self._plan.slots) if array is not None]
        self._done = 0
        self._waiting: list[_Waiting] = []
        self._folder = folder
        self._held = 0
        for batch in batches:
            self._wait(len(self._waiting), self._plan.begin(executable.ordered(batch)))

    @property
    def batches(self) -> int:
        """The number of batches."""
        return len(self._waiting)

    def inputs(self, layer: Operation) -> Iterator[Array]:
        """Yields the first computed operand of a layer, batch by batch; the layer is after those asked for before. Must not be
        written to.

        Every batch has to be taken: with it goes what lies between the layers.
        """
        begin, end = self._done, self._at[layer]
        self._done, self._held = end, 0
        for i, waiting in enumerate(self._waiting):
            env = self._advanced(waiting, begin, end)
            self._wait(i, env)
            array = env[self._reads[layer]]
            assert array is not None, "it is released after the layer"
            yield array
        for passed, at in self._at.items():
            if at < end:
                self.operands[passed].clear()

    def reach(self, layer: Operation) -> None:
        """Run all batches up to a layer, unless they are there already. The values that only earlier layers read are freed."""
        if self._done < self._at[layer]:
            deque(self.inputs(layer), maxlen=0)

    def outputs(self, first: int = 0) -> Iterator[Mapping[str, Array]]:
        """The outputs of the network by name, from this batch on. No layer can be asked for any more."""
        for waiting in self._waiting[first:]:
            env = self._advanced(waiting, self._done, None)
            found = (env[slot] for slot in self._plan.outputs)
            yield {name: array for name, array in zip(self._names, found, strict=True) if array is not None}

    def _advanced(self, waiting: _Waiting, begin: int, end: int | None) -> list[Array | None]:
        """The slots of a batch after these steps."""
        env = list(self._plan.slots)
        for slot, array in waiting.arrays():
            env[slot] = array
        self._plan.advance(env, self._plan.steps[begin:end])
        return env

    def _wait(self, index: int, env: Sequence[Array | None]) -> None:
        """Keep the values that a batch has before the next step."""
        fixed = set(self._constant)
        live = {slot: array for slot, array in enumerate(env) if array is not None and slot not in fixed}
        self._held += sum(array.nbytes for array in live.values())
        waiting = _Waiting(live) if self._held <= IN_MEMORY else _Waiting.in_file(live, self._folder / str(index))
        if index < len(self._waiting):
            self._waiting[index] = waiting
        else:
            self._waiting.append(waiting)

    def _rewritten(self, program: Program) -> Program:
        program = usual(program)
        rows: list[Row] = []
        for i, row in enumerate(_in_order(program.rows, self.operands)):
            kernel = self._kernels.get(row.op, row.kernel)
            if row.op in self.operands:
                computed = (slot for slot in row.operands if slot not in program.constants)
                self._at[row.op], self._reads[row.op] = i, next(computed, row.operands[0])
                kernel = _replacing(kernel_of(row._replace(op=_open(row.op), kernel=kernel)), self.operands[row.op])
            rows.append(row._replace(kernel=kernel))
        return replace(program, rows=rows)


def _in_order(rows: Sequence[Row], layers: Collection[Operation]) -> Iterable[Row]:
    """The rows, with layers in this order: one that reads only constants comes late, in front of what reads it, behind others."""
    makers = {slot: row for row in rows for slot in row.results}
    layer_rows = {row.op: row for row in rows}
    waiting = deque(layer_rows[layer] for layer in layers if layer in layer_rows)
    placed: dict[Operation, Row] = {}

    def place(row: Row) -> None:
        if row.op in placed:
            return
        for slot in row.operands:
            if slot in makers:
                place(makers[slot])
        placed[row.op] = row

    for row in rows:
        while row.op in layers and row.op not in placed:
            place(waiting.popleft())
        place(row)
    return placed.values()


def _open(op: Operation) -> Operation:
    """A copy of a carried operator whose operands are not constants: its kernel would keep those. Others as they are."""
    if not isinstance(op, OpaqueOp):
        return op
    copy = op.clone()
    copy.operands = Block(arg_types=op.operand_types).args
    return copy


def _replacing(kernel: Kernel, operands: Mapping[int, Array]) -> Callable[..., Any]:
    """A kernel that reads some operands from elsewhere; these may change, and may be more than the operation has."""

    def run(*given: Array) -> Any:
        return kernel(*(operands.get(i, given[i] if i < len(given) else None) for i in range(_count(given))))

    def _count(given: Sequence[Array]) -> int:
        return max(len(given), 1 + max(operands, default=0))

    return run


@dataclass(frozen=True)
class _Waiting:
    """The values of one batch by their slots, in memory or one after the other in a file."""

    live: Mapping[int, Array]
    """The live arrays, in a file: empty arrays of their shapes and types, that do not occupy memory."""
    file: Path | None = None

    @staticmethod
    def in_file(live: Mapping[int, Array], file: Path) -> _Waiting:
        with file.open("wb") as stream:
            for array in live.values():
                stream.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        return _Waiting({slot: _hollow(array) for slot, array in live.items()}, file)

    def arrays(self) -> Iterator[tuple[int, Array]]:
        """Slots and their values."""
        if self.file is None:
            yield from self.live.items()
            return
        with self.file.open("rb") as stream:
            for slot, hollow in self.live.items():
                yield slot, np.fromfile(stream, hollow.dtype, hollow.size).reshape(hollow.shape)


def _hollow(array: Array) -> Array:
    """An array of the same shape and type that holds one element."""
    return np.broadcast_to(np.zeros((), array.dtype), array.shape)
