"""The difference between the outputs of a quantized module and those of the float one: it decides about changes to all
of the module.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, sqrt

from ....data import Samples
from ....ir.array import Array
from ....runtime.executor import Executable
from ....runtime.metrics import Differences

SAMPLES = 32
"""Number of samples that decide, or one run of the model if it takes more."""
WORTH = 0.5
"""dB that outputs must win on average: less is as likely to be lost on other samples."""
TOLERATED = 0.1
"""dB that an output may lose where others win."""

LOSS = 0.3
"""dB that an output may lose by weights whose sums of products are exact on every processor."""

Sqnr = dict[str, float]
"""dB by output; nan where both networks give nothing but zeros."""


def few(samples: Samples, count: int = SAMPLES) -> Samples:
    """The samples that decide: at most `count`, in whole runs, but at least one run."""
    return samples.head(min(samples.count, max(1, count // samples.batch_size) * samples.batch_size))


@dataclass(frozen=True)
class Compared:
    """The outputs of reals compared with those of the float network."""

    differences: dict[str, Differences]
    errors: list[float]
    """The energy of the outputs' errors over that of the outputs, summed over all of them, for each run."""

    @property
    def sqnr(self) -> Sqnr:
        return {name: each.sqnr for name, each in self.differences.items() if each.count}

    @staticmethod
    def of(runs: Iterable[tuple[Mapping[str, Array], Mapping[str, Array]]]) -> Compared:
        """Compares the outputs of the float network with those of the other one, run by run."""
        found = Compared({}, [])
        for exact, outputs in runs:
            error = 0.0
            for name, array in exact.items():
                total = found.differences.setdefault(name, Differences())
                if array.dtype.kind not in "iub":
                    own = Differences()
                    own.add(array, outputs[name])
                    total.merge(own)
                    error += own.noise / own.signal if own.signal else own.noise
            found.errors.append(error)
        return found

    def merge(self, other: Compared) -> None:
        """Adds the runs of another one."""
        for name, each in other.differences.items():
            self.differences[name].merge(each)
        self.errors.extend(other.errors)


def compared(exact: Executable, found: Executable, samples: Samples) -> Compared:
    """The outputs of two modules."""
    return Compared.of((exact.run(batch), found.run(batch)) for batch in samples.batches())


def halves(samples: Samples) -> list[tuple[Samples, Samples]]:
    """Pairs of samples that fit and samples that judge: each half of the runs for the other. A single run does both."""
    half = samples.count // samples.batch_size // 2 * samples.batch_size
    if not half:
        return [(samples, samples)]
    first, second = samples.head(half), samples.tail(samples.count - half)
    return [(first, second), (second, first)]


def lost(old: Sqnr, new: Sqnr, worth: float) -> str | None:
    """The reason why a change is to be undone: the outputs win less than `worth` dB on average, or one of them loses. None where
    they win.
    """
    gains = {name: new[name] - old[name] for name in old if not isnan(new[name] - old[name])}
    worst = min(gains, key=lambda name: gains[name], default=None)
    if worst is not None and (gains[worst] < -TOLERATED or sum(gains.values()) < worth * len(gains)):
        return f"with it output {worst} of the quantized model has {new[worst]:.2f} dB, without it {old[worst]:.2f} dB"
    return None


def lost_by_most(old: Sequence[float], new: Sequence[float]) -> str | None:
    """The reason to undo a change, by runs; None if enough runs win.

    The runs that win must outnumber those that lose by at least the root of both together, the standard deviation of that
    difference by chance. SQNR alone does not decide, because one run may have most of the noise.
    """
    wins = sum(b < a for a, b in zip(old, new, strict=True))
    losses = sum(b > a for a, b in zip(old, new, strict=True))
    if wins - losses >= sqrt(wins + losses):
        return None
    return (
        f"with it the outputs of {wins} of {len(old)} runs are closer to the float network's, those of {losses} further"
    )
