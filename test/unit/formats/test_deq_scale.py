"""The 64 bits of a scale: AMCT's vectors, every field, and the layout of newer chips."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from amct_opt.formats.deq_scale import (
    averaged,
    before_averaging,
    fixpipe_requant,
    pack,
    pack_requant,
    trans_quant_param_v2,
    unpack,
    unpack_requant,
)

SCALE = np.array([0.001], np.float32)


def test_vectors() -> None:
    assert pack(SCALE).tolist() == [0x3A83126F]
    assert pack(SCALE, shift=5).tolist() == [0x53A83126F]
    assert pack(SCALE, weight_offset=-1).tolist() == [0xFF003A83126F]


scales = st.floats(2.0**-100, 2.0**100, width=32)


@given(scale=scales, shift=st.integers(0, 16), offset=st.integers(-128, 127))
def test_fields(scale: float, shift: int, offset: int) -> None:
    packed = pack(np.array([scale], np.float32), shift, offset)
    assert packed.dtype == np.uint64
    found = unpack(packed)
    assert (found.scale[0], found.shift[0], found.weight_offset[0]) == (np.float32(scale), shift, offset)


@given(scale=scales, offset=st.integers(-128, 127))
def test_requant(scale: float, offset: int) -> None:
    found, offsets = unpack_requant(pack_requant(np.array([scale], np.float32), offset))
    assert (found[0], offsets[0]) == (np.float32(scale), offset)


@pytest.mark.parametrize(
    ("bits", "signed", "offset", "fields"),
    [
        (8, True, -3, 1 << 46 | 0x1FD << 37),
        (8, False, 128, 0x80 << 37),
        (4, True, -3, 1 << 46 | 0x1D << 37),
        (16, True, -32768, 1 << 46 | 0xC0),
        (16, True, 1234, 1 << 46 | 0xD2 << 37 | 2),
    ],
)
def test_fixpipe_requant(bits: int, signed: bool, offset: int, fields: int) -> None:
    """-32768 is 0x18000 in 17 bits: the low nine are 0, the upper eight 0xC0. 1234 is 0x4D2: 0xD2 and 2."""
    assert fixpipe_requant(SCALE, offset, bits, signed=signed).tolist() == [0x3A830000 | fields]


@pytest.mark.parametrize(("bits", "signed", "offset"), [(2, True, 0), (16, False, 0), (8, True, 256), (4, True, -17)])
def test_without_a_form_in_fixpipe(bits: int, signed: bool, offset: int) -> None:
    with pytest.raises(ValueError, match=r"there is no form for|does not fit"):
        fixpipe_requant(SCALE, offset, bits, signed=signed)


@pytest.mark.parametrize(("shift", "offset"), [(-1, 0), (17, 0), (0, -129), (0, 128)])
def test_out_of_range(shift: int, offset: int) -> None:
    with pytest.raises(ValueError, match="is not in"):
        pack(SCALE, shift, offset)


def test_trans_quant_param_v2() -> None:
    """0x3A83126F without its last 13 bits is 0x3A830000, and bit 46 is set; these bits, 0x126F, are more than half: one up."""
    assert trans_quant_param_v2(SCALE).tolist() == [0x3A830000 | 1 << 46]
    assert trans_quant_param_v2(SCALE, rounded=True).tolist() == [0x3A832000 | 1 << 46]


@pytest.mark.parametrize(
    ("bits", "rounded"),
    [(0x3F801000, 0x3F800000), (0x3F803000, 0x3F804000), (0x3F801001, 0x3F802000), (0x3F800FFF, 0x3F800000)],
)
def test_rounding_to_19_bits(bits: int, rounded: int) -> None:
    """To the nearest, halves to even."""
    scale = np.array([bits], np.uint32).view(np.float32)
    assert trans_quant_param_v2(scale, rounded=True).tolist() == [rounded | 1 << 46]
    assert trans_quant_param_v2(scale).tolist() == [bits & 0xFFFFE000 | 1 << 46]


@pytest.mark.parametrize(
    ("offset", "field"), [(3.0, 3), (-1.0, 0x1FF), (2.5, 2), (300.0, 255), (-300.0, 0x100), (0.0, 0)]
)
def test_offset_of_v2(offset: float, field: int) -> None:
    """Nine bits at 45..37, rounded half to even and clamped to [-256, 255]."""
    packed = trans_quant_param_v2(SCALE, np.array([offset], np.float32))
    assert int(packed[0]) >> 37 & 0x1FF == field
    assert int(packed[0]) >> 46 == 1


@given(scale=st.floats(2.0**-20, 10, width=32), count=st.integers(1, 255))
def test_averages(scale: float, count: int) -> None:
    """From the scale of sums back to that of averages: it gives the same sums', and is the one with the known reciprocal."""
    given_scale = np.array([scale], np.float32)
    sums = averaged(given_scale, count)
    found = before_averaging(sums, count, np.float32(1) / given_scale[0])
    assert found is not None
    assert averaged(found, count) == sums
    assert np.float32(1) / found[0] == np.float32(1) / given_scale[0]
