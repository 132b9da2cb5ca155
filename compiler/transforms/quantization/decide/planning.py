"""Writes the decisions of settings, record and tables about layers as their plans; decides layers with points on their inputs.

Used by `--insert-observers` only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal, NamedTuple, cast

from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.ir import BlockArgument, Operation

from ....configuration.layer_settings import LayerSettings
from ....configuration.record import LayerRecord, Record
from ....configuration.settings import Arq, Nuq
from ....dialects.nn import (
    AveragePoolOp,
    GlobalAveragePoolOp,
    How,
    NNOp,
    Plan,
    Point,
    QParamsAttr,
    Unobserved,
    WeightedOp,
    array_of,
    plan_of,
    set_plan,
)
from ....rewriting import Refusal, Remarks, layer_of
from ....rewriting.driver import apply_once
from ....session import Session
from ..portable import BITS, MULTIPLIED
from ..request import Request, Resolved
from .deciding import Decide, Deciding
from .legality import row_of
from .non_uniform_layers import layers_of_few_levels
from .planned_weights import planned_weight
from .rows import Layer
from .sites import Site, balancer_of, shift_of

Balance = float | tuple[float, ...]


class Decided(NamedTuple):
    """The input of the placer, apart from the plans of layers."""

    layers: Sequence[Layer]
    tensors: Sequence[Site] = ()
    """The operations of which single inputs are quantized, on request."""
    sums: Mapping[NNOp, tuple[Site, str | None]] | None = None
    """The sums around which points are observed jointly, or the reason why not; None if that is not asked for."""


class Planner(Deciding):
    """Decides layers, and plans them."""

    PATTERNS: ClassVar[tuple[type[Decide[Any]], ...]]

    def __init__(self, request: Resolved, remarks: Remarks):
        super().__init__(request, remarks)
        self.request = request

    def decide(self, module: ModuleOp) -> None:
        """Decides each layer once, in program order, by the first pattern that matches; those of plugins are tried first."""
        added = self.remarks.session.patterns_of("insert-observers")
        apply_once(module, [cast(Any, each)(self) for each in (*added, *self.PATTERNS)])

    def layer_at(self, site: Site, inputs_asked: bool = False) -> Layer:
        """The layer of a site."""
        profile, op = self.request.profile, site.compute
        held = self.request.layers.held[op]
        stored = held.weight.number_format if isinstance(held.weight, Arq) and self.request.record is None else None
        more = {"number_format": stored, "inputs_asked": inputs_asked}
        return Layer.at(site, profile.rows[type(op)], row_of(op, profile.table), held, **more)

    def quantize_weight(self, m: Layer, how: Callable[[Layer, How], How]) -> None:
        self.decided(m)
        settings = self.request.settings
        weight, refused = planned_weight(m, m.row, m.held, settings, self.request.record, {})
        assert weight is not None, "legality has asked for it"
        weight = how(m, weight)
        if settings.dynamic:
            weight = replace(weight, portable=_is_portable(m, weight, self.request))
        set_plan(m.compute, Plan(weights=(weight,)))
        in_floats = weight.number_format is not None and settings.activation_format is not None
        stays = "" if in_floats else "its input stays float, "
        self.remarks.applied(m.compute, "weight-only", f"{stays}its weight is quantized by itself")
        if refused is not None:
            reason = f"its weight has a scale for each channel, not for each group: {refused[1]}"
            self.remarks.missed(m.compute, refused[0].name, reason)
        note_impossible(m.compute, m.held, self.remarks)


def how_of(held: LayerSettings, given: LayerRecord | None) -> How:
    """The quantization of an input: as settings have it, or by the parameters of a record."""
    return held.how if given is None else recorded(held.observer, given)


def recorded(observer: str, given: LayerRecord) -> How:
    """The quantization of an input by a record's `scale_d` and `offset_d`."""
    assert given.scale_d is not None
    assert given.offset_d is not None
    params = QParamsAttr.of(IntegerType(given.bits), given.scale_d, given.offset_d)
    return How(given.bits, given.offset_d == 0, observer, given=params)


def point_name(layer: str, at: Literal["operand", "value", "result"], index: int) -> str:
    """The name of the point on an operand or a result of a layer."""
    return f"{layer}:{index}" if at != "result" else f"{layer}:out{index or ''}"


