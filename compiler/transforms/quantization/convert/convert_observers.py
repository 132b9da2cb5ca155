"""`--convert-observers`: from observed values to integers and back: Q/DQ on activations, integer weights and biases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ....diagnostics import Remark, op_error
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
    constant_of,
    dequantize_of,
    plan_of,
    set_plan,
    set_type,
)
from ....rewriting import Remarks, erase_dead_constants, layer_of
from ....rewriting.driver import garbage_collection_off
from ....runtime.affine import LEAST_SCALE, are_normal
from ....session import Session, session_of
from ..decide.layers import channel_axis, layer_at
from ..decide.legality import first_broken
from ..decide.sites import Site, graph_points, note_other_functions, sites
from ..place.grids import Grids
from ..profiles import Profile, Row, profile_of
from .layer_weights import IntegerWeights, Weight, described, weight_as, zeroed_scales
from .pairs import quantized_pair
from .parameters import bias_fits, quantized_bias, widened
from .precision import round_scales
from .recurrent_weights import quantize_recurrent

Array = np.ndarray[Any, np.dtype[Any]]

ROUNDED_FROM = "nn.rounded_from"
"""The attribute of a layer that keeps its weight from before `--round-weights`, which `--correct-bias` compares with."""


@dataclass(frozen=True)
class ConvertObserversPass(ModulePass):
    """Turn calibrated observers into quantize and dequantize, and weights and biases into integers, as the layers' plans have it.

    A layer without a plan, whose observer was placed by hand, has 8-bit weights, per channel where the profile has them so.
    """

    name = "convert-observers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        convert_observers(op, session_of(ctx))


@garbage_collection_off()
def convert_observers(module: ModuleOp, session: Session) -> None:
    """Quantize what is observed and calibrated, and the weights that are planned to be quantized alone."""
    remarks = Remarks(session, ConvertObserversPass.name)
    note_other_functions(module, remarks, ObserveOp)
    profile = profile_of(session)
    round_scales(module, remarks)
    weights = IntegerWeights()
    found = [(site, profile.rows[type(site.compute)], _plan_at(site, profile)) for site in sites(module, profile.rows)]
    grids = Grids(profile.rows)
    observed = [
        (s, row, plan, point) for s, row, plan in found if plan.input and (point := point_of(s, profile, grids))
    ]
    for point in graph_points(module):
        if point.qparams is None:
            remarks.missed(point, "calibrated", "it has no parameters: run --calibrate first")
        else:
            _convert_point(point)
    for site, row, plan, params in observed:
        weight = _weight_at(site, row, plan)
        raised = [] if weight is None else [*_raised(weight, params, _bias_at(site, row))]
        if weight is not None:
            _convert_parameters(site, row, weight, params, weights)
        remarks.applied(site.compute, "quantized", _summary(site, row, params, weight))
        for rule, reason in raised:
            remarks.note(site.compute, rule, reason)
        _note_zeroed(site, weight, remarks)
    for site, row, plan in found:
        if plan.input or (weight := _weight_at(site, row, plan)) is None:
            continue
        assert row.weight is not None, "it has a weight"
        weights.feed(site, row.weight, weight)
        remarks.applied(site.compute, "quantized", f"{described(weight)}, alone")
        _note_zeroed(site, weight, remarks)
    quantize_recurrent(module, weights, remarks)
    _drop_plans(module, {site.compute for site, *_ in observed}, remarks)
    erase_dead_constants(module)
    remarks.flush()
    if not any(isinstance(op, DequantizeOp) for op in module.walk()):
        session.warn(f"nothing is quantized: {_reasons(session.remarks)}")


def _reasons(remarks: Sequence[Remark]) -> str:
    """The most frequent reasons why layers stay in float."""
    first: dict[str, Remark] = {}
    for remark in remarks:
        if remark.pass_name == "insert-observers" and remark.kind == "missed":
            first.setdefault(remark.layer, remark)
    reasons = Counter((r.op, r.reason) for r in first.values()).most_common(_LISTED)
    shown = [f"{count} {op}, because {reason}" for (op, reason), count in reasons]
    return "; ".join(shown) or "the model has no layer of a type that the profile quantizes"


_LISTED = 2
"""Reasons in a warning; the remarks have all of them."""


def _plan_at(site: Site, profile: Profile) -> Plan:
    """The layer's plan; where nothing has decided, what an observer that was placed by hand asks for."""
    if (plan := plan_of(site.compute)) is not None:
        return plan
    row = profile.rows[type(site.compute)]
    if profile.points == "values" and (broken := first_broken(site, row.rules, profile.table)) is not None:
        return Plan(broken[0].name)
    return Plan(
        input=True, weights=(WeightPlan(8, channel_axis(site.compute) if layer_at(site, row).channel_wise else None),)
    )


