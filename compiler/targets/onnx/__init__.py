"""ONNX files: the `nn` module as it stands, float or with QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import cast

import onnx
from onnx import GraphProto, ModelProto, ValueInfoProto, helper
from xdsl.dialects.builtin import DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, SSAValue

from ...diagnostics import CompileError
from ...dialects import nn
from ...functions import body, dimension_names, input_names, main_function, output_names, return_op
from ...rewriting import Remarks
from ...session import Session
from ...transforms.quantization.profiles import PROFILES
from .. import Target
from ..graph import check_names, flat, source
from ..layout import in_layout
from . import blocks, convolution, elementwise, linear, normalization, opaque, pooling, quantization, shape
from .file import INLINE, external_file, packed, write_model
from .graph import Graph, Initializer, value_info
from .integer_activations import with_integer_activations
from .layer import write_operation
from .schema import OPSETS

FAMILIES = (blocks, convolution, elementwise, linear, normalization, opaque, pooling, quantization, shape)
"""The modules that register the converters."""

PRODUCER = "amct-opt"
METADATA = "nn.metadata"
"""The module attribute whose entries become the file's metadata."""


@dataclass(frozen=True)
class OnnxTarget(Target):
    """Writes `nn` to ONNX opset 13 to 21; regions of nn.fused are taken apart, observers left out with a remark.

    Weights go into the file, or beside it with `external` and where the file would reach 2 GB.
    """

    name = "onnx"
    ending = ".onnx"

    opset: int = 17
    external: bool = False

    def __post_init__(self) -> None:
        if self.opset not in OPSETS:
            raise CompileError(
                f"target onnx does not write opset {self.opset}", hint=f"opsets are {OPSETS[0]} to {OPSETS[-1]}"
            )

    def files(self, path: Path) -> list[Path]:
        return [path, external_file(path)]

    def write(self, module: ModuleOp, path: Path, session: Session) -> list[Path]:
        function = main_function(_written_form(in_layout(module, "NCHW", session), session))
        remarks = Remarks(session, self.name)
        graph, proto = _graph(function, self.opset, remarks)
        model = ModelProto(
            ir_version=ir_version(self.opset),
            producer_name=PRODUCER,
            producer_version=version(PRODUCER),
            opset_import=[helper.make_opsetid(domain, number) for domain, number in graph.domains.items()],
        )
        helper.set_model_props(model, metadata(module))
        _check(_skeleton(model, proto, graph.initializers), function, remarks, path)
        remarks.flush()
        return write_model(model, proto, graph.initializers, path, external=self.external)


def _written_form(module: ModuleOp, session: Session) -> ModuleOp:
    """The module as the profile that it was quantized by has its activations in files."""
    profile = PROFILES.get(metadata(module).get("amct_opt.profile", session.profile))
    if profile is None or not profile.unsigned_file:
        return module
    return with_integer_activations(module, profile)


def ir_version(opset: int) -> int:
    """The IR version that onnxruntime of every age loads with this opset: 8, 9 from opset 19 on, 10 from 21 on."""
    return 8 + (opset >= 19) + (opset >= 21)


def metadata(module: ModuleOp) -> dict[str, str]:
    """The module's metadata as the file keeps it: `amct_opt.<key>`."""
    entries = module.attributes.get(METADATA)
    if not isinstance(entries, DictionaryAttr):
        return {}
    return {f"amct_opt.{key}": v.data for key, v in entries.data.items() if isinstance(v, StringAttr)}


def _graph(function: FuncOp, opset: int, remarks: Remarks) -> tuple[Graph, GraphProto]:
    """The nodes, and the graph without its weights."""
    graph = Graph(opset, remarks)
    block, inputs, outputs = body(function), input_names(function), output_names(function)
    results = [source(v) for v in return_op(function).operands]
    check_names(function, inputs, outputs, results)
    for name in dict.fromkeys((*inputs, *outputs)):
        graph.values.unique(name)
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


def _skeleton(model: ModelProto, graph: GraphProto, initializers: Sequence[Initializer]) -> ModelProto:
    """The whole model, but with large weights as inputs: enough for the checker, and nothing is copied."""
    skeleton = ModelProto()
    skeleton.CopyFrom(model)
    skeleton.graph.CopyFrom(graph)
    for name, array in initializers:
        code = helper.np_dtype_to_tensor_dtype(array.dtype)
        if array.nbytes <= INLINE:
            skeleton.graph.initializer.append(
                helper.make_tensor(name, code, array.shape, packed(array).tobytes(), True)
            )
        else:
            skeleton.graph.input.append(helper.make_tensor_value_info(name, code, array.shape))
    return skeleton


def _check(model: ModelProto, function: FuncOp, remarks: Remarks, path: Path) -> None:
    """Run onnx.checker and shape inference. Raises CompileError for an invalid model, or types and shapes that disagree.

    With operators that `nn` does not know, ONNX's own inference may stumble (MeanVarianceNormalization does): a remark then.
    """
    try:
        onnx.checker.check_model(model)  # pyright: ignore[reportUnknownMemberType]
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except onnx.checker.ValidationError as e:
        raise CompileError(f"would not be a valid model: {_first_line(e)}", where=str(path)) from e
    except onnx.shape_inference.InferenceError as e:
        if not any(isinstance(op, nn.OpaqueOp) for op in flat(body(function))):
            raise CompileError(f"would not be a valid model: {_first_line(e)}", where=str(path)) from e
        remarks.note(function, "shape-inference", f"onnx.shape_inference does not follow: {_first_line(e)}")


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
