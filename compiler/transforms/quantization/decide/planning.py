"""Writes the decisions of settings, record and tables about layers as their plans; decides layers with points on their inputs.

Used by `--insert-observers` only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import BlockArgument, Operation

from ....configuration.layer_settings import LayerSettings
from ....configuration.record import LayerRecord, Record
from ....configuration.settings import Arq, Nuq
from ....dialects.nn import (
    AveragePoolOp,
    GlobalAveragePoolOp,
    Plan,
    Point,
    QParamsAttr,
    Spec,
    Unobserved,
    WeightedOp,
    WeightPlan,
    array_of,
    plan_of,
    set_plan,
)
from ....rewriting import Refusal, Remarks, layer_of
from ....session import Session
from ..convert.shift_accumulators import shift_of
from ..portable import BITS, MULTIPLIED
from ..profiles import Profile, Row
from ..recover.balance_channels import balancer_of, weight_peaks
from ..request import Request
from .layers import has_quantized_weight
from .legality import first_broken, weight_only_broken
from .non_uniform_layers import layers_of_few_levels
from .planned_weights import planned_weight
from .sites import Site

Balance = float | tuple[float, ...]


class Computed(NamedTuple):
    """A layer that computes on quantized inputs."""

    site: Site
    row: Row
    held: LayerSettings

    @property
    def name(self) -> str:
        return layer_of(self.site.compute)


class Decided(NamedTuple):
    """What the placer is given, apart from the plans of layers."""

    layers: Sequence[Computed]
    tensors: Sequence[Site] = ()
    """The operations of which single inputs are quantized, on request."""
    sums: Sequence[Site] | None = None
    """The sums around which points are observed jointly; None where that is not asked for."""


def spec_of(held: LayerSettings, given: LayerRecord | None) -> Spec:
    """The specification from settings, or the parameters from a record."""
    return Spec(held.observer, held.bits, held.symmetric) if given is None else recorded(held.observer, given)


def recorded(observer: str, given: LayerRecord) -> Spec:
    """The parameters of a record's `scale_d` and `offset_d`."""
    assert given.scale_d is not None
    assert given.offset_d is not None
    params = QParamsAttr.of(IntegerType(given.bits), given.scale_d, given.offset_d)
    return Spec(observer, given.bits, given.offset_d == 0, params)


def point_name(layer: str, at: Literal["operand", "value", "result"], index: int) -> str:
    """The name of the point on an operand or a result of a layer."""
    return f"{layer}:{index}" if at != "result" else f"{layer}:out{index or ''}"


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
        if weight is not None and each.held.bits == BITS:
            weight = replace(weight, portable=_is_portable(each.site, weight, request))
        weights = known.weights if weight is None else (weight,)
        shift = _shift_of(each, request, remarks) if request.shifts else False
        bias = each.row.bias if weights and each.site.operand(each.row.bias or 0) is not None else None
        points = known.points
        if bias is not None:
            points += (Point("operand", bias, Unobserved("derived")),)
            points = tuple(sorted(points, key=lambda point: (point.at == "result", point.number)))
        set_plan(each.site.compute, replace(known, input=True, points=points, weights=weights, shift=shift))
        if request.record is None:
            note_impossible(each.site.compute, each.held, remarks)
        if refused is not None:
            remarks.missed(each.site.compute, refused[0].name, f"its weight takes all levels: {refused[1]}")


def _is_portable(site: Site, weight: WeightPlan, request: Request) -> bool:
    """Whether a weight that integers of 8 bits are multiplied by is to have exact sums of products on every processor."""
    asked = request.profile.facts.kernels and request.settings.portable != "off"
    plain = weight.bits == BITS and weight.given is None and weight.levels is None and weight.number_format is None
    return asked and plain and isinstance(site.compute, MULTIPLIED)


def note_impossible(op: Operation, held: LayerSettings, remarks: Remarks) -> None:
    """Leave a remark with the settings for all layers that a layer cannot have."""
    if held.remarks:
        remarks.note(op, "configuration", f"not as the configuration has it: {'; '.join(held.remarks)}")


def _shift_of(layer: Computed, request: Request, remarks: Remarks) -> bool | tuple[int, ...]:
    """The record's shifts, or True if they are to be found from data."""
    compute = layer.site.compute
    if isinstance(compute, AveragePoolOp | GlobalAveragePoolOp):
        remarks.missed(compute, "pool", "the sums of pools are not shifted (AMCT)")
    if not isinstance(compute, WeightedOp) or shift_of(compute) is not None:
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


