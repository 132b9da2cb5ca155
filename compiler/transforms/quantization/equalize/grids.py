"""What a request rounds in each layer."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import ModuleOp

from ....configuration.layer_settings import settings_for
from ....configuration.settings import Arq
from ....dialects.nn.shapes import shape_of
from ..layers import layer_at, quantizable_layers
from ..request import Request
from ..sites import Site
from .costs import FLOAT, Grids


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
