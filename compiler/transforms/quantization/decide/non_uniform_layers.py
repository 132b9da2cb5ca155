"""Which layers get weights of few levels if settings do not name them: those that ATC compresses, or the heaviest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp

from ....configuration.compressed import compressed_operators
from ....configuration.layer_settings import settings_for, with_levels
from ....configuration.settings import Nuq, NuqConfig, Settings
from ....dialects.nn import array_of
from ....rewriting import layer_of
from ....session import Session
from ..profiles import Profile
from .layers import layer_at, quantizable_layers
from .legality import non_uniform_broken
from .sites import Site, sites

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


def with_named_levels(settings: Settings, module: ModuleOp, profile: Profile, session: Session) -> Settings:
    """The settings with an explicit entry for every layer whose weight gets few levels."""
    layers = quantizable_layers(module, profile, settings)
    return with_levels(settings, layers, levels_by_layer(settings, module, profile, session))


def levels_by_layer(settings: Settings, module: ModuleOp, profile: Profile, session: Session) -> dict[str, Nuq]:
    """The layers of an unquantized module whose weights get few levels, however settings choose them."""
    allowed = {layer_of(site.compute): site for site in _allowed(settings, module, profile)}
    held = {
        name: settings_for(settings, layer_at(site, profile.rows[type(site.compute)])) for name, site in allowed.items()
    }
    asked = {name: each.weight for name, each in held.items() if isinstance(each.weight, Nuq)}
    return {**layers_of_few_levels(settings, list(allowed.values()), profile, session), **asked}


def weights_by_layer(settings: Settings, module: ModuleOp, profile: Profile) -> dict[str, int]:
    """The sizes of weights that may have few levels, by the layers that settings quantize, the heaviest first."""
    sizes = {layer_of(site.compute): _size(site, profile) for site in _allowed(settings, module, profile)}
    return dict(sorted(sizes.items(), key=lambda each: -each[1]))


def _allowed(settings: Settings, module: ModuleOp, profile: Profile) -> list[Site]:
    """The layers that settings quantize and whose weights may have few levels."""
    layers = quantizable_layers(module, profile, settings)
    quantized = {layer.name for layer in layers if settings_for(settings, layer).quantize and layer.weighted}
    return [
        site
        for site in sites(module, profile.rows)
        if layer_of(site.compute) in quantized
        and non_uniform_broken(site, profile.rows[type(site.compute)].rules) is None
    ]


def _listed(config: NuqConfig, sites: Sequence[Site], session: Session) -> Iterator[str]:
    """The source layers of the mapping file's compressed operators; warns about operators without such a
    layer.
    """
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
