"""How a layer's weight is to be quantized: as the record has it, else as settings say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace

import numpy as np
from xdsl.dialects.builtin import IntegerType

from ....configuration.layer_settings import LayerSettings
from ....configuration.record import Record
from ....configuration.settings import Ada, Arq, Nuq, Settings, Weighting
from ....diagnostics import op_error
from ....dialects.nn import MatMulOp, NNOp, QParamsAttr, WeightPlan, array_of
from ....ir.number_formats import NUMBER_FORMATS
from ....rewriting import layer_of
from ..profiles import Row
from .conditions import Broken, DecideProduct, first_of
from .layers import channel_axis
from .legality import non_uniform_broken
from .sites import Site


def planned_weight(
    site: Site, row: Row, held: LayerSettings, settings: Settings, record: Record | None, few: Mapping[str, Nuq]
) -> tuple[WeightPlan | None, Broken | None]:
    """The weight's plan, None where the layer has no constant one; and the rule that keeps it from few levels, or from groups,
    that are asked for.

    `few` are the layers that were chosen for weights of few levels. Raises CompileError, located in the record's file, for
    scales that do not fit the weight, and at a layer whose own settings ask for few levels that it cannot have.
    """
    if row.weight is None or (array := array_of(site.operand(row.weight))) is None:
        return None, None
    name, axis = layer_of(site.compute), channel_axis(site.compute)
    if record is not None and name in record.layers:
        return recorded_weight(record, name, "w", axis, array.shape), None
    assert held.weight is not None, "a layer with a weight has settings for it"
    wanted = held.weight if isinstance(held.weight, Nuq) else few.get(name)
    plan = weight_as_held(held.weight if wanted is None else wanted, axis if held.weight.channel_wise else None)
    first = settings.as_amct if settings.weights_first is None else settings.weights_first
    plan = replace(plan, epsilon=row.as_amct, first=first and not row.calibrated_in_float)
    if plan.number_format is not None:
        block = NUMBER_FORMATS[plan.number_format].block
        axis = plan.axis if block is None else _input_channels(site.compute)
        return replace(plan, axis=axis, block=block, epsilon=False, first=False), None
    if plan.block is not None:
        asked = isinstance(held.weight, Arq) and bool(held.weight.search)
        return _in_groups(site, plan, replace(plan, block=None, search=asked))
    if wanted is None or (refused := non_uniform_broken(site, row.rules)) is None:
        return plan, None
    if name in settings.by_layer:
        raise op_error(site.compute, f"cannot have weights of few levels: {refused[1]}", "leave its nuq_quantize out")
    return replace(plan, levels=None), refused


def _in_groups(site: Site, plan: WeightPlan, other: WeightPlan) -> tuple[WeightPlan, Broken | None]:
    """The plan with groups of input channels; the other, and the broken rule, if the weight is not a matrix."""
    if (broken := first_of(site, (DecideProduct.matrix_weight,))) is not None:
        return other, broken
    return replace(plan, axis=_input_channels(site.compute)), None


def _input_channels(op: NNOp) -> int:
    """The axis of a matrix that counts input channels."""
    assert isinstance(op, MatMulOp), "no other weight is quantized by itself"
    return 0 if op.transpose_b is None else 1


def weight_as_held(held: Weighting, axis: int | None) -> WeightPlan:
    """The plan that settings give a weight whose scales run along an axis."""
    asymmetric = isinstance(held, Arq) and bool(held.asymmetric)
    block = held.group_size if isinstance(held, Arq) else None
    levels = held.num_steps if isinstance(held, Nuq) else None
    rounding = _adaround(held) if isinstance(held, Ada) else None
    search = isinstance(held, Arq) and held.searched
    number_format = held.number_format if isinstance(held, Arq) else None
    return WeightPlan(
        held.bits, axis, block, asymmetric, levels, rounding=rounding, search=search, number_format=number_format
    )


def _adaround(held: Ada) -> str:
    """ADA's parameters as options of `--round-weights`."""
    names = [f.name for f in fields(Ada) if f.name != "channel_wise"]
    options = " ".join(f"{name.replace('_', '-')}={getattr(held, name)}" for name in names)
    return f"adaround{{{options}}}"


def recorded_weight(record: Record, name: str, of: str, axis: int | None, shape: Sequence[int]) -> WeightPlan:
    """The plan that a record gives: `scale_w` or, of a recurrent layer's second weight, `scale_r`.

    Raises CompileError, located in the record's file, for another number of scales than one or that of channels.
    """
    given = record.layers[name]
    scales, offsets = (given.scale_w, given.offset_w) if of == "w" else (given.scale_r, given.offset_r)
    if not scales:
        raise record.error(name, f"has no scale_{of}")
    channels = None if axis is None else shape[axis]
    if len(scales) not in (1, channels):
        takes = "one" if channels is None else f"one or {channels}"
        raise record.error(name, f"scale_{of} has {len(scales)} numbers, but its weight takes {takes}")
    along = None if len(scales) == 1 else axis
    params = QParamsAttr.of(
        IntegerType(given.weight_bits), np.array(scales, np.float32), offsets, along, key=f"{name}.scale_{of}"
    )
    return WeightPlan(given.weight_bits, along, levels=tuple(sorted(given.cluster)) or None, given=params)
