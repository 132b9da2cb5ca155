"""Finds the slots of a program that contain integers, or the reals of integers in another slot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from xdsl.dialects.builtin import i32

from ..dialects.nn import QParams
from .kernels import Array
from .kernels.quantized import Weight


class Integers(NamedTuple):
    """The slot of the integers that belong to a slot of reals."""

    slot: int
    params: QParams


class IntegerValues:
    """The facts about the slots of a program. `held` is by slot of reals."""

    def __init__(self, constants: Mapping[int, Array]):
        self.constants = constants
        self.held: dict[int, Integers] = {}

    def activations(self, slots: Sequence[int]) -> list[Integers] | None:
        """Integers of 8 bits with one scale for each slot; None if one of the slots does not have them."""
        found = [self.held.get(slot) for slot in slots]
        present = [i for i in found if i is not None and per_tensor_8_bits(i.params)]
        return present if len(present) == len(found) else None

    def weight(self, x: Integers, slot: int, bias_slot: int | None = None, *, axis: int | None) -> Weight | None:
        """A constant weight of 8 bits without zero points, scales along `axis` if any, and its bias at the scale of the sums."""
        integers = self.held.get(slot)
        array = None if integers is None else self.constants.get(integers.slot)
        if integers is None or array is None:
            return None
        p = integers.params
        if p.storage.width.data != 8 or any(p.zero_point) or p.axis not in (None, axis) or p.block is not None:
            return None
        if bias_slot is None:
            return Weight(p, array)
        bias = self._bias(bias_slot, np.asarray(x.params.scales() * p.scales()))
        return None if bias is None else Weight(p, array, bias)

    def _bias(self, slot: int, scale: Array) -> Array | None:
        integers = self.held.get(slot)
        if integers is None or integers.params.storage != i32 or any(integers.params.zero_point):
            return None
        fits = np.array_equal(np.broadcast_to(integers.params.scales(), scale.shape), scale)
        return self.constants.get(integers.slot) if fits else None


def per_tensor_8_bits(p: QParams) -> bool:
    """The parameters of an activation for integer kernels."""
    return p.axis is None and p.storage.width.data == 8
