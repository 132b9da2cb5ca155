"""The graph of a module: `func.func @main`, and the names of its inputs and outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block

from .diagnostics import CompileError

NAME = "nn.name"
"""Argument and result attribute: what the model calls the input or output."""
DIMS = "nn.dims"
"""Argument and result attribute: a name for each dimension, empty where it has none (`["batch", "", "", ""]`)."""


def main_function(module: ModuleOp) -> FuncOp:
    """The function that holds the graph: `@main`, or the only function. Raises CompileError when there is none."""
    functions = [op for op in module.ops if isinstance(op, FuncOp) and not op.is_declaration]
    for function in functions:
        if function.sym_name.data == "main":
            return function
    if len(functions) == 1:
        return functions[0]
    raise CompileError(f"the module has {len(functions)} functions and none is called @main")


def body(function: FuncOp) -> Block:
    return function.body.block


def return_op(function: FuncOp) -> ReturnOp:
    return cast(ReturnOp, function.body.block.last_op)


def input_names(function: FuncOp) -> list[str]:
    """One name per argument; `arg0`, `arg1`, ... where none is given."""
    return _names(function.arg_attrs, len(function.body.block.args), "arg")


def output_names(function: FuncOp) -> list[str]:
    """One name per result; `result0`, ... where none is given."""
    return _names(function.res_attrs, len(function.function_type.outputs), "result")


def _names(attributes: ArrayAttr[DictionaryAttr] | None, count: int, default: str) -> list[str]:
    given: Sequence[DictionaryAttr] = () if attributes is None else attributes.data
    names = [a.data.get(NAME) for a in given] + [None] * (count - len(given))
    return [n.data if isinstance(n, StringAttr) else f"{default}{i}" for i, n in enumerate(names)]


def value_attributes(name: str, dims: Sequence[str] = ()) -> DictionaryAttr:
    """The attributes of an input or output: its name and, where one is named, its dimensions' names."""
    attributes: dict[str, Attribute] = {NAME: StringAttr(name)}
    if any(dims):
        attributes[DIMS] = ArrayAttr([StringAttr(d) for d in dims])
    return DictionaryAttr(attributes)


def dimension_names(attributes: DictionaryAttr) -> list[str]:
    """The names given to the dimensions of an input or output; empty when there are none."""
    dims = attributes.data.get(DIMS)
    return [d.data for d in cast("ArrayAttr[StringAttr]", dims)] if isinstance(dims, ArrayAttr) else []
