"""Running a module: compiled once to a flat plan of kernels and slots, then run many times.

A value's array is dropped after its last use, so memory holds what is live and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple, cast

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from ..diagnostics import CompileError, describe, op_error
from ..dialects.nn import ConstantOp, FusedOp
from ..ir.dtypes import Tensor, numpy_dtype
from ..ir.functions import input_names, main_function, output_names
from ..ir.weights import WeightError, release
from ..limits import HINT, locating, shortage
from .kernels import Array, Kernel, bare_kernel_for
from .program import Program, Rewrite, Row, late

_RESIDENT = 1 << 28
"""Bytes of weights up to which those that are mapped from files stay in memory between runs."""

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


def compile_block(
    block: Block,
    outputs: Sequence[SSAValue],
    watched: Sequence[SSAValue] = (),
    rewrite: Rewrite | None = None,
) -> Plan:
    """Compiles the operations of a block up to its terminator; operations of fused regions are inlined.

    Raises CompileError at an operation without a kernel.
    """
    slot_of: dict[SSAValue, int] = {}
    program = flatten(block, slot_of, [*outputs, *watched])
    program = (rewrite or usual)(program)
    told: dict[int, list[SSAValue]] = {}
    for value in watched:
        told.setdefault(slot_of[value], []).append(value)
    return plan_of(program, [slot_of[a] for a in block.args], [slot_of[o] for o in outputs], told)


def plan_of(
    program: Program,
    arguments: Sequence[int],
    outputs: Sequence[int],
    watched: Mapping[int, Sequence[SSAValue]] | None = None,
) -> Plan:
    """From the slots of arguments to those of outputs. Raises CompileError at an operation without a kernel."""
    return Plan(
        slots=tuple(map(program.constants.get, range(program.slots))),
        arguments=tuple(arguments),
        steps=_steps(program, {*program.constants, *outputs}),
        outputs=tuple(outputs),
        watched=watched or {},
    )


def usual(program: Program) -> Program:
    """The program after the default rewriting, which keeps results bit for bit."""
    from .sizes import once_per_shape  # makes plans itself

    program = once_per_shape(program)
    if not any(row.op.name.startswith("ascend.") for row in program.rows):
        return program
    from .ascend_plan import in_float32  # imports all of `ascend`

    return in_float32(program)


def flatten(block: Block, slot_of: dict[SSAValue, int], asked: Sequence[SSAValue]) -> Program:
    """The rows of a block; every value gets a slot."""
    constants: dict[int, Array] = {}
    rows: list[Row] = []
    for argument in block.args:
        slot_of[argument] = len(slot_of)
    for op in _flat(block, slot_of):
        for result in op.results:
            slot_of[result] = len(slot_of)
        if not isinstance(op, ConstantOp):
            rows.append(Row(op, tuple(slot_of[o] for o in op.operands), tuple(slot_of[r] for r in op.results)))
            continue
        try:
            # arrays mapped from a file may start anywhere; BLAS would copy such an operand at every call
            constants[slot_of[op.result]] = np.require(op.array, requirements="A")
        except WeightError as e:
            raise op_error(op, str(e)) from None
    return Program(len(slot_of), constants, late(rows, constants), frozenset(slot_of[v] for v in asked))


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


def _flat(block: Block, slot_of: dict[SSAValue, int]) -> Iterator[Operation]:
    """The operations of a block up to its terminator, with fused regions inlined; at their borders values share slots."""
    for op in block.ops:
        if op is block.last_op and not op.results:
            return
        if not isinstance(op, FusedOp):
            yield op
            continue
        slot_of.update({a: slot_of[v] for a, v in zip(op.body.block.args, op.inputs, strict=True)})
        yield from _flat(op.body.block, slot_of)
        slot_of[op.result] = slot_of[op.terminator.value]


class Executable:
    """A module that is ready to run, by input and output name. A `rewrite` (`in_integers`) changes how it is computed."""

    def __init__(self, module: ModuleOp, watched: Sequence[SSAValue] = (), rewrite: Rewrite | None = None):
        self.function: FuncOp = main_function(module)
        block = self.function.body.block
        if not isinstance(block.last_op, ReturnOp):
            raise CompileError("the function does not end in func.return", where=describe(self.function.location))
        self.inputs: list[str] = input_names(self.function)
        self.outputs: list[str] = output_names(self.function)
        self._types = [cast(Tensor, a.type) for a in block.args]
        self.plan: Plan = compile_block(block, list(block.last_op.operands), watched, rewrite)

    def __repr__(self) -> str:
        return f"Executable({', '.join(self.inputs)} -> {', '.join(self.outputs)})"

    def run(self, inputs: Mapping[str, Array], watch: Watch | None = None) -> dict[str, Array]:
        """Run on arrays by input name; arrays by output name. Raises RunError for inputs that do not fit."""
        results = self.plan.run(self.ordered(inputs), watch)
        return dict(zip(self.outputs, results, strict=True))

    def ordered(self, inputs: Mapping[str, Array]) -> list[Array]:
        """The arrays in the order of the inputs. Raises RunError where they do not fit."""
        if missing := [n for n in self.inputs if n not in inputs]:
            hint = f"given are {', '.join(sorted(inputs)) or 'none'}"
            raise RunError(f"no data for input {', '.join(missing)}", hint=hint)
        if unknown := sorted(set(inputs) - set(self.inputs)):
            hint = f"the inputs are {', '.join(self.inputs)}"
            raise RunError(f"the model has no input {', '.join(unknown)}", hint=hint)
        for name, type_ in zip(self.inputs, self._types, strict=True):
            check_input(name, inputs[name], type_)
        return [inputs[n] for n in self.inputs]


def check_input(name: str, array: Array, type_: Tensor) -> None:
    """Raises RunError if an array does not have the shape and element type of an input."""
    wanted = type_.get_shape()
    fits = array.ndim == len(wanted) and all(d in (DYNAMIC_INDEX, n) for d, n in zip(wanted, array.shape, strict=True))
    if not fits:
        raise RunError(f"input '{name}' has shape {list(array.shape)}, but the model takes {type_}")
    if array.dtype != (dtype := numpy_dtype(type_.element_type)):
        raise RunError(f"input '{name}' is of {array.dtype}, but the model takes {dtype}")


def run(module: ModuleOp, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Compile a module and run it once."""
    return Executable(module).run(inputs)
