"""Writes the decisions of settings, record and tables about a layer as its plan. Used by `--insert-observers` only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from xdsl.ir import BlockArgument, Operation, OpResult

from ....configuration.layer_settings import LayerSettings
from ....configuration.record import Record
from ....configuration.settings import Nuq
from ....dialects.nn import (
    AveragePoolOp,
    ConvolutionOp,
    GlobalAveragePoolOp,
    MatMulOp,
    ObserveOp,
    Plan,
    array_of,
    plan_of,
    set_plan,
)
from ....rewriting import Remarks, layer_of
from ....session import Session
from ..convert.shift_accumulators import shift_of
from ..profiles import Row
from ..recover.balance_channels import balancer_of, weight_peaks
from ..request import Request
from .non_uniform_layers import layers_of_few_levels
from .planned_weights import planned_weight
from .sites import Site

Balance = float | tuple[float, ...]


class Broken(NamedTuple):
    """The name of a rule that is not met, and the reason."""

    rule: str
    reason: str


class Computed(NamedTuple):
    """A layer that computes on quantized inputs."""

    site: Site
    row: Row
    held: LayerSettings

    @property
    def name(self) -> str:
        return layer_of(self.site.compute)


def leave_in_float(op: Operation, rule: str, reason: str, remarks: Remarks) -> None:
    """Decide that an operation stays in float, and leave a remark with the reason."""
    set_plan(op, Plan(rule))
    remarks.missed(op, rule, reason)


def plan_layers(layers: Sequence[Computed], request: Request, session: Session, remarks: Remarks) -> None:
    """Write how the weights of layers with quantized inputs become integers, and whether their sums are shifted.

    Raises CompileError, located in the record's file or at a layer, for what a layer cannot have.
    """
    planned = [(each, plan_of(each.site.compute) or Plan()) for each in layers]
    new = [(each, known) for each, known in planned if not known.input]
    few: Mapping[str, Nuq] = {}
    if request.record is None:
        few = layers_of_few_levels(request.settings, [each.site for each, _ in new], request.profile, session)
    for each, known in new:
        weight, refused = planned_weight(each.site, each.row, each.held, request.settings, request.record, few)
        weights = known.weights if weight is None else (weight,)
        shift = _shift_of(each, request, remarks) if request.shifts else False
        set_plan(each.site.compute, Plan(input=True, weights=weights, balance=known.balance, shift=shift))
        if request.record is None:
            note_impossible(each.site.compute, each.held, remarks)
        if refused is not None:
            remarks.missed(each.site.compute, refused[0].name, f"its weight takes all levels: {refused[1]}")


def note_impossible(op: Operation, held: LayerSettings, remarks: Remarks) -> None:
    """Leave a remark with the settings for all layers that a layer cannot have."""
    if held.remarks:
        remarks.note(op, "configuration", f"not as the configuration has it: {'; '.join(held.remarks)}")


def _shift_of(layer: Computed, request: Request, remarks: Remarks) -> bool | tuple[int, ...]:
    """The record's shifts, or True if they are to be found from data."""
    compute = layer.site.compute
    if isinstance(compute, AveragePoolOp | GlobalAveragePoolOp):
        remarks.missed(compute, "pool", "the sums of pools are not shifted (AMCT)")
    if not isinstance(compute, ConvolutionOp | MatMulOp) or shift_of(compute) is not None:
        return False
    if request.record is None:
        return True
    entry = request.record.layers.get(layer.name)
    if entry is None or not any(entry.shift_bit):
        remarks.missed(compute, "record", "the record does not shift it")
        return False
    if len(entry.shift_bit) not in (1, compute.output_channels):
        takes = f"one or {compute.output_channels}"
        raise request.record.error(
            layer.name, f"shift_bit has {len(entry.shift_bit)} numbers, but the layer takes {takes}"
        )
    return entry.shift_bit


def plan_balance(layer: Computed, request: Request) -> Balance | Broken | None:
    """The share of its input's spread that moves into a layer's weight, or a record's factors; or why that cannot be. None where
    nobody asks for it.
    """
    site, record = layer.site, request.record
    given = () if record is None or layer.name not in record.layers else record.layers[layer.name].tensor_balance_factor
    wanted = layer.held.migration_strength if record is None else (given or None)
    if (wanted is None and not _is_named(layer.name, request)) or balancer_of(site) is not None:
        return None
    if wanted is None or layer.row.weight is None or site.multiplies_inputs:
        return Broken("weight", "it has no weight")
    if isinstance(site.activation, OpResult) and isinstance(site.activation.op, ObserveOp):
        return Broken("observed", "its input is observed already")
    operands = (site.compute.operands[i] for i in (0, layer.row.weight))
    if any(isinstance(v, BlockArgument) and not v.has_one_use() for v in operands if site.owner is not site.compute):
        return Broken("own-operands", "another operation of its region reads the same operand")
    return wanted


def check_factors(site: Site, record: Record) -> None:
    """Raise CompileError, located in the record's file, for another number of a layer's factors than of its input channels."""
    name, compute = layer_of(site.compute), site.compute
    factors = record.layers[name].tensor_balance_factor
    if (
        not factors
        or not isinstance(compute, ConvolutionOp | MatMulOp)
        or (numbers := array_of(site.operand(1))) is None
    ):
        return
    channels = weight_peaks(compute, numbers).size
    if len(factors) != channels:
        raise record.error(
            name, f"tensor_balance_factor has {len(factors)} numbers, but it has {channels} input channels"
        )


def note_unbalanced(op: Operation, broken: Broken, request: Request, remarks: Remarks) -> None:
    """Leave a remark why a quantized layer is not balanced."""
    remarks.missed(op, broken.rule, f"its channels are not balanced: {broken.reason}")
    warn_unbalanced(op, broken.reason, request, remarks)


def warn_unbalanced(op: Operation, reason: str, request: Request, remarks: Remarks) -> None:
    """Warn where a layer that is not balanced was named, as AMCT does."""
    if _is_named(layer_of(op), request):
        remarks.session.warn(f"dmq_balancer of '{layer_of(op)}' is dropped: {reason}")


def _is_named(layer: str, request: Request) -> bool:
    """Whether settings (by the layer's name) or the record request that a layer's channels are balanced."""
    if request.record is not None:
        return layer in request.record.layers and bool(request.record.layers[layer].tensor_balance_factor)
    own = request.settings.by_layer.get(layer)
    return own is not None and own.migration_strength is not None


SKIPPED: Mapping[str, str] = {
    "skip-layers": "it is on the list of skip-layers",
    "skip-layer-types": "its type is on the list of skip-layer-types",
    "only-layers": "it is not on the list of only-layers",
    "quant-enable": "the configuration does not enable it",
    "weight-compress-only": "only weights are quantized, and it has no weight that can be quantized alone",
}
"""How settings keep a layer float, for remarks."""