def _weight_at(site: Site, row: Row, plan: Plan) -> Weight | None:
    """The layer's weight as its plan has it; None where it has no constant one."""
    if row.weight is None or not plan.weights or array_of(value := site.operand(row.weight)) is None:
        return None
    assert value is not None, "a constant is a value"
    return weight_as(value, plan.weights[0], site.compute)


def _drop_plans(module: ModuleOp, done: Container[Operation], remarks: Remarks) -> None:
    """Drop plans that are carried out, but for sums that are to be shifted. While points are not calibrated, the others stay."""
    unfinished = bool(graph_points(module))
    for op in module.walk():
        if (plan := plan_of(op)) is None or (unfinished and op not in done):
            continue
        op.attributes.pop(ROUNDED_FROM, None)
        if plan.balance is not None:
            reason = "its channels are not balanced: --balance-channels comes before --calibrate"
            remarks.missed(op, "balance", reason)
        if any(weight.rounding is not None for weight in plan.weights):
            remarks.note(op, "rounding", "its weight is rounded to the nearest numbers: --round-weights did not run")
        if plan.shift:
            remarks.note(op, "shift", "its sums keep 32 bits until --shift-accumulators shifts them")
        set_plan(op, Plan(input=True, shift=plan.shift) if plan.shift else None)


def _convert_point(point: ObserveOp) -> None:
    """`observe x` becomes `dequantize(quantize x)`; a point that nothing reads is erased."""
    assert point.qparams is not None
    if not point.result.uses:  # it only saw values, for the other points of its group
        source = point.input.owner
        Rewriter.erase_op(point)
        if isinstance(source, SliceOp) and not source.result.uses:
            Rewriter.erase_op(source)
        return
    quantize, dequantize = quantized_pair(
        point.input,
        point.qparams,
        point.location,
        point.input.name_hint,
        source=point.source,
        group=point.group,
        master=point.master,
    )
    set_type(dequantize.result, point.result.type)
    Rewriter.replace_op(point, [quantize, dequantize], [dequantize.result])


def point_of(site: Site, profile: Profile, grids: Grids) -> QParams | None:
    """The parameters of a site whose activation is on the grid of a calibrated point: the first that did not come quantized."""
    values = (site.operand(i) for i in (site.inputs if profile.points == "layers" else (0,)))
    points = map(grids.behind, values)
    calibrated = (p.qparams.data for p in points if isinstance(p, ObserveOp) and p.qparams is not None)
    return next(calibrated, None)


def _convert_parameters(site: Site, row: Row, weight: Weight, params: QParams, weights: IntegerWeights) -> None:
    scales, input_scale = weight.scales, params.scales()
    bias, numbers = None if row.bias is None else site.operand(row.bias), _bias_at(site, row)
    if not weight.fixed:
        scales = widened(scales, numbers, float(input_scale))
    sums = _accumulator_scales(site, scales, input_scale)
    if bias is not None and numbers is not None:
        dtype = np.float32 if row.as_amct else np.float64
        if weight.fixed:
            _check_bias(site, numbers, sums, dtype)
        assert row.bias is not None
        site.set_operand(row.bias, _integer_bias(site, bias, quantized_bias(numbers, sums, dtype), sums))
    assert row.weight is not None
    weights.feed(site, row.weight, weight._replace(scales=scales))


