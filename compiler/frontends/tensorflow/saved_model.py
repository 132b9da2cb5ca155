"""SavedModels: the graph to import, and the values of its variables, without running the restore graph.

The keys of a checkpoint are not the names of variables (Keras calls these `Variable`, `Variable_1`, ...). Therefore the restore
graph is followed: from each assignment back to its variable, and to the RestoreV2 that reads a key.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from ...formats.tensorflow.checkpoint import Checkpoint, parse_part
from ...formats.tensorflow.schema import DATA_TYPES, REFERENCE, Message
from ...formats.tensorflow.tensors import Array
from ...support.diagnostics import CompileError
from .graph import NodeDef, Output, parse_input

_SERVE = "serve"
_FILES = ("saved_model.pb", "saved_model.pbtxt")
_CHECKPOINT = Path("variables", "variables")

_VARIABLES = frozenset({"VarHandleOp", "Variable", "VariableV2"})
_ASSIGNMENTS = frozenset({"Assign", "AssignVariableOp"})
_CALLS = frozenset({"PartitionedCall", "StatefulPartitionedCall"})
_TENSOR_NAMES, _SHAPE_AND_SLICES = 1, 2
"""Inputs of RestoreV2."""
_WITHOUT_ARRAYS = {DATA_TYPES[name] for name in ("DT_STRING", "DT_RESOURCE", "DT_VARIANT")}
_LONGEST = 1000
"""The maximum number of nodes between an assignment and its value."""


def file_in(folder: Path) -> Path:
    """The file with the graphs in a SavedModel's folder. Raises CompileError if there is none."""
    for name in _FILES:
        if (folder / name).is_file():
            return folder / name
    hint = f"its folder has a file {_FILES[0]} and a folder {_CHECKPOINT.parent}"
    raise CompileError("is a folder, but not a SavedModel", where=str(folder), hint=hint)


def serving_graph(saved_model: Message, where: str) -> Message:
    """The MetaGraphDef to serve: the only one, or the one with the tag `serve`. Raises CompileError if there is neither."""
    graphs = list(saved_model.meta_graphs)
    tags = [sorted(graph.meta_info_def.tags) for graph in graphs]
    if len(graphs) == 1:
        return graphs[0]
    if tags.count([_SERVE]) == 1:
        return graphs[tags.index([_SERVE])]
    if not graphs:
        raise CompileError("holds no graph", where=where)
    listed = "; ".join(", ".join(each) or "none" for each in tags)
    hint = f"save the one to read alone, or with the tag '{_SERVE}'"
    raise CompileError(f"holds {len(graphs)} graphs, with the tags {listed}", where=where, hint=hint)


def variables(meta_graph: Message, folder: Path) -> dict[str, Array]:
    """The values of all variables that the graph restores, by the names of their nodes; views of the mapped checkpoint.

    Tables, and variables of strings, are left out. Raises CompileError, located at the variable, for one whose value is
    missing or does not fit.

    For a Keras 3 model `tf.saved_model.save` restores only copies, while functions read the originals, from which the copies
    are initialized from.
    """
    main = _Scope({node.name: node for node in meta_graph.graph_def.node})
    saved = list(_saved(main, meta_graph))
    if not saved:
        return {}
    prefix = folder / _CHECKPOINT
    if not Path(f"{prefix}.index").is_file():
        message = f"the values of its variables are missing: there is no file {_CHECKPOINT}.index"
        raise CompileError(message, where=str(folder), hint="a SavedModel is a whole folder")
    checkpoint = Checkpoint(prefix)
    values = {each.variable.name: _value(checkpoint, each, f"{folder}: node '{each.variable.name}'") for each in saved}
    originals = {_original(main, name): value for name, value in values.items()}
    return {name: value for name, value in originals.items() if name} | values


class _Saved(NamedTuple):
    """A variable, and the part of a checkpoint that it is restored from."""

    variable: NodeDef
    key: bytes
    part: bytes


def _value(checkpoint: Checkpoint, saved: _Saved, where: str) -> Array:
    try:
        part = parse_part(saved.part)
    except ValueError:
        text = saved.part.decode(errors="replace")
        raise CompileError(f"is restored from '{text}', which names no part of a tensor", where=where) from None
    array = checkpoint.read(saved.key, part, where)
    shape = saved.variable.attr.get("shape")
    sizes = None if shape is None or shape.shape.unknown_rank else [d.size for d in shape.shape.dim]
    if sizes is not None and -1 not in sizes and sizes != list(array.shape):
        hint = "the checkpoint belongs to another model"
        raise CompileError(f"is of shape {sizes}, its saved value of {list(array.shape)}", where=where, hint=hint)
    return array


