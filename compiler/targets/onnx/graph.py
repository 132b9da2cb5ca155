"""A graph under construction: names of values and nodes, initializers, and the nodes that one operation becomes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np
from onnx import GraphProto, NodeProto, ValueInfoProto, helper
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from ...diagnostics import CompileError, op_error
from ...dialects import nn
from ...dtypes import Tensor, numpy_dtype
from ...rewriting import Remarks
from ...weights import WeightError
from .schema import (
    OPSETS,
    element_name,
    first_opset_taking,
    rejected_output,
    result_elements,
    schema_of,
    type_mismatch,
)

Array = np.ndarray[Any, np.dtype[Any]]

Operand = SSAValue | str | None
"""A value of the module, the name of a value already written, or an absent input."""


SHARED = 1024
"""Arrays of up to this many bytes that converters need (axes, scales) are written once where they are equal."""


class Initializer(NamedTuple):
    name: str
    array: Array


class Names:
    """Hands out names that are each given once."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}

    def unique(self, wanted: str) -> str:
        """`wanted`, or `wanted_1`, `wanted_2`, ... where it is taken. An empty name would mean an absent value."""
        wanted = wanted or "unnamed"
        name, count = wanted, self._taken.get(wanted, 0)
        while name in self._taken:
            count += 1
            name = f"{wanted}_{count}"
        self._taken[wanted] = count
        self._taken.setdefault(name, 0)
        return name


class Graph:
    """Nodes and initializers of one ONNX graph, and the names that the module's values have in it."""

    def __init__(self, opset: int, remarks: Remarks):
        self.opset = opset
        self.remarks = remarks
        self.values = Names()
        self.layers = Names()
        self.nodes: list[NodeProto] = []
        self.initializers: list[Initializer] = []
        self.value_info: list[ValueInfoProto] = []
        self.domains: dict[str, int] = {"": opset}
        self.elements: dict[str, str | None] = {}
        self._names: dict[SSAValue, str] = {}
        self._constants: dict[object, str] = {}
        self._reserved: dict[object, str] = {}

    def declare(self, value: SSAValue, name: str) -> None:
        """Fix the name of a value before anything defines it."""
        self._names[value] = name
        self.elements[name] = element_of(value)

    def declared(self, value: SSAValue) -> str | None:
        return self._names.get(source(value))

    def name(self, value: SSAValue) -> str:
        """The name of a value that is defined; a constant becomes an initializer when first asked for."""
        value = source(value)
        if value not in self._names:
            constant = nn.constant_of(value)
            assert constant is not None, f"{value} is used before it is written"
            self._names[value] = self._weight(constant)
        return self._names[value]

    def reserve_weights(self, block: Block) -> None:
        """Keep the weights' keys for the weights, before intermediate values can take them."""
        for op in flat(block):
            for operand in op.operands:
                constant = nn.constant_of(source(operand))
                if constant is not None and constant.value not in self._reserved:
                    self._reserved[constant.value] = self.values.unique(constant.key)

    def _weight(self, constant: nn.ConstantOp) -> str:
        if constant.value not in self._constants:
            name = self._reserved.get(constant.value) or self.values.unique(constant.key)
            self._constants[constant.value] = self._add(constant.array, name)
        return self._constants[constant.value]

    def constant(self, array: Array, layer: str, role: str, owner: object = None) -> str:
        """An initializer that a converter needs. Small ones of one role and owner that are equal are written once."""
        shared = array.nbytes <= SHARED
        identity = (role, owner, array.dtype.name, array.shape, array.tobytes()) if shared else object()
        if identity not in self._constants:
            self._constants[identity] = self._add(array, self.values.unique(f"{layer}/{role}"))
        return self._constants[identity]

    def _add(self, array: Array, name: str) -> str:
        self.elements[name] = element_name(array.dtype.name)
        self.initializers.append(Initializer(name, array))
        return name

    def bind(self, value: SSAValue, name: str) -> None:
        self._names[value] = name

    def proto(self, name: str, inputs: Sequence[ValueInfoProto], outputs: Sequence[ValueInfoProto]) -> GraphProto:
        """The graph without its initializers."""
        ends = {v.name for v in (*inputs, *outputs)}
        info = [v for v in self.value_info if v.name not in ends]
        return helper.make_graph(self.nodes, name, inputs, outputs, value_info=info)


