"""Keeps channels within the bounds between layers (Relu6, Clip), as far as data shows what they reach."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .channels_seen import ChannelsOf, Seen
from .links import Link

Array = np.ndarray[Any, np.dtype[Any]]

LARGEST = 24
"""The largest exponent: what is scaled stays far within float32."""


class Limits(NamedTuple):
    """What a link's channels may be divided by, so that bounds cut off what they cut off before, and nothing else."""

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
