"""Compares two modules on the same inputs: their outputs, and the values of common layers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.ir import Operation, SSAValue

from ..dialects.nn import OriginAttr, WeightedOp, is_layer
from ..dialects.nn.shapes import element_of
from ..ir.array import Array
from ..ir.dtypes import Tensor, is_float
from ..ir.functions import body, input_names, main_function
from ..support.diagnostics import CompileError
from ..support.tables import Table, Tabled, grouped
from .boundary import InReals, Watched, boundary_of
from .executor import Executable
from .metrics import EXPLAINED, Difference, Differences

Engine = Callable[[ModuleOp, Sequence[SSAValue]], Watched]
"""Prepares a module, some values of which are watched."""


_COLUMNS = ("SQNR dB", "cosine", "largest difference", "differing")


@dataclass(frozen=True, repr=False)
class Comparison(Tabled):
    """The result of `compare`. `not_compared` has the reasons for outputs and layers that are in one module only or do not
    match.
    """

    outputs: Mapping[str, Difference]
    layers: Mapping[str, Difference] = field(default_factory=dict[str, Difference])
    not_compared: Mapping[str, str] = field(default_factory=dict[str, str])

    def __repr__(self) -> str:
        return f"Comparison({', '.join(f'{name} {d.sqnr:.2f} dB' for name, d in self.outputs.items())})"

    def tables(self) -> Sequence[Table]:
        """The outputs, then layers and values that could not be compared, if there are any."""
        found = [Table("outputs", ("output", *_COLUMNS), _rows(self.outputs), EXPLAINED)]
        if self.layers:
            found.append(Table("layers", ("layer", *_COLUMNS), _rows(self.layers)))
        if self.not_compared:
            found.append(Table("not compared", ("what", "why"), grouped(self.not_compared)))
        return found


def _rows(differences: Mapping[str, Difference]) -> list[tuple[str, ...]]:
    return [
        (name, f"{d.sqnr:.2f}", f"{d.cosine:.6f}", f"{d.largest:.6g}", f"{d.differing} of {d.count}")
        for name, d in differences.items()
    ]


def compare(
    a: ModuleOp,
    b: ModuleOp,
    runs: Sequence[Mapping[str, Array]],
    *,
    layers: bool = False,
    engine: Engine = Executable,
) -> Comparison:
    """Runs both on the same inputs; `a` is the reference. Inputs are matched as in `matched_inputs`, outputs by name, layers by
    their origin. Inputs and outputs that are floats in `a` and integers with a scale in `b` are floats here.

    `engine` prepares `b` to be run. Raises CompileError if `b` takes an input that `a` does not have, if the modules have no
    common output name, or if a run fails.
    """
    pairs, apart = match_layers(a, b) if layers else ({}, {})
    names = matched_inputs(a, b)
    first = Executable(a, [pair[0] for pair in pairs.values()])
    second = InReals(engine(b, [pair[1] for pair in pairs.values()]), boundary_of(b, a))
    shared = [n for n in first.outputs if n in second.outputs]
    if not shared:
        hint = f"they are {', '.join(first.outputs)} and {', '.join(second.outputs)}"
        raise CompileError("the two have no output name in common", hint=hint)
    outputs = {name: Differences() for name in shared}
    values = {layer: Differences() for layer in pairs}
    for inputs in runs:
        seen_a, seen_b = _Seen(), _Seen()
        result_a = first.run(inputs, seen_a.keep)
        result_b = second.run({name: inputs[other] for name, other in names.items()}, seen_b.keep)
        for name, total in outputs.items():
            try:
                total.add(result_a[name], result_b[name])
            except ValueError as e:
                raise CompileError(f"output '{name}': {e}") from None
        for layer, (value_a, value_b) in pairs.items():
            try:
                values[layer].add(seen_a.arrays[value_a], seen_b.arrays[value_b])
            except ValueError as e:  # sizes that are only known in a run
                apart[layer] = str(e)
    apart |= dict.fromkeys((n for n in first.inputs if n not in names.values()), "is an input of the first only")
    for name in (*first.outputs, *second.outputs):
        if name not in outputs:
            apart[name] = f"is an output of the {'first' if name in first.outputs else 'second'} only"
    return Comparison(
        {name: total.result() for name, total in outputs.items()},
        {layer: total.result() for layer, total in values.items() if layer not in apart},
        apart,
    )


def matched_inputs(a: ModuleOp, b: ModuleOp) -> dict[str, str]:
    """Matches each input of `b` with the input of `a` whose data it takes: by name, or by order if no name is the same.

    Raises CompileError for an input that `a` does not have, and for one of another type, unless `boundary_of` makes its integers
    of the floats of `a`.
    """
    first, second = (dict(zip(input_names(f), body(f).args, strict=True)) for f in map(main_function, (a, b)))
    names = {name: name for name in second}
    if len(first) == len(second) and set(first).isdisjoint(second):
        names = dict(zip(second, first, strict=True))
    elif alone := [name for name in second if name not in first]:
        hint = f"the first has {', '.join(first)}; data is for these"
        raise CompileError(f"the second takes input {', '.join(alone)}, which the first does not have", hint=hint)
    quantized = boundary_of(b, a).to_integers
    for name, other in names.items():
        theirs, ours = element_of(second[name]), element_of(first[other])
        if theirs != ours and name not in quantized:
            hint = "the model of floats is the first of the two" if is_float(theirs) and not is_float(ours) else ""
            raise CompileError(f"the second takes {theirs} for input '{name}', the first {ours}", hint=hint)
    return names


class _Seen:
    """Copies of the watched values of one run."""

    def __init__(self) -> None:
        self.arrays: dict[SSAValue, Array] = {}

    def keep(self, value: SSAValue, array: Array) -> None:
        self.arrays[value] = array.copy()


Pairs = dict[str, tuple[SSAValue, SSAValue]]


def match_layers(a: ModuleOp, b: ModuleOp) -> tuple[Pairs, dict[str, str]]:
    """The values to compare, by layer, and the layers that cannot be compared with the reason."""
    layers, alone, absorbed = common_layers(a, b)
    pairs: Pairs = {}
    apart: dict[str, str] = {}
    for layer, (value_a, value_b) in layers.items():
        if (reason := _mismatch(value_a, value_b)) is None:
            pairs[layer] = value_a, value_b
        else:
            apart[layer] = reason
    for layer, where in alone.items():
        apart[layer] = "merged into the layer before it" if layer in absorbed else f"is in {where} only"
    return pairs, apart


def common_layers(a: ModuleOp, b: ModuleOp) -> tuple[Pairs, dict[str, str], set[str]]:
    """The values of layers in both modules, whatever their types; the module with each other layer; and the layers that
    were absorbed.

    A layer's value is the first result of the last operation with its origin; in a module that was read from a file, that of the
    node with the highest number, because a layer of several operations is written as `name`, `name_1`, ... If one module has
    folded the layers after a convolution or matrix product into it (batch norm, bias), the other's value is taken after the
    layers so absorbed.
    """
    layers_a, layers_b = layer_values(a), layer_values(b)
    pairs: Pairs = {}
    absorbed: set[str] = set()
    matched: set[str] = set()
    counts_a, counts_b = _counts(a), _counts(b)
    for layer in layers_a:
        if layer not in layers_b:
            continue
        last_a, last_b = _last_node(layer, counts_b, counts_a), _last_node(layer, counts_a, counts_b)
        value_a, value_b = layers_a[last_a], layers_b[last_b]
        matched |= {last_a, last_b}
        after_a, gone_a = _after_absorbed(value_a, layers_b)
        after_b, gone_b = _after_absorbed(value_b, layers_a)
        if not (gone_a and gone_b):  # if both continue with layers of their own, it is unknown what was folded
            value_a, value_b = after_a, after_b
            absorbed |= {*gone_a, *gone_b}
        pairs[layer] = value_a, value_b
    alone = {name: "the first" for name in layers_a if name not in pairs and name not in matched}
    alone |= {name: "the second" for name in layers_b if name not in pairs and name not in matched}
    return pairs, alone, absorbed


def _layer_of(op: Operation) -> str | None:
    origin = op.properties.get("origin")
    return origin.layer.data if isinstance(origin, OriginAttr) else None


def layer_values(module: ModuleOp) -> dict[str, SSAValue]:
    """The first result of the last operation of the graph with a layer's origin, by layer name in program order."""
    values: dict[str, SSAValue] = {}
    for op in main_function(module).body.walk():
        layer = _layer_of(op)
        if layer is not None and op.results and is_layer(op):
            values[layer] = op.results[0]
    return values


