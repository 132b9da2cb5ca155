"""Advice on what to try next: rules on the results of a run, each with the command that follows it."""

from __future__ import annotations

import shlex
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from .network import costliest
from .reading import Activation, OutputError, Run

POOR = 15.0
"""SQNR in dB below which a network usually computes something else."""
GOOD = 30.0
"""SQNR in dB from which on single layers need no attention."""
_DROP = 6.0
"""Loss in dB of a layer that counts as dominating: half of the signal-to-noise amplitude."""
_OUTLIERS = 8.0
"""The largest weight of a tensor relative to the median of its channels: three of eight bits are lost."""
_TAIL = 0.999
"""The part of the values that a range should be made for."""
_POINTS, _CHANCE = 1.0, 0.05
"""Percent of right answers that are worth a search, and the probability above which a difference may be chance."""
_FEW = 8
"""Names in a sentence or a command."""


class Advice(NamedTuple):
    """A sentence with the finding, and the command to try; the command may be empty."""

    finding: str
    command: str = ""


@dataclass(frozen=True)
class Findings:
    """The input of the rules."""

    run: Run

    @property
    def worst(self) -> float:
        worst = self.run.worst
        return float("inf") if worst is None or worst.sqnr is None else worst.sqnr

    def has_remarks(self, pass_name: str) -> bool:
        return any(remark.pass_name == pass_name for remark in self.run.remarks)

    def command(self, name: str, *options: str, tag: str = "") -> str:
        """A command line on the same model and data, with more options; `tag` names its folder of results."""
        measured = self.run.measured
        begin = "" if measured is None else measured.commands.get(name, "")
        words = shlex.split(begin or f"amct {name} {shlex.quote(self.run.model)} --data DATA")
        if options and options[0] in words:
            at = words.index(options[0])
            del words[at : at + len(options)]
        return shlex.join([*words, *options, *(["-o", f"{self.run.folder}-{tag}"] if tag else [])])


def advice(run: Run) -> list[Advice]:
    """The findings of all rules, in their order."""
    findings = Findings(run)
    return [each for rule in _RULES for each in rule(findings)]


def _synthetic(found: Findings) -> Iterator[Advice]:
    if found.run.synthetic:
        text = "No data was given: ranges and errors come from synthetic inputs and mean little. Calibrate on real samples:"
        yield Advice(text, found.command("quantize", "--data", "DATA", tag="calibrated"))


def _not_held_back(found: Findings) -> Iterator[Advice]:
    if found.run.samples and not (found.run.held_back or found.run.synthetic):
        yield Advice(
            "The errors were measured on the calibration samples, because there are too few to hold some back. "
            "Give more samples: about 100 that look like those in use."
        )


def _runs_in_onnxruntime(found: Findings) -> Iterator[Advice]:
    peer = found.run.onnxruntime
    if peer is not None and peer.get("failure"):
        yield Advice(f"onnxruntime {peer.get('version', '')} does not run the ONNX file: {peer['failure']}")


def _wrong_sums(found: Findings) -> Iterator[Advice]:
    peer = found.run.onnxruntime or {}
    outputs = {each.output: each for each in found.run.of("fake_quantized")}
    lost = [each for each in found.run.of("file") if _is_far(each, outputs.get(each.output))]
    if lost and any(peer.get("overflows", {}).values()):
        text = (
            f"onnxruntime adds products in 16 bits on this processor, {peer.get('processor', '')}, which some sums leave. "
            "Weights that are exact on every processor:"
        )
        yield Advice(text, found.command("quantize", "--profile", "qdq", "--portable", "strict", tag="portable"))


def _is_far(in_file: OutputError, simulated: OutputError | None) -> bool:
    """Whether an output of the file is further from the float model's than the simulated one by more than chance."""
    if simulated is None or in_file.sqnr is None:
        return False
    return in_file.sqnr < (simulated.sqnr or float("inf")) - 1


