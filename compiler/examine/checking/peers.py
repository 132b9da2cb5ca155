"""Compares a module with the file it was read from or written to: onnxruntime on ONNX files, the project's own reader
on every file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
from onnx import ModelProto, ValueInfoProto
from xdsl.dialects.builtin import ModuleOp

from ...dialects.nn.shapes import element_of
from ...formats.onnx.graphs import all_nodes
from ...frontends.naming import Namer
from ...frontends.onnx.graph import named
from ...ir.dtypes import has_numpy_dtype, numpy_dtype
from ...runtime.comparison import layer_values
from ...runtime.kernels import Array
from ...support.diagnostics import first_line
from ...support.files import scratch
from .following import Follower, Graph, as_it_is

_FATAL = 4
_MOST = 1 << 30
"""Bytes of a file above which onnxruntime is not run: its weights would be kept twice."""

Inputs = Mapping[str, Array]


class CannotRunError(Exception):
    """onnxruntime is not installed, or does not run the file."""


def beside_onnxruntime(path: Path, module: ModuleOp, runs: Sequence[Inputs]) -> Follower:
    """Compares a module with onnxruntime's results for the layers of an ONNX file, without its optimizations.

    Raises CannotRunError, and CompileError for operations of the module that cannot be run.
    """
    graph = Graph(module)
    tensors = _tensors(path)
    layers: dict[int, str] = {}
    names: dict[int, str] = {}
    for layer, value in layer_values(module).items():
        if layer in tensors:
            layers[graph.slots[value]], names[graph.slots[value]] = layer, tensors[layer]
    outputs = dict(graph.outputs.items())
    layers |= {slot: name for name, slot in outputs.items() if slot not in layers}
    wanted = [*dict.fromkeys([*names.values(), *outputs])]
    dtypes = {graph.slots[v]: element_of(v) for v in graph.slots}
    follower = Follower(graph, layers, as_it_is, unrounded=True)
    with scratch() as folder:
        session = _session(path, wanted, folder)
        for inputs in runs:
            found = _run(session, inputs)
            given = {slot: found[name] for slot, name in names.items() if name in found}
            given = {s: a for s, a in given.items() if has_numpy_dtype(dtypes[s]) and a.dtype == numpy_dtype(dtypes[s])}
            expected = {slot: found[name] for name, slot in outputs.items() if name in found}
            follower.follow(inputs, given, None, expected)
    return follower


def _tensors(path: Path) -> dict[str, str]:
    """The tensor of each layer: the first output of its node, which is called as the frontend calls it."""
    if path.stat().st_size > _MOST:
        raise CannotRunError("the file is too large")
    graph = _loaded(path, external=False).graph
    namer = Namer(str(path), (node.name for node in all_nodes(graph.node)))
    layers = [named(node, i, namer) for i, node in enumerate(graph.node)]
    return {layer.name: layer.proto.output[0] for layer in layers if layer.proto.output and layer.proto.output[0]}


def _loaded(path: Path, *, external: bool) -> ModelProto:
    return cast(ModelProto, cast(Any, onnx).load(path, load_external_data=external))


def _session(path: Path, wanted: Sequence[str], folder: Path) -> Any:
    """The file in onnxruntime, with these tensors as outputs."""
    try:
        onnxruntime: Any = import_module("onnxruntime")
    except ImportError:
        raise CannotRunError("onnxruntime is not installed") from None
    model = _loaded(path, external=True)
    given = {output.name for output in model.graph.output}
    made = {name for node in model.graph.node for name in node.output}
    model.graph.output.extend(ValueInfoProto(name=name) for name in wanted if name in made - given)
    shown = folder / "shown.onnx"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = _FATAL
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        shown.write_bytes(model.SerializeToString())
        return onnxruntime.InferenceSession(str(shown), options, providers=["CPUExecutionProvider"])
    except Exception as e:  # onnxruntime's errors have no other base class; protobuf's above 2 GB
        raise CannotRunError(f"onnxruntime does not open the file: {first_line(e)}") from None


def _run(session: Any, inputs: Inputs) -> dict[str, Array]:
    names = [output.name for output in session.get_outputs()]
    taken = {each.name for each in session.get_inputs()}
    try:
        found = session.run(names, {name: array for name, array in inputs.items() if name in taken})
    except Exception as e:  # onnxruntime's errors have no other base class
        raise CannotRunError(f"onnxruntime does not run the file: {first_line(e)}") from None
    return {n: a for n, a in zip(names, found, strict=True) if isinstance(a, np.ndarray)}
