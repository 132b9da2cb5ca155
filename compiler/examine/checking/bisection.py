"""Finds the first layer where two models part, whatever their formats and stages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ...dialects.ascend import AscendOp
from ...dialects.nn import DequantizeFloatOp, DequantizeOp, QuantizeFloatOp, QuantizeOp, array_of
from ...dialects.nn.shapes import element_of, shape_of, static, tensor_of
from ...ir.dtypes import is_float
from ...ir.functions import input_names, main_function
from ...runtime.boundary import in_reals
from ...runtime.comparison import common_layers, matched_inputs
from ...runtime.executor import Executable, check_input
from ...runtime.kernels import Array
from ...support.diagnostics import CompileError
from ...support.tables import Table, Tabled, grouped
from .following import WEIGHT_STEPS, Analysis, FollowedLayer, Follower, Graph, in_any_order

Inputs = Mapping[str, Array]

RUNS = 2
"""Number of runs that are compared, or of samples in one run."""


@dataclass(frozen=True, repr=False)
class Bisection(Tabled):
    """The result of `bisect`: layers that both have, in the order of the second, each computed from the first's values."""

    layers: Sequence[FollowedLayer]
    first: FollowedLayer | None
    """The first layer that parts: its difference is more than its operations explain. None if there is none."""
    quantized: bool
    """Whether one of the two is quantized and the other is not: rounding to integers is then part of what is explained."""
    not_compared: Mapping[str, str]
    """Layers that only one of the two has, or whose values are of different kinds, with the reason."""
    hint: str = ""
    """Advice for the case that the first layer that parts has float weights that differ."""

    def __repr__(self) -> str:
        parting = "nothing parts" if self.first is None else f"parts at {self.first.name}"
        return f"Bisection({len(self.layers)} layers, {parting})"

    def tables(self) -> Sequence[Table]:
        """The layers, and those that could not be compared, if there are any."""
        headers = ("layer", "operation", "difference", "explained", "")
        rows = [(x.name, x.op, f"{x.largest:.3g}", f"{x.bound:.3g}", x.verdict) for x in self.layers]
        found = [Table("layers", headers, rows)]
        if self.not_compared:
            found.append(Table("not compared", ("what", "why"), grouped(self.not_compared)))
        return found


def bisect(a: ModuleOp, b: ModuleOp, runs: Sequence[Inputs], engine: Callable[[ModuleOp], Graph] = Graph) -> Bisection:
    """Runs `a`, then every layer of `b` on the values of `a`. Layers are matched by their names in the source.

    Inputs and outputs whose names differ are matched by their order; those that are floats in `a` and integers with a scale in
    `b` are floats here. `engine` runs `a`. Raises CompileError for inputs that do not fit or that `a` does not have, for
    operations that cannot be run, and if the two have neither a layer nor an output in common.
    """
    names = matched_inputs(a, b)
    b = in_reals(b, a)
    first, second = engine(a), Graph(b)
    common, alone, absorbed = common_layers(a, b)
    pairs = {n: (x, y) for n, (x, y) in common.items() if is_float(element_of(x)) == is_float(element_of(y))}
    apart = {n: "is of integers in one, of floats in the other" for n in common if n not in pairs}
    apart |= {n: "merged into another layer" if n in absorbed else f"is in {where} only" for n, where in alone.items()}
    slots = {second.slots[y]: first.slots[x] for x, y in pairs.values()}
    layers = {second.slots[y]: name for name, (_, y) in pairs.items()}
    outputs = _matched(first.outputs, second.outputs)
    layers |= {slot: name for name, slot in second.outputs.items() if slot not in layers}
    if not slots and not outputs:
        raise CompileError("the two have neither a layer nor an output in common")
    quantized = _is_quantized(a) != _is_quantized(b)
    steps = WEIGHT_STEPS if quantized else None
    follower = Follower(second, layers, in_any_order, steps=steps, measured=True)
    apart |= dict.fromkeys((n for n in first.inputs if n not in names.values()), "is an input of the first only")
    for inputs in runs:
        _check(a, inputs)
        values = first.trace(inputs)
        analysis = Analysis(first, values, set(slots.values()), steps=steps)
        given = {slot: values[other] for slot, other in slots.items()}
        expected = {slot: values[other] for slot, other in outputs.items()}
        errors = {**outputs, **slots}
        arrays = {name: values[first.inputs[names[name]]] for name in second.inputs}
        fitting = {name: _fitting(name, array, b) for name, array in arrays.items()}
        follower.follow(fitting, given, lambda slot, of=analysis, to=errors: of.error(to[slot]), expected)
    parting = follower.first()
    differ = parting is not None and not quantized and parting.name in pairs and _weights_differ(*pairs[parting.name])
    return Bisection(tuple(follower.found.values()), parting, quantized, apart, _SIMULATED if differ else "")


_SIMULATED = "its weights differ: a file of simulated number formats, or of hif8, is compared as its module, *_nn.mlir"


def _weights_differ(a: SSAValue, b: SSAValue) -> bool:
    """Whether the float constants that two layers read are different numbers in the same shapes."""
    ours, theirs = ([array_of(v) for v in cast(Operation, each.owner).operands] for each in (a, b))
    both = [(x, y) for x, y in zip(ours, theirs, strict=False) if x is not None and y is not None]
    return any(x.shape == y.shape and x.ndim > 1 and not np.array_equal(x, y) for x, y in both)


def few(runs: Sequence[Inputs], function: FuncOp, batch: int | None) -> list[Inputs]:
    """The first runs; of a run whose number of samples the model leaves open, and nobody gave, the first samples."""
    chosen = runs[:RUNS]
    arguments = function.body.block.args
    if batch is None and all(shape_of(a)[:1] and not static(shape_of(a)[:1]) for a in arguments):
        return [{name: array[:RUNS] for name, array in chosen[0].items()}]
    return list(chosen)


def _matched(first: Mapping[str, int], second: Mapping[str, int]) -> dict[int, int]:
    """Slots of outputs of the first by those of the second: by name, or by order if no name is the same."""
    if shared := [name for name in second if name in first]:
        return {second[name]: first[name] for name in shared}
    return dict(zip(second.values(), first.values(), strict=True)) if len(first) == len(second) else {}


def _is_quantized(module: ModuleOp) -> bool:
    points = QuantizeOp, QuantizeFloatOp, DequantizeOp, DequantizeFloatOp
    return any(isinstance(op, points) or (isinstance(op, AscendOp) and "Quant" in op.name) for op in module.walk())


def _check(module: ModuleOp, inputs: Inputs) -> None:
    """Raises RunError if the inputs do not fit."""
    Executable(module).ordered(inputs)


def _fitting(name: str, array: Array, module: ModuleOp) -> Array:
    """The input in the layout of the second module, whose channels may be last. Raises RunError if it takes another shape."""
    function = main_function(module)
    argument = dict(zip(input_names(function), function.body.block.args, strict=True))[name]
    wanted = shape_of(argument)
    orders = [(0, *range(2, array.ndim), 1), (0, array.ndim - 1, *range(1, array.ndim - 1))] if array.ndim > 2 else []
    if len(wanted) == array.ndim and not _fits(array.shape, wanted):
        for order in orders:
            if _fits(tuple(array.shape[i] for i in order), wanted):
                array = np.ascontiguousarray(array.transpose(order))
                break
    check_input(name, array, tensor_of(argument))
    return array


def _fits(shape: Sequence[int], wanted: Sequence[int]) -> bool:
    return all(n == w or not static([w]) for n, w in zip(shape, wanted, strict=True))