def _wrong_answers(found: Findings) -> Iterator[Advice]:
    answers = {each.stage: each for each in found.run.answers}
    if not {"float", "fake_quantized"} <= answers.keys():
        return
    whole, quantized = answers["float"], answers["fake_quantized"]
    if whole.percent - quantized.percent >= _POINTS:
        chance = f"; with so few samples this may be chance (p = {quantized.p:.2g})" if quantized.p > _CHANCE else ""
        text = f"Top-1 falls from {whole.percent:.2f} % to {quantized.percent:.2f} %{chance}. Search for options that keep it:"
        yield Advice(text, found.command("tune", tag="tuned"))


def _poor(found: Findings) -> Iterator[Advice]:
    if found.worst < POOR and not found.run.synthetic:
        text = (
            f"The worst output has {found.worst:.1f} dB, which is below {POOR:g} dB: such a network usually computes "
            "something else. First check that the data is normalized as in training. Then list the layers that cost most:"
        )
        yield Advice(text, found.command("sensitivity"))
        if not found.run.answers:
            yield Advice("Or search for options that reach a goal:", found.command("tune", tag="tuned"))


def _dominating(found: Findings) -> Iterator[Advice]:
    if found.worst >= GOOD:
        return
    worst = costliest(found.run.layers, _DROP, 3)
    if worst:
        lost = ", ".join(f"{layer.name} ({drop:.1f} dB)" for drop, layer in worst)
        names = ",".join(layer.name for _, layer in worst)
        text = f"Most accuracy is lost in {lost}. Leaving a layer in float shows what it costs."
        yield Advice(text, found.command("quantize", "--skip-layers", names, tag="skipped"))
        if not found.has_remarks("recipe"):
            text = "Activations of 16 bits where the outputs need them may win it back:"
            yield Advice(text, found.command("quantize", "--recipe", "detection", tag="wide"))


def _tails(found: Findings) -> Iterator[Advice]:
    if found.run.metadata.get("observer") != "minmax" or found.run.measured is None:
        return
    seen = found.run.measured.activations
    points = {p.index: p for layer in found.run.layers for p in layer.points}
    wide = [p.name for i, p in points.items() if i < len(seen) and _is_wide(seen[i], p.clip)]
    if wide:
        text = f"Outliers set the ranges of {_some(wide)}: almost all values use less than half of the integers."
        yield Advice(text, found.command("quantize", "--observer", "mse", tag="mse"))


def _is_wide(seen: Activation | None, clip: tuple[float, float]) -> bool:
    """Whether all but a thousandth of the values are in less than half of the integers' range."""
    if seen is None:
        return False
    sums = list(accumulate(seen.counts))
    tail = (1 - _TAIL) / 2 * sums[-1]
    first, last = bisect_left(sums, tail), bisect_left(sums, sums[-1] - tail)
    return (last + 1 - first) * seen.width < 0.5 * (clip[1] - clip[0])


def _outlier_channels(found: Findings) -> Iterator[Advice]:
    if found.has_remarks("equalize") or found.worst >= GOOD:
        return
    uneven = [
        x.name
        for x in found.run.layers
        if x.weights and x.weights.scales == "one scale" and x.weights.outliers > _OUTLIERS
    ]
    if uneven:
        text = f"One scale for all channels, but channels of very different sizes: the weights of {_some(uneven)}."
        yield Advice(text, found.command("quantize", "--equalize", tag="equalized"))


def _few_bits(found: Findings) -> Iterator[Advice]:
    rounding = [remark for remark in found.run.remarks if remark.pass_name == "round-weights"]
    tried = {remark.layer for remark in rounding if remark.rule not in ("wide", "samples")}  # the default skips these
    few = [each.name for each in found.run.layers if each.weights and each.weights.bits <= 4 and each.name not in tried]
    if few:
        text = f"Weights of 4 bits or less are rounded to the nearest integer in {_some(few)}."
        yield Advice(text, found.command("quantize", "--round-weights", "mismatch", tag="rounded"))


_RULES: Sequence[Callable[[Findings], Iterator[Advice]]] = (
    _synthetic,
    _not_held_back,
    _runs_in_onnxruntime,
    _wrong_sums,
    _wrong_answers,
    _poor,
    _dominating,
    _tails,
    _outlier_channels,
    _few_bits,
)


def _some(names: Sequence[str]) -> str:
    more = len(names) - _FEW
    return ", ".join(names[:_FEW]) + (f" and {more} more" if more > 0 else "")
