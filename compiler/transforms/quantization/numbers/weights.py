"""A weight quantized by a `How`: scales, integers or floats of a number format, and the reals that these represent."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np
from xdsl.ir import SSAValue

from ....dialects.nn import How, NNOp, QParams, array_of, blocks_of, spread
from ....ir.array import Array
from ....ir.number_formats import NUMBER_FORMATS
from ....runtime.affine import LEAST_SCALE, asymmetric_params, ends_of, symmetric_scales
from ....support.diagnostics import op_error
from ..portable import least_scales
from .divergence import divergence_scales
from .formats import format_scales
from .least_error import searched_scales
from .parameters import NO_OFFSET, quantized


class Weight(NamedTuple):
    """The weight of a layer, and how it is quantized."""

    value: SSAValue
    array: Array
    how: How
    scales: Array
    """The scales: [], along `how.axis` or [blocks]; float32, or the type of a number format."""
    zero_points: Array = NO_OFFSET
    """The zero points: int32, [] or as many as scales; nonzero only if the layer's input stays float."""
    tensor_scale: Array | None = None
    """A factor of all scales of a number format: float32 []."""

    @classmethod
    def of(cls, value: SSAValue, how: How, layer: NNOp) -> Weight:
        """A constant weight of a layer, with given scales, or with those that its numbers have.

        Raises CompileError, located at the layer, if the number of given scales is not that of channels or blocks.
        """
        array = array_of(value)
        assert array is not None, "a weight that is planned is constant"
        if how.number_format is not None:
            scales, factor = format_scales(array, NUMBER_FORMATS[how.number_format], how.axis, how.search)
            return cls(value, array, how, scales, tensor_scale=factor)
        if how.given is not None:
            given = how.given.data
            _check_scales(given, array, layer)
            return cls(value, array, how, given.scales(), given.zero_points())
        return cls(value, array, how, *_computed(array, how, layer))

    @property
    def fixed(self) -> bool:
        """Whether the scales come from a record."""
        return self.how.given is not None

    @property
    def zeroed_scales(self) -> int:
        """The number of scales under which all numbers of the weight round to zero, though one of them is not zero.

        Scales that are computed reach to the largest number at most; only the least scale, and the 1 of AMCT's rule, are larger.
        """
        if not self.fixed and not np.any((self.scales == LEAST_SCALE) | (self.scales == 1)):
            return 0
        low, high = ends_of(self.array, self.how.axis, self.how.block)
        largest = np.maximum(np.asarray(high, np.float64), -np.asarray(low, np.float64))
        return int(np.count_nonzero((largest > 0) & (np.rint(largest / self.scales) == 0)))

    @property
    def integers(self) -> Array:
        """The nearest integers of the weight: int8."""
        return self.integers_and_levels()[0]

    @property
    def reals(self) -> Array:
        """The real numbers that its integers represent, in its type."""
        how, shape = self.how, self.array.shape
        scales, points = (spread(each, shape, how.axis, how.block) for each in (self.scales, self.zero_points))
        return ((self.integers.astype(np.float32) - points) * scales).astype(self.array.dtype)

    def integers_and_levels(self) -> tuple[Array, Array | None]:
        """The nearest integers of the weight, int8, and the levels among which they are, None for all."""
        how = self.how
        integers = quantized(self.array, self.scales, how.bits, how.axis, self.zero_points, how.block)
        levels = self.levels_among(integers)
        return (integers, None) if levels is None else (nearest(integers, levels), levels)

    def levels_among(self, integers: Array) -> Array | None:
        """The few levels of the weight, ascending: int8; the given ones, or those that are chosen for its integers.
        None for all levels.
        """
        levels = self.how.levels
        if isinstance(levels, int):
            return levels_of(integers, levels)
        return None if levels is None else np.array(sorted(levels), np.int8)

    @property
    def text(self) -> str:
        """`int8 weight per channel of 16 levels`, `int4 weight per group of 128`, `mxfp4 weight per group of 32`."""
        levels = self.how.levels
        count = levels if isinstance(levels, int | None) else len(levels)
        few = "" if count is None else f" of {count} levels"
        asymmetric = ", asymmetric" if self.zero_points.any() else ""
        kind = self.how.number_format or f"int{self.how.bits}"
        return f"{kind} weight per {self.how.granularity}{few}{asymmetric}"


