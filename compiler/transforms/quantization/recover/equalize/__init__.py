"""`--equalize`: channels divided by powers of two, and the weights that read them multiplied, where that quantizes better."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import inf, log10
from typing import ClassVar, NamedTuple, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from .....data import Samples
from .....dialects.nn import ConvOp, MulOp, NNOp, NormalizationOp, WeightedOp, array_of
from .....engines import Runner
from .....ir.array import Array
from .....rewriting import Remarks, StepPattern, erase_dead_constants, layer_of
from .....session import Session
from .....support.tables import some
from ...decide.layers import Layers
from ...decide.sites import Site, sites
from ...options import BY_DEFAULT, NO_RECOVERY
from ...request import Request
from ..even_out import ChannelsPass
from ..importance import matters_of
from ..outputs import SAMPLES, WORTH, few, halves
from .channels_seen import ChannelsOf, channels_seen
from .grids import JUDGED, as_rounded, grids_of
from .judging import EqualizationTrial
from .links import WEIGHT, DivideChannels, DivideInput, DivideProduct, Link, links_of, products_of
from .scaling import Change, absorbed, scaled, undo
from .search import EqualizationSearch, Grids, Weight


class _Effort(NamedTuple):
    """Limits for the cost of a search."""

    tries: int
    """The number of times that links are scaled together; each time half of those of the time before."""
    judging: int
    """The number of samples that decide, as far as one run does not take more."""


_ASKED, _BY_ITSELF = _Effort(64, SAMPLES), _Effort(1, 8)


class _Method(NamedTuple):
    product: bool
    rule: str
    """The remark on a layer to which it is applied."""
    worth: float
    """dB that outputs must win on average; products cost time as well."""
    no_gain: tuple[str, str]
    """The remark on a layer that gains too little."""


_METHODS = (
    _Method(False, "equalized", WORTH, ("no-gain", "no factors make its readers' errors a fifth smaller")),
    _Method(True, "balanced", 3, ("no-product", "no product with its input makes its error four times smaller")),
)

_OUTLIER = 8
"""Factor over the median channel from which on a channel is an outlier, which takes the steps of the others."""
_PROBED = 4
"""Number of samples that show how large channels are."""
_EVENED_OUT = "channels differ greatly in size and are evened out if the outputs gain by it (option equalize)"
_LEFT_UNEVEN = (
    "small channels get few of the integer steps that large ones set; where the profile has inputs of 16 bits, "
    "the option recipe of amct quantize finds those that need them"
)
_WIDE = 16
"""Bits of inputs that have steps for channels of all sizes."""
_INEXACT = ("exact", "its numbers times powers of two leave the range of their type")
"""The remark on a layer that cannot be scaled."""


@dataclass(frozen=True, init=False)
class EqualizePass(ChannelsPass):
    """Divide output channels of layers and norms by powers of two, and multiply the weights of all layers that read them by the
    same, where data shows that quantization then costs less: cross-layer equalization and SmoothQuant. Where no layer can be
    divided, a product divides what layers read. Then minima of channels move between biases. What the module computes in float
    does not change, except on inputs that take a channel beyond the data. Options are those of the quantization that follows.
    Batch norms are to be folded before.
    """

    name = "equalize"

    PATTERNS: ClassVar[tuple[type[StepPattern[Link]], ...]] = (DivideChannels, DivideProduct, DivideInput)

    @staticmethod
    def even(
        module: ModuleOp, request: Request, samples: Callable[[], Samples], session: Session, runner: Runner
    ) -> bool:
        """Scale the channels of links where it is worth it, if it is requested or channels have outliers; all is as before if the
        quantized module's outputs get worse.
        """
        asked, remarks = request.recovery.equalize, Remarks(session, EqualizePass.name)
        if asked is False:
            return False
        links = links_of(module, remarks)
        layers = as_rounded(request).within(module, session).layers
        uneven = [] if asked else _uneven(module, links, layers, samples, session, runner)
        if not asked and not uneven:
            return False
        links += products_of(module, links, request, remarks)
        if able := [op for op in uneven if any(op in link.ends for link in links)]:
            session.note(f"{_names(able)}: {_EVENED_OUT}")
        elif not asked:
            links = []
        done = _equalize(
            module, links, request, layers, samples, session, runner, remarks, _ASKED if asked else _BY_ITSELF
        )
        if left := [op for op in uneven if not any(op in link.ends for link in done)]:
            session.note(f"{_names(left)}: {_LEFT_UNEVEN}")
        erase_dead_constants(module)
        if not asked:
            return remarks.flush().applied
        nothing = "no layer or norm gives its channels to layers with weights"
        return remarks.flush_requested("no channels are evened out", nothing).applied


def _names(layers: Sequence[NNOp]) -> str:
    return some([layer_of(op) for op in layers])


def _uneven(
    module: ModuleOp,
    links: Sequence[Link],
    layers: Layers,
    samples: Callable[[], Samples],
    session: Session,
    runner: Runner,
) -> list[NNOp]:
    """The layers with a channel more than `_OUTLIER` times as large as the median one: norms by their factors, quantized
    depthwise convolutions by what they read in some of the samples, since each of their outputs has the steps of one channel.
    None where data is synthetic.
    """
    sizes: dict[NNOp, Array] = {}
    for link in links:
        if link.site is not None and isinstance(link.begins, NormalizationOp | MulOp):
            sizes[link.begins] = np.abs(np.asarray(array_of(link.site.operand(link.parameters[0].operand))))
    depthwise = [
        site for site in sites(module, (ConvOp,)) if cast(ConvOp, site.compute).is_depthwise and site.activation
    ]
    read = {
        site.compute: _input_of(site)
        for site, grid in zip(depthwise, grids_of(depthwise, layers), strict=True)
        if grid.inputs is not None and grid.inputs < _WIDE
    }
    if read and not samples().synthetic:
        probed = few(samples(), _PROBED)
        seen = channels_seen(module, read.values(), probed, session, runner)
        sizes |= {op: seen[channels].peaks for op, channels in read.items()}
    found = [op for op, each in sizes.items() if each.any() and each.max() > _OUTLIER * np.median(each[each > 0])]
    return [] if found and samples().synthetic else found


def _equalize(
    module: ModuleOp,
    links: Sequence[Link],
    request: Request,
    layers: Layers,
    samples: Callable[[], Samples],
    session: Session,
    runner: Runner,
    remarks: Remarks,
    effort: _Effort,
) -> Set[Link]:
    """Scale the links by each method, move minima, and keep the changes only if the outputs win at the end; returns the
    scaled links.
    """
    if not links:
        return set()
    search = _searched(module, links, layers, samples(), session, runner)
    nearest = as_rounded(request, JUDGED).by_nearest
    judging = few(samples(), effort.judging)
    trial = EqualizationTrial(module, nearest, [(judging, judging)], session, runner)
    final = EqualizationTrial(module, request, halves(judging), session, runner)
    done = [_scale(method, search, trial, effort.tries, remarks) for method in _METHODS]
    divided = {link for each in done for link in each}
    changes = [(link, change) for each in done for link, changed in each.items() for change in changed]
    changes += _absorb(links, divided, search, trial, remarks)
    only = replace(request.recovery, equalize=None) in (BY_DEFAULT, replace(NO_RECOVERY, equalize=None))
    return divided if only or not changes or _stays(changes, final, remarks) else set()


def _searched(
    module: ModuleOp, links: Sequence[Link], rounded: Layers, samples: Samples, session: Session, runner: Runner
) -> EqualizationSearch:
    """The exponents that serve the layers of the links on the data."""
    every = [
        site for link in links for site in (link.site, *(reader.site for reader in link.readers)) if site is not None
    ]
    layers = {site.compute: site for site in every}
    weighted = [site for site in layers.values() if isinstance(site.compute, WeightedOp)]
    grids = grids_of(weighted, rounded)
    weights = {site.compute: _weight(site, grid) for site, grid in zip(weighted, grids, strict=True)}
    inputs = {site.compute: _input_of(site) for site in weighted}
    bounded = [ChannelsOf(each.value, each.axis) for link in links for each in link.bounded]
    seen = channels_seen(module, [*inputs.values(), *bounded], samples, session, runner)
    search = EqualizationSearch(links, weights, inputs, seen, matters_of(module))
    search.run()
    return search


def _scale(
    method: _Method, search: EqualizationSearch, trial: EqualizationTrial, tries: int, remarks: Remarks
) -> Mapping[Link, Sequence[Change]]:
    """Scale the links of a method where it improves the outputs, and leave a remark on each; returns the changes."""
    found = {link: exponents for link, exponents in search.exponents.items() if (link.site is None) == method.product}
    able = {link: exponents for link, exponents in found.items() if exponents.any()}
    for link in (link for link in found if link not in able):
        remarks.missed(link.compute, *method.no_gain)
    done, lost = _done(able, search, trial, method.worth, tries)
    for link, exponents in able.items():
        if link in done:
            remarks.applied(link.compute, method.rule, _outcome(link, exponents, search))
        else:
            remarks.missed(link.compute, *lost.get(link, _INEXACT))
    return done


def _stays(changes: Sequence[tuple[Link, Change]], final: EqualizationTrial, remarks: Remarks) -> bool:
    """Whether the outputs still win once recovery has done its part, which makes up for much of the same noise; if they do not,
    all changes are undone.
    """
    final.begin()
    if (reason := final.lost(WORTH)) is None:
        return True
    undo([change for _, change in changes])
    for op in dict.fromkeys(link.compute for link, _ in changes):
        remarks.forget(op)
        remarks.missed(op, "outputs", f"after recovery {reason}")
    return False


def _done(
    able: Mapping[Link, Array], search: EqualizationSearch, trial: EqualizationTrial, worth: float, tries: int
) -> tuple[Mapping[Link, Sequence[Change]], Mapping[Link, tuple[str, str]]]:
    """Scale the links or, if all of them together do not improve the outputs, the half that gains most, then a quarter,
    down to one link or until the tries are used up. Returns the changes of the links that are scaled, and for each link
    that the outputs reject the remark on it.
    """
    lost: dict[Link, tuple[str, str]] = {}
    tried = list(able)
    for _ in range(min(tries, len(able).bit_length())):
        trial.begin()
        found = {link: changed for link in tried if (changed := scaled(link, able[link])) is not None}
        if not found:
            break
        if (reason := trial.lost(worth)) is None:
            return found, lost
        undo([change for changes in found.values() for change in changes])
        lost |= dict.fromkeys(found, ("outputs", reason))
        if tries > 1:
            ranked = tried if len(tried) < len(able) else _ranked(able, search, trial)
            tried = ranked[: len(tried) // 2]
    return {}, lost


def _ranked(able: Mapping[Link, Array], search: EqualizationSearch, trial: EqualizationTrial) -> list[Link]:
    """The links, first the one that lowers its readers' noise at the outputs most, or their own errors if names are not
    unique.
    """
    noise = trial.noise({layer_of(reader.compute) for link in able for reader in link.readers})

    def won(link: Link) -> tuple[float, float]:
        share = 1 - search.error(link, able[link]) / search.error(link, np.zeros_like(able[link]))
        return share * sum(noise.get(layer_of(reader.compute), 0) for reader in link.readers), share

    return sorted(able, key=won, reverse=True)


def _absorb(
    links: Sequence[Link],
    divided: Collection[Link],
    search: EqualizationSearch,
    trial: EqualizationTrial,
    remarks: Remarks,
) -> list[tuple[Link, Change]]:
    """Move minima of channels between biases, where the quantized module's outputs win; returns the changes."""
    least = {link: search.seen[link.readers[0].compute].least for link in links}
    above = [link for link in links if _is_whole(link) and (least[link] > 0).any()]
    if not above:
        return []
    trial.begin()
    none = np.zeros(1, np.int32)
    found = {link: absorbed(link, least[link], search.exponents[link] if link in divided else none) for link in above}
    changes = [(link, change) for link, each in found.items() for change in each]
    if not changes:
        return []
    lost = trial.lost(WORTH)
    if lost is not None:
        undo([change for _, change in changes])
    for link in (link for link, each in found.items() if each):
        count, readers = int((least[link] > 0).sum()), ", ".join(layer_of(r.compute) for r in link.readers)
        if lost is None:
            outcome = f"7/8 of the minima of {count} of {link.size} channels moved into the biases of {readers}"
            remarks.applied(link.compute, "absorbed", outcome)
        else:
            remarks.missed(link.compute, "outputs", lost)
    return changes if lost is None else []


