"""The search for the power of two that divides each channel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .....dialects.nn import NNOp
from ..balance_channels import balance_factors
from ..matters import Matters
from .channels_seen import ChannelsOf, Seen
from .costs import Weight
from .links import Link

Array = np.ndarray[Any, np.dtype[Any]]

LARGEST = 24
"""The largest exponent: what is scaled stays far within float32."""
STRENGTHS = (0.25, 0.5, 0.75, 1.0)
"""How much of the spread of activations may go into the weights that read them; 0.5 makes both equal (Nagel et al. 2019)."""
SWEEPS = 20
"""The most sweeps over all links; they end when nothing changes."""
WORTH = 0.8
"""The share of its error that a link may keep to be worth equalizing."""
PRODUCT_WORTH = 0.25
"""The same where it takes a product at run time."""


class Limits(NamedTuple):
    """What a link's channels may be divided by, so that bounds between layers (Relu6, Clip) cut off what they did before, as
    far as data shows.
    """

    least: Array
    """The least exponent of each channel: float64 [channels]. Below it, the channel would reach a bound."""
    fixed: Array
    """The channels that reach a bound, and keep their scale: bool [channels]."""

    @staticmethod
    def of(link: Link, seen: Mapping[ChannelsOf, Seen]) -> Limits:
        least, fixed = np.full(link.size, -float(LARGEST)), np.zeros(link.size, np.bool_)
        for bounded in link.bounded:
            found, (low, high) = seen[ChannelsOf(bounded.value, bounded.axis)], bounded.op.bounds
            for peaks, bound in ((found.high, high), (-found.low, -low)):
                if bound == 0 or np.isinf(bound):
                    continue  # it moves with the channel
                with np.errstate(divide="ignore"):
                    room = np.floor(np.log2(bound / peaks))
                np.maximum.at(least, bounded.of, -np.minimum(room, LARGEST))
                np.logical_or.at(fixed, bounded.of, peaks >= bound)
        return Limits(least, fixed)

    def within(self, exponents: Array) -> Array:
        """The nearest exponents that are allowed: int32."""
        return np.where(self.fixed, 0, np.clip(np.rint(exponents), self.least, LARGEST)).astype(np.int32)


def worth(link: Link) -> float:
    """The share of its error that a link may keep to be worth equalizing."""
    return PRODUCT_WORTH if link.site is None else WORTH


class Search:
    """Exponents of all links, found one link after the other, as a layer may end one and begin another."""

    def __init__(
        self,
        links: Sequence[Link],
        weights: Mapping[NNOp, Weight],
        inputs: Mapping[NNOp, ChannelsOf],
        seen: Mapping[ChannelsOf, Seen],
        matters: Matters,
    ):
        """`matters` weights the errors of the layers' output channels."""
        self._weights = weights
        self.seen: Mapping[NNOp, Seen] = {op: seen[channels] for op, channels in inputs.items()}
        """The channels of the layers' inputs."""
        self._limits = {link: Limits.of(link, seen) for link in links}
        self.exponents: dict[Link, Array] = {link: np.zeros(link.size, np.int32) for link in links}
        self._begun: dict[NNOp, Link] = {link.begins: link for link in links if link.begins is not None}
        self._ended = {reader.compute: (link, reader.of) for link in links for reader in link.readers}
        self._matters = {op: matters[op] for op in weights}

    def run(self) -> None:
        """Sweep over the links until nothing changes."""
        for _ in range(SWEEPS):
            changed = [link for link in self.exponents if self._improve(link)]
            if not changed:
                break

    def _improve(self, link: Link) -> bool:
        """Take the best of the candidates for a link; whether that is another one than before."""
        before = self.exponents[link]
        candidates = [np.zeros_like(before), *self._candidates(link)]
        errors = [self.error(link, candidate) for candidate in candidates]
        best = int(np.argmin(errors)) if min(errors) < worth(link) * errors[0] else 0
        found = candidates[best]
        self.exponents[link] = found
        return not np.array_equal(before, found)

    def _candidates(self, link: Link) -> list[Array]:
        """Exponents by strength. A channel that is 0 on either side is left alone, and so is the median of the others; below a
        bound the largest of them.
        """
        first, second = np.zeros(link.size), np.zeros(link.size)
        for reader in link.readers:
            np.maximum.at(first, reader.of, self.seen[reader.compute].peaks)
            np.maximum.at(second, reader.of, self._weights[reader.compute].input_peaks(self._down(reader.compute)))
        both = (first > 0) & (second > 0)
        found: list[Array] = []
        for strength in STRENGTHS if both.any() else ():
            ideal = np.log2(balance_factors(first[both], second[both], strength))
            wanted = np.zeros(link.size)
            wanted[both] = ideal - (ideal.max() if link.bounded else np.median(ideal))
            found.append(self._limits[link].within(wanted))
        return found

    def error(self, link: Link, exponents: Array) -> float:
        """The expected square error of what the readers of a link compute, from its quantization and theirs."""
        total = 0.0
        for reader in link.readers:
            op = reader.compute
            errors = self._weights[op].error(self.seen[op], exponents[reader.of], self._down(op))
            total += float((errors * self._matters[op]).sum())
        weight = None if link.begins is None else self._weights.get(link.begins)
        if weight is not None and not weight.grids.per_channel:
            errors = weight.output_errors(self.seen[link.compute], self._up(link.compute), exponents)
            total += float((errors * self._matters[link.compute]).sum())
        return total

    def _up(self, op: NNOp) -> Array:
        if op in self._ended:
            link, of = self._ended[op]
            return self.exponents[link][of]
        return np.zeros(self._weights[op].inputs, np.int32)

    def _down(self, op: NNOp) -> Array:
        return self.exponents[self._begun[op]] if op in self._begun else np.zeros(self._weights[op].outputs, np.int32)
