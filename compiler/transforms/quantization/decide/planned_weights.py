"""The quantization of a layer's weight: as the record has it, else as settings say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from xdsl.dialects.builtin import IntegerType

from ....configuration.layer_settings import LayerSettings
from ....configuration.record import Record
from ....configuration.settings import Arq, Nuq, Settings
from ....dialects.nn import How, MatMulOp, QParamsAttr, array_of
from ....rewriting import layer_of
from ....support.diagnostics import op_error
from ..profiles import Row
from .conditions import Broken, DecideProduct, first_of
from .layers import channel_axis
from .legality import non_uniform_broken
from .sites import Site


def planned_weight(
    site: Site, row: Row, held: LayerSettings, settings: Settings, record: Record | None, few: Mapping[str, Nuq]
) -> tuple[How | None, Broken | None]:
    """Plans the quantization of a weight: None if the layer has no constant one. Also returns the rule that keeps the
    weight from few levels, or from groups, that are asked for.

    `few` are the layers that were chosen for weights of few levels. Raises CompileError, located in the record's file, for
    scales that do not fit the weight, and at a layer whose own settings ask for few levels that it cannot have.
    """
    if row.weight is None or (array := array_of(site.operand(row.weight))) is None:
        return None, None
    op, name, axis = site.compute, layer_of(site.compute), channel_axis(site.compute)
    if record is not None and name in record.layers:
        return recorded_weight(record, name, "w", axis, array.shape), None
    assert held.weight is not None, "a layer with a weight has settings for it"
    given, refused = held.weight, None
    if isinstance(given, Arq) and given.group_size is not None:
        refused = first_of(site, (DecideProduct.matrix_weight,))
        given = given if refused is None else given.by_channel
    elif wanted := given if isinstance(given, Nuq) else few.get(name):
        refused = non_uniform_broken(site, row.rules)
        given = wanted
    input_channels = (0 if op.transpose_b is None else 1) if isinstance(op, MatMulOp) else None
    how = given.how(axis if held.weight.channel_wise else None, input_channels)
    if how.number_format is not None:
        return how, None
    if refused is not None and how.levels is not None:
        if name in settings.by_layer:
            raise op_error(op, f"cannot have weights of few levels: {refused[1]}", "leave its nuq_quantize out")
        how = replace(how, levels=None)
    first = settings.as_amct if settings.weights_first is None else settings.weights_first
    return replace(how, epsilon=row.as_amct, first=first and not row.calibrated_in_float), refused


def recorded_weight(record: Record, name: str, of: str, axis: int | None, shape: Sequence[int]) -> How:
    """The quantization of a weight in a record: by `scale_w` or, for a recurrent layer's second weight, `scale_r`.

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
    return How(given.weight_bits, axis=along, levels=tuple(sorted(given.cluster)) or None, given=params)
