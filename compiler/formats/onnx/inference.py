"""onnx's shape inference for models that may contradict themselves.

For a convolution without `kernel_shape` onnx takes the size of the kernel from the weight, and ends the process if the weight has
more axes than the input. An attribute of another length is only an error, so every convolution gets one before inference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, shape_inference

from .graphs import all_nodes, subgraphs

_WEIGHT = {"Conv": 1, "ConvTranspose": 1, "ConvInteger": 1, "QLinearConv": 3}
"""The input of a convolution that is its weight."""
_SAME_SHAPE = frozenset({"Identity", "Cast", "QuantizeLinear", "DequantizeLinear"})
"""Operators that may be between a weight and its convolution; their result has the shape of the first input."""


def infer_shapes(model: ModelProto, *, strict: bool = False, data_prop: bool = False) -> ModelProto:
    """A copy of the model with the types that onnx infers; if `strict`, with types checked.

    Raises onnx's InferenceError, RuntimeError or ValueError.
    """
    return shape_inference.infer_shapes(_with_kernel_shapes(model), strict, strict, data_prop)


def inferred(model: ModelProto) -> GraphProto:
    """The graph with the types that onnx infers; an empty one if it fails."""
    try:
        return infer_shapes(model, data_prop=True).graph
    except (shape_inference.InferenceError, RuntimeError, ValueError):
        return GraphProto()


def _with_kernel_shapes(model: ModelProto) -> ModelProto:
    """The model with the attribute on every convolution; it is empty if the shape of the weight is unknown."""
    if not any(_lacks_kernel_shape(node) for node in _nodes(model)):
        return model
    copy = ModelProto()
    copy.CopyFrom(model)
    shapes = dict(_shapes(copy.graph))
    for node in _nodes(copy):
        if _lacks_kernel_shape(node):
            kernel = shapes.get(_input(node, _WEIGHT[node.op_type]), ())[2:]
            node.attribute.append(AttributeProto(name="kernel_shape", type=AttributeProto.INTS, ints=kernel))
    return copy


def _nodes(model: ModelProto) -> Iterator[NodeProto]:
    yield from all_nodes(model.graph.node)
    for function in model.functions:
        yield from all_nodes(function.node)


def _lacks_kernel_shape(node: NodeProto) -> bool:
    return node.op_type in _WEIGHT and not any(a.name == "kernel_shape" for a in node.attribute)


def _input(node: NodeProto, index: int) -> str:
    return node.input[index] if index < len(node.input) else ""


def _shapes(graph: GraphProto) -> Iterator[tuple[str, Sequence[int]]]:
    """Yields the shapes of possible weights by name: inputs of known sizes, initializers and constants, in inner graphs too."""
    found: dict[str, Sequence[int]] = {}
    for value in graph.input:
        dims = value.type.tensor_type.shape.dim
        if all(dim.HasField("dim_value") for dim in dims):
            found[value.name] = [dim.dim_value for dim in dims]
    found.update((tensor.name, tensor.dims) for tensor in graph.initializer)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t") and node.output:
                found[node.output[0]] = attribute.t.dims
        if node.op_type in _SAME_SHAPE and node.output and (shape := found.get(_input(node, 0))) is not None:
            found[node.output[0]] = shape
        for inner in subgraphs(node):
            yield from _shapes(inner)
    yield from found.items()
