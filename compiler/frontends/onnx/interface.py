"""Inputs and outputs from options: the graph is cut there before it is imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, TensorProto, TypeProto, ValueInfoProto, helper, numpy_helper

from ...formats.onnx.graphs import all_nodes, free_names
from ...pipelines.options import shapes_of
from ...session import ImportOptions
from ...support.diagnostics import CompileError
from ..options import overridden, take_only
from .symbols import inferred_types


def choose(model: ModelProto, options: ImportOptions, where: str) -> None:
    """Applies the inputs, outputs, shapes and values of inputs from options; the rest is unchanged.

    Raises CompileError, located at the model, for an unknown name or operator to carry, for a value without a known type as an
    input, for insufficient inputs, and for shapes and values that contradict the declared ones.
    """
    take_only(options, ("inputs", "outputs", "shapes", "values", "carried"), where)
    graph = model.graph
    if options.outputs:
        declared = {v.name: v for v in (*graph.input, *graph.value_info, *graph.output)}
        _known(graph, options.outputs, where)
        _replace(graph.output, [declared.get(name, ValueInfoProto(name=name)) for name in options.outputs])
    if options.inputs:
        _known(graph, options.inputs, where)
        _take_inputs(model, options.inputs, where)
    if options.inputs or options.outputs:
        needed = _needed(graph)
        _replace(graph.node, [node for node in graph.node if needed.intersection(node.output)])
        _replace(graph.input, [v for v in graph.input if v.name in needed or v.name in options.inputs])
    if options.shapes:
        _reshape(graph, options, where)
    for name, number in options.values.items():
        _fix(graph, name, number, where)
    kinds = {node.op_type for node in all_nodes(graph.node)} if options.carried else set[str]()
    if unknown := next((each for each in options.carried if each not in kinds), None):
        raise CompileError(f"has no operator {unknown}", where=where, hint=f"it has {', '.join(sorted(kinds))}")


def _known(graph: GraphProto, names: Sequence[str], where: str) -> None:
    computed = (name for node in graph.node for name in node.output)
    known = {v.name for v in (*graph.input, *graph.initializer)}.union(filter(None, computed))
    if unknown := next((name for name in names if name not in known), None):
        close = get_close_matches(unknown, known, 3) or [o.name for o in graph.output]
        raise CompileError(f"has no value '{unknown}'", where=where, hint=f"there are {', '.join(close)}")


def _take_inputs(model: ModelProto, inputs: Sequence[str], where: str) -> None:
    """Replaces the inputs; the outputs must not depend on any other former input."""
    graph = model.graph
    types = _types(model, inputs)
    if untyped := next((name for name in inputs if name not in types), None):
        hint = "declare it in the model's value_info"
        raise CompileError("its type is not known", where=f"{where}: input '{untyped}'", hint=hint)
    for node in graph.node:
        _replace(node.output, ["" if name in inputs else name for name in node.output])
    _replace(graph.initializer, [t for t in graph.initializer if t.name not in inputs])
    left = {v.name for v in graph.input}.difference(inputs, (t.name for t in graph.initializer))
    if missing := sorted(left & _needed(graph)):
        hint = f"--inputs takes every input, '{missing[0]}' among them"
        raise CompileError(f"an output depends on '{missing[0]}', which is not an input", where=where, hint=hint)
    _replace(graph.input, [ValueInfoProto(name=name, type=types[name]) for name in inputs])


def _types(model: ModelProto, names: Sequence[str]) -> Mapping[str, TypeProto]:
    """The types of values: declared, from an initializer, or otherwise inferred."""
    graph = model.graph
    types = {t.name: _type_of(t) for t in graph.initializer}
    types.update(
        {v.name: v.type for v in (*graph.value_info, *graph.output, *graph.input) if v.type.WhichOneof("value")}
    )
    return types if types.keys() >= set(names) else {**inferred_types(model), **types}


def _type_of(tensor: TensorProto) -> TypeProto:
    type_ = TypeProto()
    type_.tensor_type.elem_type = tensor.data_type
    for size in tensor.dims:
        type_.tensor_type.shape.dim.add(dim_value=size)
    return type_


def _needed(graph: GraphProto) -> set[str]:
    """The names of values that outputs depend on, including the outputs."""
    producer = {name: node for node in graph.node for name in node.output if name}
    needed: set[str] = set()
    stack = [o.name for o in graph.output]
    while stack:
        name = stack.pop()
        if name not in needed:
            needed.add(name)
            stack.extend(free_names(producer[name]) if name in producer else ())
    return needed


def _reshape(graph: GraphProto, options: ImportOptions, where: str) -> None:
    """Overrides declared shapes of inputs. A named dimension gets its size in every input."""
    initializers = {t.name for t in graph.initializer}
    inputs = {v.name: v.type.tensor_type for v in graph.input if v.name not in initializers}
    named: dict[str, int] = {}
    for name, given in shapes_of(list(inputs), options.shapes, where).items():
        dims = inputs[name].shape.dim
        declared = [d.dim_value if d.HasField("dim_value") else -1 for d in dims]
        overridden(name, given, declared if inputs[name].HasField("shape") else None, where)
        inputs[name].shape.SetInParent()
        _loosen(graph, given, declared)
        for size in given[len(dims) :]:
            dims.add(dim_value=size)
        for dim, size in zip(dims, given, strict=True):
            if dim.dim_param and size >= 0 and named.setdefault(dim.dim_param, size) != size:
                sizes = f"{named[dim.dim_param]} and {size}"
                raise CompileError(f"--input-shape gives dimension '{dim.dim_param}' the sizes {sizes}", where=where)
            _set_size(dim, size)
    for dim in (d for type_ in inputs.values() for d in type_.shape.dim if d.dim_param in named):
        _set_size(dim, named[dim.dim_param])


def _fix(graph: GraphProto, name: str, number: float, where: str) -> None:
    """Makes an input an initializer that is full of a number, which its type must be able to hold."""
    given = {t.name for t in graph.initializer}
    inputs = {v.name: v.type.tensor_type for v in graph.input if v.name not in given}
    if name not in inputs:
        hint = f"the inputs are {', '.join(inputs) or 'none'}"
        raise CompileError(f"the model has no input {name}", where=where, hint=hint)
    type_ = inputs[name]
    if not type_.HasField("shape") or not all(d.HasField("dim_value") for d in type_.shape.dim):
        sizes = ",".join(str(d.dim_value or 1) for d in type_.shape.dim) or "1"
        hint = f"--input-shape '{name}:{sizes}' gives one"
        raise CompileError("is given a value, and its shape is not known", where=f"{where}: input '{name}'", hint=hint)
    dtype = helper.tensor_dtype_to_np_dtype(type_.elem_type)
    with np.errstate(all="ignore"):
        array = np.full([d.dim_value for d in type_.shape.dim], np.float64(number).astype(dtype))
    if np.any(array.astype(np.float64) != number):
        raise CompileError(f"is of {dtype}, which cannot be {number:g}", where=f"{where}: input '{name}'")
    graph.initializer.append(numpy_helper.from_array(array, name))
    _replace(graph.input, [v for v in graph.input if v.name != name])


def _set_size(dim: Any, size: int) -> None:
    """Sets a size; an unknown one keeps its name if it has one."""
    if size >= 0:
        dim.dim_value = size
    elif not dim.dim_param:
        dim.Clear()


def _loosen(graph: GraphProto, given: Sequence[int], declared: Sequence[int]) -> None:
    """Clears the declared sizes of later values if a fixed size becomes unknown."""
    if any(new < 0 <= old for new, old in zip(given, declared, strict=False)):
        for dim in (d for v in (*graph.value_info, *graph.output) for d in v.type.tensor_type.shape.dim):
            dim.Clear()


def _replace(field: Any, values: Sequence[Any]) -> None:
    kept = list(values)
    del field[:]
    field.extend(kept)