@dataclass
class Layer:
    """The nodes that one operation becomes. Value names are provisional until `finish` gives them theirs."""

    graph: Graph
    op: Operation

    def __post_init__(self) -> None:
        self.label = self._label()
        self._nodes: list[NodeProto] = []
        self._outputs: dict[str, str] = {}

    def _label(self) -> str:
        """The source layer's name, else the result's, else the kind of operation."""
        origin = self.op.properties.get("origin")
        if isinstance(origin, nn.OriginAttr) and origin.layer.data:
            return origin.layer.data
        hints = (r.name_hint for r in self.op.results if r.name_hint)
        return next(hints, self.op.name.partition(".")[2])

    @property
    def opset(self) -> int:
        return self.graph.opset

    def node(self, op_type: str, *inputs: Operand, **attributes: Any) -> str:
        """A node that bears the layer's name, and its one output. Attributes that are None are left out."""
        return self.emit(op_type, inputs, attributes, self.label)[0]

    def helper(self, op_type: str, *inputs: Operand, **attributes: Any) -> str:
        """A node beside the one that bears the layer's name."""
        return self.emit(op_type, inputs, attributes, f"{self.label}/{op_type}")[0]

    def emit(
        self, op_type: str, inputs: Sequence[Operand], attributes: Mapping[str, Any], name: str, outputs: int = 1
    ) -> list[str]:
        """A node of ONNX's own domain, with its element types checked against the opset. Raises CompileError, located."""
        names = self._names_of(inputs)
        present = {k: v for k, v in attributes.items() if v is not None}
        results = self._checked(op_type, names, present)
        made = [self._provisional(results[min(i, len(results) - 1)]) for i in range(outputs)]
        self.add(helper.make_node(op_type, names, made, **present), name)
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
        """The name of an operand, empty for an absent one."""
        if operand is None:
            return ""
        return operand if isinstance(operand, str) else self.graph.name(operand)

    def _provisional(self, element: str | None) -> str:
        name = f"\0{len(self._outputs)}"
        self._outputs[name] = name
        self.graph.elements[name] = element
        return name

    def provisional(self, value: SSAValue) -> str:
        """A provisional name for an output of the type of `value`."""
        return self._provisional(element_of(value))

    def _checked(self, op_type: str, names: Sequence[str], attributes: Mapping[str, object]) -> list[str | None]:
        """The element types of the outputs. Raises CompileError where the opset does not take those of the inputs."""
        schema = schema_of(op_type, self.opset)
        assert schema is not None, f"opset {self.opset} has no {op_type}"
        elements = [self.graph.elements.get(n) for n in names]
        results = result_elements(schema, elements, attributes)
        problem = type_mismatch(schema, elements) or rejected_output(schema, results[0])
        if problem is not None:
            opset = first_opset_taking(op_type, elements, attributes)
            raise self.error(f"becomes ONNX {op_type}, which in opset {self.opset} {problem}", opset_hint(opset))
        return results

    def constant(self, array: Array, role: str, owner: object = None) -> str:
        """An initializer; equal ones of one role are shared, with an `owner` only among those of equal owners."""
        return self.graph.constant(array, self.label, role, owner)

    def ints(self, values: Sequence[int], role: str) -> str:
        """An initializer of int64, as shapes and axes are."""
        return self.constant(np.array(values, np.int64), role)

    def scalar(self, number: float, like: SSAValue, role: str) -> str:
        """A number as a tensor of no axes, of the element type of `like`. Raises CompileError where that type cannot hold it."""
        dtype = numpy_dtype(cast(Tensor, like.type).element_type)
        with np.errstate(over="ignore", invalid="ignore"):
            array = np.array(number).astype(dtype)
        if dtype.kind in "iub" and array.item() != number:
            raise self.error(f"has the {role} {number}, which {dtype} cannot hold")
        return self.constant(array, role)

    def require(self, opset: int, what: str) -> None:
        """Raises CompileError when the opset is older than `opset`, which brought `what`."""
        if self.opset < opset:
            raise self.error(f"needs {what}, which opset {self.opset} does not have", opset_hint(opset))

    def error(self, message: str, hint: str = "") -> CompileError:
        return op_error(self.op, message, hint)

    def note(self, rule: str, reason: str) -> None:
        self.graph.remarks.note(self.op, rule, reason)

    def finish(self, results: Sequence[str]) -> None:
        """Name what the operation's results became, then everything in between, and hand the nodes to the graph."""
        graph = self.graph
        final: dict[str, str] = {}
        for value, made in zip(self.op.results, results, strict=True):
            wanted = graph.declared(value)
            if made not in self._outputs or made in final:
                made = self.helper("Identity", made) if wanted is not None else final.get(made, made)
            if made in self._outputs:
                final[made] = graph.values.unique(value.name_hint or self.label) if wanted is None else wanted
                graph.value_info.append(value_info(value, final[made]))
            graph.bind(value, final.get(made, made))
        for node in self._nodes:
            for name in node.output:
                if name in self._outputs and name not in final:
                    final[name] = graph.values.unique(f"{node.name}_out")
            renamed = [final.get(n, n) for n in node.input], [final.get(n, n) for n in node.output]
            node.input[:], node.output[:] = renamed
        for provisional in self._outputs:
            graph.elements[final[provisional]] = graph.elements.pop(provisional)
        graph.nodes.extend(self._nodes)


