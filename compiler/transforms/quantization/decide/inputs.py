"""Decides layers with points on their inputs, recurrent ones too: how an input is quantized, or why the layer stays in float."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

from ....configuration.layer_settings import LayerSettings
from ....configuration.record import LayerRecord, Record
from ....configuration.settings import Arq
from ....dialects.nn import AddOp, DequantizeOp, ObserveOp, Plan, Point, Unobserved, WeightPlan, plan_of, set_plan
from ....dialects.nn.shapes import shape_of
from ....ir.number_formats import NUMBER_FORMATS
from ....rewriting import Refusal, Remarks, rewrite
from ..profiles import Row
from ..request import Request, Resolved
from .conditions import decide_each
from .embeddings import COLUMNS, DecideEmbedding, Embedding
from .embeddings import ROWS as TOKENS
from .layer_inputs import decide_tensors, ends_layer, sum_broken
from .layers import half_quantized, is_dequantized, is_quantized
from .legality import other_layers
from .planned_weights import recorded_weight, weight_as_held
from .planning import (
    SKIPPED,
    Computed,
    Decided,
    entry_of,
    leave_in_float,
    note_unbalanced,
    plan_balance,
    plan_weight_only,
    point_name,
    refusal_of,
    spec_of,
    takes_weight_only,
    warn_unbalanced,
)
from .recurrent import INPUT, ROWS, STATE, DecideRecurrent, Recurrent
from .sites import Site, producer_of, sites


def decide_inputs(module: ModuleOp, request: Resolved, remarks: Remarks) -> Decided:
    """Decide each layer, and plan points on its inputs; then single inputs, and the sums of joint quantization."""
    deciding = _Inputs(request, remarks)
    decide_each(module, sites(module, request.profile.rows), deciding.decide)
    for site, (rule, reason) in other_layers(module, request.profile.rows) if request.profile.table else ():
        if plan_of(site.compute) is None:
            leave_in_float(site.compute, rule.name, reason, remarks)
    tensors = decide_tensors(module, request, remarks)
    return Decided(deciding.layers, tensors, _sums(module, remarks) if request.settings.joint_quant else None)


def _sums(module: ModuleOp, remarks: Remarks) -> list[Site]:
    """The sums (layer types Add and Eltwise) that AMCT quantizes jointly with the values around them."""
    found: list[Site] = []
    for site in (each for each in sites(module, (AddOp,)) if ends_layer(each)):
        if (reason := sum_broken(site)) is None:
            found.append(site)
        else:
            remarks.missed(site.compute, "joint-quant", reason)
    return found


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
                points = (Point("operand", 0, spec_of(held, given)),)
        elif is_quantized(site):
            if (reason := half_quantized(site, row)) is not None:
                remarks.missed(site.compute, "weight-quantized", reason)
            elif request.shifts and isinstance(producer, DequantizeOp):
                self.layers.append(layer)
            return
        elif takes_weight_only(site, held, record):
            plan_weight_only(site, row, held, request, remarks)
            return
        elif (broken := refusal_of(layer, request.profile) or _unrecorded(layer, record)) is not None:
            leave_in_float(site.compute, *broken, remarks)
            warn_unbalanced(site.compute, broken.reason, request, remarks)
            return
        else:
            points = tuple(
                Point(
                    "operand",
                    index,
                    spec_of(held, None if record is None else record.layers[entry_of(layer.name, index)]),
                )
                for index in site.inputs
                if not _has_parameters(site.operand(index))
            )
            inputs = "inputs" if site.multiplies_inputs else "input"
            listed = record is not None and layer.name in record.layers
            source = "parameters from the record" if listed else f"{inputs} observed by {held.observer}"
            remarks.applied(site.compute, "observed", source)
        self._planned.update((site.owner, site.slot(point.number)) for point in points)
        self.layers.append(layer)
        balance = plan_balance(layer, request, is_observed)
        if isinstance(balance, Refusal):
            note_unbalanced(site.compute, balance, request, remarks)
            balance = None
        if points or balance is not None:
            set_plan(site.compute, Plan(points=points, balance=balance))


def _has_parameters(value: SSAValue | None) -> bool:
    """Whether a value comes from integers, or from an observer that was given parameters: these win."""
    producer = producer_of(value)
    return is_dequantized(value) or (isinstance(producer, ObserveOp) and producer.qparams is not None)


def _unrecorded(layer: Computed, record: Record | None) -> Refusal | None:
    lacks = None if record is None else _lacking(record, layer.name, layer.site)
    return None if lacks is None else Refusal("record", f"the record {lacks}")


def _lacking(record: Record, name: str, site: Site) -> str | None:
    """The part of a layer's inputs that a record lacks; inputs that are already quantized need nothing."""
    for index in site.inputs:
        given = record.layers.get(entry_of(name, index))
        if (given is None or given.scale_d is None) and not is_dequantized(site.operand(index)):
            what = "it" if index == 0 else "its second input"
            return f"does not list {what}" if given is None else f"has no scale_d of {what}"
    return None