def _is_whole(link: Link) -> bool:
    """Whether every reader reads every channel in its place."""
    return link.site is not None and all(np.array_equal(r.of, np.arange(link.size)) for r in link.readers)


def _input_of(site: Site) -> ChannelsOf:
    assert site.activation is not None, "links are between layers that read from outside"
    return ChannelsOf(site.activation, cast(WeightedOp, site.compute).input_axis)


def _weight(site: Site, grids: Grids) -> Weight:
    array = array_of(site.operand(WEIGHT))
    assert array is not None, "links have constant weights"
    return Weight.of(cast(WeightedOp, site.compute), array, grids)


def _outcome(link: Link, exponents: Array, search: EqualizationSearch) -> str:
    readers = ", ".join(layer_of(reader.site.compute) for reader in link.readers)
    without, left = (search.error(link, each) for each in (np.zeros_like(exponents), exponents))
    gain = 10 * log10(without / left) if left else inf
    count, by = f"{np.count_nonzero(exponents)} of {exponents.size}", f"by 2^{exponents.min()} to 2^{exponents.max()}"
    done = f"{count} channels divided {by}" if link.site else f"a product divides {count} channels of its input {by}"
    return f"{done}, the error of {readers} {gain:.1f} dB smaller"


__all__ = ["EqualizePass"]
