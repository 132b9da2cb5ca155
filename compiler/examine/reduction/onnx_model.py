"""Cutting ONNX models, and making them plainer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, numpy_helper

from ...formats.onnx.graphs import free_names, subgraphs
from ...formats.onnx.inference import infer_shapes

_LARGE = 1024
"""Elements of a weight above which its numbers cannot be the sizes of other values."""
_SMALL = 8
"""Sizes above it are made smaller all at once."""
_FEW = 24
"""Most operations of a model whose operations are bypassed one by one."""

Change = Callable[[], ModelProto | None]


class OnnxForm:
    """Models of ONNX. Constant nodes belong to the nodes that read them, and count as weights."""

    def parts(self, model: ModelProto) -> tuple[int, Callable[[Sequence[int]], ModelProto | None]]:
        """The nodes, and how some of them are cut out."""
        nodes = [node for node in model.graph.node if node.op_type != "Constant"]
        return len(nodes), partial(_cut, model, nodes, _types(model))

    def sizes(self, model: ModelProto) -> Iterator[tuple[str, Change]]:
        """Yields changes of sizes: all large ones, then places (axes after the second) alone, then everything that has
        the same size.
        """
        return _sizes(model)

    def changes(self, model: ModelProto) -> Iterator[tuple[str, Change]]:
        """Yields changes, from those that simplify most to those that simplify least."""
        yield "metadata", partial(_bare, model)
        yield from self.sizes(model)
        nodes = [node for node in model.graph.node if node.op_type != "Constant"]
        if len(nodes) <= _FEW:
            for node in nodes:
                for i in range(len(node.input)):
                    yield f"bypass {node.output[0]} {i}", partial(_bypassed, model, node.output[0], i)
        for value in model.graph.output if len(model.graph.output) > 1 else ():
            yield f"output {value.name}", partial(_without_output, model, value.name)
        for node in nodes:
            for attribute in node.attribute:
                yield f"attribute {node.output[0]} {attribute.name}", partial(_without, model, node, attribute.name)
        for weight in model.graph.initializer:
            if weight.data_type == TensorProto.FLOAT:
                for kind, fill in FILLS.items():
                    yield f"{kind} {weight.name} {list(weight.dims)}", partial(_filled, model, weight.name, fill)


def _types(model: ModelProto) -> dict[str, ValueInfoProto]:
    """The types of values as far as they are known. Inference gets no large weight, only its type."""
    graph = model.graph
    skeleton = ModelProto()
    skeleton.CopyFrom(
        ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    )
    skeleton.graph.name = graph.name
    skeleton.graph.node.extend(graph.node)
    skeleton.graph.output.extend(graph.output)
    skeleton.graph.value_info.extend(graph.value_info)
    skeleton.graph.input.extend(graph.input)
    given = {value.name for value in graph.input}
    for weight in graph.initializer:
        if np.prod(weight.dims) <= _LARGE:
            skeleton.graph.initializer.append(weight)
        elif weight.name not in given:
            type_ = onnx.helper.make_tensor_value_info(weight.name, weight.data_type, weight.dims)
            skeleton.graph.input.append(type_)
    try:
        found = infer_shapes(skeleton, data_prop=True).graph
    except Exception:  # onnx raises its own errors, RuntimeError and protobuf's for damaged models
        found = graph
    values = (*found.value_info, *found.output, *found.input)
    return {value.name: value for value in values if value.type.ByteSize() and _has_rank(value)}


def _has_rank(value: ValueInfoProto) -> bool:
    return not value.type.HasField("tensor_type") or value.type.tensor_type.HasField("shape")


def _cut(
    model: ModelProto, nodes: Sequence[NodeProto], types: dict[str, ValueInfoProto], kept: Sequence[int]
) -> ModelProto | None:
    """The model with some nodes only. None if the type of a value at the border is not known."""
    graph = model.graph
    chosen = [nodes[i] for i in kept]
    ids = set(kept)
    made = {name for node in chosen for name in node.output if name}
    read = [name for node in chosen for name in free_names(node)]
    weights = {weight.name: weight for weight in graph.initializer}
    constants = {node.output[0]: node for node in graph.node if node.op_type == "Constant"}
    outside = {name for i, node in enumerate(nodes) if i not in ids for name in free_names(node)}
    outside |= {value.name for value in graph.output}
    inside = set(read)
    inputs = [name for name in dict.fromkeys(read) if name not in made | weights.keys() | constants.keys()]
    outputs = [name for node in chosen for name in node.output if name and (name in outside or name not in inside)]
    unread = {name for name in outputs if name not in outside}  # a second result that nothing reads
    firsts = {node.output[0] for node in chosen}
    outputs = [name for name in outputs if name not in unread or name in firsts]
    if not outputs or any(name not in types for name in (*inputs, *outputs)):
        return None
    new = _like(model)
    used = {*inputs, *read}
    new.graph.node.extend(node for name, node in constants.items() if name in used)
    new.graph.node.extend(chosen)
    new.graph.initializer.extend(weight for name, weight in weights.items() if name in used)
    new.graph.input.extend(types[name] for name in inputs)
    new.graph.output.extend(types[name] for name in outputs)
    return new


def _like(model: ModelProto) -> ModelProto:
    """An empty model of the same versions and functions."""
    new = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, functions=model.functions)
    new.producer_name, new.producer_version = model.producer_name, model.producer_version
    new.graph.name = model.graph.name or "reduced"
    return new


def _valid(model: ModelProto) -> ModelProto | None:
    """The model with the types of its outputs inferred again; None if it contradicts itself."""
    outputs = [value.name for value in model.graph.output]
    del model.graph.value_info[:]
    for value in model.graph.output:
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    try:
        inferred = infer_shapes(model, strict=True, data_prop=True)
    except Exception:  # onnx raises its own errors, RuntimeError and protobuf's
        return None
    found = {value.name: value for value in inferred.graph.output}
    if any(not _has_rank(found[name]) or _is_empty(found[name]) for name in outputs):
        return None
    for value in model.graph.output:
        value.CopyFrom(found[value.name])
    return model


def _is_empty(value: ValueInfoProto) -> bool:
    return any(dim.HasField("dim_value") and dim.dim_value <= 0 for dim in value.type.tensor_type.shape.dim)


def _copy(model: ModelProto) -> ModelProto:
    new = ModelProto()
    new.CopyFrom(model)
    return new


def _bare(model: ModelProto) -> ModelProto | None:
    """Removes documentation, metadata, types that can be inferred, and weights that nothing reads."""
    new = _like(model)
    new.producer_name = new.producer_version = ""
    read = {name for node in model.graph.node for name in free_names(node)} | {v.name for v in model.graph.output}
    new.graph.node.extend(node for node in model.graph.node if node.op_type != "Constant" or node.output[0] in read)
    for node in new.graph.node:
        node.ClearField("doc_string")
        node.ClearField("metadata_props")
    new.graph.initializer.extend(weight for weight in model.graph.initializer if weight.name in read)
    new.graph.input.extend(value for value in model.graph.input if value.name in read)
    new.graph.output.extend(model.graph.output)
    domains = {node.domain for node in model.graph.node} | {f.domain for f in model.functions} | {""}
    del new.opset_import[:]
    new.opset_import.extend(each for each in model.opset_import if each.domain in domains)
    return None if new == model else new


def _sizes(model: ModelProto) -> Iterator[tuple[str, Change]]:
    shapes = [[dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in model.graph.input]
    every = {size for shape in shapes for size in shape} | {d for w in model.graph.initializer for d in w.dims}
    for name, sizes in all_smaller(every):
        yield name, partial(_resized, model, sizes)
    places = {size for shape in shapes if len(shape) > 2 for size in shape[2:]}
    for size in sorted(places, reverse=True):
        for new in smaller(size):
            yield f"places {size} {new}", partial(_resized_places, model, size, new)
    for i, shape in enumerate(shapes):
        for axis, size in enumerate(shape):
            for new in smaller(size):
                yield f"input {i} {axis} {size} {new}", partial(_resized_input, model, i, axis, new)
    for size in sorted(every, reverse=True):
        for new in smaller(size):
            yield f"size {size} {new}", partial(_resized, model, {size: new})


def smaller(size: int) -> list[int]:
    """The sizes to try in place of one, the smallest first."""
    return sorted({new for new in (1, 2, 4, 8, size // 2) if 0 < new < size})


def all_smaller(sizes: Iterable[int]) -> Iterator[tuple[str, Mapping[int, int]]]:
    """Ways to make all large sizes small at once, each with a name: the test of a large model then takes little time."""
    large = sorted(size for size in set(sizes) if size > _SMALL)
    for new in smaller(_SMALL) if large else ():
        yield f"sizes {large} {new}", dict.fromkeys(large, new)


def _resized_places(model: ModelProto, size: int, new_size: int) -> ModelProto | None:
    new = _copy(model)
    for value in new.graph.input:
        for dim in list(value.type.tensor_type.shape.dim)[2:]:
            if dim.dim_value == size:
                dim.dim_value = new_size
    return _valid(new)


def _resized_input(model: ModelProto, index: int, axis: int, new_size: int) -> ModelProto | None:
    new = _copy(model)
    new.graph.input[index].type.tensor_type.shape.dim[axis].dim_value = new_size
    return _valid(new)


def _resized(model: ModelProto, sizes: Mapping[int, int]) -> ModelProto | None:
    """Resizes every axis of these sizes, in inputs and weights, the same numbers in shapes that are weights, and groups."""
    new = _copy(model)
    for value in new.graph.input:
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value in sizes:  # a name of a size has none
                dim.dim_value = sizes[dim.dim_value]
    for weight in new.graph.initializer:
        array = numpy_helper.to_array(weight)
        cut = resized(array, sizes)
        if cut is not array:
            weight.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(cut).reshape(cut.shape), weight.name))
    for node in new.graph.node:
        for attribute in node.attribute:
            if attribute.name == "group":
                attribute.i = sizes.get(attribute.i, attribute.i)
    return _valid(new)


def resized(array: np.ndarray[Any, Any], sizes: Mapping[int, int]) -> np.ndarray[Any, Any]:
    """The first elements along each axis of these sizes; in integers of at most one axis, which may be a shape, other numbers."""
    cut = array[tuple(slice(sizes.get(n, n)) for n in array.shape)]
    if cut.dtype == np.int64 and cut.ndim < 2:
        return np.array([sizes.get(n, n) for n in cut.reshape(-1).tolist()], np.int64).reshape(cut.shape)
    return array if cut.shape == array.shape else cut


def _bypassed(model: ModelProto, output: str, operand: int) -> ModelProto | None:
    """Removes one node: its readers read its operand."""
    new = _copy(model)
    nodes = list(new.graph.node)
    node = next(node for node in nodes if node.output[0] == output)
    source = node.input[operand]
    if not source or output in {value.name for value in new.graph.output}:
        return None
    nodes.remove(node)
    for other in nodes:
        _renamed(other, output, source)
    del new.graph.node[:]
    new.graph.node.extend(nodes)
    return _valid(_without_unread(new))


def _renamed(node: NodeProto, old: str, name: str) -> None:
    for i, each in enumerate(node.input):
        if each == old:
            node.input[i] = name
    for graph in subgraphs(node):
        for inner in graph.node:
            _renamed(inner, old, name)


def _without_output(model: ModelProto, name: str) -> ModelProto | None:
    new = _copy(model)
    rest = [value for value in new.graph.output if value.name != name]
    del new.graph.output[:]
    new.graph.output.extend(rest)
    return _valid(_without_unread(new))


def _without_unread(model: ModelProto) -> ModelProto:
    """Removes everything that no output depends on."""
    graph = model.graph
    needed = {value.name for value in graph.output}
    nodes: list[NodeProto] = []
    for node in reversed(graph.node):
        if needed.intersection(node.output):
            needed.update(free_names(node))
            nodes.insert(0, node)
    new = GraphProto(name=graph.name, node=nodes, output=graph.output)
    new.initializer.extend(weight for weight in graph.initializer if weight.name in needed)
    new.input.extend(value for value in graph.input if value.name in needed)
    model.graph.CopyFrom(new)
    return model


def _without(model: ModelProto, node: NodeProto, attribute: str) -> ModelProto | None:
    """Removes one attribute of a node."""
    new = _copy(model)
    same = next(each for each in new.graph.node if each.output[0] == node.output[0])
    rest = [each for each in same.attribute if each.name != attribute]
    del same.attribute[:]
    same.attribute.extend(rest)
    return _valid(new)


def _rounded(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Numbers with one digit."""
    with np.errstate(divide="ignore", invalid="ignore"):
        power = np.where(array == 0, 1.0, 10.0 ** np.floor(np.log10(np.abs(array, dtype=np.float64))))
        return np.where(np.isfinite(array), np.rint(array / power) * power, array)


FILLS: dict[str, Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]] = {
    "zeros": np.zeros_like,
    "ones": np.ones_like,
    "digits": _rounded,
}
"""Replacements for the numbers of weights, the plainest first."""


def _filled(
    model: ModelProto, name: str, fill: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]
) -> ModelProto | None:
    """Replaces one weight, unless it is that plain already."""
    weight = next(each for each in model.graph.initializer if each.name == name)
    array = numpy_helper.to_array(weight)
    plain = any(np.array_equal(array, other(array)) for other in (np.zeros_like, np.ones_like))
    filled = fill(array).astype(array.dtype)
    if plain or np.array_equal(array, filled):
        return None
    new = _copy(model)
    for each in new.graph.initializer:
        if each.name == name:
            each.CopyFrom(numpy_helper.from_array(filled, name))
    return new
