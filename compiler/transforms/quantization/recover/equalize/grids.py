"""The grids to which a request rounds each layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .....configuration.layer_settings import LayerSettings
from .....configuration.settings import Arq, Calibration
from .....dialects.nn.shapes import shape_of
from .....rewriting import layer_of
from ...decide.layers import Layers
from ...decide.sites import Site
from ...request import Request
from .search import FLOAT, Grids

ROUNDED = 6
"""Least assumed bits of weights that are rounded by the layers' outputs: with fewer bits they lose about as much as
nearest rounding to this many does.
"""
JUDGED = 8
"""Assumed bits of such weights where outputs decide: there rounding makes up for errors of earlier layers, too."""


def as_rounded(request: Request, least: int = ROUNDED) -> Request:
    """The request with at least this many bits of weights that `--round-weights` will round.

    Otherwise the error of nearest rounding hides the one of activations. Where only weights are quantized, it is the only one,
    and stays.
    """
    settings = request.settings
    if not request.recovery.rounds_weights or (settings.common and settings.common.weight_compress_only):
        return request

    def finer(given: Calibration) -> Calibration:
        if given.weight_compress_only or not isinstance(given.weight, Arq) or given.weight.bits >= least:
            return given
        return replace(given, weight=replace(given.weight, bits=least))

    found = replace(
        settings,
        common=settings.common and finer(settings.common),
        by_type={name: finer(given) for name, given in settings.by_type.items()},
        by_layer={name: finer(given) for name, given in settings.by_layer.items()},
        weight_bits={name: max(least, bits) for name, bits in settings.weight_bits.items()},
    )
    return replace(request, settings=found)


def grids_of(sites: Sequence[Site], layers: Layers) -> list[Grids]:
    """The grids of sites with a weight, as settings have them."""
    able = {each.layer.name for each in layers.able}
    held = layers.held
    return [_grids(site, held.get(site.compute)) if layer_of(site.compute) in able else FLOAT for site in sites]


def _grids(site: Site, held: LayerSettings | None) -> Grids:
    if held is None or not held.quantize or held.weight is None:
        return FLOAT
    inputs = None if held.weight_compress_only else held.bits
    is_matrix = len(shape_of(site.compute.operands[1])) == 2
    block = held.weight.group_size if isinstance(held.weight, Arq) and is_matrix else None
    return Grids(inputs, held.weight.bits, bool(held.weight.channel_wise), held.symmetric, block)