def opset_hint(opset: int | None) -> str:
    return "" if opset is None else f"write a newer opset: -t 'onnx{{opset={opset}}}'"


def flat(block: Block) -> Iterator[Operation]:
    """The operations that compute, regions of nn.fused taken apart, without observers, constants and terminators."""
    for op in block.ops:
        if isinstance(op, nn.FusedOp):
            yield from flat(op.body.block)
        elif op is not block.last_op and not isinstance(op, nn.ConstantOp | nn.ObserveOp):
            yield op


def source(value: SSAValue) -> SSAValue:
    """The value behind observers and the borders of fused regions."""
    while True:
        owner = value.owner
        if isinstance(value, BlockArgument):
            parent = value.block.parent_op()
            if not isinstance(parent, nn.FusedOp):
                return value
            value = parent.inputs[value.index]
        elif isinstance(owner, nn.FusedOp):
            value = owner.terminator.value
        elif isinstance(owner, nn.ObserveOp):
            value = owner.input
        else:
            return value


def element_of(value: SSAValue) -> str:
    """ONNX's name of a value's element type."""
    return element_name(numpy_dtype(cast(Tensor, value.type).element_type).name)


def value_info(value: SSAValue, name: str, dims: Sequence[str] = ()) -> ValueInfoProto:
    """Type and shape of a value; sizes that are not known bear their names in `dims`, or nothing."""
    type_ = cast(Tensor, value.type)
    named = [*dims, *[""] * (type_.get_num_dims() - len(dims))]
    shape = [(n or None) if d == DYNAMIC_INDEX else d for d, n in zip(type_.get_shape(), named, strict=True)]
    code = helper.np_dtype_to_tensor_dtype(numpy_dtype(type_.element_type))
    return helper.make_tensor_value_info(name, code, shape)


_Op = TypeVar("_Op", bound=Operation)

Convert = Callable[[Any, Layer], "str | Sequence[str]"]
"""Writes the nodes of an operation into a layer; gives the name of its result, or one name per result."""

CONVERTERS: dict[type[Operation], Convert] = {}
"""How each operation is written; filled by the modules of the families."""


def converter(
    *ops: type[_Op],
) -> Callable[[Callable[[_Op, Layer], str | Sequence[str]]], Callable[[_Op, Layer], str | Sequence[str]]]:
    """Registers a converter for these operation classes."""

    def register(convert: Callable[[_Op, Layer], str | Sequence[str]]) -> Callable[[_Op, Layer], str | Sequence[str]]:
        for op in ops:
            CONVERTERS[op] = cast(Convert, convert)
        return convert

    return register


def write_operation(op: Operation, graph: Graph) -> None:
    """The nodes of one operation. Raises CompileError, located, for what the opset, or ONNX, cannot hold."""
    layer = Layer(graph, op)
    if (convert := CONVERTERS.get(type(op))) is None:
        raise layer.error("has no form in ONNX", _other_target(op))
    try:
        results = convert(op, layer)
    except WeightError as e:
        raise layer.error(f"cannot be written: {e}") from None
    layer.finish([results] if isinstance(results, str) else results)


def _other_target(op: Operation) -> str:
    if op.name.startswith("ascend."):
        return f"target onnx writes nn within opset {OPSETS[0]} to {OPSETS[-1]}; -t mlir holds every dialect"
    return "-t mlir holds every dialect"
