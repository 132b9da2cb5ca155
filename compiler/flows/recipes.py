"""`--recipe`: activations of 16 bits for the layers that need them, chosen by their costs at the outputs on data, not by
names. On a chip without a kernel for integers of 16 bits these layers are float.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from xdsl.dialects.builtin import i16

from ..data import Samples
from ..lowering.ascend.chips.kernels import chips_without
from ..rewriting import Remarks, layer_of
from ..runtime.metrics import Measure, Parts
from ..support.diagnostics import CompileError
from ..support.tables import some
from ..transforms.quantization.calibrate.observing import in_batches
from ..transforms.quantization.decide.sites import sites
from ..transforms.quantization.profiles import profile_of
from ..transforms.quantization.recover.layer_effects import exchanged, rounded
from ..transforms.quantization.recover.outputs import few
from ..transforms.quantization.recover.sensitivity import quantized_layers
from ..transforms.quantization.request import Request
from .network import Network
from .widening import WIDE, can_widen, own_values

M = TypeVar("M", bound=Measure)

RULE = "recipe"
SHARE = 0.9
"""Share of the noise that 16 bits everywhere take away which the chosen layers have to take away: what is left is 10 dB less."""


@dataclass(frozen=True)
class Widening:
    """A layer that can have activations of 16 bits, and its share of the noise of an output that they take away."""

    layer: str
    share: float
    output: str
    """The output for which it was chosen, or else the worst one, as `Parts` has them."""
    wide: bool

    def reason(self, chip: str | None) -> str:
        """The reason for its bits, as a sentence; `chip` is one without a kernel for 16 bits."""
        in_float = f"float, as chip {chip} has no kernel for 16 bits"
        bits = ("16 bits" if chip is None else in_float) if self.wide else "no more bits"
        noise = f"of the noise of output '{self.output}' that 16 bits everywhere take away"
        return f"{bits}: {100 * self.share:.1f} % {noise} is its own"


def widenings(network: Network) -> list[Widening]:
    """The layers of a fused network that can have activations of 16 bits, those first that take away most noise. As many are
    chosen as take away `SHARE` of it from the worst output, and from others until these are no worse.

    Raises CompileError, located in the model, if no layer can have them.
    """
    request = network.request.layer_by_layer
    names = can_widen(request.within(network.module, network.session))
    before, after = _noise(network.asking(request), names) if names else ({}, {})
    if not before:
        message = (
            f"{RULE}: no layer can have activations of 16 bits in profile {request.profile.name} as the options have it"
        )
        hint = "amct support says which layers are quantized; layers that share scales or have a record keep their bits"
        raise CompileError(message, where=str(network.model), hint=hint)
    return _chosen(before, after)


def _noise(network: Network, names: Sequence[str]) -> list[dict[str, dict[str, float]]]:
    """The noise of each output as a share of its signal, by quantized layer: as the options have it, and with 16 bits."""
    evened, samples = network.quiet.evened(), few(network.samples.held)
    forms = evened.quantized(), evened.quantized(widened(evened.request, names))
    found = (rounding(evened, form, names, samples, RULE, Parts) for form in forms)
    return [{name: _sum(each.shares for each in own) for name, own in layers.items()} for layers in found]


def rounding(
    evened: Network, quantized: Network, names: Sequence[str], samples: Samples, phase: str, measure: Callable[[], M]
) -> dict[str, list[M]]:
    """The distance of the outputs from those in float if only activations of a layer are rounded as in the quantized network: by
    quantized layer of these names, a measure for each of the values that are its own, or for its inputs.
    """
    whole, form = evened.inlined().module, quantized.inlined().module
    layers, samples = set(quantized_layers(form, evened.session)), in_batches(whole, [], samples)
    names = [name for name in names if name in layers]
    if evened.request.profile.points == "layers":
        alone = exchanged(whole, form, names, whole, samples, evened.session, phase, measure)
        return {name: [each] for name, each in alone.items()}
    places = own_values(evened.module, evened.request, evened.session)
    own = {name: places[name] for name in names if name in places}
    return rounded(whole, form, own, samples, evened.session, phase, measure)


def widened(request: Request, layers: Iterable[str]) -> Request:
    """The request, with activations of 16 bits for these layers."""
    bits = {**request.settings.bits, **dict.fromkeys(layers, WIDE)}
    return replace(request, settings=replace(request.settings, bits=bits))


def as_recipe(network: Network) -> Network:
    """A fused network with the widths that `--recipe detection` chooses, which remarks and a note report.

    Raises CompileError, located in the model, if no layer can have them.
    """
    session, request = network.session, network.request
    chip = session.chip if session.chip in chips_without("AscendQuant", str(i16)) else None
    found = widenings(network if chip is None else _on_any_chip(network))
    _note(network, found, chip)
    names = [each.layer for each in found if each.wide]
    if chip is None:
        return network.asking(widened(request, names))
    settings = replace(request.settings, skip_layers=(*request.settings.skip_layers, *names))
    return network.asking(replace(request, settings=settings))


def _on_any_chip(network: Network) -> Network:
    """The network with what its profile can quantize on some chip."""
    session = network.session.clone()
    session.chip = None
    return replace(network, session=session, request=replace(network.request, profile=profile_of(session)))


def _note(network: Network, found: Sequence[Widening], chip: str | None) -> None:
    """Leave a remark for each layer that can have 16 bits, and a note that lists those that do, or are float on a chip."""
    remarks, reasons = Remarks(network.session, RULE), {each.layer: each for each in found}
    for site in sites(network.module, profile_of(network.session).rows):
        each = reasons.pop(layer_of(site.compute), None)
        if each is not None:
            (remarks.applied if each.wide else remarks.missed)(site.compute, RULE, each.reason(chip))
    remarks.flush()
    names = [each.layer for each in found if each.wide]
    what = "have activations of 16 bits" if chip is None else f"are float, as chip {chip} has no kernel for 16 bits"
    network.session.note(f"{RULE}: {len(names)} of {len(found)} layers {what}: {some(names)}")


def _sum(noise: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """The sum of each output."""
    total: dict[str, float] = {}
    for each in noise:
        for output, share in each.items():
            total[output] = total.get(output, 0.0) + share
    return total


def _chosen(before: Mapping[str, Mapping[str, float]], after: Mapping[str, Mapping[str, float]]) -> list[Widening]:
    """Chooses the layer that takes away most of the output that is the worst one then, until no output has more noise than the
    worst one is to have at the end, or than `SHARE` of its own leaves. The others follow, by what they cost the worst one.
    """
    gains = {
        name: {output: max(0.0, each - after[name].get(output, 0.0)) for output, each in own.items()}
        for name, own in before.items()
    }
    left: dict[str, float] = _sum(before.values())
    taken = _sum(gains.values())
    worst = max(left, key=lambda output: left[output], default="")
    goals = {output: noise - SHARE * taken[output] for output, noise in left.items()}
    wide = dict[str, str]()
    while len(wide) < len(gains) and (poor := [each for each in left if left[each] > max(goals[each], goals[worst])]):
        output = max(poor, key=lambda output: left[output])
        layer = max((each for each in gains if each not in wide), key=lambda each: gains[each].get(output, 0.0))
        left = {each: noise - gains[layer].get(each, 0.0) for each, noise in left.items()}
        wide[layer] = output
    others = sorted(gains.keys() - wide.keys(), key=lambda each: (-gains[each].get(worst, 0.0), each))
    found = {**wide, **dict.fromkeys(others, worst)}
    shares = {each: gains[each].get(output, 0.0) / (taken.get(output) or 1.0) for each, output in found.items()}
    return [Widening(each, shares[each], output, each in wide) for each, output in found.items()]
