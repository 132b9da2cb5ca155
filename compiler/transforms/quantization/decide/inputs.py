"""Decides layers with points on their inputs, recurrent ones too: how an input is quantized, or why the layer stays in float."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, ClassVar

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter

from ....configuration.layer_settings import LayerSettings
from ....configuration.record import LayerRecord, Record
from ....configuration.settings import Arq
from ....dialects.nn import (
    AddOp,
    How,
    ObserveOp,
    Plan,
    Point,
    Unobserved,
    before_points,
    constant_of,
    plan_of,
    set_plan,
)
from ....dialects.nn.shapes import shape_of
from ....ir.functions import producer_of
from ....rewriting import Condition, Refusal, Remarks, layer_of
from ....rewriting.driver import apply_once
from ..profiles import Row
from ..request import Resolved
from .conditions import PATTERNS, DecideLayer
from .deciding import Decide, Requested
from .embeddings import DecideEmbedding, DecideExperts, Embedding, Experts
from .layer_inputs import decide_tensors, ends_layer, layers_of_inputs, sum_broken
from .layers import is_dequantized, is_quantized
from .legality import DecideOther, DecideWeights, KeepIntegers
from .planned_weights import recorded_weight
from .planning import (
    Decided,
    Planner,
    entry_of,
    how_of,
    note_unbalanced,
    plan_balance,
    point_name,
    warn_unbalanced,
)
from .recurrent import INPUT, ROWS, STATE, DecideRecurrent, Recurrent
from .rows import Layer
from .sites import Site, sites


def decide_inputs(module: ModuleOp, request: Resolved, remarks: Remarks) -> Decided:
    """Decide each layer, and plan points on its inputs; then single inputs, and the sums of joint quantization."""
    deciding = Inputs(module, request, remarks)
    deciding.decide(module)
    if request.profile.table:
        apply_once(module, [DecideOther(request, remarks, module)])
    tensors = decide_tensors(module, request, remarks)
    if not request.settings.joint_quant:
        return Decided(deciding.layers, tensors)
    sums = {each.compute: (each, sum_broken(each)) for each in sites(module, (AddOp,)) if ends_layer(each)}
    return Decided(deciding.layers, tensors, sums)


class DecideObserved(DecideLayer):
    """A layer whose input is observed already, by hand or for a layer before it: all but the points on it."""

    name = "quantize-observed"
    asks: ClassVar[tuple[Condition[Any], ...] | None] = ()

    def __init__(self, deciding: Inputs):
        super().__init__(deciding)
        self._inputs = deciding

    def match(self, op: Operation) -> Layer | None:
        m = super().match(op)
        return m if m is not None and self._inputs.is_observed(m) else None

    def rewrite(self, m: Layer, rewriter: PatternRewriter) -> None:
        self._inputs.observe(m)


class Inputs(Planner):
    """Decides layers that have their points on their inputs."""

    PATTERNS: ClassVar[tuple[type[Decide[Any]], ...]] = (DecideObserved, KeepIntegers, DecideWeights, *PATTERNS)

    def __init__(self, module: ModuleOp, request: Resolved, remarks: Remarks):
        super().__init__(request, remarks)
        self.layers: list[Layer] = []
        self._points: set[tuple[Operation, int | None]] = set()
        """Operands in the graph that will be read through a point, by the operation there and their index."""
        asked = layers_of_inputs(module, request)
        for site in sites(module, request.profile.rows):
            if plan_of(site.compute) is None or request.record is not None:
                set_plan(site.compute, None)
                self.undecided[site.compute] = self.layer_at(site, layer_of(site.compute) in asked)

    def is_observed(self, m: Layer) -> bool:
        """Whether its input has a point already, or is planned to have one."""
        return isinstance(producer_of(m.activation), ObserveOp) or (m.owner, m.slot(0)) in self._points

    def has_integers(self, m: Layer) -> bool:
        return is_quantized(m)

    def unrecorded(self, m: Layer) -> str | None:
        return None if self.request.record is None else _lacking(self.request.record, m.name, m)

    def observe(self, m: Layer) -> None:
        """Plan a layer with an input that is observed already."""
        producer, record = producer_of(m.activation), self.request.record
        given = None if record is None else record.layers.get(m.name)
        points: tuple[Point, ...] = ()
        if isinstance(producer, ObserveOp) and producer.qparams is None and given and given.scale_d is not None:
            points = (Point("operand", 0, how_of(m.held, given)),)
        self._add(m, points, is_observed=True)

    def quantize(self, m: Layer) -> None:
        if m.source is not None and m.source.tensor_only:  # `decide_tensors` plans its inputs
            self.decided(m)
            set_plan(m.compute, Plan(DecideLayer.tensor_only.name))
            return
        record = self.request.record
        recorded: Mapping[str, LayerRecord] = {} if record is None else record.layers
        points = tuple(
            Point("operand", index, how_of(m.held, None if record is None else recorded[entry_of(m.name, index)]))
            for index in m.inputs
            if not _has_parameters(m.operand(index))
        )
        inputs = "inputs" if m.multiplies_inputs else "input"
        source = "parameters from the record" if m.name in recorded else f"{inputs} observed by {m.held.observer}"
        self.remarks.applied(m.compute, "observed", source)
        if (reason := _weight_left(m)) is not None:
            self.remarks.missed(m.compute, "weight-computed", reason)
        self._add(m, points, is_observed=False)

    def keep(self, m: Layer) -> None:
        """Keeps a quantized layer, whose sums can be shifted."""
        self.decided(m)
        if self.request.shifts and is_dequantized(m.activation):
            self.layers.append(m)

    def leave(self, m: Layer, refusal: Refusal) -> None:
        super().leave(m, refusal)
        warn_unbalanced(m.compute, refusal.reason, self.request, self.remarks)

    def _add(self, m: Layer, points: tuple[Point, ...], is_observed: bool) -> None:
        self.decided(m)
        self._points.update((m.owner, m.slot(point.number)) for point in points)
        self.layers.append(m)
        balance = plan_balance(m, self.request, is_observed)
        if isinstance(balance, Refusal):
            note_unbalanced(m.compute, balance, self.request, self.remarks)
            balance = None
        if points or balance is not None:
            set_plan(m.compute, Plan(points=points, balance=balance))


def _weight_left(layer: Layer) -> str | None:
    """The reason why what its row has as the weight of a quantized layer stays float; None if it is a constant, or an input."""
    weight = layer.row.weight
    if weight is None or weight in layer.inputs:
        return None
    value = layer.operand(weight)
    if value is not None and constant_of(before_points(value)) is not None:
        return None
    return f"its operand {weight}, the weight of its row, is computed at run time and stays float"


def _has_parameters(value: SSAValue | None) -> bool:
    """Whether a value comes from integers, or from an observer that was given parameters: these win."""
    producer = producer_of(value)
    return is_dequantized(value) or (isinstance(producer, ObserveOp) and producer.qparams is not None)


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
    deciding = QuantizeRecurrent(request, remarks)
    apply_once(module, [deciding])
    return Decided(deciding.layers)


class QuantizeRecurrent(DecideRecurrent):
    """An LSTM or a GRU: its input, its state, W, R and the biases; W and R by themselves need only `weight-constant`."""

    def __init__(self, request: Resolved, remarks: Remarks):
        super().__init__(request, remarks)
        self.layers: list[Layer] = []

    def alone(self, m: Recurrent) -> bool:
        return _weights_only(m, self.held(m), self.request, self.given(m))

    def rewrite(self, m: Recurrent, rewriter: PatternRewriter) -> None:
        held, given, alone = self.held(m), self.given(m), self.alone(m)
        points = () if alone else tuple(_recurrent_points(m, held, given))
        weights = tuple(_recurrent_weights(m, held, self.request.record))
        set_plan(m.op, Plan(None, not alone, points, weights=weights))
        if alone:
            _note_weights_alone(m, held, given, self.remarks)
            return
        self.layers.append(Layer.at(m.site, Row(), None, held))
        source = f"input and state observed by {held.observer}" if given is None else "parameters from the record"
        self.remarks.applied(m.op, "observed", source)
        if held.migration_strength is not None and given is None:
            reason = "its channels are not balanced: AMCT does not balance recurrent layers"
            self.remarks.missed(m.op, "weight", reason)


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
        yield Point("operand", index, how_of(held, entry))
    if (bias := each.place("bias")) is not None:
        yield Point("operand", bias, Unobserved("derived"))
    if given is None and shape_of(each.op.operands[0])[0] != 1:
        yield Point("result", 0, Unobserved("shared with", point_name(each.layer.name, "operand", index)))


def _weights_only(each: Recurrent, held: LayerSettings, request: Requested, given: LayerRecord | None) -> bool:
    """Whether only the weights are to be quantized: if that is requested, or if the layer cannot compute in integers but a
    record has scales of its weights."""
    if request.record is None:
        return held.weight_compress_only
    whole = given is not None and given.scale_d is not None and given.scale_h is not None
    refused = request.profile.recurrent_refusal(each.op.op_type.data) is not None
    return not whole or refused or each.float_because is not None


def _recurrent_weights(each: Recurrent, held: LayerSettings, record: Record | None) -> Iterator[How]:
    """The plans of W and R: from the record, else from the settings."""
    for name, value in zip("wr", each.weights, strict=True):
        if record is not None:
            yield recorded_weight(record, each.layer.name, name, ROWS, shape_of(value))
        else:
            assert held.weight is not None, "a recurrent layer has weights"
            given = held.weight if isinstance(held.weight, Arq) else Arq(held.weight.channel_wise)
            given = replace(given.by_channel, number_format=None)
            yield given.how(ROWS if given.channel_wise else None)


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


def decide_tables(module: ModuleOp, request: Resolved, remarks: Remarks) -> None:
    """Plan the weights of experts and, if asked for, the tables of embeddings by themselves, or leave a remark why one stays
    float: with a record all do.
    """
    tables = (QuantizeEmbedding(request, remarks),) if request.settings.embeddings else ()
    apply_once(module, [QuantizeExperts(request, remarks), *tables])


class QuantizeEmbedding(DecideEmbedding):
    """A Gather of rows of a table: the table, by itself, with a scale for each row, or for groups in each row"""

    def rewrite(self, m: Embedding, rewriter: PatternRewriter) -> None:
        held = self.held(m).weight
        assert held is not None, "a table has settings"
        set_plan(m.op, Plan(weights=(m.how(held if isinstance(held, Arq) else Arq(held.channel_wise)),)))
        self.remarks.applied(m.op, "weight-only", "its table is quantized by itself")


class QuantizeExperts(DecideExperts):
    """A Gather of weights of experts: a scale for each output channel of each expert, or for groups of its input channels"""

    def rewrite(self, m: Experts, rewriter: PatternRewriter) -> None:
        held = self.held(m).weight
        assert held is not None, "experts have settings"
        set_plan(m.op, Plan(weights=(m.how(held if isinstance(held, Arq) else Arq(held.channel_wise)),)))
        count = shape_of(m.op.input)[0]
        self.remarks.applied(m.op, "weight-only", f"the weights of its {count} experts are quantized by themselves")
