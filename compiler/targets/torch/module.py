"""A module of `nn` as an `nn.Module` of PyTorch: the operations one after the other, on buffers with the names of the weights."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ...dialects import nn
from ...ir.functions import input_names, main_function, output_names
from ...runtime.executor import flatten
from ...runtime.kernels import Array, bare_kernel_for
from ...runtime.program import Program, Row
from ...support.diagnostics import op_error
from .functions import Function, Maker, Tensor, function_of, torch

_WORD = re.compile(r"\W+", re.ASCII)


class _Step(NamedTuple):
    run: Function
    operands: tuple[int, ...]
    results: tuple[int, ...]


class _Network(torch.nn.Module):
    """The operations of a module. Takes its inputs in order or by name; gives the result, or several results by name.

    Weights are buffers under their keys (`layer1.0.conv2.weight`), as the operations read them: rounded to integers times scale
    where they are quantized, with batch norms folded into them.
    """

    def __init__(
        self,
        inputs: Mapping[str, int],
        outputs: Mapping[str, int],
        constants: Mapping[int, tuple[str, Array]],
        steps: Sequence[_Step],
    ):
        torch.nn.Module.__init__(self)
        self._inputs, self._outputs, self._steps = inputs, outputs, steps
        self._constants = {slot: _add(self, name, array) for slot, (name, array) in constants.items()}

    def forward(self, *inputs: Tensor, **named: Tensor) -> Any:
        """Runs the operations. Raises TypeError for other inputs than the module has."""
        given = {**dict(zip(self._inputs, inputs, strict=False)), **named}
        if given.keys() != self._inputs.keys() or len(inputs) + len(named) != len(given):
            raise TypeError(f"the inputs are {', '.join(self._inputs)}")
        values = {slot: self.get_buffer(name) for slot, name in self._constants.items()}
        values.update({self._inputs[name]: x for name, x in given.items()})
        for run, operands, results in self._steps:
            found = run(*(values[slot] for slot in operands))
            values.update(zip(results, [found] if isinstance(found, torch.Tensor) else found, strict=True))
        found = {name: values[slot] for name, slot in self._outputs.items()}
        return found if len(found) > 1 else next(iter(found.values()))


def network(module: ModuleOp, points: Mapping[type[Operation], Maker], fold: bool) -> Any:
    """A module of `nn` as one of PyTorch, in evaluation mode; `fold` dequantizes weights once.

    Raises CompileError, located at the operation, for one that PyTorch's functions do not express.
    """
    function = main_function(module)
    block = function.body.block
    terminator = block.last_op
    assert terminator is not None
    slot_of: dict[Any, int] = {}
    program = flatten(block, slot_of, terminator.operands)
    keys = {slot_of[op.result]: op.key or "" for op in module.walk() if isinstance(op, nn.ConstantOp)}
    constants, rows = (
        _folded(program, keys) if fold else ({s: (keys[s], a) for s, a in program.constants.items()}, program.rows)
    )
    steps = [_Step(_function(row, points), row.operands, row.results) for row in rows]
    names = zip(input_names(function), block.args, strict=True)
    results = zip(output_names(function), terminator.operands, strict=True)
    inputs, outputs = ({name: slot_of[value] for name, value in pairs} for pairs in (names, results))
    return _Network(inputs, outputs, _used(constants, steps, outputs), steps).eval()


def _function(row: Row, points: Mapping[type[Operation], Maker]) -> Function:
    found = function_of(row.op, points)
    if found is None:
        raise op_error(row.op, f"cannot be run by PyTorch: it has no function for {row.op.name}")
    return found


def _folded(program: Program, keys: Mapping[int, str]) -> tuple[dict[int, tuple[str, Array]], list[Row]]:
    """Constants and rows, with weights dequantized by the interpreter's kernel."""
    constants = {slot: (keys[slot], array) for slot, array in program.constants.items()}
    rows: list[Row] = []
    for row in program.rows:
        if isinstance(row.op, nn.DequantizeOp) and row.operands[0] in constants:
            key, array = constants[row.operands[0]]
            key = key.removesuffix(f".{row.op.qparams.data.storage}")  # the key of the floats
            kernel = bare_kernel_for(row.op)
            assert kernel is not None
            constants[row.results[0]] = (key, np.asarray(kernel(array)))
        else:
            rows.append(row)
    return constants, rows


def _used(
    constants: Mapping[int, tuple[str, Array]], steps: Sequence[_Step], outputs: Mapping[str, int]
) -> dict[int, tuple[str, Array]]:
    read = {*outputs.values(), *(slot for step in steps for slot in step.operands)}
    return {slot: constant for slot, constant in constants.items() if slot in read}


def _add(root: Any, key: str, array: Array) -> str:
    """Registers a buffer below modules of its path, and returns its name: names from files become words, each its own."""
    owner, parts = root, [_WORD.sub("_", part) for part in key.split(".") if part] or ["constant"]
    for part in parts[:-1]:
        taken = getattr(owner, part, None)
        if taken is None:
            owner.add_module(part, torch.nn.Module())
        elif not isinstance(taken, torch.nn.Module):
            break
        owner = getattr(owner, part)
    name = _free(owner, parts[-1])
    owner.register_buffer(name, torch.from_numpy(np.array(array)))
    return next(path for path, each in root.named_buffers() if each is getattr(owner, name))


def _free(owner: Any, name: str) -> str:
    taken = 0
    while hasattr(owner, wanted := f"{name}_{taken}" if taken else name):
        taken += 1
    return wanted