def _counts(module: ModuleOp) -> Counter[str]:
    """The number of operations of each layer."""
    ops = (op for op in main_function(module).body.walk() if op.results and is_layer(op))
    return Counter(layer for op in ops if (layer := _layer_of(op)) is not None)


def _last_node(layer: str, counts: Mapping[str, int], numbered: Mapping[str, int]) -> str:
    """The name of the last operation of a layer in a module in which they are numbered, if they are."""
    last = f"{layer}_{counts[layer] - 1}"
    return last if counts[layer] > 1 and last in numbered and last not in counts else layer


def _after_absorbed(value: SSAValue, others: Mapping[str, SSAValue]) -> tuple[SSAValue, list[str]]:
    """Follows single uses through layers that the other module lacks; returns the last value, and these layers."""
    gone: list[str] = []
    if not isinstance(value.owner, WeightedOp):
        return value, gone
    while value.has_one_use():
        (use,) = value.uses
        layer = _layer_of(use.operation)
        if layer is None or layer in others or len(use.operation.results) != 1 or not is_layer(use.operation):
            break
        value = use.operation.results[0]
        gone.append(layer)
    return value, gone


def _mismatch(a: SSAValue, b: SSAValue) -> str | None:
    """The reason why two values cannot be compared; None if they can."""
    type_a, type_b = cast(Tensor, a.type), cast(Tensor, b.type)
    if isinstance(type_a.element_type, IntegerType) != isinstance(type_b.element_type, IntegerType):
        return f"is of {type_a.element_type} in the first and of {type_b.element_type} in the second"
    sizes = zip(type_a.get_shape(), type_b.get_shape(), strict=False)
    if type_a.get_num_dims() != type_b.get_num_dims() or any(m != n and min(m, n) >= 0 for m, n in sizes):
        return f"has shape {list(type_a.get_shape())} in the first and {list(type_b.get_shape())} in the second"
    return None
