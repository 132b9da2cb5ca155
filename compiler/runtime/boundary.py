"""Replaces integers that a quantized graph takes and gives, such as those of a decoder's cache in int8, by reals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from xdsl.dialects.builtin import ModuleOp, i8
from xdsl.ir import Attribute, Operation, OpResult, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from ..dialects.ascend import AscendAntiQuantOp, AscendQuantOp
from ..dialects.nn import DequantizeOp, QParams, QParamsAttr, QuantizeOp
from ..dialects.nn.shapes import element_of, shape_of, tensor
from ..ir.array import Array
from ..ir.dtypes import is_float, numpy_dtype
from ..ir.functions import body, input_names, main_function, output_names, return_op
from .executor import Watch
from .kernels.quantization import dequantizer, quantizer

Convert = Callable[[Array], Array]


class Watched(Protocol):
    """A module that is ready to run, and shows watched values."""

    @property
    def outputs(self) -> Sequence[str]: ...

    def run(self, inputs: Mapping[str, Array], watch: Watch | None = None, /) -> dict[str, Array]:
        """Arrays by output name. Raises CompileError."""
        ...


@dataclass(frozen=True)
class Boundary:
    """Conversions from reals to inputs of integers, and from outputs of integers to reals, by name."""

    to_integers: Mapping[str, Convert] = field(default_factory=dict[str, Convert])
    to_reals: Mapping[str, Convert] = field(default_factory=dict[str, Convert])

    def integers(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Inputs of the float model in the form of the quantized graph."""
        return _converted(inputs, self.to_integers)

    def reals(self, outputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs of the quantized graph in the form of the float model."""
        return _converted(outputs, self.to_reals)


@dataclass(frozen=True)
class InReals:
    """A quantized module that takes and gives the inputs and outputs of the float model."""

    module: Watched
    boundary: Boundary

    @property
    def outputs(self) -> Sequence[str]:
        return self.module.outputs

    def run(self, inputs: Mapping[str, Array], watch: Watch | None = None, /) -> dict[str, Array]:
        """Arrays by output name, for inputs of the float model. Watched values are the module's own."""
        return self.boundary.reals(self.module.run(self.boundary.integers(inputs), watch))


def boundary_of(quantized: ModuleOp, model: ModuleOp) -> Boundary:
    """The conversions for the inputs and outputs of a quantized module that are floats in the float model.

    An input of integers is one that the graph dequantizes, an output one that it quantizes, by one scale.
    """
    to_integers, to_reals = _integer_inputs(quantized, model), _integer_outputs(quantized, model)
    return Boundary(
        {name: quantizer(p.storage, p.scales(), p.zero_points()) for name, (_, _, p) in to_integers.items()},
        {name: dequantizer(numpy_dtype(t), p.scales(), p.zero_points()) for name, (_, t, p) in to_reals.items()},
    )


def in_reals(quantized: ModuleOp, model: ModuleOp) -> ModuleOp:
    """The module with a boundary of floats where the float model has one: it quantizes its inputs and dequantizes its outputs. A
    copy, unless there are none of integers.
    """
    if not _integer_inputs(quantized, model) and not _integer_outputs(quantized, model):
        return quantized
    module = quantized.clone()
    function = main_function(module)
    for argument, type_, params in _integer_inputs(module, model).values():
        shape, uses = shape_of(argument), list(argument.uses)
        real = Rewriter.replace_value_with_new_type(argument, tensor(type_, shape))
        made = QuantizeOp.make(real, qparams=QParamsAttr(params), location=function.location)
        Rewriter.insert_op(made, InsertPoint.at_start(body(function)))
        for use in uses:
            use.operation.operands[use.index] = made.result
    ends = return_op(function)
    for name, (value, type_, params) in _integer_outputs(module, model).items():
        types = [tensor(type_, shape_of(value))]
        given = DequantizeOp.make(value, qparams=QParamsAttr(params), result_types=types, location=ends.location)
        Rewriter.insert_op(given, InsertPoint.before(ends))
        ends.operands[output_names(function).index(name)] = given.result
    function.update_function_type()
    return module


Bound = tuple[SSAValue, Attribute, QParams]
"""A value of integers at the boundary, the type of floats that it has in the float model, and the parameters of the integers."""


def _integer_inputs(quantized: ModuleOp, model: ModuleOp) -> dict[str, Bound]:
    given = _inputs(model)
    found: dict[str, Bound] = {}
    for name, value in _inputs(quantized).items():
        params = next((p for use in value.uses if (p := _dequantized_by(use.operation)) is not None), None)
        if params is not None and name in given and is_float(type_ := element_of(given[name])):
            found[name] = value, type_, params
    return found


def _integer_outputs(quantized: ModuleOp, model: ModuleOp) -> dict[str, Bound]:
    wanted = _outputs(model)
    found: dict[str, Bound] = {}
    for name, value in _outputs(quantized).items():
        params = _quantized_by(value.owner) if isinstance(value, OpResult) else None
        if params is not None and name in wanted and is_float(type_ := element_of(wanted[name])):
            found[name] = value, type_, params
    return found


def _dequantized_by(op: Operation) -> QParams | None:
    """The parameters of an operation that dequantizes by one scale; None for any other."""
    if isinstance(op, DequantizeOp):
        return op.qparams.data if op.qparams.data.axis is None else None
    if isinstance(op, AscendAntiQuantOp) and not op.sqrt_mode.value.data:
        return QParams(i8, (op.scale.value.data,), (-int(op.offset.value.data),))
    return None


def _quantized_by(op: Operation) -> QParams | None:
    """The parameters of an operation that quantizes by one scale; None for any other."""
    if isinstance(op, QuantizeOp):
        return op.qparams.data if op.qparams.data.axis is None else None
    if isinstance(op, AscendQuantOp) and not op.sqrt_mode.value.data:
        return QParams(op.storage, (1 / op.scale.value.data,), (int(op.offset.value.data),))
    return None


def _inputs(module: ModuleOp) -> dict[str, SSAValue]:
    function = main_function(module)
    return dict(zip(input_names(function), function.body.block.args, strict=True))


def _outputs(module: ModuleOp) -> dict[str, SSAValue]:
    function = main_function(module)
    return dict(zip(output_names(function), return_op(function).operands, strict=True))


def _converted(arrays: Mapping[str, Array], by: Mapping[str, Convert]) -> dict[str, Array]:
    return {name: by[name](array) if name in by else array for name, array in arrays.items()}
