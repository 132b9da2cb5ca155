"""Blocks of layers between residual sums: parts of a network with one input and one output, whose layers are rounded together.

Li et al., "BRECQ: Pushing the Limit of Post-Training Quantization by Block Reconstruction" (2021).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from .....dialects.nn import ActivationOp, ObserveOp
from .....ir.functions import main_function
from .....runtime.executor import flatten
from .....runtime.program import Program, Row

MOST_LAYERS = 8
"""The most layers that are rounded together: the parts of a U-Net between skips would be all of it."""
_ROOT = -1
"""What dominates all inputs of the network, as a slot."""


class Block(NamedTuple):
    """A part of the network with one input and one output."""

    rows: Sequence[Row]
    """Its operations, in order."""
    layers: Sequence[Operation]
    """Those whose weights are rounded, in order."""
    input: int
    """The slot of what it reads; all else that it reads is constant."""
    output: int
    """The slot of its result, the only one that is read elsewhere."""
    first: Operation
    """The first operation that reads the input."""


class Blocks(NamedTuple):
    """The blocks of a network, in order, and its program."""

    program: Program
    blocks: Sequence[Block]


def blocks_of(module: ModuleOp, layers: Collection[Operation]) -> Blocks:
    """The blocks of these layers. Each of them is in one: in the largest part from a value to where all paths from it join, with
    at most `MOST_LAYERS` layers, of which nothing else is read; otherwise in a block of its own. What is applied to the result
    alone, such as a Relu, belongs to the block.
    """
    block = main_function(module).body.block
    assert block.last_op is not None, "a function returns"
    program = flatten(block, dict[SSAValue, int](), block.last_op.operands)
    graph = _Graph.of(program, len(block.args))
    wanted, taken = set(layers), set[int]()
    found: list[Block] = []
    every = [part for i in graph.joins() if (part := graph.part(i)) is not None]
    alone = [[i] for i, row in enumerate(program.rows) if row.op in wanted]
    for part in sorted(every, key=len, reverse=True) + alone:
        count = sum(program.rows[i].op in wanted for i in part)
        if not 0 < count <= MOST_LAYERS or not taken.isdisjoint(part):
            continue
        whole = graph.extended(part)
        whole = whole if taken.isdisjoint(whole) else part
        taken.update(whole)
        found.append(graph.block(whole, wanted))
    place = {row.op: i for i, row in enumerate(program.rows)}
    return Blocks(program, sorted(found, key=lambda each: place[each.first]))


@dataclass(frozen=True)
class _Graph:
    """The operations that depend on the network's inputs, by their number, and what dominates them."""

    program: Program
    made_by: dict[int, int]
    """The row that computes a slot."""
    dominators: dict[int, int]
    """The last slot that all paths from the network's inputs to a slot go through, other than itself. Constants have none."""
    depth: dict[int, int]

    @staticmethod
    def of(program: Program, inputs: int) -> _Graph:
        made_by = {slot: i for i, row in enumerate(program.rows) for slot in row.results}
        graph = _Graph(
            program, made_by, dict.fromkeys(range(inputs), _ROOT), {_ROOT: 0, **dict.fromkeys(range(inputs), 1)}
        )
        for row in program.rows:
            computed = graph.computed(row)
            if not computed:
                continue
            last = computed[0]
            for slot in computed[1:]:
                last = graph._common(last, slot)
            for slot in row.results:
                graph.dominators[slot], graph.depth[slot] = last, graph.depth[last] + 1
        return graph

    def computed(self, row: Row) -> list[int]:
        """The operands that depend on the network's inputs."""
        return [slot for slot in row.operands if slot in self.dominators]

    def _common(self, a: int, b: int) -> int:
        while a != b:
            if self.depth[a] < self.depth[b]:
                a, b = b, a
            a = self.dominators[a]
        return a

    def joins(self) -> Iterator[int]:
        """The rows that several paths lead to."""
        return (i for i, row in enumerate(self.program.rows) if len(set(self.computed(row))) > 1)

    def part(self, join: int) -> list[int] | None:
        """The rows on all paths to a row from the slot that dominates it; None if something else reads what is between."""
        row = self.program.rows[join]
        first, part, waiting = self.dominators[row.results[0]], {join}, [*self.computed(row)]
        while waiting:
            slot = waiting.pop()
            if slot == first:
                continue
            if slot not in self.made_by:
                return None  # several inputs of the network
            if (i := self.made_by[slot]) not in part:
                part.add(i)
                waiting.extend(self.computed(self.program.rows[i]))
        return sorted(part) if len(row.results) == 1 and self._is_closed(part, join) else None

    def _is_closed(self, part: set[int], last: int) -> bool:
        rows, inside = self.program.rows, [slot for i in part if i != last for slot in self.program.rows[i].results]
        readers = {row for slot in inside for row in self.program.readers.get(slot, ())}
        return self.program.asked.isdisjoint(inside) and readers <= {rows[i] for i in part}

    def extended(self, part: Sequence[int]) -> list[int]:
        """The part with the points that only it reads in front, and the activations that alone read its result behind."""
        whole, rows = list(part), self.program.rows
        while (made := self.made_by.get(self.input(whole))) is not None and isinstance(rows[made].op, ObserveOp):
            if not self._is_closed({made, *whole}, whole[-1]):
                break
            whole.insert(0, made)
        while (after := self._reader(whole[-1])) is not None and isinstance(rows[after].op, ActivationOp):
            whole.append(after)
        return whole

    def _reader(self, i: int) -> int | None:
        """The only reader of a row's only result."""
        result, *others = self.program.rows[i].results
        readers = self.program.readers.get(result, ())
        return None if others or len(readers) != 1 or result in self.program.asked else self._number(readers[0])

    def _number(self, row: Row) -> int:
        return self.made_by[next(iter(row.results))]

    def input(self, part: Sequence[int]) -> int:
        """The slot that a part reads."""
        return self.computed(self.program.rows[part[0]])[0]

    def block(self, part: Sequence[int], layers: Collection[Operation]) -> Block:
        """The part as a block, with what it computes from constants."""
        rows, needed = [self.program.rows[i] for i in part], set[int]()
        constant: list[Row] = []
        needed.update(slot for row in rows for slot in row.operands)
        for row in reversed(self.program.rows):
            if not self.computed(row) and not needed.isdisjoint(row.results):
                constant.append(row)
                needed.update(row.operands)
        own = [row.op for row in rows if row.op in layers]
        return Block([*constant[::-1], *rows], own, self.input(part), rows[-1].results[0], rows[0].op)