def plan_layers(layers: Sequence[Layer], request: Request, session: Session, remarks: Remarks) -> None:
    """Write how the weights of layers with quantized inputs become integers, and whether their sums are shifted.

    Raises CompileError, located in the record's file or at a layer, for what a layer cannot have.
    """
    planned = [(each, plan_of(each.compute) or Plan()) for each in layers]
    new = [(each, known) for each, known in planned if not known.input]
    few: Mapping[str, Nuq] = {}
    if request.record is None:
        few = layers_of_few_levels(request.settings, [each for each, _ in new], request.profile, session)
    for each, known in new:
        weight, refused = planned_weight(each, each.row, each.held, request.settings, request.record, few)
        if weight is not None and each.held.bits == BITS:
            weight = replace(weight, portable=_is_portable(each, weight, request))
        weights = known.weights if weight is None else (weight,)
        shift = _shift_of(each, request, remarks) if request.shifts else False
        bias = each.row.bias if weights and each.operand(each.row.bias or 0) is not None else None
        points = known.points
        if bias is not None:
            points += (Point("operand", bias, Unobserved("derived")),)
            points = tuple(sorted(points, key=lambda point: (point.at == "result", point.number)))
        set_plan(each.compute, replace(known, input=True, points=points, weights=weights, shift=shift))
        if request.record is None:
            note_impossible(each.compute, each.held, remarks)
        if refused is not None:
            remarks.missed(each.compute, refused[0].name, f"its weight takes all levels: {refused[1]}")


def _is_portable(site: Site, weight: How, request: Request) -> bool:
    """Whether a weight that integers of 8 bits are multiplied by is to have exact sums of products on every processor."""
    asked = request.profile.facts.kernels and request.settings.portable != "off"
    plain = weight.bits == BITS and weight.given is None and weight.levels is None and weight.number_format is None
    return asked and plain and isinstance(site.compute, MULTIPLIED)


def note_impossible(op: Operation, held: LayerSettings, remarks: Remarks) -> None:
    """Leave a remark with the settings for all layers that a layer cannot have."""
    if held.remarks:
        remarks.note(op, "configuration", f"not as the configuration has it: {'; '.join(held.remarks)}")


def _shift_of(layer: Layer, request: Request, remarks: Remarks) -> bool | tuple[int, ...]:
    """The record's shifts, or True if they are to be found from data."""
    compute = layer.compute
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


def plan_balance(layer: Layer, request: Request, is_observed: bool) -> Balance | Refusal | None:
    """The share of its input's spread that moves into a layer's weight, or a record's factors; or the reason why that
    cannot be, such as an input that is observed already. None where nobody asks for it.
    """
    site, record = layer, request.record
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
    if not factors or not isinstance(compute, WeightedOp) or array_of(site.operand(1)) is None:
        return
    channels = compute.weight_channels
    if len(factors) != channels:
        raise record.error(
            name, f"tensor_balance_factor has {len(factors)} numbers, but it has {channels} input channels"
        )


def note_unbalanced(op: Operation, broken: Refusal, request: Request, remarks: Remarks) -> None:
    """Leave a remark why a quantized layer is not balanced."""
    remarks.missed(op, broken.rule, f"its channels are not balanced: {broken.reason}")
    warn_unbalanced(op, broken.reason, request, remarks)


def warn_unbalanced(op: Operation, reason: str, request: Request, remarks: Remarks) -> None:
    """Warn of layers that are named but not balanced, as AMCT does."""
    if _is_named(layer_of(op), request):
        remarks.session.warn(f"dmq_balancer of '{layer_of(op)}' is dropped: {reason}")


def _is_named(layer: str, request: Request) -> bool:
    """Whether settings (by the layer's name) or the record request that a layer's channels are balanced."""
    if request.record is not None:
        return layer in request.record.layers and bool(request.record.layers[layer].tensor_balance_factor)
    own = request.settings.by_layer.get(layer)
    return own is not None and own.migration_strength is not None


def entry_of(name: str, index: int) -> str:
    """The record key of an input; for the first input it is the layer's name (AMCT)."""
    return name if index == 0 else f"{name}:{index}"
