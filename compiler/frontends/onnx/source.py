"""Reads a file into a checked model: ONNX of a known opset, with its own functions inlined."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, inliner
from onnx.external_data_helper import uses_external_data

from ...formats.onnx.attributes import GRAPHS
from ...formats.onnx.file import without_weights
from ...formats.onnx.graphs import STANDARD, all_nodes, all_tensors, domain_of
from ...formats.onnx.schema import NEWEST_OPSET
from ...formats.onnx.tensors import Array
from ...formats.wire import MalformedError, mapped
from ...support.diagnostics import CompileError
from ..ordering import CycleError, in_order

OLDEST_OPSET = 7
"""The oldest supported opset. Of older ones, only operators that are the same in this one are read."""
MEMORY = Path("<memory>", "model")
"""The place of a model that is not in a file."""


@dataclass(frozen=True)
class Source:
    """A model without its large initializers, and their places in the file."""

    path: Path
    model: ModelProto
    weights: dict[str, Array]
    """The bytes of the graph's large initializers by name: views of the mapped file."""


def load(path: Path) -> Source:
    """The model in a file, with model-local functions inlined. Raises CompileError for other content."""
    where = str(path)
    data = _mapped(path)
    try:
        stripped, places = without_weights(data.data)
        model = ModelProto.FromString(stripped)
    except (MalformedError, DecodeError):
        raise CompileError("is not an ONNX model", where=where, hint=_suspicion(data)) from None
    weights = {name: data[begin:end] for name, (begin, end) in places.items()}
    return Source(path, _checked(model, where), weights)


def checked(model: ModelProto, path: Path = MEMORY) -> Source:
    """A copy of a model in memory, with the checks of `load`. Raises CompileError like `load`, and for tensors in files."""
    if any(map(uses_external_data, (*model.graph.initializer, *all_tensors(model.graph.node)))):
        raise CompileError(
            "its tensors are in files", where=str(path), hint="onnx.load reads them in, or give the path"
        )
    copied = ModelProto()
    copied.CopyFrom(model)
    return Source(path, _checked(copied, str(path)), {})


def external_files(path: Path) -> dict[str, Path]:
    """The files with external data of a model, also of the graphs inside its nodes, by their location. Raises CompileError like
    `load`.
    """
    model = load(path).model
    external = filter(uses_external_data, (*model.graph.initializer, *all_tensors(model.graph.node)))
    locations = {e.value for tensor in external for e in tensor.external_data if e.key == "location"}
    return {location: path.parent / location for location in locations}


def _checked(model: ModelProto, where: str) -> ModelProto:
    """The model with its functions inlined. Raises CompileError for a model that cannot be read."""
    if not model.HasField("graph") or not (model.opset_import or model.ir_version):
        raise CompileError(
            "is not an ONNX model", where=where, hint="the file parses, but holds no graph with an opset"
        )
    if not all(isinstance(text, str) for text in _texts(model)):
        raise CompileError("contains names that are not UTF-8 text", where=where, hint="the file is damaged")
    _check_opset(model, where)
    _forget_unset_sizes(model.graph)
    return _inlined(model, where)


def _forget_unset_sizes(graph: GraphProto) -> None:
    """A declared size below 0 is unknown, as in onnxruntime: converters write -1, or -2**63 for a size that was not set.

    Others name every varying size `?`, which is not a name: height and width differ.
    """
    for value in (*graph.input, *graph.output, *graph.value_info):
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_value < 0 or dim.dim_param == "?":
                dim.Clear()
    for attribute in (a for node in graph.node for a in node.attribute if a.type in GRAPHS):
        for inner in (attribute.g, *attribute.graphs):
            _forget_unset_sizes(inner)


def _mapped(path: Path) -> Array:
    where = str(path)
    if path.is_dir():
        raise CompileError("is a folder, not a model file", where=where, hint="name the .onnx file inside it")
    data = mapped(path)
    if not data.size:
        raise CompileError("is empty", where=where)
    return data


def _suspicion(data: Array) -> str:
    if data[:24].tobytes().startswith(b"version https://git-lfs"):
        return "this is a Git LFS pointer: `git lfs pull` gets the file itself"
    return "the file is damaged or truncated, or of another format"


