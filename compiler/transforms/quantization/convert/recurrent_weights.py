"""Recurrent layers: W and R as integers, each with its own scales; with input, state and biases where the layer computes in
integers, alone otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.rewriter import InsertPoint, Rewriter

from ....configuration.layer_settings import LayerSettings
from ....configuration.record import LayerRecord, Record
from ....configuration.settings import Arq
from ....diagnostics import op_error
from ....dialects.nn import (
    ConstantOp,
    DequantizeOp,
    ObserveOp,
    Plan,
    QParams,
    QParamsAttr,
    SliceOp,
    WeightPlan,
    array_of,
    before_points,
    constant_of,
    plan_of,
    set_plan,
)
from ....dialects.nn.shapes import shape_of
from ....rewriting import Remarks
from ....runtime.affine import are_normal
from ..decide.planned_weights import recorded_weight, weight_as_held
from ..decide.planning import SKIPPED
from ..decide.recurrent import INPUT, ROWS, STATE, Recurrent, recurrent_layers
from ..place.alignment import align
from ..place.points import Points, Spec, make_point, producer_of, spec_of
from ..request import Request, Resolved
from .layer_weights import IntegerWeights, Weight, described, weight_as
from .parameters import bias_fits, quantized_bias, widened

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


def quantize_recurrent(module: ModuleOp, weights: IntegerWeights, remarks: Remarks) -> None:
    """Feed integer weights, and biases, to the recurrent layers that are planned to have them.

    Raises CompileError, located at the layer, for a plan that does not fit its weights.
    """
    for each in list(recurrent_layers(module)):
        plan = plan_of(each.op)
        if each.is_quantized or plan is None or not plan.weights:
            continue
        if len(plan.weights) != len(each.weights):
            raise op_error(each.op, "has a plan for one weight, where W and R are quantized together")
        found = [weight_as(value, how, each.op) for value, how in zip(each.weights, plan.weights, strict=True)]
        if plan.input:
            if (activations := each.activations) is None:
                continue  # its points are not calibrated, which a remark says
            params = [one.qparams.data for one in activations]
            found = _with_biases(each, found, params)
            x, h = (f"{float(p.scales()):.6g}, zero point {p.zero_point[0]}" for p in params)
            how = f"input, scale {x}; state, scale {h}; "
        else:
            how = ""
        for index, weight in enumerate(found, 1):
            weights.feed(each.site, index, weight)
        alone = "" if plan.input else ", alone"
        remarks.applied(each.op, "quantized", f"{how}W {described(found[0])}, R {described(found[1])}{alone}")


def _with_biases(each: Recurrent, weights: list[Weight], inputs: list[QParams]) -> list[Weight]:
    """The weights with scales in which the biases fit into int32, after the biases of the input and of the state have become
    int32 in units of the sums that they are added to.
    """
    bias = each.operand("bias")
    numbers = None if bias is None else array_of(bias)
    halves: list[Array | None] = [None, None] if numbers is None else [*np.split(numbers.reshape(-1), 2)]
    scaled: list[Weight] = []
    units: list[Array] = []
    for weight, half, params in zip(weights, halves, inputs, strict=True):
        scale = params.scales()
        scales = weight.scales if weight.fixed else widened(weight.scales, half, float(scale))
        with np.errstate(over="ignore", under="ignore"):
            sums = np.asarray(scales * scale, np.float32)
        if not are_normal(sums):
            raise op_error(each.op, "has sums in units that are not normal float32 numbers", _skip(each))
        if half is not None and not bias_fits(half, sums):
            raise op_error(each.op, "has a bias that does not fit into int32 at these scales", _skip(each))
        scaled.append(weight._replace(scales=scales))
        units.append(np.broadcast_to(sums, shape_of(weight.value)[ROWS : ROWS + 1]))
    if bias is not None and numbers is not None:
        _feed_bias(each, numbers, np.concatenate(units))
    return scaled


def _skip(each: Recurrent) -> str:
    return f"give skip-layers={each.layer.name}"


def _feed_bias(each: Recurrent, numbers: Array, units: Array) -> None:
    """Feed the dequantized int32 form of the biases `[1, 2 * gates * hidden]`."""
    place, bias = each.place("bias"), each.operand("bias")
    constant = constant_of(bias)
    assert place is not None
    assert bias is not None
    assert constant is not None
    key = constant.key.removesuffix(".folded")
    integers = ConstantOp.of(quantized_bias(numbers, units), f"{key}.i32", constant.location)
    qparams = QParamsAttr.of(i32, units, axis=1, key=f"{key}.scale")
    back = DequantizeOp.make(
        integers.result, qparams=qparams, result_types=[bias.type], location=constant.location, name=bias.name_hint
    )
    Rewriter.insert_op([integers, back], InsertPoint.before(each.op))
    each.op.operands[place] = back.result
