"""The nodes of one operation, and the table of converters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...dialects import nn
from ...formats.tensorflow.attributes import attribute, make_node
from ...formats.tensorflow.operators import OPERATORS
from ...formats.tensorflow.schema import Message
from ...ir.dtypes import dtype_named
from ..converters import Converters, Expand, Register
from ..graph import number_of
from ..layer import Layer
from .graph import Array, Graph, element_of, is_sub_byte, legal_name, quantized_weight

Operand = SSAValue | str
"""A value of the module, or the name of a written tensor."""

_INT32 = np.iinfo(np.int32)


class TensorFlowLayer(Layer[Graph]):
    """The nodes of one operation. The computing node has the layer's name, others have names below it."""

    FORMAT: ClassVar[str] = "TensorFlow"

    def __init__(self, graph: Graph, op: Operation):
        super().__init__(graph, op)
        self._nodes: list[Message] = []

    def node(self, op_type: str, *inputs: Operand, **attributes: Any) -> str:
        """A node with the layer's name; returns its one output. Attributes that are None are left out."""
        return self.emit(op_type, inputs, attributes, self.label)[0]

    def helper(self, op_type: str, *inputs: Operand, **attributes: Any) -> str:
        """Adds another node besides the one with the layer's name."""
        return self.emit(op_type, inputs, attributes, f"{self.label}/{op_type}")[0]

    def emit(
        self, op_type: str, inputs: Sequence[Operand], attributes: Mapping[str, Any], name: str, outputs: int = 1
    ) -> list[str]:
        """A node with its type attributes. Raises CompileError, located, for element types that it does not compute."""
        operator = OPERATORS[op_type]
        names = [self.value(v) for v in inputs]
        try:
            bound = operator.bound([self.graph.elements[n] for n in names])
        except TypeError as e:
            raise self.error(f"becomes TensorFlow's {op_type}, which {e}") from None
        given = {**{k: dtype_named(element) for k, element in bound.items()}, **attributes}
        if operator.counted:
            given["N"] = len(names) - len(operator.inputs) + 1
        result = given.get(operator.output)
        elements = [operator.output if result is None else result.name] * outputs
        present = {k: attribute(v) for k, v in given.items() if v is not None}
        return self.add(op_type, names, present, name, elements)

    def add(
        self,
        op_type: str,
        inputs: Sequence[str],
        attributes: Mapping[str, Any],
        name: str,
        elements: Sequence[str],
    ) -> list[str]:
        """Adds a node unchanged; returns the names of its outputs, which have these element types."""
        node = make_node(op_type, inputs, attributes, self.graph.unique(name))
        self._nodes.append(node)
        outputs = [node.name if i == 0 else f"{node.name}:{i}" for i in range(len(elements))]
        self.graph.elements.update(zip(outputs, elements, strict=True))
        return outputs

    def value(self, operand: Operand) -> str:
        """The tensor of an operand; a quantized weight is written at the first request."""
        if isinstance(operand, str):
            return operand
        if (number := number_of(operand)) is not None:
            return self.constant(number.array, "number")
        if (name := self.graph.bound(operand)) is not None:
            return name
        weight = quantized_weight(operand)
        assert weight is not None, f"{operand} is used before it is written"
        write_operation(weight, self.graph)
        return self.value(operand)

    def constant(self, array: Array, role: str) -> str:
        """A constant; small ones of one role that are equal are shared."""
        return self.graph.constant(array, self.label, role)

    def ints(self, values: Sequence[int], role: str) -> str:
        """A vector of int32, for shapes and axes; numbers beyond int32 are clipped, because they are bounds."""
        return self.constant(np.clip(np.array(values, np.int64), -_INT32.max, _INT32.max).astype(np.int32), role)

    def pairs(self, values: Sequence[tuple[int, int]], role: str) -> str:
        """A matrix of two columns, for paddings."""
        return self.constant(np.array(values, np.int32).reshape(-1, 2), role)

    def int(self, value: int, role: str) -> str:
        return self.constant(np.array(value, np.int32), role)

    def sizes(self, x: Operand) -> str:
        """The shape of a tensor at run time."""
        return self.helper("Shape", x, out_type=np.dtype(np.int32))

    def scalar(self, number: float, like: Operand, role: str) -> str:
        """A number of the element type of `like`. Raises CompileError if that type cannot represent it."""
        element = self.graph.elements[like] if isinstance(like, str) else element_of(like)
        with np.errstate(over="ignore", invalid="ignore"):
            array = np.array(number).astype(dtype_named(element))
        if array.dtype.kind in "iub" and array.item() != number:
            raise self.error(f"has the {role} {number}, which {element} cannot hold")
        return self.constant(array, role)

    def cast(self, x: Operand, element: str) -> str:
        """A tensor cast to another element type; unchanged if it already has that."""
        name = self.value(x)
        return name if self.graph.elements[name] == element else self.helper("Cast", name, DstT=dtype_named(element))

    def wide(self, x: Operand) -> str:
        """A tensor in float32, or float64 if it has that type: steps compute in it, and round once."""
        name = self.value(x)
        return self.cast(name, "float64" if self.graph.elements[name] == "float64" else "float32")

    def finish(self, results: Sequence[str]) -> None:
        """Binds the operation's results, and adds the nodes to the graph. An output with its layer's name is the node itself."""
        for value, made in zip(self.op.results, results, strict=True):
            output = self.graph.output(value)
            if output is not None and output == legal_name(self.label):
                made = self._renamed(made, output)
            self.graph.bind(value, made)
        self.flush()

    def flush(self) -> None:
        """Adds the nodes to the graph."""
        self.graph.nodes.extend(self._nodes)
        self._nodes.clear()

    def _renamed(self, made: str, output: str) -> str:
        """The name of a tensor, after its node in this layer got the name of the output."""
        node = next((n for n in self._nodes if n.name == made), None)
        if node is None or any(i.partition(":")[0] == made for n in self._nodes for i in n.input):
            return made
        node.name = output
        self.graph.elements[output] = self.graph.elements[made]
        return output


