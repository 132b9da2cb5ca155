"""What `amct quantize` tries where a result is poor: options of its own, one after the other, those first that cost least.

A trial is judged on samples that neither calibrated it nor decided anything in it, by the worst output, and kept where that gains
more than chance explains. Trials calibrate on a few samples, so that all of them together take about as long as the result; only
what is kept is quantized with all of the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np
from xdsl.ir import Operation, SSAValue

from ..configuration.settings import Arq, Calibration
from ..data import Samples
from ..dialects.nn import QuantizeOp, is_layer
from ..ir.array import Array
from ..ir.dtypes import integer_range
from ..ir.functions import main_function
from ..lowering.ascend.profiles import ASCEND
from ..rewriting import layer_of
from ..runtime.executor import Executable
from ..runtime.metrics import Parts
from ..support.diagnostics import CompileError
from ..support.tables import numbered, some
from ..transforms.quantization.calibrate.observing import in_batches
from ..transforms.quantization.data import Split
from ..transforms.quantization.options import AS_THE_PROFILE
from ..transforms.quantization.recover.layer_effects import exchanged, layer_values
from ..transforms.quantization.recover.outputs import few, halves
from ..transforms.quantization.recover.sensitivity import quantized_layers
from ..transforms.quantization.request import Request
from .measurement import HUGE, integer_kernels
from .network import Network
from .recipes import rounding
from .sensitivity import difference_of, parts_of
from .summary import Attempt, Mended, weight_bytes
from .widening import can_widen, own_values

RULE = "mend"
POOR = 20.0
"""SQNR in dB of an output below which options are tried."""
BEHIND = 6.0
"""Options are also tried for an output that has up to this many dB more than `POOR`, if its layers predict this many dB more, or
profile ascend gives them.
"""
_JUDGING = 8, 64
"""Fewest and most samples that judge. If fewer are held back, others are."""
_FEWEST = 4
"""Fewest samples, of which each half judges what the other one has calibrated."""
_CALIBRATING = 16
"""Most samples that calibrate a trial."""
_RANKING, _RUNS = 4, 100
"""Most samples that rank the layers, and about how often all layers together run on one."""
_CLIPPED = 0.01
"""Share of a value's energy that is lost by clipping, from which on ranges are to blame."""
_SHARE, _MARGIN, _MOST = 0.9, 1.0, 0.8
"""Share of the noise of rounded values that goes at a time, dB around the goal, and largest share of layers in float."""
_OTHERWISE = 3.0
"""dB by which a trial that is like the result may be better for other reasons than its samples."""
_WHOLE = 8
"""Bits of activations and weights when nobody asks for fewer."""


class _Change(NamedTuple):
    called: str
    option: str
    request: Request
    layers: tuple[str, ...] = ()