def _bias_at(site: Site, row: Row) -> Array | None:
    """The numbers of a layer's bias; None without a constant one."""
    bias = None if row.bias is None else site.operand(row.bias)
    return None if bias is None else array_of(bias)


def _raised(weight: Weight, params: QParams, bias: Array | None) -> Iterator[tuple[str, str]]:
    """The rules by which scales of a weight are raised, with how many and why; those of records stay."""
    if weight.fixed:
        return
    rest = f"of {weight.scales.size} weight scales are raised, so that"
    products = weight.scales.astype(np.float64) * float(params.scales())
    if small := int(np.count_nonzero(products < LEAST_SCALE)):
        yield "scale-range", f"{small} {rest} float32 has the scales of its sums"
    least, fitting = (widened(weight.scales, each, float(params.scales())) for each in (None, bias))
    if raised := int(np.count_nonzero(fitting > least)):
        yield "bias-range", f"{raised} {rest} its bias fits into int32"


def _note_zeroed(site: Site, weight: Weight | None, remarks: Remarks) -> None:
    """Name a layer that a record zeroes, or AMCT's rule, which makes small scales 1."""
    if weight is not None and (zeroed := zeroed_scales(weight)):
        reason = (
            f"all weights under {zeroed} of {weight.scales.size} scales become zero: the scales are too large for them"
        )
        remarks.note(site.compute, "zeroed", reason)


def _accumulator_scales(site: Site, scales: Array, input_scale: Array) -> Array:
    """float32, [] or [channels]. Raises CompileError, located at the layer, if they are not normal float32 numbers."""
    with np.errstate(over="ignore", under="ignore"):
        products = np.asarray(scales * input_scale, np.float32)
    if not are_normal(products):
        largest = float(np.max(scales))
        reason = (
            f"has sums in units of {float(input_scale):.6g} times {largest:.6g}, which is not a normal float32 number"
        )
        raise op_error(site.compute, reason, f"give skip-layers={layer_of(site.compute)}")
    return products


def _check_bias(site: Site, bias: Array, scales: Array, dtype: type[np.floating]) -> None:
    """Raises CompileError, located at the layer, where a bias in units of given scales does not fit into int32."""
    if not bias_fits(bias, scales, dtype):
        hint = f"leave it out of the record, or give skip-layers={layer_of(site.compute)}"
        raise op_error(site.compute, "has a bias that does not fit into int32 at the record's scales", hint)


def _integer_bias(site: Site, bias: SSAValue, values: Array, scales: Array) -> SSAValue:
    """The dequantized int32 values of a bias at the accumulator's scales, placed before its layer."""
    constant = constant_of(bias)
    assert constant is not None
    key = constant.key.removesuffix(".folded")
    integers = ConstantOp.of(values, f"{key}.i32", constant.location)
    axis = 0 if scales.ndim else None
    qparams = QParamsAttr.of(i32, scales, axis=axis, key=f"{key}.scale")
    back = DequantizeOp.make(
        integers.result, qparams=qparams, result_types=[bias.type], location=constant.location, name=bias.name_hint
    )
    Rewriter.insert_op([integers, back], InsertPoint.before(site.owner))
    return back.result


def _summary(site: Site, row: Row, params: QParams, weight: Weight | None) -> str:
    bits, scale = params.storage.width.data, f"{float(params.scales()):.6g}"
    if row.two_inputs and site.multiplies_inputs:
        scales = (
            f"{float(back.qparams.data.scales()):.6g}" for i in site.inputs if (back := dequantize_of(site.operand(i)))
        )
        return f"int{bits} inputs, scales {' and '.join(scales)}"
    activation = f"int{bits} input, scale {scale}, zero point {params.zero_point[0]}"
    return activation if weight is None else f"{activation}; {described(weight)}"