def plan_balance(layer: Computed, request: Request, is_observed: bool) -> Balance | Refusal | None:
    """The share of its input's spread that moves into a layer's weight, or a record's factors; or why that cannot be, as for
    an input that is observed already. None where nobody asks for it.
    """
    site, record = layer.site, request.record
    given = () if record is None or layer.name not in record.layers else record.layers[layer.name].tensor_balance_factor
    wanted = layer.held.migration_strength if record is None else (given or None)
    if (wanted is None and not _is_named(layer.name, request)) or balancer_of(site) is not None:
        return None
    if wanted is None or layer.row.weight is None or site.multiplies_inputs:
        return Refusal("weight", "it has no weight")
    if is_observed:
        return Refusal("observed", "its input is observed already")
    operands = (site.compute.operands[i] for i in (0, layer.row.weight))
    if any(isinstance(v, BlockArgument) and not v.has_one_use() for v in operands if site.owner is not site.compute):
        return Refusal("own-operands", "another operation of its region reads the same operand")
    return wanted


def check_factors(site: Site, record: Record) -> None:
    """Raise CompileError, located in the record's file, for another number of a layer's factors than of its input channels."""
    name, compute = layer_of(site.compute), site.compute
    factors = record.layers[name].tensor_balance_factor
    if not factors or not isinstance(compute, WeightedOp) or (numbers := array_of(site.operand(1))) is None:
        return
    channels = weight_peaks(compute, numbers).size
    if len(factors) != channels:
        raise record.error(
            name, f"tensor_balance_factor has {len(factors)} numbers, but it has {channels} input channels"
        )


def note_unbalanced(op: Operation, broken: Refusal, request: Request, remarks: Remarks) -> None:
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
    "weight-compress-only": "only weights are quantized, and it has no weight that can be quantized by itself",
}
"""How settings keep a layer float, for remarks."""


def takes_weight_only(site: Site, held: LayerSettings, record: Record | None) -> bool:
    """Whether only the weight is to be quantized: according to the record if there is one, else to the settings."""
    if record is None or not held.quantize:
        return held.quantize and held.weight_compress_only
    entry = record.layers.get(layer_of(site.compute))
    return entry is not None and entry.weight_compress_only


def plan_weight_only(site: Site, row: Row, held: LayerSettings, request: Request, remarks: Remarks) -> None:
    """Decide that a layer's weight is quantized by itself, or leave a remark why it stays float as well.

    Raises CompileError, located in the record's file, for scales that do not fit the weight.
    """
    settings, record = request.settings, request.record
    if has_quantized_weight(site):
        return
    number_format = held.weight.number_format if isinstance(held.weight, Arq) and record is None else None
    if (broken := weight_only_broken(site, row, number_format)) is not None:
        set_plan(site.compute, Plan(broken[0].name))
        remarks.missed(site.compute, broken[0].name, broken[1])
        return
    weight, refused = planned_weight(site, row, held, settings, record, {})
    assert weight is not None, "legality has asked for it"
    if settings.dynamic:
        weight = replace(weight, portable=_is_portable(site, weight, request))
    set_plan(site.compute, Plan(weights=(weight,)))
    in_floats = weight.number_format is not None and settings.activation_format is not None
    stays = "" if in_floats else "its input stays float, "
    remarks.applied(site.compute, "weight-only", f"{stays}its weight is quantized by itself")
    if refused is not None:
        reason = f"its weight has a scale for each channel, not for each group: {refused[1]}"
        remarks.missed(site.compute, refused[0].name, reason)
    note_impossible(site.compute, held, remarks)


def refusal_of(layer: Computed, profile: Profile) -> Refusal | None:
    """The setting or the first condition that leaves a layer in float."""
    if layer.held.skipped is not None:
        return Refusal(layer.held.skipped, SKIPPED[layer.held.skipped])
    broken = first_broken(layer.site, layer.row.rules, profile.table)
    return None if broken is None else Refusal(broken[0].name, broken[1])


def entry_of(name: str, index: int) -> str:
    """The record key of an input; for the first input it is the layer's name (AMCT)."""
    return name if index == 0 else f"{name}:{index}"