def _texts(model: ModelProto) -> Iterator[object]:
    """The names in a model; protobuf returns bytes for names that are not UTF-8."""
    yield from (model.producer_name, model.producer_version)
    yield from (o.domain for o in model.opset_import)
    yield from _texts_of_graph(model.graph)
    for function in model.functions:
        yield from (function.name, function.domain, *function.input, *function.output, *function.attribute)
        yield from _texts_of_nodes(function.node)


def _texts_of_graph(graph: GraphProto) -> Iterator[object]:
    for value in (*graph.input, *graph.output, *graph.value_info):
        yield value.name
        yield from (d.dim_param for d in value.type.tensor_type.shape.dim)
    yield from _texts_of_tensors(graph.initializer)
    yield from _texts_of_nodes(graph.node)


def _texts_of_nodes(nodes: Iterable[NodeProto]) -> Iterator[object]:
    for node in nodes:
        yield from (node.op_type, node.name, node.domain, *node.input, *node.output)
        for attribute in node.attribute:
            yield from (attribute.name, attribute.ref_attr_name)
            yield from _texts_of_tensors((attribute.t, *attribute.tensors))
            for graph in (attribute.g, *attribute.graphs) if attribute.type in GRAPHS else ():
                yield from _texts_of_graph(graph)


def _texts_of_tensors(tensors: Iterable[TensorProto]) -> Iterator[object]:
    for tensor in tensors:
        yield tensor.name
        yield from (text for e in tensor.external_data for text in (e.key, e.value))


_MOST_OPSETS = 1 << 31
"""Versions of operators are 32-bit numbers in onnx."""


def _check_opset(model: ModelProto, where: str) -> None:
    opset = opsets(model).get(STANDARD)
    if opset is None and any(domain_of(n.domain) == STANDARD for n in model.graph.node):
        raise CompileError("names no opset of the standard operators", where=where)
    if opset is not None and not 1 <= opset <= NEWEST_OPSET:
        raise CompileError(
            f"is of opset {opset}; {OLDEST_OPSET} to {NEWEST_OPSET} are read",
            where=where,
            hint="onnx.version_converter converts between opsets",
        )
    for domain, version in opsets(model).items():
        if not 0 <= version < _MOST_OPSETS:
            raise CompileError(f"is of opset {version} of '{domain}', which is not a version", where=where)


def opsets(model: ModelProto) -> dict[str, int]:
    """The opset of each domain that the model imports."""
    return {domain_of(o.domain): o.version for o in model.opset_import}


def _inlined(model: ModelProto, where: str) -> ModelProto:
    if not model.functions:
        return model
    _check_functions(model, where)
    try:
        return inliner.inline_local_functions(model)
    except (onnx.checker.ValidationError, RuntimeError, ValueError) as e:
        reason = str(e).strip().splitlines()[0]
        raise CompileError(f"the functions of the model cannot be inlined: {reason}", where=where) from None


_Function = tuple[str, str, str]
"""Domain, name and overload."""

_MOST_NODES = 1 << 17
"""The limit of nodes after inlining: functions that call each other twice grow exponentially."""


def _check_functions(model: ModelProto, where: str) -> None:
    """Raises CompileError for functions that call themselves, and for too many nodes after inlining."""
    functions = {(domain_of(f.domain), f.name, f.overload): f for f in model.functions}
    index = {key: i for i, key in enumerate(functions)}
    calls = [[k for n in all_nodes(f.node) if (k := _called(n)) in index] for f in functions.values()]
    names = [f"{key[0]}.{key[1]}" for key in functions]
    try:
        order = in_order([{index[k] for k in called} for called in calls])
    except CycleError as e:
        raise CompileError(e.text(names), where=f"{where}: function '{names[e.cycle[-1]]}'") from None
    bodies, sizes = list(functions.values()), [0] * len(names)
    for i in order:
        sizes[i] = len(bodies[i].node) + sum(sizes[index[k]] for k in calls[i])
    total = sum(sizes[index[k]] for n in all_nodes(model.graph.node) if (k := _called(n)) in index)
    if total > _MOST_NODES:
        largest = max(range(len(names)), key=sizes.__getitem__)
        place = f"{where}: function '{names[largest]}'"
        raise CompileError(f"has {sizes[largest]} nodes once the functions that it calls are inlined", where=place)


def _called(node: NodeProto) -> _Function:
    return domain_of(node.domain), node.op_type, node.overload
