"""The operations quantized by a profile with points on values; some of them only between others (`Row.between`).

A runtime computes these in float as well as in integers. Quantizing such an operation saves time where integers come in and
integers go out. Anywhere else it only adds a rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from itertools import islice

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, OpResult, SSAValue

from ....configuration.record import Record
from ....dialects.nn import DequantizeOp, FusedOp, PointOp, array_of, before_points, is_layer, plan_of, set_plan
from ....dialects.nn.shapes import element_of
from ....ir.dtypes import is_float
from ....ir.functions import body, main_function
from ....rewriting import Refusal, Remarks, layer_of
from ...fusion.fuse_activation.activations import LINEAR, single_kind
from ..place.grids import Grids
from ..request import Resolved
from .conditions import decide_each
from .layers import half_quantized, has_integer_weight
from .planning import Computed, leave_in_float, plan_weight_only, refusal_of, takes_weight_only
from .sites import Site, sites


class ValueLayer(Computed):
    """A quantized operation: `site.owner` is in the graph."""

    @property
    def is_passive(self) -> bool:
        """Whether its results contain only elements of its first operand. A region that begins with such an operation is not
        passive: later operations compute new values.
        """
        return not self.row.active and self.site.owner is self.site.compute

    @property
    def result(self) -> SSAValue:
        return self.site.owner.results[0]

    def reads(self) -> Iterator[tuple[int, SSAValue]]:
        """The real values that it reads through quantization, by operand."""
        for i in range(len(self.site.compute.operands)):
            value = self.site.operand(i)
            if value is not None and i != self.row.bias and is_quantizable(value) and (self.row.active or i == 0):
                yield i, value

    @cached_property
    def slots(self) -> Mapping[int, int]:
        """The operands of the operation in the graph that `reads` gives, each with its first index there."""
        found: dict[int, int] = {}
        for i, _ in self.reads():
            slot = self.site.slot(i)
            assert slot is not None, "it reads values from outside the region"
            found.setdefault(slot, i)
        return found


ValueLayers = Mapping[Operation, ValueLayer]
"""The layers by their operation in the graph."""


def quantized_layers(module: ModuleOp, request: Resolved, remarks: Remarks) -> dict[Operation, ValueLayer]:
    """The quantized layers; with a record, only those it lists. All others with real results are marked to stay float."""
    profile = request.profile
    first: dict[Operation, Site] = {}
    for site in sites(module, profile.rows):
        first.setdefault(site.owner, site)  # not a later operation of a region
    deciding = _Values(request, remarks)
    decide_each(module, first.values(), deciding.decide)
    for op in body(main_function(module)).ops:
        if op not in first and plan_of(op) is None and _gives_reals(op):
            leave_in_float(op, "not-in-profile", f"profile {profile.name} does not quantize {op.name}", remarks)
    return deciding.layers


class _Values:
    def __init__(self, request: Resolved, remarks: Remarks):
        self._request = request
        self._remarks = remarks
        self._grids = Grids(request.profile.rows)
        self.layers: dict[Operation, ValueLayer] = {}

    def decide(self, site: Site) -> None:
        request, remarks, record = self._request, self._remarks, self._request.record
        row = request.profile.rows[type(site.compute)]
        held = request.layers.held[site.compute]
        if record is not None:
            set_plan(site.compute, None)
        if (plan := plan_of(site.compute)) is not None:  # already decided
            is_quantized = plan.input
        elif held.skipped is None and takes_weight_only(site, held, record):
            plan_weight_only(site, row, held, request.settings, record, remarks)
            is_quantized = False
        elif held.skipped is None and has_integer_weight(site):
            is_quantized = self._came_quantized(site)
        else:
            refusal = self._refusal(ValueLayer(site, row, held))
            is_quantized = refusal is None
            if refusal is not None:
                leave_in_float(site.compute, *refusal, remarks)
            elif self._came_quantized(site) and (reason := half_quantized(site, row)) is not None:
                remarks.missed(site.compute, "weight-quantized", reason)
        if is_quantized:
            self.layers[site.owner] = ValueLayer(site, row, held)

    def _refusal(self, layer: ValueLayer) -> Refusal | None:
        """What leaves a layer in float."""
        record, site = self._request.record, layer.site
        if (refusal := refusal_of(layer, self._request.profile)) is not None:
            return refusal
        if record is None or self._came_quantized(site) or _is_listed(site, record):
            return None
        return None if _belongs_to_layer(site, self.layers) else Refusal("record", "the record does not list it")

    def _came_quantized(self, site: Site) -> bool:
        return isinstance(self._grids.behind(site.activation), DequantizeOp)


def _belongs_to_layer(site: Site, layers: ValueLayers) -> bool:
    """Whether it is a linear activation and the only reader of a quantized result: it has no entry of its own in records."""
    value = site.activation
    if single_kind(site.compute) not in LINEAR or not isinstance(value, OpResult):
        return False
    return value.op in layers and value.has_one_use()


def _is_listed(site: Site, record: Record) -> bool:
    given = record.layers.get(layer_of(site.compute))
    return given is not None and given.scale_d is not None


def _gives_reals(op: Operation) -> bool:
    return (is_layer(op) or isinstance(op, FusedOp)) and any(is_float(element_of(v)) for v in op.results)


def is_quantizable(value: SSAValue) -> bool:
    """Whether a value is a float tensor and not a constant."""
    return is_float(element_of(value)) and array_of(value) is None


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
