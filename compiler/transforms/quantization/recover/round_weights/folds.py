"""Splits the samples into those that layers are fitted to and those that judge the result (cross-validation)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isnan
from typing import NamedTuple

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from .....data import Samples
from .....engines import Work
from .....engines.estimate import numbers, outputs
from .....runtime.metrics import Differences
from .....session import Session
from .....support.tables import numbered
from .sums import Energies

HELD_BACK = 8
"""Number of runs of which one is held back; of fewer, but more than one, the last."""
FEW = 16
"""Fewest runs of which one in eight judges. If there are fewer, all of them judge, in turns: one in eight would be a single run.
"""
TURNS = 3
FEWEST = 4
"""The fewest runs that judge in turns by default."""
HELD_BACK_OF_FEW = 4
"""Number of runs of which one is held back where few samples are enough: the outputs of a few may lose where those of most win.
"""
JUDGING = 16
"""The fewest output numbers, over all runs that judge, for a decision: a few of them come closer by chance."""
NUMBERS = 1 << 28
"""Numbers that numpy moves in about a second."""


class Usual(NamedTuple):
    """The number of runs of the data that a pass uses by default."""

    share: int
    """The pass uses one run in `share`, or more if they cost little."""
    fewest: int
    most: int
    """Number of runs above which the pass uses more only if outputs have few numbers, so that more runs have to judge."""
    seconds: float = 1.0
    """The time of the runs that it uses in any case, as `NUMBERS` has it."""


class Fold(NamedTuple):
    """The samples to sum, and those to hold back from the sums."""

    summed: Sequence[Samples]
    held: Samples | None = None


class Folds(NamedTuple):
    """The samples that layers are fitted to, and those that judge whether they stay as fitted: the samples that `whole`
    holds back or, if there are turns, those that each turn holds back, by layers that are fitted to the others.
    """

    whole: Fold
    turns: Sequence[Fold] = ()

    @staticmethod
    def of(samples: Samples, one_in: int = HELD_BACK) -> Folds:
        """Makes folds: one run in `one_in` judges; of fewer than `FEW` runs all of them in turns."""
        turns = [] if samples.runs >= FEW else in_turns(samples)
        return Folds(Fold([samples]), turns) if turns else Folds.at_once(samples, one_in)

    @staticmethod
    def at_once(samples: Samples, one_in: int = HELD_BACK) -> Folds:
        """Makes one fold, in which one run in `one_in` judges."""
        fit, held = split(samples, one_in)
        return Folds(Fold([fit], held))

    @staticmethod
    def by_default(module: ModuleOp, samples: Samples, session: Session, usual: Usual) -> Folds | str:
        """The samples that a pass uses by default, or the reason why it uses none: at most half of the runs, but at least
        `usual.fewest`. If there are fewer than `FEW` runs, and all turns cost little, the pass uses all of them in turns.
        """
        work = Work(module, {}, samples, lambda value, array: None, lambda: None, session)
        cheap, judged = int(usual.seconds * NUMBERS) * samples.runs // max(numbers(work), 1), max(outputs(work), 1)
        if FEWEST <= samples.runs < FEW and samples.runs * (TURNS + 1) <= cheap:
            found = Folds.of(samples, HELD_BACK_OF_FEW)
        elif samples.runs < usual.fewest:
            return f"the data makes fewer than {usual.fewest} runs of the model"
        else:
            enough = max(usual.most, HELD_BACK_OF_FEW * JUDGING // judged)
            wanted = max(samples.runs // usual.share, cheap, 2 * JUDGING // judged)
            runs = max(usual.fewest, min(samples.runs // 2, enough, wanted))
            one_in = max(2, min(HELD_BACK_OF_FEW, runs * judged // JUDGING))
            found = Folds.at_once(samples.head(min(samples.count, runs * samples.batch_size)), one_in)
        judging = sum(fold.held.runs for fold in (found.whole, *found.turns) if fold.held is not None)
        if judging * judged < JUDGING:
            return f"the outputs of the {judging} runs that would judge have fewer than {JUDGING} numbers"
        return found


@dataclass
class Judged:
    """The errors of layers and outputs against the float network, as they were and as changed, on samples held back.
    Findings on other samples merge.
    """

    samples: int = 0
    layers: dict[Operation, tuple[Energies, Energies]] = field(
        default_factory=dict[Operation, tuple[Energies, Energies]]
    )
    outputs: dict[str, tuple[Differences, Differences]] = field(
        default_factory=dict[str, tuple[Differences, Differences]]
    )
    chosen: dict[Operation, list[float]] = field(default_factory=dict[Operation, list[float]])
    """The `choice` of each solution that has one, by layer."""
    rivals: dict[str, list[tuple[float, float]]] = field(default_factory=dict[str, list[tuple[float, float]]])
    """The square error of the network of rivals, and that of the changed one, in each run of all samples, by output."""

    def merge(self, other: Judged) -> None:
        """Add findings on other samples."""
        self.samples += other.samples
        for layer, found in other.layers.items():
            for own, each in zip(self.layers.setdefault(layer, (Energies(), Energies())), found, strict=True):
                own.merge(each)
        for name, found in other.outputs.items():
            for own, each in zip(self.outputs.setdefault(name, (Differences(), Differences())), found, strict=True):
                own.merge(each)
        for name, errors in other.rivals.items():
            self.rivals.setdefault(name, []).extend(errors)
        for layer, choices in other.chosen.items():
            self.chosen.setdefault(layer, []).extend(choices)

    def lost(self, measured: str) -> str | None:
        """The reason why layers are not to change: on average the outputs come no closer to the float network's; None if they do.
        `measured` are its last words.
        """
        gains = {name: after.sqnr - before.sqnr for name, (before, after) in self.outputs.items()}
        gains = {name: gain for name, gain in gains.items() if not isnan(gain)}
        if not gains or sum(gains.values()) >= 0:
            return None
        worst = min(gains, key=lambda name: gains[name])
        before, after = self.outputs[worst]
        sqnr = f"{after.sqnr:.2f} dB, without it {before.sqnr:.2f} dB"
        return f"with it output {worst} of the quantized model has {sqnr}{measured}"

    def choice(self, layer: Operation) -> float | None:
        """The middle one of the choices for a layer, if there are any."""
        choices = sorted(self.chosen.get(layer, ()))
        return choices[len(choices) // 2] if choices else None


def measured_on(count: int) -> str:
    """The last words of a remark with errors that are measured on this many samples held back, if there are any."""
    return f" (on {numbered(count, 'sample')} held back)" if count else ""


def measured_in_turns(count: int) -> str:
    """The last words of a remark with errors that are measured on all samples, in turns."""
    return f" (on {count} samples, held back in turns)"


def split(samples: Samples, one_in: int = HELD_BACK) -> tuple[Samples, Samples | None]:
    """The samples to sum, and those to hold back."""
    back = max(samples.runs // one_in, int(samples.runs > 1)) * samples.batch_size
    return (samples.head(samples.count - back), samples.tail(back)) if back else (samples, None)


def in_turns(samples: Samples) -> list[Fold]:
    """Folds that hold back each sample in one of at most `TURNS` turns; none if there are too few for two runs."""
    runs = samples.count // samples.batch_size  # what is left of them is in the last turn
    turns = min(TURNS, runs)
    if turns < 2:
        return []
    ends = [*(runs * i // turns * samples.batch_size for i in range(turns)), samples.count]
    others = ((samples.head(first), samples.tail(samples.count - end)) for first, end in pairwise(ends))
    held = (samples.head(end).tail(end - first) for first, end in pairwise(ends))
    return [Fold([part for part in parts if part.count], own) for parts, own in zip(others, held, strict=True)]
