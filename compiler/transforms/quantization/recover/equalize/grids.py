"""What a request rounds in each layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp

from .....configuration.layer_settings import settings_for
from .....configuration.settings import Arq, Calibration
from .....dialects.nn.shapes import shape_of
from ...decide.layers import layer_at, quantizable_layers
from ...decide.sites import Site
from ...request import Request
from .costs import FLOAT, Grids

ROUNDED = 6
"""Weights of fewer bits that are rounded by the layers' outputs lose about as much as nearest rounding to so many bits does."""
JUDGED = 8
"""The bits that they are taken to have where outputs decide: there rounding makes up for errors of earlier layers, too."""


def as_rounded(request: Request, least: int = ROUNDED) -> Request:
    """The request with at least so many bits of weights that `--round-weights` will round.

    Otherwise the error of nearest rounding hides the one of activations. Where weights alone are quantized, it is the only one,
    and stays.
    """
    settings = request.settings
    if request.recovery.round_weights is None or (settings.common and settings.common.weight_compress_only):
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


def grids_of(module: ModuleOp, layers: Sequence[Site], request: Request) -> list[Grids]:
    """The grids of layers with a weight, as the request, in the module's names, has them."""
    able = {layer.name for layer in quantizable_layers(module, request.profile, request.settings)}
    return [_grids(site, able, request) for site in layers]


def _grids(site: Site, able: set[str], request: Request) -> Grids:
    row = request.profile.rows.get(type(site.compute))
    layer = None if row is None else layer_at(site, row)
    if layer is None or layer.name not in able:
        return FLOAT
    held = settings_for(request.settings, layer)
    if not held.quantize or held.weight is None:
        return FLOAT
    inputs = None if held.weight_compress_only else held.bits
    is_matrix = len(shape_of(site.compute.operands[1])) == 2
    block = held.weight.group_size if isinstance(held.weight, Arq) and is_matrix else None
    return Grids(inputs, held.weight.bits, bool(held.weight.channel_wise), held.symmetric, block)
