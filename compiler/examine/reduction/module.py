"""Cutting modules, and making them plainer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import cast

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, BlockArgument, Operation, OpResult, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from ...dialects.nn import ConstantOp, ConvolutionOp, NNOp, OriginAttr, set_type
from ...dialects.nn.base import integer
from ...dialects.nn.shapes import tensor_of
from ...ir.functions import input_names, main_function, output_names, return_op, value_attributes
from ...ir.verification import verify
from ...ir.weights import WeightError
from ...support.diagnostics import CompileError
from .onnx_model import FILLS, all_smaller, resized, smaller

_FEW = 24
"""Most operations of a module whose operations are bypassed one by one."""

Change = Callable[[], ModuleOp | None]


class ModuleForm:
    """Modules of any stage. Constants belong to the operations that read them, and count as weights."""

    def parts(self, model: ModuleOp) -> tuple[int, Callable[[Sequence[int]], ModuleOp | None]]:
        """The operations of the graph, and how some of them are cut out."""
        operations = _operations(model)
        return len(operations), partial(_cut, model, operations)

    def sizes(self, model: ModuleOp) -> Iterator[tuple[str, Change]]:
        """Yields changes of sizes: all large ones, then places (axes after the second) alone, then everything that has
        the same size.
        """
        sizes = {n for a in main_function(model).body.block.args for n in tensor_of(a).get_shape() if n > 1}
        sizes |= {n for op in _constants(model) for n in tensor_of(op.result).get_shape() if n > 1}
        for name, chosen in all_smaller(sizes):
            yield name, partial(_resized, model, chosen)
        for size in sorted(sizes, reverse=True):
            for new in smaller(size):
                yield f"places {size} {new}", partial(_resized, model, {size: new}, places=True)
                yield f"size {size} {new}", partial(_resized, model, {size: new})

    def changes(self, model: ModuleOp) -> Iterator[tuple[str, Change]]:
        """Yields changes, from those that simplify most to those that simplify least."""
        yield from self.sizes(model)
        operations = _operations(model)
        if len(operations) <= _FEW:
            for i, op in enumerate(operations):
                for k in range(len(op.operands)):
                    yield f"bypass {len(operations)} {i} {k}", partial(_bypassed, model, i, k)
        outputs = len(return_op(main_function(model)).operands)
        for i in range(outputs) if outputs > 1 else ():
            yield f"output {outputs} {i}", partial(_without_output, model, i)
        for i, constant in enumerate(_constants(model)):
            for kind in FILLS:
                yield f"{kind} {i} {constant.key} {constant.result.type}", partial(_filled, model, i, kind)


def _operations(module: ModuleOp) -> list[Operation]:
    block = main_function(module).body.block
    return [op for op in block.ops if op is not block.last_op and not isinstance(op, ConstantOp)]


def _constants(module: ModuleOp) -> list[ConstantOp]:
    return [op for op in main_function(module).body.block.ops if isinstance(op, ConstantOp)]


def _cut(module: ModuleOp, operations: Sequence[Operation], kept: Sequence[int]) -> ModuleOp | None:
    """The module with some operations only. What they read from others are inputs, what others read are outputs."""
    function = main_function(module)
    names: dict[SSAValue, str] = dict(zip(function.body.block.args, input_names(function), strict=True))
    results = dict(zip(return_op(function).operands, output_names(function), strict=True))
    chosen = [operations[i] for i in kept]
    inside = set(chosen)
    read = [value for op in chosen for value in op.operands]
    inputs = [v for v in dict.fromkeys(read) if v.owner not in inside and not _is_constant(v)]
    made = [result for op in chosen for result in op.results]
    outputs = [v for v in made if any(use.operation not in inside for use in v.uses) or not v.first_use]
    if not outputs or not all(isinstance(v.type, TensorType) for v in (*inputs, *outputs)):
        return None
    block = Block(arg_types=[v.type for v in inputs])
    mapper: dict[SSAValue, SSAValue] = dict(zip(inputs, block.args, strict=True))
    for value in dict.fromkeys(read):
        if isinstance(value, OpResult) and isinstance(value.op, ConstantOp):
            block.add_op(value.op.clone(mapper))
    for op in chosen:
        block.add_op(op.clone(mapper))
    block.add_op(ReturnOp(*(mapper[v] for v in outputs)))
    taken: dict[str, int] = {}
    called = [_unique(names.get(v) or _name(v), taken) for v in inputs]
    return _valid(_module(module, block, called, [_unique(results.get(v) or _name(v), taken) for v in outputs]))


def _is_constant(value: SSAValue) -> bool:
    return isinstance(value, OpResult) and isinstance(value.op, ConstantOp)


def _name(value: SSAValue) -> str:
    """The layer of a value, otherwise its name in the text."""
    origin = None if isinstance(value, BlockArgument) else cast(OpResult, value).op.properties.get("origin")
    return origin.layer.data if isinstance(origin, OriginAttr) else value.name_hint or "value"


def _unique(name: str, taken: dict[str, int]) -> str:
    count = taken[name] = taken.get(name, -1) + 1
    return f"{name}_{count}" if count else name


def _module(old: ModuleOp, block: Block, inputs: Sequence[str], outputs: Sequence[str]) -> ModuleOp:
    """A module around the block of its graph."""
    function = FuncOp(main_function(old).sym_name.data, ([], []), Region(block))
    _declare(function, inputs, outputs)
    function.location = main_function(old).location
    module = ModuleOp([function], dict(old.attributes))
    module.location = old.location
    return module


def _declare(function: FuncOp, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Makes the signature that of the block, with these names."""
    block = function.body.block
    operands = cast(ReturnOp, block.last_op).operands
    function.function_type = FunctionType.from_lists([a.type for a in block.args], [v.type for v in operands])
    function.arg_attrs = ArrayAttr[DictionaryAttr]([value_attributes(name) for name in inputs])
    function.res_attrs = ArrayAttr[DictionaryAttr]([value_attributes(name) for name in outputs])