def _computed(array: Array, how: How, layer: NNOp) -> tuple[Array, Array]:
    """Scales and zero points of integers for the numbers of a weight."""
    if not how.symmetric:
        scales, points = asymmetric_params(array, how.bits, how.axis, how.block)
        return _searched(how, array, scales, points), points
    if how.scaled_by_divergence:
        return divergence_scales(array, how.axis), NO_OFFSET
    scales = _searched(how, array, symmetric_scales(array, how.bits, how.axis, how.block), NO_OFFSET)
    if how.epsilon:
        scales = np.where(np.abs(scales) < np.finfo(np.float32).eps, np.float32(1), scales)
    return np.maximum(scales, least_scales(array, how.axis, layer)) if how.portable else scales, NO_OFFSET


def _searched(how: How, array: Array, scales: Array, zero_points: Array) -> Array:
    """The scales, or the fractions of them of least error."""
    return searched_scales(array, scales, how.bits, how.axis, zero_points, how.block) if how.search else scales


def _check_scales(given: QParams, array: Array, layer: NNOp) -> None:
    count = given.scales().size
    if given.axis is not None and given.block is not None:
        blocks = prod(blocks_of(array.shape, given.axis, given.block))
        if count != blocks:
            raise op_error(layer, f"has a plan with {count} scales for a weight of {blocks} blocks")
        return
    channels = 1 if given.axis is None else array.shape[given.axis]
    if count != channels:
        raise op_error(layer, f"has a plan with {count} scales for a weight of {channels} channels")


# Non-uniform weights: int8 restricted to a few levels, so that lossless compression of weights shrinks them more. AMCT does not
# publish its search, whose time grows with its `num_of_iteration`. Ours does not iterate: the values of one level are neighbours
# on a line, so dynamic programming over the 256 values finds the best levels.

_LEAST, _MOST = -128, 127
_VALUES = np.arange(_LEAST, _MOST + 1)


def levels_of(weights: Array, steps: int) -> Array:
    """The int8 levels of least squared error, ascending: `steps`, or as many as there are distinct values where these are fewer.

    `weights` are int8 of any shape.
    """
    counts = np.bincount(weights.reshape(-1).astype(np.int64) - _LEAST, minlength=_VALUES.size)
    values, counts = _VALUES[counts > 0], counts[counts > 0]
    if values.size <= steps:
        return values.astype(np.int8)
    centres, costs = _runs(values, counts)
    best = costs[0]
    """The least cost of the values up to each one, with the levels used so far."""
    begins: list[Array] = []
    for _ in range(steps - 1):
        totals = best[:-1, None] + costs[1:, 1:]
        begins.append(np.argmin(totals, 0))
        best = np.append(np.inf, totals.min(0))
    levels: list[int] = []
    end = values.size - 1
    for begin in reversed(begins):
        first = int(begin[end - 1]) + 1
        levels.append(int(centres[first, end]))
        end = first - 1
    return np.array([int(centres[0, end]), *reversed(levels)], np.int8)


def _runs(values: Array, counts: Array) -> tuple[Array, Array]:
    """The whole number nearest to the mean of the values from the i-th to the j-th, and their squared distance to it."""
    mass, first, second = (np.append(0, np.cumsum(counts * values**power)) for power in (0, 1, 2))
    m, f, s = (np.subtract.outer(sums[1:], sums[:-1]).T for sums in (mass, first, second))
    inside = np.triu(np.ones(m.shape, bool))
    centres = np.rint(f / np.where(inside, m, 1)).astype(np.int64)
    return centres, np.where(inside, s - 2 * centres * f + centres**2 * m, np.inf)


def nearest(weights: Array, levels: Array) -> Array:
    """Each int8 weight replaced by the nearest of the ascending levels; the lower one on ties."""
    wide = levels.astype(np.int64)
    place = np.searchsorted(wide[:-1] + wide[1:], 2 * _VALUES)
    return levels[place[weights.astype(np.int64) - _LEAST]]
