"""Plans: the kernels of a block in order, with slots for values, and the execution of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import VerifyException

from ..ir.weights import release
from ..support.diagnostics import CompileError, describe, op_error
from ..support.limits import HINT, locating, shortage
from .kernels import Array, Kernel, bare_kernel_for
from .program import Program, Row

_RESIDENT = 1 << 28
"""Largest size in bytes of weights mapped from files that stay in memory between runs."""

Watch = Callable[[SSAValue, Array], None]
"""Called with every watched value as soon as it is computed; must not write to the array or keep it."""


class Step(NamedTuple):
    """A kernel with the slots of its operands and results; `where` is the place of its operation, for errors."""

    kernel: Kernel
    operands: tuple[int, ...]
    results: tuple[int, ...]
    releases: tuple[int, ...]
    """Slots that this step uses last."""
    where: str


class RunError(CompileError):
    """A run failed: an input does not fit, or a kernel raised. Located at the operation."""


@dataclass(frozen=True)
class Plan:
    """A compiled block: fixed slots contain constants, the others arrays of one run."""

    slots: tuple[Array | None, ...]
    """Constants in their slots, None in the others."""
    arguments: tuple[int, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    watched: Mapping[int, Sequence[SSAValue]]

    def run(self, inputs: Sequence[Array], watch: Watch | None = None) -> list[Array]:
        """Run on one array per argument, in order. Raises RunError, located at the operation that fails."""
        env = self.begin(inputs)
        if watch is not None:
            self._tell(watch, self.arguments, env)
        self.advance(env, self.steps, watch)
        return [cast(Array, env[s]) for s in self.outputs]

    def begin(self, inputs: Sequence[Array]) -> list[Array | None]:
        """The slots of a run before its first step."""
        env = list(self.slots)
        for slot, array in zip(self.arguments, inputs, strict=True):
            env[slot] = array
        return env

    def advance(self, env: list[Array | None], steps: Iterable[Step], watch: Watch | None = None) -> None:
        """Take the next steps of a run. Raises RunError, located at the operation that fails."""
        # infinities, NaN and wrapped integers are valid results, not reasons to warn
        array_of = env.__getitem__
        with np.errstate(all="ignore"):
            for kernel, operands, results, releases, where in steps:
                try:
                    result = kernel(*map(array_of, operands))
                except (ValueError, IndexError, VerifyException) as e:
                    raise RunError(f"{e or type(e).__name__}", where=where) from e
                except MemoryError as e:
                    raise RunError(shortage(e), where=where, hint=HINT) from e
                if isinstance(result, (list, tuple)):
                    for slot, array in zip(results, result, strict=True):
                        env[slot] = array
                else:
                    env[results[0]] = cast(Array, result)
                if watch is not None:
                    with locating(where):
                        self._tell(watch, results, env)
                for slot in releases:
                    env[slot] = None

    def _tell(self, watch: Watch, slots: Sequence[int], env: Sequence[Array | None]) -> None:
        for slot in slots:
            for value in self.watched.get(slot, ()):
                watch(value, cast(Array, env[slot]))


def plan_of(
    program: Program,
    arguments: Sequence[int],
    outputs: Sequence[int],
    watched: Mapping[int, Sequence[SSAValue]] | None = None,
) -> Plan:
    """Plans the program from the slots of arguments to those of outputs. Raises CompileError at an operation without a kernel."""
    return Plan(
        slots=tuple(map(program.constants.get, range(program.slots))),
        arguments=tuple(arguments),
        steps=_steps(program, {*program.constants, *outputs}),
        outputs=tuple(outputs),
        watched=watched or {},
    )


def _steps(program: Program, kept: Set[int]) -> tuple[Step, ...]:
    """Rows with their kernels and the slots that each releases; kept slots are never released."""
    rows, constants = program.rows, program.constants
    large = sum(array.nbytes for array in constants.values()) > _RESIDENT
    last: dict[int, int] = {}
    for i, row in enumerate(rows):
        last.update(dict.fromkeys((*row.results, *row.operands), i))
    releases: list[list[int]] = [[] for _ in rows]
    for slot, i in last.items():
        if slot not in kept:
            releases[i].append(slot)
    kernels = [
        _releasing(kernel_of(row), [constants[s] for s in row.operands if s in constants]) if large else kernel_of(row)
        for row in rows
    ]
    return tuple(
        Step(kernel, row.operands, row.results, tuple(released), describe(row.op.location))
        for kernel, row, released in zip(kernels, rows, releases, strict=True)
    )


def _releasing(kernel: Kernel, weights: Sequence[Array]) -> Kernel:
    """A kernel after which weights that are mapped from files leave memory: the next run reads them again."""

    def run(*operands: Array) -> Array | Sequence[Array]:
        result = kernel(*operands)
        for weight in weights:
            release(weight)
        return result

    return run if weights else kernel


def kernel_of(row: Row) -> Kernel:
    """The function that computes a row. Raises CompileError if there is none."""
    if (kernel := row.kernel or bare_kernel_for(row.op)) is None:
        raise op_error(row.op, "cannot be run: it has no kernel")
    return kernel