Written = str | Sequence[str]
"""The name of an operation's result, or one name per result."""

CONVERTERS: Converters[TensorFlowLayer, Written] = {}
"""The converters of `nn`; filled by the modules of the families."""

converter: Register[TensorFlowLayer, Written] = Register(CONVERTERS)


_TAKE_SUB_BYTE = (
    *(nn.QuantizeOp, nn.DequantizeOp, nn.ConcatOp, nn.PadOp),
    *(nn.WhereOp, nn.CompareOp, nn.ReluOp, nn.MinOp, nn.MaxOp),
)
"""Operations besides the passive ones with the same results for integers of 4 or 2 bits in bytes."""


def write_operation(op: Operation, graph: Graph) -> None:
    """Writes the nodes of one operation. Raises CompileError, located, if TensorFlow cannot express it."""
    TensorFlowLayer(graph, op).write(written)


def written(op: Operation, layer: TensorFlowLayer) -> Written:
    """An operation in the nodes of a layer: by its converter if that applies, otherwise by its expansion."""
    try:
        if (convert := layer.graph.form.converters.get(type(op))) is not None:
            takes_sub_byte = isinstance(op, _TAKE_SUB_BYTE) or (isinstance(op, nn.NNOp) and op.is_passive)
            if not takes_sub_byte and any(map(is_sub_byte, (*op.operands, *op.results))):
                raise layer.error("computes with integers of 4 bits or less, which TensorFlow does not")
            return convert(op, layer)
    except Expand:
        pass
    return layer.expanded(op, written)


def transposed(layer: TensorFlowLayer, x: str, perm: tuple[int, ...]) -> str:
    """The output of a Transpose: axis i of it is axis `perm[i]` of `x`."""
    return layer.helper("Transpose", x, layer.ints(perm, "perm"))
