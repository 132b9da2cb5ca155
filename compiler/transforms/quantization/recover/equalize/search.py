"""The search for the power of two that divides each channel, and its cost: the error of a layer's output on rows of its input.

Exponents say by what power of two channels are multiplied (`up`) or divided (`down`). All errors are in the units of the module
as it was.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np

from .....dialects.nn import ConvolutionOp, ConvTransposeOp, MatMulOp, NNOp, WeightedOp
from .....ir.array import Array
from .....runtime.affine import in_blocks, scales_of
from ..balance_channels import balance_factors
from ..importance import Matters
from .channels_seen import ChannelsOf, Seen
from .links import Link

_SHRUNK = tuple(1 - 0.1 * i for i in range(8))
"""Shares of the range that are tried for the least error."""


class Grids(NamedTuple):
    """The grids of a layer's input and weight."""

    inputs: int | None
    """Bits, or None for an input that stays float."""
    weight: int | None
    per_channel: bool
    """Whether each output channel has a scale of its own."""
    symmetric: bool
    """Whether the input has no zero point."""
    block: int | None = None
    """The size of the groups of input channels that have a scale each, next to one per output channel."""


FLOAT = Grids(None, None, True, False)
"""The value for a layer that is not quantized."""


def quantized_rows(seen: Seen, up: Array, grids: Grids) -> Array:
    """The rows after quantization by one scale, if the layer that gives them divides channels by 2^up."""
    low, high = float(np.ldexp(seen.low, -up).min()), float(np.ldexp(seen.high, -up).max())
    if grids.inputs is None or not high > low:
        return seen.rows
    if grids.symmetric:
        low, high = -max(-low, high), max(-low, high)
    rows, steps = np.ldexp(seen.rows, -up), 2**grids.inputs - 1
    tried = (_on_grid(rows, low * share, high * share, steps) for share in _SHRUNK)
    return np.ldexp(min(tried, key=lambda found: float(np.square(found - rows).sum())), up)


def _on_grid(rows: Array, low: float, high: float, steps: int) -> Array:
    scale = scales_of(np.asarray((high - low) / steps))
    zero = np.rint(np.float32(low) / scale)
    return np.clip(np.rint(rows / scale), zero, zero + steps) * scale


@dataclass(frozen=True)
class Weight:
    """A layer's weight in one form for all kinds of layers."""

    numbers: Array
    """The numbers of the weight: float32 [groups, inputs of a group, outputs of a group, taps]."""
    grids: Grids

    @staticmethod
    def of(op: WeightedOp, array: Array, grids: Grids) -> Weight:
        numbers = array.astype(np.float32)
        if isinstance(op, MatMulOp):
            numbers = numbers[:, None] if numbers.ndim == 1 else numbers
            numbers = numbers.swapaxes(-1, -2) if op.transpose_b is not None else numbers
            *_, inputs, outputs = numbers.shape
            numbers = np.moveaxis(numbers.reshape(1, -1, inputs, outputs), 1, -1)
        else:
            groups, (first, second) = cast(ConvolutionOp, op).group_count, numbers.shape[:2]
            numbers = numbers.reshape(groups, first // groups, second, -1)
            numbers = numbers if isinstance(op, ConvTransposeOp) else numbers.swapaxes(1, 2)
        return Weight(np.ascontiguousarray(numbers), grids)

    @property
    def inputs(self) -> int:
        return self.numbers.shape[0] * self.numbers.shape[1]

    @property
    def outputs(self) -> int:
        return self.numbers.shape[0] * self.numbers.shape[2]

    def input_peaks(self, down: Array) -> Array:
        """The largest magnitude per input channel, if output channels are divided by 2^down: float64 [inputs]."""
        return np.ldexp(self._magnitudes, -self._of_outputs(down)[..., 0]).max(axis=2).reshape(-1).astype(np.float64)

    @cached_property
    def _magnitudes(self) -> Array:
        return np.abs(self.numbers).max(axis=3)

    def quantized(self, up: Array, down: Array) -> Array:
        """The numbers after symmetric quantization, if input channels are multiplied by 2^up and output channels
        divided by 2^down.
        """
        if self.grids.weight is None:
            return self.numbers
        shifts = self._of_inputs(up) - self._of_outputs(down)
        scaled = np.ldexp(self.numbers, shifts)
        peaks = self._peaks(np.abs(scaled))
        scale = scales_of(peaks / np.float32(2 ** (self.grids.weight - 1) - 1))
        return np.ldexp(np.rint(scaled / scale) * scale, -shifts)

    def _peaks(self, magnitudes: Array) -> Array:
        """The largest magnitudes that share a scale, in a shape that broadcasts to the numbers."""
        if self.grids.block is None:
            return magnitudes.max(axis=(1, 3) if self.grids.per_channel else None, keepdims=True)
        peaks = in_blocks(magnitudes, 1, self.grids.block).max(axis=2)
        return np.repeat(peaks, self.grids.block, axis=1)[:, : magnitudes.shape[1]]

    def applied(self, rows: Array, numbers: Array) -> Array:
        """The products of rows of inputs and numbers of the weight's form: [groups, rows, outputs of a group, taps]."""
        groups, inputs, outputs, taps = numbers.shape
        parts = rows.reshape(len(rows), groups, inputs).swapaxes(0, 1)
        return (parts @ numbers.reshape(groups, inputs, outputs * taps)).reshape(groups, len(rows), outputs, taps)

    def error(self, seen: Seen, up: Array, down: Array) -> Array:
        """The mean square error of each output channel, summed over taps: float64 [outputs]."""
        exact = self.applied(seen.rows, self.numbers)
        found = self.applied(quantized_rows(seen, up, self.grids), self.quantized(up, down))
        return np.square(found - exact).sum(axis=(1, 3), dtype=np.float64).reshape(-1) / len(seen.rows)

    def output_errors(self, seen: Seen, up: Array, down: Array) -> Array:
        """The mean squared error of each output channel when only the weight is quantized: float64 [outputs]."""
        errors = self.applied(seen.rows, self.quantized(up, down) - self.numbers)
        return np.square(errors).sum(axis=(1, 3), dtype=np.float64).reshape(-1) / len(seen.rows)

    def _of_inputs(self, exponents: Array) -> Array:
        groups, inputs = self.numbers.shape[:2]
        return exponents.reshape(groups, inputs, 1, 1)

    def _of_outputs(self, exponents: Array) -> Array:
        groups, _, outputs = self.numbers.shape[:3]
        return exponents.reshape(groups, 1, outputs, 1)


LARGEST = 24
"""The largest exponent: scaled numbers stay far within float32."""
STRENGTHS = (0.25, 0.5, 0.75, 1.0)
"""Shares of the spread of activations that may go into the weights that read them; 0.5 makes both equal (Nagel et al. 2019)."""
SWEEPS = 20
"""The most sweeps over all links; they end when nothing changes."""
WORTH = 0.8
"""The share of its error that a link may keep to be worth equalizing."""
PRODUCT_WORTH = 0.25
"""The share of its error that a link may keep if it needs a product at run time."""


class Limits(NamedTuple):
    """Limits for the divisors of a link's channels, so that bounds between layers (Relu6, Clip) cut off what they did
    before, as far as data shows.
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


class EqualizationSearch:
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
        """The expected square error of the results that a link's readers compute, from its quantization and theirs."""
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
