"""The cost of quantization for a layer: its output's error on rows of its input, for any scaling of its channels.

Exponents say by what power of two channels are multiplied (`up`) or divided (`down`). All errors are in the units of the module
as it was.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .....dialects.nn import ConvTransposeOp, MatMulOp
from .....runtime.affine import in_blocks, scales_of
from ..balance_channels import Weighted
from .channels_seen import Seen

Array = np.ndarray[Any, np.dtype[Any]]

_SHRUNK = tuple(1 - 0.1 * i for i in range(8))
"""Shares of the range among which the one of least error is taken."""


class Grids(NamedTuple):
    """What a layer's input and weight are rounded to."""

    inputs: int | None
    """Bits, or None for an input that stays float."""
    weight: int | None
    per_channel: bool
    """Whether each output channel has a scale of its own."""
    symmetric: bool
    """Whether the input has no zero point."""
    block: int | None = None
    """The size of the groups of input channels that have a scale each, beside one per output channel."""


FLOAT = Grids(None, None, True, False)
"""The value for a layer that is not quantized."""


def quantized_rows(seen: Seen, up: Array, grids: Grids) -> Array:
    """The rows behind quantization by one scale, where the layer that gives them divides channels by 2^up."""
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
    """float32 [groups, inputs of a group, outputs of a group, taps]"""
    grids: Grids

    @staticmethod
    def of(op: Weighted, array: Array, grids: Grids) -> Weight:
        numbers = array.astype(np.float32)
        if isinstance(op, MatMulOp):
            numbers = numbers[:, None] if numbers.ndim == 1 else numbers
            numbers = numbers.swapaxes(-1, -2) if op.transpose_b is not None else numbers
            *_, inputs, outputs = numbers.shape
            numbers = np.moveaxis(numbers.reshape(1, -1, inputs, outputs), 1, -1)
        else:
            groups, (first, second) = op.group_count, numbers.shape[:2]
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
        """The largest magnitude per input channel, where output channels are divided by 2^down: float64 [inputs]."""
        return np.ldexp(self._magnitudes, -self._of_outputs(down)[..., 0]).max(axis=2).reshape(-1).astype(np.float64)

    @cached_property
    def _magnitudes(self) -> Array:
        return np.abs(self.numbers).max(axis=3)

    def quantized(self, up: Array, down: Array) -> Array:
        """The numbers behind symmetric quantization, where input channels are multiplied by 2^up and output channels divided by
        2^down.
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
