"""The operations quantized by a profile with points on inputs of layers."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ....configuration.record import Record
from ....dialects.nn import DequantizeOp, ObserveOp, Plan, Point, plan_of, set_plan
from ....rewriting import Remarks
from ..place.points import producer_of, spec_of
from ..request import Resolved
from .conditions import decide_each
from .layers import half_quantized, is_dequantized, is_quantized
from .legality import first_broken, other_layers
from .planning import (
    SKIPPED,
    Broken,
    Computed,
    leave_in_float,
    note_unbalanced,
    plan_balance,
    plan_weight_only,
    takes_weight_only,
    warn_unbalanced,
)
from .sites import Site, sites


def decide_inputs(module: ModuleOp, request: Resolved, remarks: Remarks) -> list[Computed]:
    """Decide each layer, and plan points on its inputs. Returns the layers that compute on quantized inputs."""
    deciding = _Inputs(request, remarks)
    decide_each(module, sites(module, request.profile.rows), deciding.decide)
    for site, (rule, reason) in other_layers(module, request.profile.rows) if request.profile.table else ():
        if plan_of(site.compute) is None:
            leave_in_float(site.compute, rule.name, reason, remarks)
    return deciding.layers


class _Inputs:
    def __init__(self, request: Resolved, remarks: Remarks):
        self._request = request
        self._remarks = remarks
        self._planned: set[tuple[Operation, int | None]] = set()
        """Operands in the graph that will be read through a point, by the operation there and their index."""
        self.layers: list[Computed] = []

    def decide(self, site: Site) -> None:
        request, remarks, record = self._request, self._remarks, self._request.record
        row = request.profile.rows[type(site.compute)]
        held = request.layers.held[site.compute]
        layer = Computed(site, row, held)
        if plan_of(site.compute) is not None and record is None:
            return  # already decided
        set_plan(site.compute, None)
        points: tuple[Point, ...] = ()
        producer = producer_of(site.activation)
        if is_observed := isinstance(producer, ObserveOp) or (site.owner, site.slot(0)) in self._planned:
            given = None if record is None else record.layers.get(layer.name)
            if isinstance(producer, ObserveOp) and producer.qparams is None and given and given.scale_d is not None:
                points = (Point(0, spec_of(held, given)),)
        elif is_quantized(site):
            if (reason := half_quantized(site, row)) is not None:
                remarks.missed(site.compute, "weight-quantized", reason)
            elif request.shifts and isinstance(producer, DequantizeOp):
                self.layers.append(layer)
            return
        elif takes_weight_only(site, held, record):
            plan_weight_only(site, row, held, request.settings, record, remarks)
            return
        elif (broken := _broken(layer, request)) is not None:
            leave_in_float(site.compute, *broken, remarks)
            warn_unbalanced(site.compute, broken.reason, request, remarks)
            return
        else:
            points = tuple(
                Point(index, spec_of(held, None if record is None else record.layers[entry_of(layer.name, index)]))
                for index in site.inputs
                if not is_dequantized(site.operand(index))
            )
            inputs = "inputs" if site.multiplies_inputs else "input"
            listed = record is not None and layer.name in record.layers
            source = "parameters from the record" if listed else f"{inputs} observed by {held.observer}"
            remarks.applied(site.compute, "observed", source)
        self._planned.update((site.owner, site.slot(index)) for index, _ in points)
        self.layers.append(layer)
        balance = plan_balance(layer, request, is_observed)
        if isinstance(balance, Broken):
            note_unbalanced(site.compute, balance, request, remarks)
            balance = None
        if points or balance is not None:
            set_plan(site.compute, Plan(points=points, balance=balance))


def _broken(layer: Computed, request: Resolved) -> Broken | None:
    """The first rule that leaves a layer in float."""
    if layer.held.skipped is not None:
        return Broken(layer.held.skipped, SKIPPED[layer.held.skipped])
    if (broken := first_broken(layer.site, layer.row.rules, request.profile.table)) is not None:
        return Broken(broken[0].name, broken[1])
    lacks = None if request.record is None else _lacking(request.record, layer.name, layer.site)
    return None if lacks is None else Broken("record", f"the record {lacks}")


def _lacking(record: Record, name: str, site: Site) -> str | None:
    """The part of a layer's inputs that a record lacks; inputs that are already quantized need nothing."""
    for index in site.inputs:
        given = record.layers.get(entry_of(name, index))
        if (given is None or given.scale_d is None) and not is_dequantized(site.operand(index)):
            what = "it" if index == 0 else "its second input"
            return f"does not list {what}" if given is None else f"has no scale_d of {what}"
    return None


def entry_of(name: str, index: int) -> str:
    """The record key of an input; for the first input it is the layer's name (AMCT)."""
    return name if index == 0 else f"{name}:{index}"
