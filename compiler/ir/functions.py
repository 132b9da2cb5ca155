"""The graph of a module: `func.func @main`, and the names of its inputs and outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    BytesAttr,
    DenseArrayBase,
    DictionaryAttr,
    FileLineColLoc,
    ModuleOp,
    StringAttr,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, OpResult

from ..support.diagnostics import CompileError, describe, op_error

NAME = "nn.name"
"""Argument and result attribute: the model's name of the input or output."""
DIMS = "nn.dims"
"""Argument and result attribute: a name for each dimension, empty if it has none (`["batch", "", "", ""]`)."""

ORDER = "nn.order"
"""Argument attribute: the axes of an input in the order of memory, the outermost first (`array<i64: 0, 2, 3, 1>`), if
that differs from their own order. What the model computes does not depend on it, but for the last bits in PyTorch.
"""

LAYERS = "nn.layers"
"""Function attribute: names of layers in the order in which the modules of PyTorch were made: AMCT's records have that order,
and passes may move operations.
"""


def producer_of(value: object) -> Operation | None:
    """The operation whose result this is; None for an argument, and for what is not a value."""
    return value.op if isinstance(value, OpResult) else None


def main_function(module: ModuleOp) -> FuncOp:
    """The function with the graph: `@main`, or the only function. Raises CompileError if there is none.

    It is a single block that ends in func.return; control flow is an error.
    """
    functions = [op for op in module.ops if isinstance(op, FuncOp) and not op.is_declaration]
    named = [f for f in functions if f.sym_name.data == "main"] or functions
    if len(named) != 1:
        where = describe(module.location) if isinstance(module.location, FileLineColLoc) else ""
        raise CompileError(f"the module has {len(functions)} functions and none is called @main", where=where)
    function = named[0]
    if len(function.body.blocks) != 1 or not isinstance(function.body.block.last_op, ReturnOp):
        raise op_error(function, "is not a graph: it must be one block that ends in func.return")
    return function


def other_functions(module: ModuleOp) -> list[FuncOp]:
    """The functions with operations of `nn` or `ascend` besides the graph. Raises CompileError like `main_function`."""
    graph = main_function(module)
    others = (op for op in module.walk() if isinstance(op, FuncOp) and op is not graph)  # of nested modules, too
    return [f for f in others if any(op.name.startswith(("nn.", "ascend.")) for op in f.walk())]


def body(function: FuncOp) -> Block:
    """The only block of a function."""
    return function.body.block


def return_op(function: FuncOp) -> ReturnOp:
    """The operation that ends a function: its operands are the outputs."""
    return cast(ReturnOp, function.body.block.last_op)


def input_names(function: FuncOp) -> list[str]:
    """One name per argument: that of the source, else the argument's own in text (`x` for `%x`), else `arg0`, `arg1`, ..."""
    arguments = function.body.block.args
    named = _names(function.arg_attrs, [""] * len(arguments))
    taken = Counter([*named, *(each.name_hint for each in arguments)])
    own = [each.name_hint if taken[each.name_hint] == 1 else None for each in arguments]
    return _names(function.arg_attrs, [name or f"arg{i}" for i, name in enumerate(own)])


def set_input_orders(function: FuncOp, orders: Sequence[Sequence[int]]) -> None:
    """State the orders of the axes of the inputs; nothing is stated of an input in its own order, or of unequal numbers."""
    given = [] if function.arg_attrs is None else list(function.arg_attrs.data)
    if len(orders) != len(given):
        return
    for i, order in enumerate(orders):
        if list(order) != sorted(order):
            given[i] = DictionaryAttr({**given[i].data, ORDER: DenseArrayBase.from_list(i64, order)})
    function.arg_attrs = ArrayAttr(given)


def input_orders(function: FuncOp) -> dict[str, Sequence[int]]:
    """The orders of the axes of inputs, by name, where they are not their own."""
    attributes = () if function.arg_attrs is None else function.arg_attrs.data
    stated = ((name, each.data.get(ORDER)) for name, each in zip(input_names(function), attributes, strict=False))
    return {name: order.get_values() for name, order in stated if isinstance(order, DenseArrayBase)}


def set_layer_order(function: FuncOp, modules: Sequence[str], layers: Iterable[str]) -> None:
    """Set the order of the layers, those of operations, among modules."""
    stand = set(layers)
    function.attributes[LAYERS] = ArrayAttr([StringAttr(name) for name in modules if name in stand])


def layer_order(function: FuncOp) -> list[str]:
    """The layers in the order in which their modules were made; empty for models that are not PyTorch's."""
    order = function.attributes.get(LAYERS)
    return [text_of(name) or "" for name in cast("ArrayAttr[Attribute]", order)] if isinstance(order, ArrayAttr) else []


def output_names(function: FuncOp) -> list[str]:
    """One name per result; `result0`, ... by default."""
    return _names(function.res_attrs, [f"result{i}" for i in range(len(function.function_type.outputs))])


def _names(attributes: ArrayAttr[DictionaryAttr] | None, defaults: Sequence[str]) -> list[str]:
    given: Sequence[DictionaryAttr] = () if attributes is None else attributes.data
    names = [text_of(a.data.get(NAME)) for a in given] + [None] * (len(defaults) - len(given))
    return [default if name is None else name for name, default in zip(names, defaults, strict=True)]


def text_of(attribute: Attribute | None) -> str | None:
    """The text of a string attribute; plain xDSL reads escaped non-ASCII letters as an attribute of bytes."""
    if isinstance(attribute, BytesAttr):
        return attribute.data.decode(errors="replace")
    return attribute.data if isinstance(attribute, StringAttr) else None


def value_attributes(name: str, dims: Sequence[str] = ()) -> DictionaryAttr:
    """The attributes of an input or output: its name and, if there are any, the names of dimensions."""
    attributes: dict[str, Attribute] = {NAME: StringAttr(name)}
    if any(dims):
        attributes[DIMS] = ArrayAttr([StringAttr(d) for d in dims])
    return DictionaryAttr(attributes)


def dimension_names(attributes: DictionaryAttr) -> list[str]:
    """The names of the dimensions of an input or output; empty if there are none."""
    dims = attributes.data.get(DIMS)
    return [text_of(d) or "" for d in cast("ArrayAttr[Attribute]", dims)] if isinstance(dims, ArrayAttr) else []


def input_dimensions(function: FuncOp) -> list[list[str]]:
    """The names of the dimensions of each argument, empty if it has none."""
    rows = [] if function.arg_attrs is None else [dimension_names(a) for a in function.arg_attrs.data]
    return rows + [[]] * (len(function.body.block.args) - len(rows))
