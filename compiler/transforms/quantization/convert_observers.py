"""`--convert-observers`: from observed values to integers and back: Q/DQ on activations, integer weights and biases."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerType, ModuleOp, i32
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from ...configuration.record import Record
from ...configuration.settings import Arq, Nuq, Settings, settings_for
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
)
from ...dtypes import numpy_dtype
from ...rewriting import Remarks, erase_dead_constants, layer_of
from ...runtime.affine import symmetric_scales
from ...session import Session, session_of
from .grids import point_behind
from .layers import channel_axis, layer_at
from .legality import Broken, first_broken, non_uniform_broken
from .non_uniform import levels_of, nearest
from .options import SettingsOptions
from .parameters import quantized, quantized_bias, widened_for_bias
from .profiles import Profile, Row, profile_named
from .sites import Site, sites

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class ConvertObserversPass(SettingsOptions, ModulePass):
    """Turn calibrated observers into quantize and dequantize, and the weights and biases behind them into integers."""

    name = "convert-observers"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        settings = self.settings()
        convert_observers(op, settings, self.records(settings), session_of(ctx))


def convert_observers(module: ModuleOp, settings: Settings, record: Record | None, session: Session) -> None:
    """Quantize what is observed and calibrated; weights as the record has them, else as settings say.

    Raises CompileError, located in the record's file, for scales that do not fit a weight.
    """
    remarks = Remarks(session, ConvertObserversPass.name)
    profile = profile_named(session.profile)
    weights: _Integers = {}
    observed = [
        (site, point)
        for site in sites(module, profile.rows)
        if (point := _point_of(site, profile)) is not None and not _stays_float(site, settings, profile)
    ]
    for point in [o for o in module.walk() if isinstance(o, ObserveOp)]:
        if point.qparams is None:
            remarks.missed(point, "calibrated", "it has no parameters: run --calibrate first")
        else:
            _convert_point(point)
    for site, params in observed:
        row = profile.rows[type(site.compute)]
        weight = _weight_of(site, row, settings, record)
        if weight is not None:
            _convert_parameters(site, row, weight, params, weights)
        remarks.applied(site.compute, "quantized", _summary(params, weight))
        if weight is not None and weight.refused is not None:
            remarks.missed(site.compute, weight.refused[0].name, f"its weight takes all levels: {weight.refused[1]}")
    erase_dead_constants(module)
    remarks.flush()


def _convert_point(point: ObserveOp) -> None:
    """`observe x` becomes `dequantize(quantize x)`."""
    assert point.qparams is not None
    hint = point.input.name_hint
    quantize = QuantizeOp.make(
        point.input,
        qparams=point.qparams,
        source=point.source,
        group=point.group,
        master=point.master,
        location=point.location,
        name=f"{hint}.q" if hint else None,
    )
    dequantize = DequantizeOp.make(
        quantize.result,
        qparams=point.qparams,
        result_types=[point.result.type],
        location=point.location,
        name=f"{hint}.dq" if hint else None,
    )
    Rewriter.replace_op(point, [quantize, dequantize], [dequantize.result])


def _point_of(site: Site, profile: Profile) -> QParams | None:
    """The parameters of a site whose activation is on the grid of a calibrated point."""
    point = point_behind(site.activation, profile.rows)
    return point.qparams.data if isinstance(point, ObserveOp) and point.qparams is not None else None


def _stays_float(site: Site, settings: Settings, profile: Profile) -> bool:
    """Where values have points, layers that are not quantized may read through them."""
    if profile.points == "layers":
        return False
    row = profile.rows[type(site.compute)]
    skipped = settings_for(settings, layer_at(site, row)).skipped
    return skipped is not None or first_broken(site, row.rules, profile.table) is not None


class _Weight(NamedTuple):
    """The weight of a layer, and how it is quantized."""

    value: SSAValue
    array: Array
    scales: Array
    """float32, [] or along `axis`."""
    axis: int | None
    bits: int
    levels: int | tuple[int, ...] | None = None
    """How many different integers there may be, or which; None for any."""
    refused: Broken | None = None
    """Why there may be any, though settings ask for few."""
    fixed: bool = False
    """The scales are a record's."""


_Integers = dict[tuple[SSAValue, bytes, int, int | tuple[int, ...] | None], SSAValue]
"""The integer form of weights, by weight, scales, bits and levels: one that layers share is made once."""


def _weight_of(site: Site, row: Row, settings: Settings, record: Record | None) -> _Weight | None:
    """None where the layer has no constant one."""
    if row.weight is None or (value := site.operand(row.weight)) is None or (array := array_of(value)) is None:
        return None
    layer = layer_at(site, row)
    if record is not None and layer.name in record.layers:
        return _recorded(site, value, array, record, layer.name)
    held = settings_for(settings, layer).weight
    assert isinstance(held, Arq | Nuq), "others are refused"
    axis = channel_axis(site.compute) if held.channel_wise else None
    uniform = _Weight(value, array, symmetric_scales(array, held.bits, axis), axis, held.bits)
    if not isinstance(held, Nuq):
        return uniform
    refused = non_uniform_broken(site, row.rules)
    if refused is not None and layer.name in settings.by_layer:
        raise op_error(site.compute, f"cannot have weights of few levels: {refused[1]}", "leave its nuq_quantize out")
    return uniform._replace(levels=held.num_steps if refused is None else None, refused=refused)