def _whole(module: ModuleOp) -> ModuleOp:
    """The module without operations that no output depends on, and with the types of its graph as they are now."""
    function = main_function(module)
    block = function.body.block
    for op in reversed(list(block.ops)):
        if op is not block.last_op and not any(result.first_use for result in op.results):
            op.detach()
            op.erase()
    names = dict(zip(block.args, input_names(function), strict=True))
    for argument in list(block.args):
        if not argument.first_use:
            block.erase_arg(argument)
    _declare(function, [names[a] for a in block.args], output_names(function))
    return module


def _valid(module: ModuleOp) -> ModuleOp | None:
    try:
        verify(module)
    except (CompileError, WeightError):
        return None
    return module


def _resized(module: ModuleOp, sizes: Mapping[int, int], *, places: bool = False) -> ModuleOp | None:
    """Resizes every axis of these sizes, in inputs and constants, and the same numbers in shapes; `places`: axes of
    inputs after the second alone.
    """
    new = module.clone()
    block = main_function(new).body.block
    for argument in block.args:
        shape = tensor_of(argument).get_shape()
        smaller_shape = [sizes.get(n, n) if not places or i > 1 else n for i, n in enumerate(shape)]
        set_type(argument, TensorType(tensor_of(argument).element_type, smaller_shape))
    for op in () if places else list(block.ops):
        if isinstance(op, ConstantOp):
            _resize_constant(op, sizes)
        elif isinstance(op, ConvolutionOp) and op.group_count in sizes:
            op.groups = integer(sizes[op.group_count])
    if not _inferred(block.ops):
        return None
    return _valid(_whole(new))


def _inferred(operations: Iterable[Operation]) -> bool:
    """Gives operations the types that their operands imply, in order; False if one does not fit."""
    for op in operations:
        if isinstance(op, NNOp):
            try:
                types = op.infer()
            except (VerifyException, CompileError, ValueError, IndexError):
                return False
            for result, type_ in zip(op.results, types, strict=True):
                set_type(result, type_)
    return True


def _resize_constant(op: ConstantOp, sizes: Mapping[int, int]) -> None:
    array = op.array
    cut = resized(array, sizes)
    if cut.shape == array.shape and np.array_equal(cut, array):
        return
    _replace(op, np.ascontiguousarray(cut).reshape(cut.shape))


def _replace(op: ConstantOp, array: np.ndarray[tuple[int, ...], np.dtype[np.generic]]) -> None:
    other = ConstantOp.of(array, op.key, op.location)
    block = cast(Block, op.parent)
    block.insert_op_before(other, op)
    op.result.replace_all_uses_with(other.result)
    op.detach()
    op.erase()


def _bypassed(module: ModuleOp, index: int, operand: int) -> ModuleOp | None:
    """Removes one operation: its readers read its operand."""
    new = module.clone()
    op = _operations(new)[index]
    if len(op.results) != 1 or _is_constant(op.operands[operand]):
        return None
    op.results[0].replace_all_uses_with(op.operands[operand])
    returned = return_op(main_function(new)).operands
    if any(isinstance(value, BlockArgument) for value in returned):
        return None
    if not _inferred(each for each in main_function(new).body.block.ops if each is not op):
        return None
    return _valid(_whole(new))


def _without_output(module: ModuleOp, index: int) -> ModuleOp | None:
    new = module.clone()
    function = main_function(new)
    end = return_op(function)
    names = output_names(function)
    rest = [v for i, v in enumerate(end.operands) if i != index]
    block = function.body.block
    block.insert_op_before(ReturnOp(*rest), end)
    end.detach()
    end.erase()
    _declare(function, input_names(function), [name for i, name in enumerate(names) if i != index])
    return _valid(_whole(new))


def _filled(module: ModuleOp, index: int, kind: str) -> ModuleOp | None:
    """Replaces one constant of floats, unless it is that plain already."""
    array = _constants(module)[index].array
    if array.dtype != np.float32 or array.size < 2:
        return None
    filled = FILLS[kind](array).astype(array.dtype)
    plain = any(np.array_equal(array, other(array)) for other in (np.zeros_like, np.ones_like))
    if plain or np.array_equal(array, filled):
        return None
    new = module.clone()
    _replace(_constants(new)[index], filled)
    return _valid(new)
