"""`--convert-observers`: from observed values to integers and back: Q/DQ on activations, integer weights and biases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, i32
from xdsl.ir import OpResult, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ...collector import collector_aside
from ...configuration.layer_settings import settings_for
from ...configuration.record import Record
from ...configuration.settings import Settings
from ...diagnostics import op_error
from ...dialects.nn import (
    ConstantOp,
    DequantizeOp,
    ObserveOp,
    QParams,
    QParamsAttr,
    QuantizeOp,
    array_of,
    constant_of,
    set_type,
)
from ...rewriting import Remarks, erase_dead_constants, layer_of
from ...session import Session, session_of
from ..fusion.fuse_activation.activations import LINEAR, single_kind
from .layers import has_integer_weight, layer_at, named_in
from .legality import first_broken
from .options import SettingsOptions
from .pairs import quantized_pair
from .parameters import bias_fits, quantized_bias, widened_for_bias
from .precision import round_scales, wants_fp16
from .profiles import Profile, Row, profile_of
from .sites import Site, sites
from .values.grids import point_behind
from .weights.layer_weights import IntegerWeights, Weight, described, weight_at
from .weights.non_uniform_layers import layers_of_few_levels
from .weights.recurrent_weights import quantize_recurrent
from .weights.weight_only import takes_weight_only, weight_only_layers

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class ConvertObserversPass(SettingsOptions, ModulePass):
    """Turn calibrated observers into quantize and dequantize, and the weights and biases behind them into integers."""

    name = "convert-observers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        settings = self.settings()
        convert_observers(op, settings, self.records(settings), session_of(ctx))


@collector_aside()
def convert_observers(module: ModuleOp, settings: Settings, record: Record | None, session: Session) -> None:
    """Quantize what is observed and calibrated, and weights alone where these are asked for; weights as the record has them, else
    as settings say.

    Raises CompileError, located in the record's file, for scales that do not fit a weight.
    """
    remarks = Remarks(session, ConvertObserversPass.name)
    profile = profile_of(session)
    settings = named_in(settings, module, profile)
    if wants_fp16(settings, record):
        round_scales(module, remarks)
    weights = IntegerWeights()
    alone = list(weight_only_layers(module, settings, record, profile))
    observed = [
        (site, point)
        for site in sites(module, profile.rows)
        if (point := _point_of(site, profile)) is not None and not _stays_float(site, settings, record, profile)
    ]
    for point in [o for o in module.walk() if isinstance(o, ObserveOp)]:
        if point.qparams is None:
            remarks.missed(point, "calibrated", "it has no parameters: run --calibrate first")
        else:
            _convert_point(point)
    few = {} if record is not None else layers_of_few_levels(settings, [site for site, _ in observed], profile, session)
    for site, params in observed:
        row = profile.rows[type(site.compute)]
        weight = weight_at(site, row, settings, record, few)
        if weight is not None:
            _convert_parameters(site, row, weight, params, weights)
        remarks.applied(site.compute, "quantized", _summary(site, row, params, weight))
        if weight is not None and weight.refused is not None:
            remarks.missed(site.compute, weight.refused[0].name, f"its weight takes all levels: {weight.refused[1]}")
    for site in alone:
        row = profile.rows[type(site.compute)]
        weight = weight_at(site, row, settings, record, {})
        assert weight is not None, "legality has asked for it"
        assert row.weight is not None
        weights.feed(site, row.weight, weight)
        remarks.applied(site.compute, "quantized", f"{described(weight)}, alone")
    quantize_recurrent(module, settings, record, weights, remarks)
    erase_dead_constants(module)
    remarks.flush()
    if not any(isinstance(op, DequantizeOp) for op in module.walk()):
        session.warn("nothing is quantized: the remarks say why")


def _convert_point(point: ObserveOp) -> None:
    """`observe x` becomes `dequantize(quantize x)`."""
    assert point.qparams is not None
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


def _point_of(site: Site, profile: Profile) -> QParams | None:
    """The parameters of a site whose activation is on the grid of a calibrated point: the first that did not come quantized."""
    values = (site.operand(i) for i in (site.inputs if profile.points == "layers" else (0,)))
    points = (point_behind(value, profile.rows) for value in values)
    calibrated = (p.qparams.data for p in points if isinstance(p, ObserveOp) and p.qparams is not None)
    return next(calibrated, None)


def _stays_float(site: Site, settings: Settings, record: Record | None, profile: Profile) -> bool:
    """Where values have points, layers whose inputs are not quantized may read through them."""
    if profile.points == "layers":
        return False
    row = profile.rows[type(site.compute)]
    if has_integer_weight(site) or takes_weight_only(site, row, settings, record):
        return True
    if record is not None and layer_of(site.compute) not in record.layers:
        return True
    moves_elements = not row.active and site.owner is site.compute
    if row.between and not moves_elements and not _is_between_points(site, profile):
        return True
    skipped = settings_for(settings, layer_at(site, row)).skipped
    return skipped is not None or first_broken(site, row.rules, profile.table) is not None


def _is_between_points(site: Site, profile: Profile) -> bool:
    """Whether an operation takes quantized values alone, and its result, or that of its activation, is read quantized."""
    operands = (site.operand(i) for i in range(len(site.compute.operands)))
    if any(value is not None and point_behind(value, profile.rows) is None for value in operands):
        return False
    result, uses = site.owner.results[0], list(site.owner.results[0].uses)
    if len(uses) == 1 and not isinstance(uses[0].operation, ObserveOp) and single_kind(uses[0].operation) in LINEAR:
        result = uses[0].operation.results[0]
    return bool(result.uses) and all(isinstance(use.operation, ObserveOp | QuantizeOp) for use in result.uses)


def _convert_parameters(site: Site, row: Row, weight: Weight, params: QParams, weights: IntegerWeights) -> None:
    scales, input_scale = weight.scales, params.scales()
    bias = None if row.bias is None else site.operand(row.bias)
    numbers = None if bias is None else array_of(bias)
    if numbers is not None and not weight.fixed:
        scales = widened_for_bias(scales, numbers, float(input_scale))
    sums = _accumulator_scales(site, scales, input_scale)
    if bias is not None and numbers is not None:
        if weight.fixed:
            _check_bias(site, numbers, sums)
        assert row.bias is not None
        site.set_operand(row.bias, _integer_bias(site, bias, numbers, sums))
    assert row.weight is not None
    weights.feed(site, row.weight, weight._replace(scales=scales))


def _accumulator_scales(site: Site, scales: Array, input_scale: Array) -> Array:
    """float32, [] or [channels]. Raises CompileError, located at the layer, where float32 does not hold them."""
    with np.errstate(over="ignore", under="ignore"):
        products = np.asarray(scales * input_scale, np.float32)
    if not np.all((products > 0) & np.isfinite(products)):
        largest = float(np.max(scales))
        reason = f"has sums in units of {float(input_scale):.6g} times {largest:.6g}, which float32 cannot represent"
        raise op_error(site.compute, reason, f"give skip-layers={layer_of(site.compute)}")
    return products


def _check_bias(site: Site, bias: Array, scales: Array) -> None:
    """Raises CompileError, located at the layer, where a bias in units of given scales does not fit into int32."""
    if not bias_fits(bias, scales):
        hint = f"leave it out of the record, or give skip-layers={layer_of(site.compute)}"
        raise op_error(site.compute, "has a bias that does not fit into int32 at the record's scales", hint)


def _integer_bias(site: Site, bias: SSAValue, values: Array, scales: Array) -> SSAValue:
    """The dequantized int32 form of a bias at the accumulator's scales, placed before its layer."""
    constant = constant_of(bias)
    assert constant is not None
    key = constant.key.removesuffix(".folded")
    integers = ConstantOp.of(quantized_bias(values, scales), f"{key}.i32", constant.location)
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
        scales = (f"{float(back.qparams.data.scales()):.6g}" for i in site.inputs if (back := _back(site.operand(i))))
        return f"int{bits} inputs, scales {' and '.join(scales)}"
    activation = f"int{bits} input, scale {scale}, zero point {params.zero_point[0]}"
    return activation if weight is None else f"{activation}; {described(weight)}"


def _back(value: SSAValue | None) -> DequantizeOp | None:
    return value.op if isinstance(value, OpResult) and isinstance(value.op, DequantizeOp) else None
