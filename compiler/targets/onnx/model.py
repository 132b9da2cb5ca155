"""The whole model: its graph, versions and metadata, and the check by ONNX's own checker."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import cast

import onnx
from onnx import GraphProto, ModelProto, ValueInfoProto, helper
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, SSAValue

from ...dialects import nn
from ...formats.onnx.file import INLINE, Initializer, packed
from ...formats.onnx.graphs import all_nodes
from ...formats.onnx.inference import infer_shapes
from ...formats.onnx.schema import is_foreign
from ...ir.functions import body, dimension_names, main_function
from ...ir.metadata import metadata
from ...rewriting import Remarks
from ...rewriting.driver import garbage_collection_off
from ...session import Session
from ...support.diagnostics import CompileError
from ..graph import flat, named_ends
from .graph import Form, Graph, OpsetError, value_info
from .layer import OnnxLayer, write_operation
from .opaque import check_meaning

PRODUCER = "amct-opt"


def model_of(graph: Graph, module: ModuleOp) -> ModelProto:
    """The model around a graph: versions and the module's metadata."""
    model = ModelProto(
        ir_version=ir_version(graph.opset),
        producer_name=PRODUCER,
        producer_version=version(PRODUCER),
        opset_import=[helper.make_opsetid(domain, number) for domain, number in graph.domains.items()],
    )
    helper.set_model_props(model, {f"amct_opt.{key}": text for key, text in metadata(module).items()})
    return model


def ir_version(opset: int) -> int:
    """The lowest IR version for an opset, at least 8: old runtimes load any model whose opset they know."""
    return max(8, helper.find_min_ir_version_for([helper.make_opsetid("", opset)]))


DEFAULT_OPSET = 17
"""Opset for sources without opsets: TensorFlow, Caffe, module text."""


def opset_of(module: ModuleOp) -> int | None:
    """The opset of the ONNX file that a module was read from; None for other sources."""
    entries = metadata(module)
    text = entries.get("opset", "")
    return int(text) if entries.get("framework") == "onnx" and text.isdecimal() else None


@garbage_collection_off()
def written_graph(
    module: ModuleOp, form: Form, session: Session, opset: int | None, start: int | None = None
) -> tuple[Graph, GraphProto, Remarks]:
    """The nodes of a module's graph, the graph without its weights, and remarks on operations.

    Without `opset`, it is the first from `start` on (the source's opset) that has every operation, with a remark if it is not
    the source's. Raises CompileError, located, for what the opset, or any from `start` on, cannot express.
    """
    function, source = main_function(module), opset_of(module)
    opsets, tried = form.opsets, opset or start or source or DEFAULT_OPSET
    tried, raised = min(max(tried, opsets[0]), opsets[-1]), list[OpsetError]()
    while True:
        remarks = Remarks(session, form.target)
        try:
            graph, proto = graph_of(function, form, tried, remarks)
            break
        except OpsetError as e:
            if opset is not None or e.newer is None:
                raise
            raised.append(e)
            tried = e.newer
    for each in raised:
        remarks.note(each.op, "opset", f"{each.reason}: the file is written in opset {tried}")
    if opset is None and source is not None and source < opsets[0]:
        remarks.note(function, "opset", f"the model is of opset {source}, the oldest that is written is {opsets[0]}")
    return graph, proto, remarks


def check_carried(module: ModuleOp, form: Form, session: Session, opset: int | None, start: int) -> None:
    """Raises CompileError, located, if a carried operator keeps its meaning in no opset from `start` on, or not in `opset`."""
    opsets = [opset] if opset is not None else range(start, form.opsets.stop)
    for op in [o for o in module.walk() if isinstance(o, nn.OpaqueOp)]:
        for each in opsets:
            try:
                check_meaning(op, OnnxLayer(Graph(form, each, Remarks(session, form.target)), op))
                break
            except OpsetError as e:
                if e.newer is None or opset is not None:
                    raise


def graph_of(function: FuncOp, form: Form, opset: int, remarks: Remarks) -> tuple[Graph, GraphProto]:
    """The nodes, and the graph without its weights."""
    graph = Graph(form, opset, remarks)
    block, inputs, outputs, results = named_ends(function)
    for name in dict.fromkeys((*inputs, *outputs)):
        graph.values.unique(name)
    for name in inputs if form.inputs_are_nodes else ():
        graph.layers.unique(name)
    for argument, name in zip(block.args, inputs, strict=True):
        graph.declare(argument, name)
    for value, name in zip(results, outputs, strict=True):
        if not isinstance(value, BlockArgument) and nn.constant_of(value) is None and graph.declared(value) is None:
            graph.declare(value, name)
    graph.reserve_constants(block)
    for op in flat(block):
        write_operation(op, graph)
    for value, name in zip(results, outputs, strict=True):
        if graph.name(value) != name:
            node = helper.make_node("Identity", [graph.name(value)], [name], graph.layers.unique(f"{name}/Identity"))
            graph.nodes.append(node)
    for op in block.walk():
        if isinstance(op, nn.ObserveOp):
            remarks.note(op, "observer", "is not quantized yet: written as the identity that it is")
    infos = _infos(function.arg_attrs, block.args, inputs), _infos(function.res_attrs, results, outputs)
    return graph, graph.proto(function.sym_name.data, *infos)


def _infos(attributes: object, values: Sequence[SSAValue], names: Sequence[str]) -> list[ValueInfoProto]:
    """Names, types and named sizes of the graph's inputs or outputs."""
    given = cast("Sequence[DictionaryAttr]", () if attributes is None else attributes)
    dims = [dimension_names(a) for a in given] or [[] for _ in names]
    return [value_info(v, n, d) for v, n, d in zip(values, names, dims, strict=True)]


def skeleton(model: ModelProto, graph: GraphProto, initializers: Sequence[Initializer]) -> ModelProto:
    """The whole model with large weights as inputs: enough for the checker, without copies.

    Operators of ONNX's domain that are not ONNX's are in a domain that the checker does not know.
    """
    skeleton = ModelProto()
    skeleton.CopyFrom(model)
    skeleton.graph.CopyFrom(graph)
    for node in filter(is_foreign, all_nodes(skeleton.graph.node)):
        node.domain = _FOREIGN
    skeleton.opset_import.append(helper.make_opsetid(_FOREIGN, 1))
    for name, array in initializers:
        code = helper.np_dtype_to_tensor_dtype(array.dtype)
        if array.nbytes <= INLINE:
            skeleton.graph.initializer.append(
                helper.make_tensor(name, code, array.shape, packed(array).tobytes(), True)
            )
        else:
            skeleton.graph.input.append(helper.make_tensor_value_info(name, code, array.shape))
    return skeleton


_FOREIGN = "onnxruntime"


def check(model: ModelProto, function: FuncOp, remarks: Remarks, path: Path) -> None:
    """Runs onnx.checker and shape inference. Raises CompileError for an invalid model, or types and shapes that disagree.

    ONNX's own inference may fail for carried operators (MeanVarianceNormalization): that is a remark.
    """
    try:
        onnx.checker.check_model(model)  # pyright: ignore[reportUnknownMemberType]
        infer_shapes(model, strict=True)
    except onnx.checker.ValidationError as e:
        raise CompileError(f"would not be a valid model: {_first_line(e)}", where=str(path)) from e
    except onnx.shape_inference.InferenceError as e:
        if not any(isinstance(op, nn.OpaqueOp) for op in flat(body(function))):
            raise CompileError(f"would not be a valid model: {_first_line(e)}", where=str(path)) from e
        remarks.note(function, "shape-inference", f"onnx.shape_inference does not follow: {_first_line(e)}")


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
