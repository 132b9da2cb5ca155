"""Recurrent layers: W and R as integers, each with its own scales; with input, state and biases where the layer computes in
integers, alone otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, ClassVar, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter
from xdsl.rewriter import InsertPoint, Rewriter

from ....configuration.layer_settings import LayerSettings
from ....configuration.record import LayerRecord, Record
from ....configuration.settings import Arq
from ....dialects.nn import (
    ObserveOp,
    OpaqueOp,
    Plan,
    QParams,
    SliceOp,
    WeightPlan,
    array_of,
    before_points,
    plan_of,
    set_plan,
)
from ....dialects.nn.shapes import shape_of
from ....rewriting import Remarks, Roots, strict
from ....runtime.affine import are_normal
from ..decide.planned_weights import recorded_weight, weight_as_held
from ..decide.planning import SKIPPED
from ..decide.recurrent import INPUT, ROWS, STATE, Recurrent, recurrent_layers
from ..place.alignment import align
from ..place.points import Points, Spec, make_point, producer_of, spec_of
from ..request import Request, Resolved
from .conversion import ConversionPattern, carry_out
from .layer_weights import Weight, described, feed_bias, weight_as
from .parameters import bias_fits, quantized_bias, sum_scales, widened

Array = np.ndarray[Any, np.dtype[Any]]


def plan_recurrent(module: ModuleOp, request: Resolved, remarks: Remarks) -> None:
    """Decide for each recurrent layer whether it computes in integers, whether only its weights are quantized, or neither, and
    leave a remark. Points observe the input and the state of a layer that computes in integers.

    Raises CompileError, located in the record's file, for scales that do not fit a weight.
    """
    points = Points(module)
    for each in list(recurrent_layers(module)):
        if each.is_quantized or (plan_of(each.op) is not None and request.record is None):
            continue
        held = request.layers.held[each.op]
        given = None if request.record is None else request.record.layers.get(each.layer.name)
        alone = _alone(each, held, request, given)
        if (broken := _broken(each, held, request, given, alone)) is not None:
            set_plan(each.op, Plan(broken[0]))
            remarks.missed(each.op, *broken)
            continue
        set_plan(each.op, Plan(input=not alone, weights=tuple(_weights(each, held, request.record))))
        if alone:
            _note_weights_alone(each, held, given, remarks)
        else:
            _observe(each, held, given, points)
            source = f"input and state observed by {held.observer}" if given is None else "parameters from the record"
            remarks.applied(each.op, "observed", source)
            if held.migration_strength is not None and given is None:
                remarks.missed(
                    each.op, "weight", "its channels are not balanced: AMCT does not balance recurrent layers"
                )
    points.erase_unused()


def _alone(each: Recurrent, held: LayerSettings, request: Request, given: LayerRecord | None) -> bool:
    """Whether only the weights are to be quantized: if that is requested, or if the layer cannot compute in integers but a
    record has scales of its weights."""
    if request.record is None:
        return held.weight_compress_only
    whole = given is not None and given.scale_d is not None and given.scale_h is not None
    return not whole or request.profile.points == "values" or each.float_because is not None


def _broken(
    each: Recurrent, held: LayerSettings, request: Request, given: LayerRecord | None, alone: bool
) -> tuple[str, str] | None:
    """The rule that leaves a layer in float, by its name, and the reason."""
    if held.skipped is not None:
        return held.skipped, SKIPPED[held.skipped]
    if request.record is not None and (given is None or not given.scale_r):
        return "record", "the record does not list it"
    if alone:
        return each.broken
    if request.profile.points == "values":
        return "weight-only", f"profile {request.profile.name} quantizes only its weights, on request"
    return each.float_because


def _weights(each: Recurrent, held: LayerSettings, record: Record | None) -> Iterator[WeightPlan]:
    """The plans of W and R: from the record, else from the settings."""
    for name, value in zip("wr", each.weights, strict=True):
        if record is not None:
            yield recorded_weight(record, each.layer.name, name, ROWS, shape_of(value))
        else:
            assert held.weight is not None, "a recurrent layer has weights"
            given = held.weight if isinstance(held.weight, Arq) else Arq(held.weight.channel_wise)
            yield weight_as_held(replace(given, group_size=None), ROWS if given.channel_wise else None)


def _note_weights_alone(each: Recurrent, held: LayerSettings, given: LayerRecord | None, remarks: Remarks) -> None:
    remarks.applied(each.op, "weight-only", "it stays float, its weights W and R are quantized")
    if isinstance(held.weight, Arq) and held.weight.group_size is not None and given is None:
        reason = "its weights have a scale for each row, not for each group: they are not matrices"
        remarks.missed(each.op, "matrix-weight", reason)
    if given is not None and (given.scale_d is not None or given.scale_h is not None):
        why = "" if each.float_because is None else f", because {each.float_because[1]}"
        reason = f"the record's scales of its input and state are not used: these stay float{why}"
        remarks.note(each.op, "record", reason)


def _observe(each: Recurrent, held: LayerSettings, given: LayerRecord | None, points: Points) -> None:
    """Points on input and state, with a record's parameters if there are any. The state is observed together with the states
    that follow it: the operator quantizes each of them (AMCT calibrates on all).
    """
    name = each.layer.name
    for what in (INPUT, STATE):
        place, value = each.place(what), each.operand(what)
        assert place is not None, "legality has asked for it"
        assert value is not None
        points.observe(each.site, place, before_points(value), _spec(held, given, what), f"{name}:{place}")
    point = producer_of(each.operand(STATE))
    assert isinstance(point, ObserveOp)
    if given is not None or shape_of(each.op.operands[0])[0] == 1:
        return
    later = SliceOp.make(each.op.results[0], starts=(0,), ends=(-1,), axes=(0,), location=each.op.location)
    after = make_point(later.result, f"{name}:states", _spec(held, given, STATE), each.op.location)
    Rewriter.insert_op([later, after], InsertPoint.after(each.op))
    align("joint", f"{name}:state", [point, after], ())


def _spec(held: LayerSettings, given: LayerRecord | None, what: str) -> Spec:
    if given is not None and what == STATE:
        given = replace(given, scale_d=given.scale_h, offset_d=given.offset_h)
    return spec_of(held, given)


class PlannedRecurrent:
    """A recurrent layer with the plan of its weights."""

    def __init__(self, layer: Recurrent, plan: Plan):
        self.layer, self.plan = layer, plan
        activations = layer.activations if plan.input else None
        self.inputs: list[QParams] = [] if activations is None else [one.qparams.data for one in activations]
        """The parameters of its input and its state; none if they stay float."""

    @cached_property
    def biases(self) -> list[Array | None]:
        """The biases of the input and of the state."""
        numbers = array_of(self.layer.operand("bias"))
        return [None, None] if numbers is None else [*np.split(numbers.reshape(-1), 2)]

    @cached_property
    def weights(self) -> list[Weight]:
        """W and R, with scales in which the biases fit into int32. Raises CompileError like `weight_as`."""
        pairs = zip(self.layer.weights, self.plan.weights, strict=True)
        found = [weight_as(value, how, self.layer.op) for value, how in pairs]
        for i, (weight, half, params) in enumerate(zip(found, self.biases, self.inputs, strict=False)):
            if not weight.fixed:
                found[i] = weight._replace(scales=widened(weight.scales, half, float(params.scales())))
        return found

    @cached_property
    def sums(self) -> list[Array]:
        """The scales of the sums that the biases are added to: float32, [] or [gates * hidden]; none if its inputs stay float."""
        return [sum_scales(w.scales, p.scales()) for w, p in zip(self.weights, self.inputs, strict=False)]


class ConvertRecurrent(ConversionPattern[PlannedRecurrent]):
    """a recurrent layer, with integers for W and R, and for its biases if its input and its state are quantized"""

    name = "recurrent"
    roots: ClassVar[Roots] = (OpaqueOp,)

    @strict()
    def both_weights(self, m: PlannedRecurrent) -> str | None:
        """its plan has W and R"""
        whole = len(m.plan.weights) == len(m.layer.weights)
        return None if whole else "has a plan for one weight, where W and R are quantized together"

    @strict("give skip-layers={layer}")
    def normal_sums(self, m: PlannedRecurrent) -> str | None:
        """the scales of its sums are normal float32 numbers"""
        return None if all(map(are_normal, m.sums)) else "has sums in units that are not normal float32 numbers"

    @strict("give skip-layers={layer}")
    def biases_fit(self, m: PlannedRecurrent) -> str | None:
        """its biases fit into int32 at the scales of a record; scales that are computed are raised until they do"""
        halves = zip(m.biases, m.sums, strict=False)
        fit = all(half is None or bias_fits(half, sums) for half, sums in halves)
        return None if fit else "has a bias that does not fit into int32 at these scales"

    def match(self, op: Operation) -> PlannedRecurrent | None:
        """The layer; none whose points are not calibrated: their remarks say so."""
        each, plan = self.conversion.recurrent.get(cast(OpaqueOp, op)), plan_of(op)
        if each is None or plan is None or not plan.weights or each.is_quantized:
            return None
        return PlannedRecurrent(each, plan) if not plan.input or each.activations is not None else None

    def rewrite(self, m: PlannedRecurrent, rewriter: PatternRewriter) -> None:
        each, how = m.layer, ""
        if m.inputs:
            x, h = (f"{float(p.scales()):.6g}, zero point {p.zero_point[0]}" for p in m.inputs)
            how = f"input, scale {x}; state, scale {h}; "
            if (numbers := array_of(each.operand("bias"))) is not None:
                rows = shape_of(each.weights[0])[ROWS : ROWS + 1]
                units = np.concatenate([np.broadcast_to(sums, rows) for sums in m.sums])
                place = each.place("bias")
                assert place is not None, "its bias has numbers"
                feed_bias(each.site, place, quantized_bias(numbers, units), units, 1)
        for index, weight in enumerate(m.weights, 1):
            self.conversion.weights.feed(each.site, index, weight)
        w, r = map(described, m.weights)
        self.remarks.applied(each.op, "quantized", f"{how}W {w}, R {r}{'' if m.inputs else ', alone'}")
        carry_out(each.op, self.remarks)
