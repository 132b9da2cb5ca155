"""The difference of two arrays, or two streams of arrays. All arithmetic is in float64; shapes must agree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol, Self

import numpy as np

from ..ir.array import Array
from ..support.diagnostics import CompileError

EXPLAINED = "SQNR: signal over quantization noise; at 20 dB errors are a tenth of the signal, at 40 dB a hundredth"
"""The explanation below a table of differences."""


@dataclass(frozen=True)
class Difference:
    """A difference: `sqnr` in dB (inf if equal), `cosine` in [-1, 1], `largest` absolute difference, `differing`
    elements of `count`.
    """

    sqnr: float
    cosine: float
    largest: float
    differing: int
    count: int


class Measure(Protocol):
    """The distance of the outputs of a network from those of another, added run by run."""

    @property
    def noise(self) -> float:
        """The distance. Those of several small changes add up, about."""
        ...

    def add(self, expected: Mapping[str, Array], found: Mapping[str, Array]) -> None:
        """Adds the outputs of one run, by name."""
        ...

    def merge(self, other: Self) -> None:
        """Adds what was added to another one. If that was one run, the result is that of adding it here, to the bit."""
        ...

    def data(self) -> dict[str, Any]:
        """Everything that was added, as plain data for JSON."""
        ...

    def taken_up(self, data: Mapping[str, Any]) -> Self:
        """A measure of this kind from what `data` returned."""
        ...


@dataclass
class Differences:
    """The difference of two streams of arrays, added pair by pair; arrays are not kept."""

    signal: float = 0.0
    """Sum of squares of the reference; `value_power` is that of the other stream, `noise` that of their difference."""
    value_power: float = 0.0
    noise: float = 0.0
    product: float = 0.0
    largest: float = 0.0
    differing: int = 0
    count: int = 0

    def add(self, reference: Array, value: Array) -> None:
        """Adds one pair. Raises ValueError if shapes differ."""
        if reference.shape != value.shape:
            raise ValueError(f"shapes {list(reference.shape)} and {list(value.shape)} differ")
        a, b = (x.reshape(-1).astype(np.float64, copy=False) for x in (reference, value))
        with np.errstate(invalid="ignore"):  # equal infinities do not differ
            apart = np.where(a == b, 0.0, a - b)
        self.signal += float(a @ a)
        self.value_power += float(b @ b)
        self.noise += float(apart @ apart)
        self.product += float(a @ b)
        self.largest = max(self.largest, float(np.max(np.abs(apart), initial=0.0)))
        self.differing += int(np.count_nonzero((a != b) & ~(np.isnan(a) & np.isnan(b))))
        self.count += a.size

    def merge(self, other: Differences) -> None:
        """Adds the pairs of another one."""
        self.signal += other.signal
        self.value_power += other.value_power
        self.noise += other.noise
        self.product += other.product
        self.largest = max(self.largest, other.largest)
        self.differing += other.differing
        self.count += other.count

    def result(self) -> Difference:
        return Difference(self.sqnr, self.cosine, self.largest, self.differing, self.count)

    @property
    def sqnr(self) -> float:
        """`10 log10(sum reference^2 / sum (reference - value)^2)`; -inf when there is noise but no signal."""
        if self.noise == 0:
            return float("inf")
        return 10 * float(np.log10(self.signal / self.noise)) if self.signal else float("-inf")

    @property
    def cosine(self) -> float:
        """1 when both are all zero, 0 when one is."""
        scale = float(np.sqrt(self.signal * self.value_power))
        if scale == 0:
            return 1.0 if self.signal == self.value_power else 0.0
        return float(np.clip(self.product / scale, -1, 1))


def difference(reference: Array, value: Array) -> Difference:
    """Compare `value` with `reference`. Raises ValueError when shapes differ."""
    total = Differences()
    total.add(reference, value)
    return total.result()


def sqnr(reference: Array, value: Array) -> float:
    """Signal to quantization noise ratio in dB: `10 log10(sum reference^2 / sum (reference - value)^2)`.

    inf when there is no noise, -inf when there is noise but no signal.
    """
    return difference(reference, value).sqnr


def cosine(reference: Array, value: Array) -> float:
    """Cosine similarity; 1 when both are all zero, 0 when one is."""
    return difference(reference, value).cosine


_LEAST_PROBABILITY = 1e-9
"""Smallest probability that counts as it is: integers make smaller ones 0."""


@dataclass
class Divergences:
    """The Kullback-Leibler divergence of each output of a classifier, in nats: a measure. The worst one counts: others do not
    make up for it.

    An output is [samples, classes] or [samples, positions, classes], with any number of axes of size 1 after. Its rows are
    logits, whose softmax is compared; rows that add up to 1 are probabilities already.
    """

    sums: dict[str, tuple[float, int]] = field(default_factory=dict[str, tuple[float, int]])
    """The sum of all rows of an output, and their number."""

    @property
    def worst(self) -> tuple[str, float]:
        """The output with the largest mean of all rows, and that: `sum p log(p / q)`, where p are the reference's
        probabilities; at least 0.
        """
        means = ((name, max(total / rows, 0.0) if rows else 0.0) for name, (total, rows) in self.sums.items())
        return max(means, key=lambda each: (bool(np.isnan(each[1])), each[1]))

    @property
    def noise(self) -> float:
        """The divergence of the worst output."""
        return self.worst[1]

    def add(self, expected: Mapping[str, Array], found: Mapping[str, Array]) -> None:
        """Adds the outputs of one run. Raises CompileError for what is not an output of a classifier."""
        for name, reference in expected.items():
            self._add(name, *_divergence(reference, found[name]))

    def _add(self, name: str, total: float, rows: int) -> None:
        before = self.sums.get(name, (0.0, 0))
        self.sums[name] = before[0] + total, before[1] + rows

    def merge(self, other: Self) -> None:
        """Adds the runs of another one."""
        for name, each in other.sums.items():
            self._add(name, *each)

    def data(self) -> dict[str, Any]:
        """Everything that was added, as plain data for JSON."""
        return {**self.sums}

    def taken_up(self, data: Mapping[str, Any]) -> Self:
        """A measure of this kind from what `data` returned."""
        return type(self)({name: (total, rows) for name, (total, rows) in data.items()})


def _divergence(reference: Array, value: Array) -> tuple[float, int]:
    """The sum of the divergences of all rows, and their number."""
    shape = reference.shape
    while len(shape) > 2 and shape[-1] == 1:
        shape = shape[:-1]
    if len(shape) not in (2, 3) or shape[-1] < 2 or not np.issubdtype(reference.dtype, np.floating):
        message = f"an output is {reference.dtype} {list(reference.shape)}, not floats [samples, classes]"
        raise CompileError(message, hint="measure the SQNR, which any output has")
    a, b = (x.reshape(-1, shape[-1]).astype(np.float64) for x in (reference, value))
    to_logs = _logs if bool((a >= 0).all()) and bool(np.allclose(a.sum(1), 1, atol=1e-3)) else _log_softmax
    p, q = to_logs(a), to_logs(b)
    return float((np.exp(p) * (p - q)).sum()), len(a)


def _logs(rows: Array) -> Array:
    """The logarithms of probabilities, brought to a sum of 1."""
    kept = np.maximum(rows, _LEAST_PROBABILITY)
    return np.log(kept / kept.sum(1, keepdims=True))


def _log_softmax(rows: Array) -> Array:
    rows = rows - rows.max(1, keepdims=True)
    return rows - np.log(np.exp(rows).sum(1, keepdims=True))


_ROWS = 256
"""Most rows that an output may have for `Parts` to look at each of them."""
GAIN = 0.5
"""Least gain in dB that counts."""
CERTAIN = 2
"""Number of standard errors that the mean gain of samples, in dB, has to exceed."""
_FAR = 60.0
"""Largest gain of a sample in dB."""


def _in_one_row(run: Array) -> Array:
    """The numbers of a run, as `Parts` has them, with all rows in one."""
    low, high, signal, noise = run
    return np.stack([low.min(1), high.max(1), signal.sum(1), noise.sum(1)])[..., None]


def _decibels(signal: float, noise: float) -> float:
    """The SQNR of these energies, of which the signal is not 0; noise that is not a number is endless."""
    if np.isnan(noise):
        return float("-inf")
    return 10 * float(np.log10(signal / noise)) if noise else float("inf")


@dataclass
class Parts:
    """The signal and the noise of each part of the float outputs, sample by sample: a measure that tells gains from chance.

    An output is a part, unless it holds scores next to other numbers, as those of detectors do: boxes in pixels would hide
    them. Rows along its shortest axis, but the first, belong to the scores if all their numbers lie between 0 and 1.
    """

    by_sample: bool = False
    """Whether the first axis of every output counts samples; otherwise a run is one."""
    rows: dict[str, list[Array]] = field(default_factory=dict[str, list[Array]])
    """Least and largest number, signal and noise of each row in each sample of a run, [4, samples, rows], by output."""

    @property
    def noise(self) -> float:
        """The noise of the worst part, as a share of its signal."""
        return max(self.shares.values(), default=0.0)

    def add(self, expected: Mapping[str, Array], found: Mapping[str, Array]) -> None:
        """Adds the outputs of one run: those of floats, or all of a network without any."""
        floats = [name for name, each in expected.items() if np.issubdtype(each.dtype, np.floating)]
        for name in floats or expected:
            if expected[name].size:
                a, b = (self._by_row(each[name].astype(np.float64)) for each in (expected, found))
                with np.errstate(invalid="ignore"):  # equal infinities do not differ
                    apart = np.where(a == b, 0.0, a - b)
                numbers = a.min(2), a.max(2), np.square(a).sum(2), np.square(apart).sum(2)
                self.rows.setdefault(name, []).append(np.stack(numbers))

    def _by_row(self, array: Array) -> Array:
        """The numbers of an output as [samples, rows, numbers]."""
        samples = len(array) if self.by_sample else 1
        shape = array.shape[1:]
        axis = int(np.argmin(shape)) if len(shape) > 1 else 0
        if len(shape) < 2 or shape[axis] > _ROWS:
            return array.reshape(samples, 1, -1)
        rows = np.moveaxis(array, 1 + axis, 1)
        if samples == 1:
            rows = np.moveaxis(rows, 1, 0)[None]
        return rows.reshape(samples, shape[axis], -1)

    def merge(self, other: Self) -> None:
        """Adds the runs of another one."""
        for name, runs in other.rows.items():
            self.rows.setdefault(name, []).extend(runs)

    def data(self) -> dict[str, Any]:
        """Everything that was added, as plain data for JSON."""
        return {name: [run.tolist() for run in runs] for name, runs in self.rows.items()}

    def taken_up(self, data: Mapping[str, Any]) -> Self:
        """A measure of this kind from what `data` returned."""
        return replace(self, rows={name: [np.array(run) for run in runs] for name, runs in data.items()})

    @cached_property
    def energies(self) -> dict[str, Array]:
        """The signal and the noise of each part in each sample, [2, samples]; those without any signal are left out."""
        found: dict[str, Array] = {}
        for name, runs in self.rows.items():
            if len({each.shape[2] for each in runs}) > 1:  # sizes that differ from run to run have no rows in common
                runs = [_in_one_row(each) for each in runs]
            low, high, signal, noise = np.concatenate(runs, axis=1)
            scores = (low.min(0) >= 0) & (high.max(0) <= 1)
            kinds = {f"{name} (scores)": scores, f"{name} (other numbers)": ~scores}
            if scores.all() or not scores.any():
                kinds = {name: np.ones_like(scores)}
            found.update(
                {part: np.stack([each[:, own].sum(1) for each in (signal, noise)]) for part, own in kinds.items()}
            )
        return {name: each for name, each in found.items() if each[0].any()}

    @property
    def shares(self) -> dict[str, float]:
        """The noise of each part, as a share of its signal."""
        return {name: float(10 ** (-each / 10)) for name, each in self.sqnr.items()}

    @property
    def sqnr(self) -> dict[str, float]:
        """The SQNR of each part in dB."""
        sums = {name: each.sum(1) for name, each in self.energies.items()}
        return {name: _decibels(float(s), float(n)) for name, (s, n) in sums.items()}

    @property
    def spread(self) -> dict[str, tuple[float, float]]:
        """The least and the largest SQNR in dB of a single sample that has any signal, by part."""
        found: dict[str, tuple[float, float]] = {}
        for name, each in self.energies.items():
            single = [_decibels(float(s), float(n)) for s, n in each.T if s]
            found[name] = min(single), max(single)
        return found

    @property
    def worst(self) -> tuple[str, float]:
        """The part with the least SQNR, and that in dB; without any part nothing, and inf."""
        return min(self.sqnr.items(), key=lambda each: each[1], default=("", float("inf")))

    def gains(self, other: Self) -> bool:
        """Whether the worst part is better in `other`, of the same samples, by `GAIN` and by more than chance explains."""
        name, sqnr = self.worst
        if not other.worst[1] >= sqnr + GAIN:
            return False
        before, after = (np.where(np.isnan(noise := each.energies[name][1]), np.inf, noise) for each in (self, other))
        with np.errstate(divide="ignore", invalid="ignore"):
            decibels = np.nan_to_num(10 * np.log10(before / after), nan=0.0).clip(-_FAR, _FAR)
        chance = float(decibels.std(ddof=1)) / len(decibels) ** 0.5 if len(decibels) > 1 else float("inf")
        return bool(decibels.mean() > CERTAIN * chance)
