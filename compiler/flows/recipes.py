"""`--recipe`: activations of 16 bits for the layers that need them, chosen by their costs at the outputs on data, not by
names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self, TypeVar

import numpy as np

from ..data import Samples
from ..ir.array import Array
from ..rewriting import Remarks, layer_of
from ..runtime.metrics import Measure
from ..support.diagnostics import CompileError
from ..support.tables import some
from ..transforms.quantization.calibrate.observing import in_batches
from ..transforms.quantization.decide.sites import sites
from ..transforms.quantization.profiles import profile_of
from ..transforms.quantization.recover.layer_effects import exchanged, rounded
from ..transforms.quantization.recover.sensitivity import quantized_layers
from ..transforms.quantization.request import Request
from .network import Network
from .widening import WIDE, can_widen, own_values

M = TypeVar("M", bound=Measure)

RULE = "recipe"
SHARE = 0.9
"""Share of the noise that 16 bits everywhere take away which the chosen layers have to take away: what is left is 10 dB less."""
RANKED = 32
"""The largest number of samples used to rank the layers."""


@dataclass(frozen=True)
class Widening:
    """A layer that can have activations of 16 bits, and its share of the noise at the outputs that they take away."""

    layer: str
    share: float
    wide: bool

    @property
    def reason(self) -> str:
        """The reason for its bits, as a sentence."""
        bits = "16 bits" if self.wide else "no more bits"
        return (
            f"{bits}: {100 * self.share:.1f} % of the noise at the outputs that 16 bits everywhere take away is its own"
        )


def widenings(network: Network) -> list[Widening]:
    """The layers of a fused network that can have activations of 16 bits, those first that take away most noise. As many are
    chosen as take away `SHARE` of it.

    Raises CompileError, located in the model, if no layer can have them.
    """
    request = network.request.layer_by_layer
    names = can_widen(request.within(network.module, network.session))
    gains = _gains(network.asking(request), names) if names else {}
    if not gains:
        message = (
            f"{RULE}: no layer can have activations of 16 bits in profile {request.profile.name} as the options have it"
        )
        hint = "amct support says which layers are quantized; layers that share scales or have a record keep their bits"
        raise CompileError(message, where=str(network.model), hint=hint)
    return _chosen(gains)


def _gains(network: Network, names: Sequence[str]) -> dict[str, dict[Group, float]]:
    """The noise of each group of outputs that activations of 16 bits take away, by quantized layer."""
    evened, held = network.quiet.evened(), network.samples.held
    samples = held.head(min(RANKED, held.count))
    forms = evened.quantized(), evened.quantized(widened(evened.request, names))
    before, after = (
        {name: _sum(each.groups for each in own) for name, own in found.items()}
        for found in (rounding(evened, form, names, samples, RULE, _ByGroup) for form in forms)
    )
    return {
        name: {group: max(0.0, each - after[name].get(group, 0.0)) for group, each in own.items()}
        for name, own in before.items()
    }


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


def note_widenings(network: Network, found: Sequence[Widening]) -> None:
    """Leave a remark for each layer that can have 16 bits, and a note that lists those that do."""
    remarks, reasons = Remarks(network.session, RULE), {each.layer: each for each in found}
    for site in sites(network.module, profile_of(network.session).rows):
        each = reasons.pop(layer_of(site.compute), None)
        if each is not None:
            (remarks.applied if each.wide else remarks.missed)(site.compute, RULE, each.reason)
    remarks.flush()
    names = [each.layer for each in found if each.wide]
    network.session.note(f"{RULE}: {len(names)} of {len(found)} layers have activations of 16 bits: {some(names)}")


Group = tuple[tuple[int, ...], int]
"""The shape of a sample of an output, and an index along its shortest axis: a coordinate of boxes, or a class."""


@dataclass
class _ByGroup:
    """The noise of each group of numbers in the outputs."""

    groups: dict[Group, float] = field(default_factory=dict[Group, float])

    @property
    def noise(self) -> float:
        return sum(self.groups.values())

    def add(self, expected: Mapping[str, Array], found: Mapping[str, Array]) -> None:
        for name, reference in expected.items():
            apart = np.square(found[name].astype(np.float64) - reference.astype(np.float64))
            shape = reference.shape[1:]
            axis = 1 + int(np.argmin(shape)) if len(shape) > 1 else 0
            sums = apart.sum(axis=tuple(i for i in range(apart.ndim) if i != axis)) if axis else apart.sum()[None]
            self.groups = _sum((self.groups, {(shape, i): float(each) for i, each in enumerate(sums)}))

    def merge(self, other: Self) -> None:
        self.groups = _sum((self.groups, other.groups))


def _sum(parts: Iterable[Mapping[Group, float]]) -> dict[Group, float]:
    """The sum of each group."""
    total: dict[Group, float] = {}
    for part in parts:
        for group, each in part.items():
            total[group] = total.get(group, 0.0) + each
    return total


def _chosen(gains: Mapping[str, Mapping[Group, float]]) -> list[Widening]:
    """Chooses the first of all layers, ranked by the mean, over groups of outputs, of their share of the noise that all
    take away.
    """
    totals = {group: total for group, total in _sum(gains.values()).items() if total > 0}
    shares = {
        name: sum(own[group] / total for group, total in totals.items() if group in own) / max(1, len(totals))
        for name, own in gains.items()
    }
    found, taken = list[Widening](), 0.0
    for name in sorted(shares, key=lambda name: -shares[name]):
        found.append(Widening(name, shares[name], taken < SHARE and shares[name] > 0))
        taken += shares[name]
    return found
