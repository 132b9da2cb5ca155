"""The weights of recurrent layers as integers: W and R, each with scales of its own, where weights alone are quantized."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from ....configuration.layer_settings import settings_for
from ....configuration.record import LayerRecord, Record
from ....configuration.settings import Arq, Settings
from ....dialects.nn import array_of
from ....rewriting import Remarks
from ....runtime.affine import asymmetric_params, symmetric_scales
from ..recurrent import ROWS, Recurrent, recurrent_layers
from ..skipped import SKIPPED
from .layer_weights import Array, IntegerWeights, Weight, described


def note_recurrent(module: ModuleOp, settings: Settings, record: Record | None, remarks: Remarks) -> None:
    """Say of each recurrent layer that its weights are quantized, or why not."""
    for each in recurrent_layers(module):
        held = settings_for(settings, each.layer)
        if each.is_quantized:
            continue
        if held.skipped is not None:
            remarks.missed(each.op, held.skipped, SKIPPED[held.skipped])
        elif not _is_asked(each, settings, record):
            remarks.missed(
                each.op, "weight-only", "no operator computes it in integers: only its weights are quantized"
            )
        elif (broken := each.broken) is not None:
            remarks.missed(each.op, *broken)
        else:
            remarks.applied(each.op, "weight-only", "it stays float, its weights W and R are quantized")
            given = None if record is None else record.layers[each.layer.name]
            if given is not None and (given.scale_d is not None or given.scale_h is not None):
                remarks.note(
                    each.op, "record", "the record's scales of its input and state are not used: these stay float"
                )


def quantize_recurrent(
    module: ModuleOp, settings: Settings, record: Record | None, weights: IntegerWeights, remarks: Remarks
) -> None:
    """Feed integer weights to the layers that `note_recurrent` has said it of.

    Raises CompileError, located in the record's file, for scales that do not fit a weight.
    """
    for each in list(recurrent_layers(module)):
        if each.is_quantized or not _is_asked(each, settings, record) or each.broken is not None:
            continue
        found = list(_weights(each, settings, record))
        for index, weight in enumerate(found, 1):
            weights.feed(each.site, index, weight)
        remarks.applied(each.op, "quantized", f"W {described(found[0])}, R {described(found[1])}, alone")


def _is_asked(each: Recurrent, settings: Settings, record: Record | None) -> bool:
    """By the record where there is one, else by settings."""
    held = settings_for(settings, each.layer)
    if not held.quantize or record is None:
        return held.quantize and held.weight_compress_only
    return bool((entry := record.layers.get(each.layer.name)) and entry.scale_r)


def _weights(each: Recurrent, settings: Settings, record: Record | None) -> Iterator[Weight]:
    """W and R as the record has them, else as settings say."""
    held = settings_for(settings, each.layer).weight
    for name, value in zip("wr", each.weights, strict=True):
        array = array_of(value)
        assert array is not None, "legality has asked for it"
        if record is not None:
            scales, points, bits = _recorded(each, array, record, name)
            axis = ROWS if scales.ndim else None
        else:
            assert isinstance(held, Arq), "weights alone take no other algorithm"
            axis, bits = ROWS if held.channel_wise else None, held.bits
            if held.asymmetric:
                scales, points = asymmetric_params(array, bits, axis)
            else:
                scales = symmetric_scales(array, bits, axis)
                points = np.zeros_like(scales, np.int32)
        yield Weight(value, array, scales, axis, bits, points, fixed=record is not None)


def _recorded(each: Recurrent, array: Array, record: Record, name: str) -> tuple[Array, Array, int]:
    """Scales and zero points, [] or [rows], and bits."""
    given: LayerRecord = record.layers[each.layer.name]
    scales: Sequence[float] = given.scale_w if name == "w" else given.scale_r
    offsets: Sequence[int] = given.offset_w if name == "w" else given.offset_r
    if len(scales) not in (1, array.shape[ROWS]):
        reason = f"scale_{name} has {len(scales)} numbers, its weight takes one or {array.shape[ROWS]}"
        raise record.error(each.layer.name, reason)
    shape = () if len(scales) == 1 else (-1,)
    return np.array(scales, np.float32).reshape(shape), np.array(offsets, np.int32).reshape(shape), given.weight_bits
