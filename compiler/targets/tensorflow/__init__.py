"""TensorFlow graphs: the `nn` module unchanged, float or with explicit arithmetic of quantization."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import BlockArgument, SSAValue

from ...dialects import nn
from ...dialects.nn.shapes import shape_of
from ...formats.tensorflow.attributes import attribute
from ...formats.tensorflow.file import write_graph
from ...formats.tensorflow.tensors import shape_proto
from ...ir.dtypes import dtype_named
from ...ir.functions import main_function, return_op
from ...rewriting import Remarks
from ...session import Session
from ...support.diagnostics import CompileError
from .. import Target
from ..graph import flat, in_layout, named_ends
from . import convolution, elementwise, linear, normalization, opaque, pooling, quantization, resize, rows, shape
from .graph import Form, Graph, element_of, legal_name, stored_quantized
from .layer import CONVERTERS, TensorFlowLayer, write_operation

FAMILIES = (convolution, elementwise, linear, normalization, opaque, pooling, quantization, resize, rows, shape)
"""The modules that register the converters."""

_PLAIN, _FAKE_QUANT = "plain", "fakequant"


@dataclass(frozen=True)
class TfFakequantTarget(Target):
    """Writes `nn` to a frozen GraphDef that TensorFlow runs on a CPU; regions of nn.fused are unpacked.

    With `nodes=plain` quantization is written in operators that compute what the interpreter computes, to the bit, weights as
    integers; with `nodes=fakequant` in FakeQuantWithMinMaxVars if possible, which rounds halves up instead of to even.
    """

    name = "tf-fakequant"
    ending = ".pb"
    graph_only = True

    nodes: str = _PLAIN

    def __post_init__(self) -> None:
        if self.nodes not in (_PLAIN, _FAKE_QUANT):
            hint = f"nodes are {_PLAIN} or {_FAKE_QUANT}"
            raise CompileError(f"target {self.name} does not write nodes '{self.nodes}'", hint=hint)

    def write(self, module: ModuleOp, path: Path, session: Session) -> list[Path]:
        remarks = Remarks(session, self.name)
        graph = Graph(
            remarks, Form({**CONVERTERS, **session.writers.get(self.name, {})}, fake_quant=self.nodes == _FAKE_QUANT)
        )
        fill(graph, main_function(in_layout(module, "NHWC", session)))
        write_graph(graph.nodes, path)
        remarks.flush()
        return [path]


def fill(graph: Graph, function: FuncOp) -> None:
    """The nodes of a function: placeholders, operations, and an Identity for outputs without their name."""
    block, inputs, outputs, results = named_ends(function)
    for argument, name in zip(block.args, inputs, strict=True):
        _placeholder(graph, argument, _written(graph, function, "input", name))
    names = [
        _same_input(graph, value, name) or _written(graph, function, "output", name)
        for value, name in zip(results, outputs, strict=True)
    ]
    for value, name in zip(results, names, strict=True):
        if not isinstance(value, BlockArgument) and nn.constant_of(value) is None:
            graph.declare_output(value, name)
    for op in flat(block):
        if stored_quantized(op) is None:  # weights are written in the form that their consumers need
            write_operation(op, graph)
    for value, name in zip(results, names, strict=True):
        _output(graph, function, value, name)
    for op in block.walk():
        if isinstance(op, nn.ObserveOp):
            graph.remarks.note(op, "observer", "is not quantized yet: written as the identity that it is")


def _placeholder(graph: Graph, argument: BlockArgument, name: str) -> None:
    graph.elements[name] = element_of(argument)
    attributes = {
        "dtype": attribute(dtype_named(element_of(argument))),
        "shape": attribute(shape_proto(shape_of(argument))),
    }
    graph.add("Placeholder", [], attributes, name)
    graph.bind(argument, name)


def _written(graph: Graph, function: FuncOp, kind: str, name: str) -> str:
    """The name of an input or output in the file, with a remark if it differs from its own."""
    written = graph.unique(name)
    if written != name:
        graph.remarks.note(function, f"{kind}-{name}", f"{kind} '{name}' is written as '{written}'")
    return written


def _same_input(graph: Graph, value: SSAValue, name: str) -> str | None:
    """The placeholder of an output that is an input of the same name."""
    if not isinstance(value, BlockArgument):
        return None
    placeholder = graph.bound(value)
    return placeholder if placeholder == legal_name(name) else None


def _output(graph: Graph, function: FuncOp, value: SSAValue, name: str) -> None:
    """An Identity with this name after the value, unless the value already has it."""
    tensor = TensorFlowLayer(graph, return_op(function)).value(value)
    if tensor != name:
        graph.add("Identity", [tensor], {"T": attribute(dtype_named(graph.elements[tensor]))}, name)
