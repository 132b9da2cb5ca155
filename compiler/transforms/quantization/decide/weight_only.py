"""Layers whose weight is quantized alone: a float input times integers that are dequantized first."""

from __future__ import annotations

from ....configuration.layer_settings import LayerSettings
from ....configuration.record import Record
from ....configuration.settings import Settings
from ....dialects.nn import Plan, set_plan
from ....rewriting import Remarks, layer_of
from ..profiles import Row
from .layers import has_integer_weight
from .legality import weight_only_broken
from .planned_weights import planned_weight
from .planning import note_impossible
from .sites import Site


def takes_weight_only(site: Site, held: LayerSettings, record: Record | None) -> bool:
    """Whether the weight alone is to be quantized: according to the record if there is one, else to the settings."""
    if record is None or not held.quantize:
        return held.quantize and held.weight_compress_only
    entry = record.layers.get(layer_of(site.compute))
    return entry is not None and entry.weight_compress_only


def plan_weight_only(
    site: Site, row: Row, held: LayerSettings, settings: Settings, record: Record | None, remarks: Remarks
) -> None:
    """Decide that a layer's weight is quantized alone, or leave a remark why it stays float as well.

    Raises CompileError, located in the record's file, for scales that do not fit the weight.
    """
    if has_integer_weight(site):
        return
    if (broken := weight_only_broken(site, row)) is not None:
        set_plan(site.compute, Plan(broken[0].name))
        remarks.missed(site.compute, broken[0].name, broken[1])
        return
    weight, refused = planned_weight(site, row, held, settings, record, {})
    assert weight is not None, "legality has asked for it"
    set_plan(site.compute, Plan(weights=(weight,)))
    remarks.applied(site.compute, "weight-only", "its input stays float, its weight is quantized alone")
    if refused is not None:
        reason = f"its weight has a scale for each channel, not for each group: {refused[1]}"
        remarks.missed(site.compute, refused[0].name, reason)
    note_impossible(site.compute, held, remarks)