def decide_recurrent(module: ModuleOp, request: Resolved, remarks: Remarks) -> Decided:
    """Decide for each recurrent layer whether it computes in integers, whether only its weights are quantized, or neither, and
    leave a remark. Returns those that compute in integers, with points on their input and their state.

    Raises CompileError, located in the record's file, for scales that do not fit a weight.
    """
    computed: list[Computed] = []

    def decide(each: Recurrent) -> None:
        if each.is_quantized or (plan_of(each.op) is not None and request.record is None):
            return
        held = request.layers.held[each.op]
        given = None if request.record is None else request.record.layers.get(each.layer.name)
        alone = _weights_only(each, held, request, given)
        if (refusal := _recurrent_refusal(each, held, request, given, alone)) is not None:
            leave_in_float(each.op, *refusal, remarks)
            return
        points = () if alone else tuple(_recurrent_points(each, held, given))
        set_plan(each.op, Plan(None, not alone, points, weights=tuple(_recurrent_weights(each, held, request.record))))
        if alone:
            _note_weights_alone(each, held, given, remarks)
            return
        computed.append(Computed(each.site, Row(), held))
        source = f"input and state observed by {held.observer}" if given is None else "parameters from the record"
        remarks.applied(each.op, "observed", source)
        if held.migration_strength is not None and given is None:
            remarks.missed(each.op, "weight", "its channels are not balanced: AMCT does not balance recurrent layers")

    rewrite(module, DecideRecurrent(decide), erase_dead=False)
    return Decided(computed)


def _recurrent_points(each: Recurrent, held: LayerSettings, given: LayerRecord | None) -> Iterator[Point]:
    """Points on input and state, with a record's parameters if there are any. The state is observed together with the states
    that follow it: the operator quantizes each of them (AMCT calibrates on all).
    """
    state = None if given is None else replace(given, scale_d=given.scale_h, offset_d=given.offset_h)
    index = 0
    for what, entry in ((INPUT, given), (STATE, state)):
        place = each.place(what)
        assert place is not None, "legality has asked for it"
        index = place
        yield Point("operand", index, spec_of(held, entry))
    if (bias := each.place("bias")) is not None:
        yield Point("operand", bias, Unobserved("derived"))
    if given is None and shape_of(each.op.operands[0])[0] != 1:
        yield Point("result", 0, Unobserved("shared with", point_name(each.layer.name, "operand", index)))


def _weights_only(each: Recurrent, held: LayerSettings, request: Request, given: LayerRecord | None) -> bool:
    """Whether only the weights are to be quantized: if that is requested, or if the layer cannot compute in integers but a
    record has scales of its weights."""
    if request.record is None:
        return held.weight_compress_only
    whole = given is not None and given.scale_d is not None and given.scale_h is not None
    return not whole or not request.profile.facts.recurrent or each.float_because is not None


def _recurrent_refusal(
    each: Recurrent, held: LayerSettings, request: Request, given: LayerRecord | None, alone: bool
) -> Refusal | None:
    """The rule that leaves a layer in float, and the reason."""
    if held.skipped is not None:
        return Refusal(held.skipped, SKIPPED[held.skipped])
    if request.record is not None and (given is None or not given.scale_r):
        return Refusal("record", "the record does not list it")
    if alone:
        return each.broken
    if not request.profile.facts.recurrent:
        return Refusal("weight-only", f"profile {request.profile.name} quantizes only its weights, on request")
    return each.float_because


def _recurrent_weights(each: Recurrent, held: LayerSettings, record: Record | None) -> Iterator[WeightPlan]:
    """The plans of W and R: from the record, else from the settings."""
    for name, value in zip("wr", each.weights, strict=True):
        if record is not None:
            yield recorded_weight(record, each.layer.name, name, ROWS, shape_of(value))
        else:
            assert held.weight is not None, "a recurrent layer has weights"
            given = held.weight if isinstance(held.weight, Arq) else Arq(held.weight.channel_wise)
            yield weight_as_held(
                replace(given, group_size=None, number_format=None), ROWS if given.channel_wise else None
            )


def _note_weights_alone(each: Recurrent, held: LayerSettings, given: LayerRecord | None, remarks: Remarks) -> None:
    remarks.applied(each.op, "weight-only", "it stays float, its weights W and R are quantized")
    if isinstance(held.weight, Arq) and held.weight.group_size is not None and given is None:
        reason = "its weights have a scale for each row, not for each group: they are not matrices"
        remarks.missed(each.op, "matrix-weight", reason)
    if isinstance(held.weight, Arq) and held.weight.number_format is not None and given is None:
        reason = (
            f"its weights become int8, not {held.weight.number_format}: recurrent layers have weights of integers only"
        )
        remarks.missed(each.op, "number-format", reason)
    if given is not None and (given.scale_d is not None or given.scale_h is not None):
        why = "" if each.float_because is None else f", because {each.float_because[1]}"
        reason = f"the record's scales of its input and state are not used: these stay float{why}"
        remarks.note(each.op, "record", reason)


def decide_embeddings(module: ModuleOp, request: Resolved, remarks: Remarks) -> None:
    """Plan the tables of embeddings by themselves, or leave a remark why one stays float: with a record all do."""

    def decide(each: Embedding) -> None:
        if plan_of(each.op) is not None and request.record is None:
            return
        held = request.layers.held[each.op]
        refusal = each.float_because
        if held.skipped is not None:
            refusal = Refusal(held.skipped, SKIPPED[held.skipped])
        elif request.record is not None:
            refusal = Refusal("record", "no record has tables of embeddings")
        if refusal is not None:
            leave_in_float(each.op, *refusal, remarks)
            return
        set_plan(each.op, Plan(weights=(_planned_table(held),)))
        remarks.applied(each.op, "weight-only", "its table is quantized by itself")

    rewrite(module, DecideEmbedding(decide), erase_dead=False)


def _planned_table(held: LayerSettings) -> WeightPlan:
    assert held.weight is not None, "a table has settings"
    given = held.weight if isinstance(held.weight, Arq) else Arq(held.weight.channel_wise)
    plan = weight_as_held(given, TOKENS if given.channel_wise else None)
    if plan.number_format is not None:
        block = NUMBER_FORMATS[plan.number_format].block
        return plan if block is None else replace(plan, axis=COLUMNS, block=block)
    return plan if plan.block is None else replace(plan, axis=COLUMNS)
