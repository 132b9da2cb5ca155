"""The operations quantized by a profile with points on values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, OpResult, SSAValue

from ....configuration.record import Record
from ....dialects.nn import DequantizeOp, FusedOp, array_of, is_layer, plan_of, set_plan
from ....dialects.nn.shapes import element_of
from ....ir.dtypes import is_float
from ....ir.functions import body, main_function
from ....rewriting import Remarks, layer_of
from ...fusion.fuse_activation.activations import LINEAR, single_kind
from ..place.grids import Grids
from ..request import Resolved
from .layers import half_quantized, has_integer_weight
from .legality import first_broken
from .planning import SKIPPED, Computed, leave_in_float
from .sites import Site, sites
from .weight_only import plan_weight_only, takes_weight_only


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
    settings, record, profile, known = request.settings, request.record, request.profile, request.layers
    layers: dict[Operation, ValueLayer] = {}
    considered: set[Operation] = set()
    grids = Grids(profile.rows)
    for site in sites(module, profile.rows):
        if site.owner in considered:
            continue  # a later operation of a region
        considered.add(site.owner)
        row = profile.rows[type(site.compute)]
        held = known.held[site.compute]
        if record is not None:
            set_plan(site.compute, None)
        if (plan := plan_of(site.compute)) is not None:  # already decided
            if plan.input:
                layers[site.owner] = ValueLayer(site, row, held)
        elif held.skipped is not None:
            leave_in_float(site.compute, held.skipped, SKIPPED[held.skipped], remarks)
        elif takes_weight_only(site, held, record):
            plan_weight_only(site, row, held, settings, record, remarks)
        elif has_integer_weight(site):
            if isinstance(grids.behind(site.activation), DequantizeOp):
                layers[site.owner] = ValueLayer(site, row, held)
        elif (broken := first_broken(site, row.rules, profile.table)) is not None:
            leave_in_float(site.compute, broken[0].name, broken[1], remarks)
        elif isinstance(grids.behind(site.activation), DequantizeOp):
            layers[site.owner] = ValueLayer(site, row, held)
            if (reason := half_quantized(site, row)) is not None:
                remarks.missed(site.compute, "weight-quantized", reason)
        elif record is not None and not (_is_listed(site, record) or _belongs_to_layer(site, layers)):
            leave_in_float(site.compute, "record", "the record does not list it", remarks)
        else:
            layers[site.owner] = ValueLayer(site, row, held)
    for op in body(main_function(module)).ops:
        if op not in considered and plan_of(op) is None and _gives_reals(op):
            leave_in_float(op, "not-in-profile", f"profile {profile.name} does not quantize {op.name}", remarks)
    return layers


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
