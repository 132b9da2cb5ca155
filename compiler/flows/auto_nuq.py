"""AMCT's auto_nuq: weights of few levels in as many of the heaviest layers as the metric of an evaluator allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..configuration.layer_settings import uniform, with_levels
from ..configuration.settings import Nuq
from ..diagnostics import CompileError
from ..transforms.quantization.decide.layers import resolve
from ..transforms.quantization.decide.non_uniform_layers import levels_by_layer, weights_by_layer
from .auto_calibration import Search, Strategy, fewest


def _most_of_few_levels(search: Search) -> None:
    """Quantize uniformly first, then give few levels to all candidates or, if refused, to as many of the heaviest as accepted.

    Candidates are the layers whose weights the configuration gives few levels; if it names none, all that may have them.
    Raises CompileError for a model without any, and if the uniformly quantized model is refused.
    """
    asked = search.request(())
    module = search.fused(asked)
    layers = resolve(asked.settings, module, asked.profile)
    settings = layers.settings
    wanted = levels_by_layer(layers, search.session)
    layers = replace(layers, settings=uniform(settings))
    sizes = weights_by_layer(layers)
    heaviest_first = tuple(name for name in sizes if name in (wanted or sizes))
    if not heaviest_first:
        raise CompileError(
            "holds no layer whose weights may have few levels", where=settings.where or str(search.evaluator.path)
        )
    search.ranking = {name: sizes[name] for name in heaviest_first}
    able = [each.layer for each in layers.able]

    def accepts(heavy: tuple[str, ...]) -> bool:
        levels: Mapping[str, Nuq] = {name: wanted.get(name, Nuq()) for name in heavy}
        return search.accepts(heavy, replace(asked, settings=with_levels(layers.settings, able, levels)))

    if not accepts(()):
        hint = "accuracy_based_auto_calibration leaves layers in float"
        raise CompileError(
            "metric_eval refuses the uniformly quantized model", where=str(search.evaluator.path), hint=hint
        )
    if not accepts(heaviest_first):
        count = len(heaviest_first)
        fewest(count, lambda lightest: accepts(heaviest_first[: count - lightest]))


FEW_LEVELS = Strategy("auto_nuq", "few_levels", _most_of_few_levels)
