"""Reals in place of the integers that a quantized graph takes and gives, such as those of a decoder's cache in int8."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import OpResult, SSAValue

from ..dialects.nn import DequantizeOp, QuantizeOp
from ..dialects.nn.shapes import element_of
from ..ir.array import Array
from ..ir.dtypes import is_float, numpy_dtype
from ..ir.functions import input_names, main_function, output_names, return_op
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
    """How inputs of integers come from reals, and reals from outputs of integers, by name."""

    to_integers: Mapping[str, Convert] = field(default_factory=dict[str, Convert])
    to_reals: Mapping[str, Convert] = field(default_factory=dict[str, Convert])

    def integers(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """Inputs of the float model as the quantized graph takes them."""
        return _converted(inputs, self.to_integers)

    def reals(self, outputs: Mapping[str, Array]) -> dict[str, Array]:
        """Outputs of the quantized graph as the float model gives them."""
        return _converted(outputs, self.to_reals)


@dataclass(frozen=True)
class InReals:
    """A quantized module that takes and gives what the float model does."""

    module: Watched
    boundary: Boundary

    @property
    def outputs(self) -> Sequence[str]:
        return self.module.outputs

    def run(self, inputs: Mapping[str, Array], watch: Watch | None = None, /) -> dict[str, Array]:
        """Arrays by output name, for inputs of the float model. Watched values are the module's own."""
        return self.boundary.reals(self.module.run(self.boundary.integers(inputs), watch))


def boundary_of(quantized: ModuleOp, model: ModuleOp) -> Boundary:
    """How the inputs and outputs of a quantized `nn` module stand for those that are floats in the float model.

    An input of integers is one that the graph dequantizes, an output one that it quantizes, by one scale.
    """
    given, wanted = _inputs(model), _outputs(model)
    to_integers: dict[str, Convert] = {}
    for name, value in _inputs(quantized).items():
        real = next((use.operation for use in value.uses if isinstance(use.operation, DequantizeOp)), None)
        if real is not None and real.qparams.data.axis is None and name in given and is_float(element_of(given[name])):
            params = real.qparams.data
            to_integers[name] = quantizer(params.storage, params.scales(), params.zero_points())
    to_reals: dict[str, Convert] = {}
    for name, value in _outputs(quantized).items():
        made = value.owner if isinstance(value, OpResult) else None
        if isinstance(made, QuantizeOp) and made.qparams.data.axis is None and name in wanted:
            params, type_ = made.qparams.data, element_of(wanted[name])
            if is_float(type_):
                to_reals[name] = dequantizer(numpy_dtype(type_), params.scales(), params.zero_points())
    return Boundary(to_integers, to_reals)


def _inputs(module: ModuleOp) -> dict[str, SSAValue]:
    function = main_function(module)
    return dict(zip(input_names(function), function.body.block.args, strict=True))


def _outputs(module: ModuleOp) -> dict[str, SSAValue]:
    function = main_function(module)
    return dict(zip(output_names(function), return_op(function).operands, strict=True))


def _converted(arrays: Mapping[str, Array], by: Mapping[str, Convert]) -> dict[str, Array]:
    return {name: by[name](array) if name in by else array for name, array in arrays.items()}