def _recorded(site: Site, value: SSAValue, array: Array, record: Record, name: str) -> _Weight:
    given = record.layers[name]
    scales = np.array(given.scale_w, np.float32)
    if not scales.size:
        raise record.error(name, "has no scale_w")
    levels = tuple(sorted(given.cluster)) or None
    if scales.size == 1:
        return _Weight(value, array, scales[0], None, given.weight_bits, levels, fixed=True)
    axis = channel_axis(site.compute)
    channels = None if axis is None else array.shape[axis]
    if channels != scales.size:
        takes = "one" if channels is None else f"one or {channels}"
        raise record.error(name, f"scale_w has {scales.size} numbers, its weight takes {takes}")
    return _Weight(value, array, scales, axis, given.weight_bits, levels, fixed=True)


def _convert_parameters(site: Site, row: Row, weight: _Weight, params: QParams, weights: _Integers) -> None:
    scales = weight.scales
    bias = None if row.bias is None else site.operand(row.bias)
    input_scale = params.scales()
    if bias is not None and (numbers := array_of(bias)) is not None:
        if weight.fixed:
            _check_bias(site, numbers, scales * input_scale)
        else:
            scales = widened_for_bias(scales, numbers, float(input_scale))
        assert row.bias is not None
        site.set_operand(row.bias, _integer_bias(site, bias, numbers, scales * input_scale))
    key = (weight.value, scales.tobytes(), weight.bits, weight.levels)
    if key not in weights:
        weights[key] = _integer_weight(weight._replace(scales=scales))
    assert row.weight is not None
    site.set_operand(row.weight, weights[key])


def _check_bias(site: Site, bias: Array, scales: Array) -> None:
    """Raises CompileError, located at the layer, where a bias in units of given scales is no int32."""
    if (np.abs(bias.astype(np.float64) / scales) >= 2**31).any():
        hint = f"leave it out of the record, or give skip-layers={layer_of(site.compute)}"
        raise op_error(site.compute, "has a bias that does not fit into int32 at the record's scales", hint)


def _integer_weight(weight: _Weight) -> SSAValue:
    """The dequantized integer form of a constant, placed right behind it. Integers of 5 to 7 bits are stored in 8 (AMCT)."""
    constant = constant_of(weight.value)
    assert constant is not None
    key = constant.key.removesuffix(".folded")
    integers = quantized(weight.array, weight.scales, weight.bits, weight.axis)
    if weight.levels is not None:
        levels = (
            levels_of(integers, weight.levels) if isinstance(weight.levels, int) else np.array(weight.levels, np.int8)
        )
        integers = nearest(integers, levels)
    storage = IntegerType(4 if weight.bits == 4 else 8)
    stored = ConstantOp.of(integers.astype(numpy_dtype(storage)), f"{key}.i{storage.width.data}", constant.location)
    qparams = QParamsAttr.of(storage, weight.scales, axis=weight.axis, key=f"{key}.scale")
    back = DequantizeOp.make(
        stored.result,
        qparams=qparams,
        result_types=[weight.value.type],
        location=constant.location,
        name=weight.value.name_hint,
    )
    Rewriter.insert_op([stored, back], InsertPoint.after(constant))
    return back.result


def _integer_bias(site: Site, bias: SSAValue, values: Array, scales: Array) -> SSAValue:
    """The dequantized int32 form of a bias at the accumulator's scales, placed before its layer."""
    constant = constant_of(bias)
    assert constant is not None
    key = constant.key.removesuffix(".folded")
    scales = scales.astype(np.float32)
    integers = ConstantOp.of(quantized_bias(values, scales), f"{key}.i32", constant.location)
    axis = 0 if scales.ndim else None
    qparams = QParamsAttr.of(i32, scales, axis=axis, key=f"{key}.scale")
    back = DequantizeOp.make(
        integers.result, qparams=qparams, result_types=[bias.type], location=constant.location, name=bias.name_hint
    )
    Rewriter.insert_op([integers, back], InsertPoint.before(site.owner))
    return back.result


def _summary(params: QParams, weight: _Weight | None) -> str:
    bits, scale = params.storage.width.data, f"{float(params.scales()):.6g}"
    activation = f"int{bits} input, scale {scale}, zero point {params.zero_point[0]}"
    if weight is None:
        return activation
    count = weight.levels if isinstance(weight.levels, int | None) else len(weight.levels)
    few = "" if count is None else f" of {count} levels"
    return f"{activation}; int{weight.bits} weight per {'tensor' if weight.axis is None else 'channel'}{few}"
