"""The results of a program: their names, and a value of its own for each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from ...support.diagnostics import CompileError


def output_names(program: Any, where: str) -> list[str]:
    """The names of the results that are not None: their keys or fields, otherwise `output`, or `output_0` and so on.

    Raises CompileError for a result that is a constant of Python, which nothing computes, and if no tensor is returned.
    """
    specs = program.graph_signature.output_specs
    results = [spec.arg for spec in specs if spec.kind.name == "USER_OUTPUT"]
    names = _paths(program.call_spec.out_spec) or [f"output_{i}" for i in range(len(results))]
    if names == ["output_0"]:
        names = ["output"]
    for name, result in zip(names, results, strict=True):
        if getattr(result, "value", None) is not None:
            hint = "return tensors only, or torch.tensor(...) of the constant"
            raise CompileError(f"'{name}' is the constant {result.value!r}, not a tensor", where=where, hint=hint)
    tensors = [name for name, result in zip(names, results, strict=True) if not hasattr(result, "value")]
    if not tensors:
        raise CompileError("returns no tensors", where=where)
    return tensors


def _paths(spec: Any) -> list[str]:
    """A name for each result in a dictionary or a named tuple: `logits`, within others `hidden_0`. Empty for other results."""
    pairs = zip(_keys(spec), spec.children(), strict=True) if _keys(spec) else ()
    return [name for key, each in pairs for name in _within(key, each)]


def _keys(spec: Any) -> Sequence[str]:
    """The keys of a dictionary, of any class whose context in torch's trees is the list of keys, or the fields of a tuple."""
    kind: Any = spec.type
    if isinstance(kind, type) and issubclass(kind, dict) and kind is not defaultdict:
        return [str(key) for key in spec.context]
    return getattr(spec.context, "_fields", ())


def _within(name: str, spec: Any) -> list[str]:
    """The names of the results in one entry."""
    if spec.is_leaf():
        return [name]
    below = _paths(spec) or [str(i) for i in range(spec.num_leaves)]
    return [f"{name}_{each}" for each in below]


def name_outputs(model: Any, names: Sequence[str]) -> None:
    """Names the results of a model of onnx_ir in place.

    A result that is also an input, a weight or an earlier result is copied by an Identity, so that both keep their names.
    """
    ir = import_module("onnx_ir")
    graph = model.graph
    taken = {*graph.inputs, *graph.initializers.values()}
    for index, (value, name) in enumerate(zip(graph.outputs, names, strict=True)):
        if value in taken:
            node = ir.node("Identity", [value])
            graph.append(node)
            node.outputs[0].type, node.outputs[0].shape = value.type, value.shape
            graph.outputs[index] = node.outputs[0]
        graph.outputs[index].name = name
        taken.add(graph.outputs[index])
    import_module("onnx_ir.passes.common").NameFixPass()(model)  # inputs come first, then outputs
