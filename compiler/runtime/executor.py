"""Running a module: compiled once to a flat plan of kernels and slots, then run many times.

A value's array is dropped after its last use, so memory holds what is live and no more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

import numpy as np
from xdsl.dialects.builtin import DYNAMIC_INDEX, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, SSAValue

from ..dialects.nn import ConstantOp, FusedOp
from ..dialects.nn.shapes import text
from ..ir.dtypes import Tensor, numpy_dtype
from ..ir.functions import input_names, main_function, output_names
from ..ir.weights import WeightError
from ..support.diagnostics import CompileError, describe, op_error
from .kernels import Array
from .plan import Plan, RunError, Watch, plan_of
from .program import Program, Rewrite, Row, late
from .sizes import once_per_shape


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


def usual(program: Program) -> Program:
    """The program after the default rewriting, which keeps results bit for bit."""
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


def interpreted(module: ModuleOp, session: object, watched: Sequence[SSAValue] = ()) -> Executable:
    """The engine `numpy`: the interpreter, which needs nothing of the session."""
    return Executable(module, watched)


def check_input(name: str, array: Array, type_: Tensor) -> None:
    """Raises RunError if an array does not have the shape and element type of an input."""
    wanted = type_.get_shape()
    fits = array.ndim == len(wanted) and all(d in (DYNAMIC_INDEX, n) for d, n in zip(wanted, array.shape, strict=True))
    if not fits:
        raise RunError(f"input '{name}' has shape {list(array.shape)}, but the model takes {text(wanted)}")
    if array.dtype != (dtype := numpy_dtype(type_.element_type)):
        raise RunError(f"input '{name}' is of {array.dtype}, but the model takes {dtype}")


def run(module: ModuleOp, inputs: Mapping[str, Array]) -> dict[str, Array]:
    """Compile a module and run it once."""
    return Executable(module).run(inputs)
