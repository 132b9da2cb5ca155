"""Layers whose weight is quantized alone: a float input times integers that are dequantized first."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import OpResult

from ....configuration.layer_settings import LayerSettings, settings_for
from ....configuration.record import Record
from ....configuration.settings import Settings
from ....dialects.nn import ObserveOp
from ....rewriting import Remarks
from ..layers import has_integer_weight, is_quantized, layer_at
from ..legality import weight_only_broken
from ..profiles import Profile, Row
from ..sites import Site, sites


def takes_weight_only(site: Site, row: Row, settings: Settings, record: Record | None) -> bool:
    """Whether the weight alone is to be quantized: by the record where there is one, else by settings."""
    layer = layer_at(site, row)
    held = settings_for(settings, layer)
    if record is None or not held.quantize:
        return held.quantize and held.weight_compress_only
    return layer.name in record.layers and record.layers[layer.name].weight_compress_only


def note_weight_only(site: Site, row: Row, held: LayerSettings, remarks: Remarks) -> None:
    """Say that a layer's input stays float; or why its weight does as well."""
    if has_integer_weight(site):
        return
    if (broken := weight_only_broken(site, row)) is not None:
        remarks.missed(site.compute, broken[0].name, broken[1])
        return
    remarks.applied(site.compute, "weight-only", "its input stays float, its weight is quantized alone")
    if held.remarks:
        remarks.note(site.compute, "configuration", f"not as the configuration has it: {'; '.join(held.remarks)}")


def weight_only_layers(module: ModuleOp, settings: Settings, record: Record | None, profile: Profile) -> Iterator[Site]:
    """The layers whose weight alone is to be quantized, and can be. An observer on a layer's own input wins over settings."""
    for site in sites(module, profile.rows):
        row = profile.rows[type(site.compute)]
        observed = isinstance(site.activation, OpResult) and isinstance(site.activation.op, ObserveOp)
        if (observed and profile.points == "layers") or is_quantized(site):
            continue
        if takes_weight_only(site, row, settings, record) and weight_only_broken(site, row) is None:
            yield site
