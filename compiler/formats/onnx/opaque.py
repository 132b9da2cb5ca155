"""Carried operators as ONNX: the node or the graph, and a model around it."""

from __future__ import annotations

from collections.abc import Sequence

from google.protobuf.message import DecodeError
from onnx import ModelProto, NodeProto, ValueInfoProto, helper
from xdsl.ir import SSAValue

from ...dialects import nn
from ...dialects.nn.shapes import tensor_of
from ...ir.dtypes import numpy_dtype
from .attributes import attribute_proto
from .graphs import STANDARD, domain_of

IR_VERSION = 10
"""Every onnxruntime with opset 21 or later loads this IR version."""


def _domain(op: nn.OpaqueOp) -> str:
    return STANDARD if op.domain is None else domain_of(op.domain.data)


def node_of(op: nn.OpaqueOp, inputs: Sequence[str], outputs: Sequence[str]) -> NodeProto:
    """The operator as a node that reads and defines these names. Raises TypeError for an attribute without a form in ONNX."""
    node = NodeProto(op_type=op.op_type.data, domain=_domain(op), input=inputs, output=outputs)
    attributes = [] if op.attrs is None else sorted(op.attrs.data.items())
    node.attribute.extend(attribute_proto(name, value) for name, value in attributes)
    return node


def model_around(op: nn.OpaqueOp) -> ModelProto:
    """A model with the operands as inputs and the results as outputs.

    Raises TypeError for an attribute without a form in ONNX, ValueError for a graph that is not one.
    """
    return _single_model(op) if op.graph is None else graph_of_op(op, op.graph)


def graph_of_op(op: nn.OpaqueOp, graph: nn.GraphAttr) -> ModelProto:
    """The graph that is carried whole. Raises ValueError if it is corrupted or does not fit the operation."""
    data = nn.ConstantOp(graph.data).array.tobytes()
    try:
        model = ModelProto.FromString(data)
    except DecodeError:
        raise ValueError("its graph is not a model of ONNX") from None
    given = len(model.graph.input), len(model.graph.output)
    if given != (len(op.inputs), len(op.outputs)):
        raise ValueError(f"its graph has {given[0]} inputs and {given[1]} outputs")
    return model


def _single_model(op: nn.OpaqueOp) -> ModelProto:
    """A model of only this operator, with inputs i0, i1, ... and outputs o0, o1, ... of any sizes."""
    rest = iter(range(len(op.inputs)))
    arguments = ["" if v is None else f"i{next(rest)}" for v in op.arguments()]
    outputs = [f"o{i}" for i in range(len(op.outputs))]
    version = 1 if op.version is None else op.version.value.data
    graph = helper.make_graph(
        [node_of(op, arguments, outputs)],
        op.op_type.data,
        [_declared(f"i{i}", v) for i, v in enumerate(op.inputs)],
        [_declared(f"o{i}", v) for i, v in enumerate(op.outputs)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(_domain(op), version)], ir_version=IR_VERSION)


def _declared(name: str, value: SSAValue) -> ValueInfoProto:
    dtype = numpy_dtype(tensor_of(value).element_type)
    rank = tensor_of(value).get_num_dims()
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(dtype), [None] * rank)
