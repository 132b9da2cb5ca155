"""Chooses the layers with weights of few levels if settings do not name them: those that ATC compresses, or the heaviest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ....configuration.compressed import compressed_operators
from ....configuration.layer_settings import with_levels
from ....configuration.settings import Nuq, NuqConfig, Settings
from ....dialects.nn import array_of
from ....rewriting import layer_of
from ....session import Session
from ..profiles import Profile
from .layers import Layers
from .legality import non_uniform_broken
from .sites import Site

HEAVY = 0.8
"""The share of all weights that the heaviest layers have together."""
LIGHT = 4096
"""Layers with fewer weights never count as heavy."""


def layers_of_few_levels(
    settings: Settings, quantized: Sequence[Site], profile: Profile, session: Session
) -> dict[str, Nuq]:
    """The quantized layers that `nuq_config` or `enable_auto_nuq` chooses, with the levels of their weights.

    A layer's own settings win over both. Raises CompileError, located in the mapping file, for a bad one.
    """
    sites = [
        site
        for site in quantized
        if profile.rows[type(site.compute)].weight is not None and layer_of(site.compute) not in settings.by_layer
    ]
    chosen: dict[str, Nuq] = {}
    if settings.enable_auto_nuq:
        chosen.update((name, Nuq()) for name in heaviest(sites, profile))
    if settings.nuq_config is not None:
        chosen.update((name, settings.nuq_config.nuq_quantize) for name in _listed(settings.nuq_config, sites, session))
    return chosen


def with_named_levels(layers: Layers, session: Session) -> Settings:
    """The settings with an explicit entry for every layer whose weight gets few levels."""
    return with_levels(layers.settings, (each.layer for each in layers.able), levels_by_layer(layers, session))


def levels_by_layer(layers: Layers, session: Session) -> dict[str, Nuq]:
    """The layers of an unquantized module whose weights get few levels, however settings choose them."""
    allowed = {layer_of(site.compute): site for site in _allowed(layers)}
    weights = {name: layers.held[site.compute].weight for name, site in allowed.items()}
    asked = {name: weight for name, weight in weights.items() if isinstance(weight, Nuq)}
    return {**layers_of_few_levels(layers.settings, list(allowed.values()), layers.profile, session), **asked}


def weights_by_layer(layers: Layers) -> dict[str, int]:
    """The sizes of weights that may have few levels, by the layers that settings quantize, the heaviest first."""
    sizes = {layer_of(site.compute): _size(site, layers.profile) for site in _allowed(layers)}
    return dict(sorted(sizes.items(), key=lambda each: -each[1]))


def _allowed(layers: Layers) -> list[Site]:
    """The layers that settings quantize and whose weights may have few levels."""
    able = [each for each in layers.able if each.layer.weighted and layers.held[each.site.compute].quantize]
    quantized, rows = {each.layer.name for each in able}, layers.profile.rows
    found = [each.site for each in layers.candidates if each.layer.name in quantized]
    return [
        site
        for site in found
        if (row := rows.get(type(site.compute))) is not None and non_uniform_broken(site, row.rules) is None
    ]


def _listed(config: NuqConfig, sites: Sequence[Site], session: Session) -> Iterator[str]:
    """The source layers of the mapping file's compressed operators; warns about operators without such a layer."""
    layers = {layer_of(site.compute) for site in sites}
    operators = compressed_operators(Path(config.mapping_file))
    unknown = [name for name, made_of in operators.items() if layers.isdisjoint(made_of)]
    if not operators:
        session.warn(f"{config.mapping_file} lists no operator with compressed weights: nuq_config changes nothing")
    if unknown:
        some = f"{', '.join(unknown[:8])}{', ...' if len(unknown) > 8 else ''}"
        session.warn(f"{config.mapping_file}: compressed operators of no layer whose weight is quantized: {some}")
    yield from (name for made_of in operators.values() for name in made_of if name in layers)


def heaviest(sites: Sequence[Site], profile: Profile) -> Iterator[str]:
    """The fewest layers with at least `HEAVY` of the weights that may have few levels, without `LIGHT` ones."""
    allowed = [site for site in sites if non_uniform_broken(site, profile.rows[type(site.compute)].rules) is None]
    sizes = {layer_of(site.compute): _size(site, profile) for site in allowed}
    missing = HEAVY * sum(sizes.values())
    for name, size in sorted(sizes.items(), key=lambda each: -each[1]):
        if missing <= 0 or size < LIGHT:
            return
        yield name
        missing -= size


def _size(site: Site, profile: Profile) -> int:
    """The number of elements of a layer's weight."""
    index = profile.rows[type(site.compute)].weight
    assert index is not None, "only layers with weights are asked"
    value = site.operand(index)
    array = None if value is None else array_of(value)
    return 0 if array is None else array.size
