"""The graph of a quantized ONNX file of any tool, by QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import numpy as np
import onnx
from onnx import NodeProto, TensorProto, numpy_helper
from xdsl.dialects.builtin import ModuleOp

from .. import frontends
from ..formats.onnx.graphs import all_nodes
from ..frontends.naming import Namer
from ..frontends.onnx.graph import named, reads
from ..frontends.onnx.source import load
from ..ir.array import Array
from ..ir.verification import verify
from ..session import Session
from ..support.diagnostics import CompileError, first_line

WEIGHTED = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul"})
LARGEST = 2**31 - 1
"""Bytes of the largest model with its weights."""
POINTS = frozenset({"QuantizeLinear", "DequantizeLinear"})
INTEGER_OPERATOR = re.compile(r"^Q|Integer")
"""onnxruntime's operators on integers."""
RANGES = frozenset({"Relu", "Clip"})
"""Operators that engines merge into the QuantizeLinear behind them if its range allows it."""
_EIGHT = frozenset({TensorProto.UINT8, TensorProto.INT8})
_BIAS = 1e-3
"""The relative difference of scales from which on onnxruntime does not take a bias as integers."""


class QdqGraph:
    """The nodes of a graph by what they read, in inner graphs as well, and give. Nodes may change, but not the names of their
    results.
    """

    def __init__(self, graph: onnx.GraphProto):
        self.nodes: list[NodeProto] = list(graph.node)
        self.outputs: set[str] = {each.name for each in graph.output}
        namer = Namer("", (node.name for node in all_nodes(self.nodes)))
        self._layers = {id(node): named(node, i, namer).name for i, node in enumerate(self.nodes)}
        self.constants: dict[str, TensorProto] = {each.name: each for each in graph.initializer}
        self.makers: dict[str, NodeProto] = {name: node for node in self.nodes for name in node.output if name}
        self.readers: dict[str, list[NodeProto]] = defaultdict(list)
        for node in self.nodes:
            for name in reads(node):
                self.readers[name].append(node)
            if node.op_type == "Constant":
                self.constants.update((node.output[0], each.t) for each in node.attribute if each.name == "value")

    def layer(self, node: NodeProto) -> str:
        """The name that a node has in the module: `OpType_index` for one without a name of its own."""
        return self._layers[id(node)]

    def dequantize(self, name: str) -> NodeProto | None:
        """The DequantizeLinear that gives a value."""
        node = self.makers.get(name)
        return node if node is not None and node.op_type == "DequantizeLinear" else None

    def after(self, node: NodeProto) -> list[NodeProto]:
        """The nodes that read the results of a node."""
        return [reader for name in node.output for reader in self.readers[name]]

    def is_output(self, node: NodeProto) -> bool:
        """Whether a result of a node is an output of the graph."""
        return not self.outputs.isdisjoint(node.output)

    def array(self, name: str) -> Array | None:
        """A constant."""
        return numpy_helper.to_array(self.constants[name]) if name in self.constants else None

    def is_constant(self, name: str) -> bool:
        """Whether a value is a constant, in integers or not."""
        node = self.makers.get(name)
        return name in self.constants or (
            node is not None and node.op_type in POINTS and self.is_constant(node.input[0])
        )

    def scale(self, node: NodeProto) -> Array | None:
        """The scale of a QuantizeLinear or DequantizeLinear, if it is a constant."""
        return self.array(node.input[1])

    def zero_point(self, node: NodeProto) -> Array | None:
        """The zero point of a QuantizeLinear or DequantizeLinear, if it is a constant or has its default, uint8."""
        if len(node.input) > 2:
            return self.array(node.input[2])
        typed = any(each.name == "output_dtype" and each.i for each in node.attribute)
        return None if typed else np.zeros((), np.uint8)

    def bits(self, node: NodeProto) -> str:
        """The type of the integers, unless it has 8 bits."""
        point = self.constants.get(node.input[2]) if len(node.input) > 2 else None
        if point is None or point.data_type in _EIGHT:
            return ""
        return TensorProto.DataType.Name(point.data_type).lower()

    def ends(self, point: NodeProto) -> tuple[float, float] | None:
        """The least and the greatest number that a QuantizeLinear with one scale represents."""
        scale, zero = self.scale(point), self.zero_point(point)
        if scale is None or zero is None or scale.size > 1 or zero.dtype.kind not in "iu":
            return None
        least, greatest = (end - int(zero.reshape(())) for end in (np.iinfo(zero.dtype).min, np.iinfo(zero.dtype).max))
        return float(least * scale.reshape(())), float(greatest * scale.reshape(()))

    def scale_of_sums(self, node: NodeProto) -> Array | None:
        """The scales of the sums that a quantized bias is added to: float64 of shape [1] or [channels]."""
        if node.op_type not in ("Conv", "Gemm") or len(node.input) < 3 or self.dequantize(node.input[2]) is None:
            return None
        parts = [self.dequantize(name) for name in node.input[:2]]
        x, weight = (None if part is None else self.scale(part) for part in parts)
        if x is None or weight is None or x.size != 1:
            return None
        return x.astype(np.float64).reshape(-1) * weight.astype(np.float64).reshape(-1)

    def times_of_bias(self, node: NodeProto) -> float | None:
        """The scale of a bias as a multiple of that of its sums, where they differ most; None if they do not."""
        sums = self.scale_of_sums(node)
        bias = None if sums is None else self.scale(self.makers[node.input[2]])
        if sums is None or bias is None:
            return None
        times = bias.astype(np.float64).reshape(-1) / sums
        most = float(times[int(np.abs(times - 1).argmax())])
        return most if abs(most - 1) > _BIAS else None


def read_quantized(path: Path, session: Session) -> tuple[ModuleOp, onnx.ModelProto]:
    """The module of a quantized file, and its model with all weights in it.

    Raises CompileError, located in the file, if it is not an ONNX file or has nothing quantized.
    """
    if path.suffix.lower() != ".onnx":
        raise CompileError("is not an ONNX file", where=str(path))
    module = frontends.read(path, session)
    verify(module)
    model = read_model(path)
    if not any(node.op_type in POINTS or INTEGER_OPERATOR.match(node.op_type) for node in model.graph.node):
        raise CompileError("nothing in it is quantized", where=str(path), hint="amct quantize writes quantized files")
    return module, model


def read_model(path: Path) -> onnx.ModelProto:
    """The model of an ONNX file with all weights in it. Raises CompileError, located in the file, if it cannot be read, or takes
    more than 2 GB.
    """
    load(path)  # for its errors: what it returns has other names and lacks weights
    model = onnx.ModelProto.FromString(path.read_bytes())
    try:
        onnx.load_external_data_for_model(model, str(path.parent))
    except (OSError, ValueError, onnx.checker.ValidationError) as e:
        raise CompileError(f"its external data cannot be read: {first_line(e)}", where=str(path)) from None
    if model.ByteSize() > LARGEST:
        raise CompileError("takes more than 2 GB with its external data", where=str(path))
    return model
