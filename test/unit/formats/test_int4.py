"""Integers of four bits: two neighbours along an axis in a byte, the first one in the low bits."""

from __future__ import annotations

import numpy as np
import pytest

from amct_opt.formats.int4 import pack, unpack


def test_bytes() -> None:
    packed = pack(np.array([[1, -1, 7, -8]], np.int8), 1)
    assert packed.dtype == np.int8
    assert packed.view(np.uint8).tolist() == [[0xF1, 0x87]]


@pytest.mark.parametrize("axis", range(3))
def test_there_and_back(axis: int, rng: np.random.Generator) -> None:
    integers = rng.integers(-8, 8, (4, 6, 2)).astype(np.int8)
    packed = pack(integers, axis)
    assert packed.shape[axis] * 2 == integers.shape[axis]
    np.testing.assert_array_equal(unpack(packed, axis), integers)
