"""Nodes of traced graphs: their operators and arguments, and the replacement of nodes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any


def target_of(node: Any) -> Any:
    """The operator of torch that a node calls, None for other nodes."""
    return node.target if node.op == "call_function" and hasattr(node.target, "_schema") else None


def operator_name(node: Any) -> str:
    """The name of the operator of a node, without its overload; empty for an object that is not a node, and for other calls."""
    target = target_of(node) if hasattr(node, "op") else None
    return "" if target is None else target._schema.name.partition("::")[2]


def arguments_of(node: Any) -> Mapping[str, Any]:
    """The arguments of a call of an operator, by the names of its schema."""
    names = [argument.name for argument in target_of(node)._schema.arguments]
    return {**dict(zip(names, node.args, strict=False)), **node.kwargs}


def module_path(node: Any) -> str:
    """The path of the innermost module that a node belongs to; empty if it is the model itself or not known."""
    stack = [*(node.meta.get("nn_module_stack") or {"": ("", "")}).values()]
    return stack[-1][0]


def edited(torch: Any, program: Any, edit: Callable[[Any, Any], None]) -> Any:
    """A copy of a program on the same weights; `edit` changes the copies of its graph and signature."""
    graph, signature = copy.deepcopy((program.graph, program.graph_signature))
    for node, copied in zip(program.graph.nodes, graph.nodes, strict=True):
        copied.name = node.name  # the copy does not like names such as `input`
    edit(graph, signature)
    graph.eliminate_dead_code()
    root = torch.fx.GraphModule(program.graph_module, graph)
    return torch.export.ExportedProgram(
        root=root,
        graph=graph,
        graph_signature=signature,
        state_dict=program.state_dict,
        range_constraints=program.range_constraints,
        module_call_graph=program.module_call_graph,
        example_inputs=program.example_inputs,
        constants=program.constants,
        verifiers=program.verifiers,
    )


def substitute(graph: Any, signature: Any, node: Any, values: Mapping[Any, Any]) -> None:
    """Puts values in the places of a node's results, by the node or by the nodes that take one of its results.

    The node goes with those that read it: operators that observe are not dead code to torch.
    """
    for result, value in values.items():
        result.replace_all_uses_with(value)
        signature.replace_all_uses(result.name, value.name)
    for each in (*node.users, node):
        graph.erase_node(each)
