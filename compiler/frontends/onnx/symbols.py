"""Decides which unknown sizes are equal: dimension names, propagated by onnx's shape inference."""

from __future__ import annotations

from functools import cached_property
from math import prod

from onnx import ModelProto, TensorProto, TypeProto
from xdsl.ir import SSAValue

from ...formats.onnx.graphs import all_nodes
from ...formats.onnx.inference import inferred
from ...formats.onnx.schema import complaint
from ...formats.onnx.tensors import dimension_names
from ...transforms.partial_shapes import Dimension
from ..building import SHOWN_ELEMENTS
from .source import opsets


class Symbols:
    """Names of the sizes that are known only at run time.

    Inference runs on a copy without the weights, the first time that two sizes of different values are compared.
    """

    def __init__(self, model: ModelProto):
        self._model = model
        self._sources: dict[SSAValue, str] = {}

    def define(self, name: str, value: SSAValue) -> None:
        """Records the source's name of a value."""
        self._sources.setdefault(value, name)

    def same(self, a: Dimension, b: Dimension) -> bool:
        """Whether two sizes are known to be equal."""
        if a == b:
            return True
        name = self._name(a)
        return bool(name) and name == self._name(b)

    def _name(self, dimension: Dimension) -> str:
        names = self._names.get(self._sources.get(dimension.value, ""), [])
        return names[dimension.axis] if dimension.axis < len(names) else ""

    @cached_property
    def _names(self) -> dict[str, list[str]]:
        return {name: dimension_names(type_) for name, type_ in inferred_types(self._model).items()}


def inferred_types(model: ModelProto) -> dict[str, TypeProto]:
    """The types of a graph's values by name, as inferred by onnx; a size without a name gets one."""
    if any(complaint(n, opsets(model)) for n in all_nodes(model.graph.node)):
        return {}
    graph = inferred(_without_weights(model))
    return {v.name: v.type for v in [*graph.input, *graph.value_info, *graph.output]}


def _without_weights(model: ModelProto) -> ModelProto:
    """The model with large initializers as inputs, and with a name for every size of its inputs without one."""
    copy = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    graph = copy.graph
    graph.name = "stripped"
    graph.node.extend(model.graph.node)
    given = {i.name for i in model.graph.initializer}
    for value in model.graph.input:
        if value.name not in given:
            graph.input.append(value)
    for value in graph.input:
        for axis, dim in enumerate(value.type.tensor_type.shape.dim):
            if not dim.WhichOneof("value"):
                dim.dim_param = f"{value.name}.{axis}"
    for tensor in model.graph.initializer:
        if tensor.data_location != TensorProto.EXTERNAL and prod(tensor.dims) <= SHOWN_ELEMENTS:
            graph.initializer.append(tensor)
        else:
            value = graph.input.add(name=tensor.name)
            value.type.tensor_type.elem_type = tensor.data_type
            for d in tensor.dims:
                value.type.tensor_type.shape.dim.add(dim_value=d)
    return copy
