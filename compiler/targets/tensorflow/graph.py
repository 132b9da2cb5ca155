"""A GraphDef under construction: its nodes, and the names of the module's values in it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...dialects import nn
from ...dialects.nn.shapes import element_of as mlir_element_of
from ...formats.tensorflow.attributes import make_node
from ...formats.tensorflow.file import Const
from ...formats.tensorflow.schema import Message
from ...ir.dtypes import AS_BYTES, has_numpy_dtype, numpy_dtype
from ...ir.unique_names import Names
from ...ir.weights import WeightError
from ...rewriting import Remarks
from ...support.diagnostics import op_error
from ..graph import identity_of, source

Array = np.ndarray[Any, np.dtype[Any]]

SHARED = 1024
"""Largest size in bytes of equal arrays that converters need (axes, scales) and that are written only once."""

_ILLEGAL = re.compile(r"[^A-Za-z0-9_./>-]")
_NO_START = "_/>-"


def legal_name(name: str) -> str:
    """A legal name in TensorFlow, `[A-Za-z0-9.][A-Za-z0-9_./>-]*`: other characters become `_`, which is never the first."""
    return _ILLEGAL.sub("_", name.removesuffix(":0")).lstrip(_NO_START) or "unnamed"


@dataclass(frozen=True)
class Form:
    """The form that a target writes: the converter of each operation, and the names of constants."""

    converters: Mapping[type[Operation], Callable[[Any, Any], str | Sequence[str]]]
    weight_name: Callable[[str], str] = str
    """Maps a constant's key to the name of the node."""
    fake_quant: bool = False
    """Whether grids are written as FakeQuant nodes if possible."""


class Graph:
    """Nodes of one GraphDef in topological order, and the names of the module's values in it."""

    def __init__(self, remarks: Remarks, form: Form):
        self.remarks = remarks
        self.form = form
        self.names: Names = Names()
        self.nodes: list[Message | Const] = []
        self.elements: dict[str, str] = {}
        self.on_grid: dict[SSAValue, str] = {}
        """Integers that are not written, each with the node of their reals."""
        self.weights: dict[object, str] = {}
        """The reals of constants of integers, by operation and order of axes."""
        self._names: dict[SSAValue, str] = {}
        self._outputs: dict[SSAValue, str] = {}
        self._stored: dict[object, str] = {}

    def unique(self, wanted: str) -> str:
        return self.names.unique(legal_name(wanted))

    def declare_output(self, value: SSAValue, name: str) -> None:
        """Reserves a name for a value."""
        self._outputs.setdefault(value, name)

    def output(self, value: SSAValue) -> str | None:
        return self._outputs.get(value)

    def bind(self, value: SSAValue, name: str) -> None:
        self._names[value] = name

    def bound(self, value: SSAValue) -> str | None:
        """The name of a written value; a constant is written at the first request."""
        value = source(value)
        if value not in self._names and (constant := nn.constant_of(value)) is not None:
            self._names[value] = self.stored(constant)
        return self._names.get(value)

    def stored(self, constant: nn.ConstantOp, perm: tuple[int, ...] = (), shape: tuple[int, ...] | None = None) -> str:
        """A constant, transposed and then reshaped. Raises CompileError if its array is missing."""
        identity = identity_of(constant), perm, shape
        if identity not in self._stored:
            array = array_of(constant)
            array = array.transpose(perm) if perm else array
            self._stored[identity] = self.add_constant(array if shape is None else array.reshape(shape), constant.key)
        return self._stored[identity]

    def add(self, op_type: str, inputs: Sequence[str], attributes: Mapping[str, Any], name: str) -> None:
        """Adds a node under a reserved name."""
        self.nodes.append(make_node(op_type, inputs, attributes, name))

    def constant(self, array: Array, name: str, role: str) -> str:
        """An array that a converter needs. Small ones of one role that are equal are written once."""
        identity = (role, array.dtype.name, array.shape, array.tobytes()) if array.nbytes <= SHARED else object()
        if identity not in self._stored:
            self._stored[identity] = self.add_constant(array, f"{name}/{role}")
        return self._stored[identity]

    def add_constant(self, array: Array, name: str) -> str:
        name, held = self.unique(self.form.weight_name(name)), AS_BYTES.get(array.dtype.name, array.dtype.name)
        array = array if array.dtype.name == held else array.astype(held)
        self.elements[name] = held
        self.nodes.append(Const(name, array))
        return name


def array_of(constant: nn.ConstantOp) -> Array:
    """The numbers of a constant. Raises CompileError, located, if they are missing."""
    try:
        return constant.array
    except WeightError as e:
        raise op_error(constant, f"cannot be written: {e}") from None


def element_of(value: SSAValue) -> str:
    """numpy's name of the element type of a value in TensorFlow."""
    name = numpy_dtype(mlir_element_of(value)).name
    return AS_BYTES.get(name, name)


def is_sub_byte(value: SSAValue) -> bool:
    """Whether a value has integers of 4 or 2 bits, which become bytes: TensorFlow does not compute with them."""
    element = mlir_element_of(value)
    return has_numpy_dtype(element) and numpy_dtype(element).name in AS_BYTES


def stored_quantized(op: Operation) -> nn.ConstantOp | None:
    """The integers of a weight: the constant that an nn.dequantize turns into reals."""
    return nn.constant_of(source(op.input)) if isinstance(op, nn.DequantizeOp) else None


def quantized_weight(value: SSAValue) -> nn.DequantizeOp | None:
    """The nn.dequantize of a constant that gives a value."""
    op = source(value).owner
    return cast(nn.DequantizeOp, op) if isinstance(op, Operation) and stored_quantized(op) is not None else None


def is_weight(value: SSAValue) -> bool:
    """Whether a value is a constant, or the reals of one of integers."""
    return nn.constant_of(source(value)) is not None or quantized_weight(value) is not None
