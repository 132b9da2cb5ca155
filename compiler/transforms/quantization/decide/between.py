"""Operations that are quantized only between others (`Row.between`): a runtime computes them in float as well as in integers.

Quantizing such an operation saves time where integers come in and integers go out. Anywhere else it only adds a rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, OpResult, SSAValue

from ....dialects.nn import PointOp, array_of, before_points
from ....ir.functions import main_function
from ....rewriting import Remarks
from ...fusion.fuse_activation.activations import LINEAR, single_kind
from ..request import Resolved
from .planning import leave_in_float
from .value_layers import ValueLayer, ValueLayers, quantized_layers

NO_INTEGER_OPERANDS = "not all of its operands are computed in integers"
NO_INTEGER_READER = "nothing that computes in integers reads its result"


class Between:
    """The neighbours of values: which readers compute in integers, and which layers therefore stay in float, with the
    reasons.
    """

    def __init__(self, module: ModuleOp, layers: ValueLayers):
        self._layers = layers
        self._some = _demand(module, layers, any, lambda reader: reader.row.between)
        self._some_at_once = _demand(module, layers, any, lambda reader: reader.is_passive)
        self._all = _demand(module, layers, all, lambda reader: reader.is_passive or _is_linear(reader))
        self.in_float: dict[Operation, str] = {}
        for owner, layer in layers.items():
            if layer.row.between and (reason := self._why_float(layer)) is not None:
                self.in_float[owner] = reason

    def wants_integers(self, value: SSAValue) -> bool:
        """Whether all readers of a value take integers, directly or after passive operations and linear activations."""
        return self._all[before_points(value)]

    def _why_float(self, layer: ValueLayer) -> str | None:
        values = [value for _, value in layer.reads()]
        if layer.is_passive:
            kept = self._is_quantized(values[0]) or self.wants_integers(values[0])
            return None if kept else NO_INTEGER_OPERANDS
        if _has_constant(layer) or not all(map(self._is_quantized, values)):
            return NO_INTEGER_OPERANDS
        if _is_linear(layer) and _is_read_once(before_points(values[0])):
            return None  # it belongs to the operation that computes its operand
        return None if self._some[layer.result] else NO_INTEGER_READER

    def _is_quantized(self, value: SSAValue) -> bool:
        """Whether a value is quantized in any case, so that reading it in integers adds no rounding."""
        value = before_points(value)
        if not isinstance(value, OpResult):
            return self._some_at_once[value]
        if (layer := self._layers.get(value.op)) is None or value.op in self.in_float:
            return False
        return not layer.row.gives_reals or self.wants_integers(value)


def layers_in_integers(
    module: ModuleOp, request: Resolved, remarks: Remarks
) -> tuple[dict[Operation, ValueLayer], Between]:
    """The operations quantized by a profile with points on values, and their neighbours. All others with real results are
    marked to stay float.
    """
    layers = quantized_layers(module, request, remarks)
    between = Between(module, layers)
    for owner, reason in between.in_float.items():
        reason = f"profile {request.profile.name} leaves it in float: {reason}"
        leave_in_float(layers.pop(owner).site.compute, "between", reason, remarks)
    return layers, between


def _demand(
    module: ModuleOp,
    layers: ValueLayers,
    combine: Callable[[Iterable[bool]], bool],
    passes: Callable[[ValueLayer], bool],
) -> Mapping[SSAValue, bool]:
    """For each value whether any or all readers compute in integers or pass it on to readers that do; False without readers."""
    block = main_function(module).body.block
    found: dict[SSAValue, bool] = {}

    def by(reader: Operation, slot: int) -> bool:
        layer = layers.get(reader)
        if layer is None or slot not in layer.slots:
            return False
        if not layer.row.between:
            return True
        return passes(layer) and combine(found[result] for result in reader.results)

    values = [*block.args, *(result for op in block.ops if not isinstance(op, PointOp) for result in op.results)]
    for value in reversed(values):
        readers = list(_readers(value))
        found[value] = bool(readers) and combine(by(reader, slot) for reader, slot in readers)
    return found


def _is_linear(layer: ValueLayer) -> bool:
    return layer.site.owner is layer.site.compute and single_kind(layer.site.compute) in LINEAR


def _has_constant(layer: ValueLayer) -> bool:
    return any(array_of(operand) is not None for operand in layer.site.compute.operands)


def _is_read_once(value: SSAValue) -> bool:
    return len(list(islice(_readers(value), 2))) == 1


def _readers(value: SSAValue) -> Iterator[tuple[Operation, int]]:
    """The readers of a value, directly or through points, with the index of the operand."""
    for use in value.uses:
        if isinstance(use.operation, PointOp):
            yield from _readers(use.operation.results[0])
        else:
            yield use.operation, use.index