@dataclass(frozen=True, eq=False)
class _Scope:
    """The graph, or the body of a function that it calls."""

    nodes: Mapping[str, NodeDef]
    arguments: Mapping[str, tuple[_Scope, str]] = field(default_factory=dict[str, "tuple[_Scope, str]"])
    """The arguments from the caller: the scope that computes them, and their names there."""


class _Origin(NamedTuple):
    scope: _Scope
    node: NodeDef
    output: Output


def _saved(main: _Scope, meta_graph: Message) -> Iterator[_Saved]:
    """The assignments of the restore operation, in the graph itself or in functions that it calls."""
    library = {function.signature.name: function for function in meta_graph.graph_def.library.function}
    pending = [(main, _needed(main.nodes, meta_graph.saver_def.restore_op_name))]
    while pending:
        scope, nodes = pending.pop()
        for node in nodes:
            if node.op in _ASSIGNMENTS:
                saved = _assigned(main, scope, node)
                if saved is not None:
                    yield saved
            elif node.op in _CALLS and (function := library.pop(node.attr["f"].func.name, None)) is not None:
                arguments = zip((a.name for a in function.signature.input_arg), _data_inputs(node), strict=False)
                body = {inner.name: inner for inner in function.node_def}
                inner = _Scope(body, {name: (scope, text) for name, text in arguments})
                pending.append((inner, body.values()))


def _needed(nodes: Mapping[str, NodeDef], root: str) -> Iterable[NodeDef]:
    """A node and all that it depends on, by data and by control."""
    found: dict[str, NodeDef] = {}
    stack = [root]
    while stack:
        name = stack.pop().removeprefix("^").partition(":")[0]
        if name in nodes and name not in found:
            found[name] = nodes[name]
            stack.extend(nodes[name].input)
    return found.values()


def _assigned(main: _Scope, scope: _Scope, node: NodeDef) -> _Saved | None:
    """The value that an assignment restores; None if it is not read from a checkpoint."""
    variable, value = (_input(scope, node, index) for index in (0, 1))
    if variable is None or variable.scope is not main or variable.node.op not in _VARIABLES:
        return None
    if value is None or value.node.op != "RestoreV2" or variable.node.attr["dtype"].type % REFERENCE in _WITHOUT_ARRAYS:
        return None
    return _Saved(variable.node, _string(value, _TENSOR_NAMES), _string(value, _SHAPE_AND_SLICES))


def _original(main: _Scope, variable: str) -> str:
    """The variable that a variable is initialized from; empty if it is initialized from something else."""
    assign = main.nodes.get(f"{variable}/Assign")
    value = None if assign is None else _input(main, assign, 1)
    source = None if value is None or value.node.op != "ReadVariableOp" else _input(main, value.node, 0)
    return "" if source is None or source.node.op not in _VARIABLES else source.node.name


def _string(value: _Origin, index: int) -> bytes:
    """The entry of a constant input of RestoreV2 for one of its outputs."""
    constant = _input(value.scope, value.node, index)
    if constant is None or constant.node.op != "Const":
        return b""
    strings = constant.node.attr["value"].tensor.string_val
    return strings[value.output.index] if 0 <= value.output.index < len(strings) else b""


def _input(scope: _Scope, node: NodeDef, index: int) -> _Origin | None:
    """The node that computes an input, past identities, and outside the functions that the value is passed to."""
    inputs = _data_inputs(node)
    text = inputs[index] if index < len(inputs) else ""
    for _ in range(_LONGEST):
        try:
            output = parse_input(text)
        except ValueError:
            return None
        if output.node in scope.arguments:
            scope, text = scope.arguments[output.node]
            continue
        if (found := scope.nodes.get(output.node)) is None:
            return None
        if found.op != "Identity" or not found.input:
            return _Origin(scope, found, output)
        text = found.input[0]
    return None


def _data_inputs(node: NodeDef) -> list[str]:
    return [text for text in node.input if not text.startswith("^")]
