"""The nodes of one operation, and the table of converters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

import numpy as np
from onnx import NodeProto, helper
from xdsl.ir import Operation, SSAValue

from ...formats.onnx.graphs import replace_names
from ...formats.onnx.schema import first_opset_taking, rejected_output, result_elements, schema_of, type_mismatch
from ...ir.dtypes import Tensor, numpy_dtype
from ..converters import Converters, Expand, Register
from ..graph import number_of
from ..layer import Layer
from .graph import Array, Graph, OpsetError, element_of, value_info

Operand = SSAValue | str | None
"""A value of the module, the name of a written value, or an absent input."""


class OnnxLayer(Layer[Graph]):
    """The nodes of one operation. Value names are provisional until `finish`."""

    FORMAT: ClassVar[str] = "ONNX"

    def __init__(self, graph: Graph, op: Operation):
        super().__init__(graph, op)
        self._nodes: list[NodeProto] = []
        self._outputs: list[str] = []

    @property
    def opset(self) -> int:
        return self.graph.opset

    def node(self, op_type: str, *inputs: Operand, **attributes: Any) -> str:
        """A node with the layer's name; returns its one output. Attributes that are None are left out."""
        return self.emit(op_type, inputs, attributes, self.label)[0]

    def helper(self, op_type: str, *inputs: Operand, **attributes: Any) -> str:
        """Adds another node besides the one with the layer's name."""
        return self.emit(op_type, inputs, attributes, f"{self.label}/{op_type}")[0]

    def emit(
        self, op_type: str, inputs: Sequence[Operand], attributes: Mapping[str, Any], name: str, outputs: int = 1
    ) -> list[str]:
        """A node of ONNX's own domain, with its element types checked against the opset. Raises CompileError, located."""
        names = self._names_of(inputs)
        present = {k: v for k, v in attributes.items() if v is not None}
        results = self.checked(op_type, names, present)
        made = [self._provisional(results[min(i, len(results) - 1)]) for i in range(outputs)]
        self.add(helper.make_node(op_type, names, made, **present), name)
        return made

    def unchecked(self, op_type: str, inputs: Sequence[Operand], attributes: Mapping[str, Any], name: str) -> str:
        """A node that no schema of ONNX's describes; its one output has the element type of the operation's result."""
        present = {k: v for k, v in attributes.items() if v is not None}
        made = self.provisional(self.op.results[0])
        self.add(helper.make_node(op_type, self._names_of(inputs), [made], **present), name)
        return made

    def add(self, node: NodeProto, name: str) -> None:
        """A finished node; its outputs are provisional names of this layer."""
        node.name = self.graph.layers.unique(name)
        self._nodes.append(node)

    def _names_of(self, inputs: Sequence[Operand]) -> list[str]:
        names = [self.value(v) for v in inputs]
        while names and not names[-1]:
            names.pop()
        return names

    def value(self, operand: Operand) -> str:
        """The name of an operand; empty if absent."""
        if operand is None:
            return ""
        if isinstance(operand, str):
            return operand
        if (number := number_of(operand)) is not None:
            return self.constant(number.array, "number")
        return self.graph.name(operand)

    def _provisional(self, element: str | None) -> str:
        name = f"\0{len(self._outputs)}"
        self._outputs.append(name)
        self.graph.elements[name] = element
        return name

    def provisional(self, value: SSAValue) -> str:
        """A provisional name for an output of the type of `value`."""
        return self._provisional(element_of(value))

    def untyped(self) -> str:
        """A provisional name for a value inside the layer whose type is not known."""
        return self._provisional(None)

    def checked(self, op_type: str, names: Sequence[str], attributes: Mapping[str, object]) -> list[str | None]:
        """The element types of the outputs. Raises CompileError if the opset does not support those of the inputs."""
        schema = schema_of(op_type, self.opset)
        assert schema is not None, f"opset {self.opset} has no {op_type}"
        elements = [self.graph.elements.get(n) for n in names]
        results = result_elements(schema, elements, attributes)
        problem = type_mismatch(schema, elements) or rejected_output(schema, results[0])
        if problem is not None:
            newer = first_opset_taking(op_type, elements, attributes, self.newer)
            raise self.too_old(f"becomes ONNX {op_type}, which in opset {self.opset} {problem}", newer)
        return results

    def constant(self, array: Array, role: str, owner: object = None) -> str:
        """An initializer; equal ones of one role are shared, with an `owner` only among those of equal owners."""
        return self.graph.constant(array, self.label, role, owner)

    def named_constant(self, array: Array, name: str) -> str:
        """A separate initializer, called `name` if that is free."""
        return self.graph.add_constant(array, name)

    def ints(self, values: Sequence[int], role: str) -> str:
        """An initializer of int64, for shapes and axes."""
        return self.constant(np.array(values, np.int64), role)

    def scalar(self, number: float, like: SSAValue, role: str) -> str:
        """A number as a scalar tensor of the element type of `like`. Raises CompileError if that type cannot represent it."""
        dtype = numpy_dtype(cast(Tensor, like.type).element_type)
        with np.errstate(over="ignore", invalid="ignore"):
            array = np.array(number).astype(dtype)
        if dtype.kind in "iub" and array.item() != number:
            raise self.error(f"has the {role} {number}, which {dtype} cannot hold")
        return self.constant(array, role)

    def require(self, opset: int, what: str) -> None:
        """Raises CompileError if the opset is older than `opset`, which introduced `what`."""
        if self.opset < opset:
            newer = opset if opset in self.graph.form.opsets else None
            raise self.too_old(f"needs {what}, which opset {self.opset} does not have", newer)

    @property
    def newer(self) -> range:
        """The newer opsets that the target writes."""
        return range(self.opset + 1, self.graph.form.opsets.stop)

    def too_old(self, message: str, newer: int | None, hint: str = "") -> OpsetError:
        """The error of an operation that this opset cannot express; `newer` is the first that can, None if none."""
        if newer is not None:
            hint = f"write a newer opset: -t '{self.graph.form.target}{{opset={newer}}}'"
        return OpsetError(self.source, self.explained(message), newer, hint)

    def finish(self, results: Sequence[str | None]) -> None:
        """Name the values of the operation's results (None: nothing, as it is not used), then everything in between,
        and hand the nodes to the graph.
        """
        graph = self.graph
        final: dict[str, str] = {}
        for value, made in zip(self.op.results, results, strict=True):
            if made is None:
                continue
            final[made] = graph.declared(value) or graph.values.unique(value.name_hint or self.label)
            graph.bind(value, final[made])
            graph.value_info.append(value_info(value, final[made]))
        for node in self._nodes:
            for name in node.output:
                if name and name not in final:
                    final[name] = graph.values.unique(f"{node.name}_out")
            replace_names(node, final)
        for provisional in self._outputs:
            graph.elements[final[provisional]] = graph.elements.pop(provisional)
        graph.nodes.extend(self._nodes)


Written = str | Sequence[str | None]
"""The name of an operation's result, or one name per result."""

CONVERTERS: Converters[OnnxLayer, Written] = {}
"""The converters by operation; filled by the modules of the families."""

converter: Register[OnnxLayer, Written] = Register(CONVERTERS)


def write_operation(op: Operation, graph: Graph) -> None:
    """Writes the nodes of one operation. Raises CompileError, located, if the opset, or ONNX, cannot express it."""
    OnnxLayer(graph, op).write(written)


def written(op: Operation, layer: OnnxLayer) -> Written:
    """An operation in the nodes of a layer: by its converter if that applies, otherwise by its expansion."""
    try:
        if (convert := layer.graph.form.converters.get(type(op))) is not None:
            return convert(op, layer)
    except Expand:
        pass
    return layer.expanded(op, written)