class _Fold(NamedTuple):
    """A split of the samples, with the network that calibrates on one part of it."""

    network: Network
    evened: dict[bool | None, Network]
    """The network with its channels evened out, by what `equalize` asks for."""

    def ranking(self, layers: Sequence[str]) -> Samples:
        """The samples that rank these layers, of those that calibrate."""
        given = self.network.samples.calibration
        assert given is not None, "splits have samples"
        return few(given, min(_RANKING, _RUNS // max(1, len(layers))))


@dataclass(frozen=True)
class _Trial:
    """A request, the networks that it makes on each split, before and after quantization, and their errors."""

    request: Request
    networks: Sequence[tuple[Network, Network]]
    errors: Parts

    @property
    def sqnr(self) -> float:
        """The SQNR of the worst output in dB."""
        return self.errors.worst[1]


@dataclass
class _Trials:
    """Quantizes a fused network by one request after the other."""

    folds: Sequence[_Fold]

    @staticmethod
    def of(fused: Network, most: int | None) -> _Trials:
        """Trials on the network's samples, of which at most this many calibrate."""
        pairs = ((own, each.held) for each in splits(fused.samples) if (own := each.calibration) is not None)
        parts = [Split(few(own, most or own.count), few(held, _JUDGING[1]), True, None) for own, held in pairs]
        return _Trials([_Fold(replace(fused.quiet, samples=each), {}) for each in parts])

    def evened(self, fold: _Fold, request: Request) -> Network:
        """The network with channels evened out as this request has it."""
        asked = request.recovery.equalize
        if asked not in fold.evened:
            fold.evened[asked] = fold.network.asking(request).evened()
        return fold.evened[asked].asking(request.equalized)

    def by(self, request: Request) -> _Trial:
        """What a request makes, measured on the samples that judge: without what the default does to some biases and weights."""
        recovery = replace(request.recovery, correct_bias=bool(request.recovery.correct_bias))
        if _is_whole(request):
            recovery = replace(recovery, round_weights=recovery.round_weights or "nearest")
        return replace(self.as_it_is(replace(request, recovery=recovery)), request=request)

    def as_it_is(self, request: Request) -> _Trial:
        """What a request makes, measured on the samples that judge."""
        networks = [(evened, evened.quantized()) for evened in (self.evened(fold, request) for fold in self.folds)]
        first, *others = (_errors(quantized) for _, quantized in networks)
        for each in others:
            first.merge(each)
        return _Trial(request, networks, first)

    def falls_behind(self, trial: _Trial) -> bool:
        """Whether the worst output has much less than its layers predict, or than profile ascend gives."""
        name, sqnr = trial.errors.worst
        predicted = sum(10 ** (-each / 10) for each in self.layers_alone(trial).values())
        if predicted and -10 * math.log10(predicted) >= sqnr + BEHIND:
            return True
        if not trial.request.profile.facts.kernels:
            return False
        network = self.folds[0].network
        session = network.session.silent()
        session.profile = ASCEND.name
        other = replace(trial.request, profile=ASCEND, points=AS_THE_PROFILE)
        network = replace(network, module=network.original, reference=network.original, request=other, session=session)
        return _errors(network.fused().evened().quantized()).sqnr.get(name, -math.inf) >= sqnr + BEHIND

    def layers_alone(self, trial: _Trial) -> dict[str, float]:
        """The SQNR in dB that each quantized layer alone leaves to the worst output, on samples that calibrate."""
        evened, quantized = (each.inlined().module for each in trial.networks[0])
        session, name = self.folds[0].network.session, trial.errors.worst[0]
        layers = quantized_layers(quantized, session)
        samples = in_batches(evened, [], self.folds[0].ranking(layers))
        found = exchanged(evened, quantized, layers, evened, samples, session, RULE, Parts)
        return {layer: each.sqnr.get(name, math.inf) for layer, each in found.items()}

    def noisy_layers(self, trial: _Trial, goal: float) -> list[str]:
        """The layers that have to be in float so that the activations which cost most are, as far as the goal needs it: those
        that read them and, in profiles that quantize values, those that make them. None if these are most layers.
        """
        evened, quantized = trial.networks[0]
        name, sqnr = trial.errors.worst
        request = evened.request.within(evened.module, evened.session)
        names = can_widen(request)
        found = rounding(evened, quantized, names, self.folds[0].ranking(names), RULE, Parts)
        noise = {layer: sum(each.shares.get(name, 0.0) for each in own) for layer, own in found.items()}
        total, wanted = sum(noise.values()), min(_SHARE, 1 - 10 ** (-(goal + _MARGIN - sqnr) / 10))
        taken, chosen = 0.0, list[str]()
        for layer in sorted(noise, key=lambda each: -noise[each]):
            if taken >= wanted * total or not noise[layer]:
                break
            chosen.append(layer)
            taken += noise[layer]
        if evened.request.profile.points == "values":
            able = {each.layer.name for each in request.layers.able} - {*request.settings.skip_layers}
            chosen = [layer for layer in _around(evened, chosen) if layer in able]
        return chosen if len(chosen) <= _MOST * len(noise) else []

    def cause(self, trial: _Trial, held: Samples) -> str:
        """The likely reason why the worst output is poor on these samples: values beyond their range, or the layer that costs
        most.
        """
        clipped = max(_clipping(trial.networks[0][1], held), key=lambda each: each.share, default=None)
        if clipped is not None and clipped.share >= _CLIPPED:
            far = f"the samples that measure reach {clipped.reach:.1f} times the range"
            return f"at '{clipped.layer}' {far}; calibrate on more kinds of samples"
        found = self.layers_alone(trial)
        worst = min(found, key=lambda each: found[each], default=None)
        return "" if worst is None else f"'{worst}' costs most: by itself it leaves {found[worst]:.1f} dB"


def _errors(network: Network) -> Parts:
    """The errors of a quantized network on the samples that judge."""
    held = in_batches(network.original, [], network.samples.held)
    program = integer_kernels(network.module, network.session) or partial(Executable, network.module)
    return difference_of(Executable(network.original), program(), held, network.session, parts_of(held))


def _around(network: Network, layers: Sequence[str]) -> list[str]:
    """Layers that make values of their own, and those that read these."""
    values = layer_values(network.inlined().module)
    places = own_values(network.module, network.request, network.session)
    found = list(layers)
    for value in (values[place] for layer in layers for place in places.get(layer, ())):
        makers = [value.owner] if isinstance(value.owner, Operation) else []
        found += [layer_of(op) for op in (*makers, *(use.operation for use in value.uses)) if is_layer(op)]
    return list(dict.fromkeys(found))


class _Clipping(NamedTuple):
    """The layer of a quantized value, the share of its energy that clipping takes, how far it reaches, in units of its range,
    and whether clipping takes more than rounding.
    """

    layer: str
    share: float
    reach: float
    more: bool = False


def _clipping(network: Network, held: Samples) -> list[_Clipping]:
    """What clipping does to the values of a quantized network on samples that did not calibrate it."""
    points = [op for op in main_function(network.module).body.block.ops if isinstance(op, QuantizeOp)]
    by_value = {op.input: (op, _range(op)) for op in points if op.qparams.data.axis is None}
    sums = {value: np.zeros(3) for value in by_value}
    reach = dict.fromkeys(by_value, 0.0)

    def watch(value: SSAValue, array: Array) -> None:
        low, high = by_value[value][1]
        real = array.astype(np.float64)
        sums[value] += np.square(real).sum(), np.square(real - np.clip(real, low, high)).sum(), real.size
        ends = ((real.max(initial=0), high), (real.min(initial=0), low))
        reach[value] = max(reach[value], *(float(most / limit) for most, limit in ends if limit))

    executable = Executable(network.module, list(by_value))
    for inputs in held.batches():
        executable.run(inputs, watch)
    found = list[_Clipping]()
    for value, (signal, lost, count) in sums.items():
        step = float(by_value[value][0].qparams.data.scales())
        share = float(lost / signal) if signal else 0.0
        found.append(
            _Clipping(layer_of(by_value[value][0]), share, reach[value], bool(lost > count * step * step / 12))
        )
    return found


def _range(point: QuantizeOp) -> tuple[float, float]:
    """The reals of the least and the largest integer of a point with one scale."""
    parameters = point.qparams.data
    least, largest = integer_range(parameters.storage)
    scale, zero_point = float(parameters.scales()), int(parameters.zero_points())
    return (least - zero_point) * scale, (largest - zero_point) * scale


def splits(samples: Split) -> list[Split]:
    """The samples that calibrate trials, and others that judge them: those that are held back, or some of those that calibrate,
    or if these are few as well each half of them. None if there are hardly any, or they are synthetic.
    """
    given, fewest = samples.calibration, _JUDGING[0]
    if given is None or given.synthetic:
        return []
    if samples.apart and samples.held.count >= fewest:
        return [samples]
    batch = given.batch_size
    judging = -(-fewest // batch) * batch
    if given.count >= max(2 * judging, judging + batch):
        return [Split(given.head(given.count - judging), given.tail(judging), True, None)]
    if given.count < _FEWEST or given.runs < 2 or given.runs * batch != given.count:
        return []
    return [Split(own, other, True, None) for own, other in halves(given)]


_Remedy = Callable[[_Trials, _Trial, float], "_Change | None"]
"""A function of the best trial so far and the goal in dB."""


def _ranges(observer: str, called: str, trials: _Trials, best: _Trial, goal: float) -> _Change | None:
    settings = best.request.settings
    quantized = best.networks[0][1]
    if not settings.observed_by_default or not any(each.more for each in _clipping(quantized, quantized.samples.held)):
        return None
    common = settings.common or Calibration()
    activation = replace(common.activation, observer=observer)
    settings = replace(settings, common=replace(common, activation=activation), observed_by_default=False)
    return _Change(called, f"--observer {observer}", replace(best.request, settings=settings))


def _fitted(trials: _Trials, best: _Trial, goal: float) -> _Change | None:
    request = best.request
    if request.recovery.fit_ranges:
        return None
    request = replace(request, recovery=replace(request.recovery, fit_ranges=True))
    return _Change("ranges fitted to outputs", "--fit-ranges", request)


def _rounded(trials: _Trials, best: _Trial, goal: float) -> _Change | None:
    request = best.request
    if request.recovery.round_weights is not None:
        return None
    corrects = bool(request.recovery.correct_bias)
    request = replace(request, recovery=replace(request.recovery, round_weights="mismatch", correct_bias=corrects))
    return _Change("weights rounded by data", "--round-weights mismatch", request)


def _evened(trials: _Trials, best: _Trial, goal: float) -> _Change | None:
    request = best.request
    if request.recovery.equalize is not None:
        return None
    request = replace(request, recovery=replace(request.recovery, equalize=True))
    if trials.evened(trials.folds[0], request).reference is best.networks[0][0].reference:
        return None
    return _Change("channels evened out", "--equalize", request)


def _is_whole(request: Request) -> bool:
    """Whether nobody asks for fewer bits."""
    common = request.settings.common or Calibration()
    return isinstance(common.weight, Arq) and common.activation.bits == common.weight.bits == _WHOLE


def _in_float(trials: _Trials, best: _Trial, goal: float) -> _Change | None:
    settings = best.request.settings
    goal = min(goal, POOR + BEHIND)  # more is not worth a slower file
    if best.sqnr >= goal or not _is_whole(best.request) or not (names := trials.noisy_layers(best, goal)):
        return None
    settings = replace(settings, skip_layers=(*settings.skip_layers, *names))
    called = f"{numbered(len(names), 'layer')} in float ({some(names)})"
    return _Change(called, f"--skip-layers {','.join(names)}", replace(best.request, settings=settings), tuple(names))


_REMEDIES: Sequence[tuple[int, _Remedy]] = (
    (1, partial(_ranges, "minmax", "ranges that cover everything")),
    (1, partial(_ranges, "percentile", "ranges without the largest values")),
    (2, _in_float),
    (2, _fitted),
    (2, _rounded),
    (4, _evened),
)
"""What is tried in this order, with the time that it takes, about, in units of calibrating a trial."""
_BIASES, _BUDGET = 2, 9
"""The time of a trial with corrected biases, and what may be spent."""


def mend(fused: Network, first: Parts, effort: int) -> tuple[Request, Mended]:
    """Try what the options of a fused network leave open, if its first result is poor on samples held back. Returns the request
    that serves best, and what was tried.

    With an `effort` of 2 everything is tried in any case, and with all of the data; with 0 nothing is.
    """
    request, everything = fused.request, effort > 1
    unchanged = Mended(before=first.worst, after=first.worst)
    if not effort or (first.worst[1] >= POOR + BEHIND and not everything):
        return request, unchanged
    if first.worst[1] < POOR and not everything and weight_bytes(fused.module) > HUGE:
        cause = f"its weights have more than {HUGE >> 20} MiB, and only --effort 2 tries more"
        return request, replace(unchanged, cause=cause)
    trials = _Trials.of(fused, None if everything else _CALIBRATING)
    if not trials.folds:
        given = fused.samples.calibration
        named = given is not None and not given.synthetic and first.worst[1] < POOR
        cause = f"nothing else is tried with fewer than {_FEWEST} samples" if named else ""
        return request, replace(unchanged, cause=cause)
    best, attempts = trials.by(request), list[Attempt]()
    goal = POOR + min(_OTHERWISE, max(0.0, best.sqnr - first.worst[1]))
    if everything:
        goal = math.inf
    elif first.worst[1] >= POOR:
        if not trials.falls_behind(best):
            return request, unchanged
        goal += BEHIND
    near = goal - _MARGIN  # what costs much is not tried for the last decibel
    left = math.inf if everything else _BUDGET
    for cost, remedy in _REMEDIES:
        while best.sqnr < goal and cost <= left and (change := remedy(trials, best, goal)) is not None:
            left -= cost
            try:
                tried = trials.by(change.request)
            except CompileError as e:
                fused.session.note(f"{change.option} cannot be tried: {e.message}")
                break
            kept = best.errors.gains(tried.errors)
            attempts.append(Attempt(change.called, change.option, best.sqnr, tried.sqnr, kept, change.layers))
            fused.session.progress(RULE, len(attempts), len(_REMEDIES))
            if not kept:
                break
            best, goal = tried, min(goal, near)
    if best.sqnr < goal and left >= _BIASES and best.request.recovery.correct_bias is None:
        corrected, plain = trials.as_it_is(best.request), replace(best.request.recovery, correct_bias=False)
        kept = corrected.errors.gains(best.errors)
        attempts.append(Attempt("uncorrected biases", "--no-correct-bias", corrected.sqnr, best.sqnr, kept))
        if kept:
            best = replace(best, request=replace(best.request, recovery=plain))
    cause = "" if everything or (best.sqnr >= goal and attempts) else trials.cause(best, fused.samples.held)
    return best.request, replace(unchanged, attempts=attempts, cause=cause)
