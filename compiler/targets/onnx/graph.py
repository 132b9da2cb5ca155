"""A graph under construction: its nodes and initializers, and the names of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from onnx import GraphProto, NodeProto, ValueInfoProto, helper
from xdsl.dialects.builtin import DYNAMIC_INDEX
from xdsl.ir import Block, Operation, SSAValue

from ...dialects import nn
from ...formats.onnx.file import Initializer
from ...formats.onnx.schema import element_name
from ...ir.dtypes import Tensor, numpy_dtype
from ...ir.unique_names import Names
from ...ir.weights import WeightError
from ...rewriting import Remarks
from ...support.diagnostics import CompileError, op_error
from ..graph import flat, identity_of, source

Array = np.ndarray[Any, np.dtype[Any]]

SHARED = 1024
"""Largest size in bytes of equal arrays that converters need (axes, scales) and that are written only once."""


class OpsetError(CompileError):
    """Raised for an operation that the opset of the file cannot express; `newer` is the first later one that can, None
    if there is none.
    """

    def __init__(self, op: Operation, message: str, newer: int | None, hint: str):
        self.op = op
        self.reason = message
        self.newer = newer
        located = op_error(op, message, hint)
        super().__init__(located.message, where=located.where, hint=located.hint)


@dataclass(frozen=True)
class Form:
    """The form that a target writes: its opsets, the converters of operations, the names of arrays."""

    target: str
    opsets: range
    converters: Mapping[type[Operation], Callable[[Any, Any], str | Sequence[str | None]]]
    weight_name: Callable[[str], str] = str
    """Maps a constant's key to the name of the initializer."""
    inputs_are_nodes: bool = False
    """Whether a node must not have the name of an input."""


class Graph:
    """Nodes and initializers of one ONNX graph, and the names of the module's values in it."""

    def __init__(self, form: Form, opset: int, remarks: Remarks):
        self.form = form
        self.opset = opset
        self.remarks = remarks
        self.values: Names = Names()
        self.layers: Names = Names()
        self.nodes: list[NodeProto] = []
        self.initializers: list[Initializer] = []
        self.value_info: list[ValueInfoProto] = []
        self.domains: dict[str, int] = {"": opset}
        self.elements: dict[str, str | None] = {}
        self.bits: dict[SSAValue, int | None] = {}
        """The width of the integers of a value, as far as layers asked for it; None for a float value."""
        self._names: dict[SSAValue, str] = {}
        self._constants: dict[object, str] = {}
        self._reserved: dict[object, str] = {}

    def declare(self, value: SSAValue, name: str) -> None:
        """Fixes the name of a value before its definition."""
        self._names[value] = name
        self.elements[name] = element_of(value)

    def declared(self, value: SSAValue) -> str | None:
        return self._names.get(source(value))

    def name(self, value: SSAValue) -> str:
        """The name of a defined value; a constant becomes an initializer at the first request."""
        value = source(value)
        if value not in self._names:
            constant = nn.constant_of(value)
            assert constant is not None, f"{value} is used before it is written"
            self._names[value] = self._weight(constant)
        return self._names[value]

    def reserve_constants(self, block: Block) -> None:
        """Reserves the constants' keys, before intermediate values can take them."""
        operands = [v for op in flat(block) for v in op.operands]
        if block.last_op is not None:
            operands += block.last_op.operands
        for operand in operands:
            constant = nn.constant_of(source(operand))
            if constant is not None and identity_of(constant) not in self._reserved:
                name = self.form.weight_name(constant.key)
                self._reserved[identity_of(constant)] = self.values.unique(name)

    def _weight(self, constant: nn.ConstantOp) -> str:
        identity = identity_of(constant)
        if identity not in self._constants:
            try:
                self._constants[identity] = self._add(constant.array, self._reserved[identity])
            except WeightError as e:
                raise op_error(constant, f"cannot be written: {e}") from None
        return self._constants[identity]

    def constant(self, array: Array, layer: str, role: str, owner: object = None) -> str:
        """An initializer that a converter needs. Small ones of one role and owner that are equal are written once."""
        shared = array.nbytes <= SHARED
        identity = (role, owner, array.dtype.name, array.shape, array.tobytes()) if shared else object()
        if identity not in self._constants:
            self._constants[identity] = self._add(array, self.values.unique(f"{layer}/{role}"))
        return self._constants[identity]

    def add_constant(self, array: Array, name: str) -> str:
        return self._add(array, self.values.unique(name))

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


def element_of(value: SSAValue) -> str:
    """ONNX's name of a value's element type."""
    return element_name(numpy_dtype(cast(Tensor, value.type).element_type).name)


def value_info(value: SSAValue, name: str, dims: Sequence[str] = ()) -> ValueInfoProto:
    """Type and shape of a value; unknown sizes have their names in `dims`, if any."""
    type_ = cast(Tensor, value.type)
    named = [*dims, *[""] * (type_.get_num_dims() - len(dims))]
    shape = [(n or None) if d == DYNAMIC_INDEX else d for d, n in zip(type_.get_shape(), named, strict=True)]
    code = helper.np_dtype_to_tensor_dtype(numpy_dtype(type_.element_type))
    return helper.make_tensor_value_info(name, code, shape)
