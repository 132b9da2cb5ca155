"""Scales of weights by least squared error, against trying every candidate for each of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from amct_opt.runtime.affine import asymmetric_params, symmetric_scales
from amct_opt.transforms.quantization.numbers import least_error
from amct_opt.transforms.quantization.numbers.least_error import fractions, searched_scales

SHAPE = (70, 6)
"""Groups of 32 do not divide the 70 rows."""


def by_trial(part: np.ndarray, scale: float, point: int, signs: tuple[int, ...] = (1,), bits: int = 4) -> float:
    """The best fraction of the scale of one range: from 1 down to 0.6, with 2 bits to 0.2."""
    tried, half = 1 - np.arange(41 if bits == 2 else 21) / 50, 2 ** (bits - 1)
    candidates = [np.float32(sign * np.float64(scale) * fraction) for fraction in tried for sign in signs]
    numbers = [(np.clip(np.rint(part / s) + point, -half, half - 1) - point) * s for s in candidates]
    return float(candidates[int(np.argmin([np.square((n - part).astype(np.float64)).sum() for n in numbers]))])


@pytest.mark.parametrize("bits", [2, 4])
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("piece", [1, 1 << 22])
def test_groups(axis: int, asymmetric: bool, piece: int, bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(least_error, "_PIECE", piece)
    weight = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    weight = weight if axis == 0 else np.ascontiguousarray(weight.T)
    none = np.zeros((), np.int32)
    scales, points = (
        asymmetric_params(weight, bits, axis, 32) if asymmetric else (symmetric_scales(weight, bits, axis, 32), none)
    )
    found = searched_scales(weight, scales, bits, axis, points, 32)
    assert (found.shape, found.dtype, (abs(found) < scales).mean() > 0.5) == (scales.shape, np.float32, True)
    assert bool((found < 0).any()) != asymmetric
    rows = weight if axis == 0 else weight.T
    parts = [rows[g * 32 : (g + 1) * 32, c] for g in range(3) for c in range(6)]
    order = np.arange(18) if axis == 0 else np.arange(18).reshape(6, 3).T.reshape(-1)
    every = np.broadcast_to(points, scales.shape)
    signs = (1,) if asymmetric else (1, -1)
    wanted = [by_trial(part, scales[i], every[i], signs, bits) for part, i in zip(parts, order, strict=True)]
    np.testing.assert_array_equal(found[order], wanted)


@pytest.mark.parametrize("axis", [None, 1])
def test_tensors_and_channels(axis: int | None) -> None:
    weight = np.random.default_rng(1).normal(size=SHAPE).astype(np.float32)
    scales = symmetric_scales(weight, 4, axis)
    found = searched_scales(weight, scales, 4, axis, np.zeros((), np.int32), None)
    parts = [weight] if axis is None else [*weight.T]
    wanted = [by_trial(p, s, 0) for p, s in zip(parts, scales.reshape(-1), strict=True)]
    np.testing.assert_array_equal(found.reshape(-1), wanted)


def test_a_large_positive_weight_has_a_negative_scale() -> None:
    """8 is the integer -8 times -1, without an error; -8 needs no minus, nor does what has the same error either way."""
    columns = np.array([[8, -8, 3, 8], [1, 1, -3, -8], [-7, 7, 1, 1]], np.float32)
    found = searched_scales(columns, symmetric_scales(columns, 4, 0, 3), 4, 0, np.zeros((), np.int32), 3)
    assert (found < 0).tolist() == [True, False, False, False]
    np.testing.assert_allclose(found[:2], [-1, 1], rtol=0.01)


@pytest.mark.parametrize("axis", [0, 1])
def test_a_part_of_the_channels_has_the_same_scales(axis: int) -> None:
    """Also where both signs have the same error, as in groups whose largest numbers differ in their sign alone."""
    weight = np.random.default_rng(2).normal(size=(64, 40)).astype(np.float32)
    weight[5::32] = -weight[3::32]
    weight[(3, 35), :] *= 9
    weight[(5, 37), :] *= 9
    none = np.zeros((), np.int32)

    def scales(channels: slice) -> np.ndarray:
        part = weight[:, channels] if axis == 0 else np.ascontiguousarray(weight.T[channels])
        found = searched_scales(part, symmetric_scales(part, 4, axis, 32), 4, axis, none, 32)
        return found.reshape(2, -1) if axis == 0 else found.reshape(-1, 2).T

    for size in (1, 7):
        parts = [scales(slice(begin, begin + size)) for begin in range(0, 40, size)]
        np.testing.assert_array_equal(np.concatenate(parts, axis=1), scales(slice(None)))


def test_the_search_ends_where_clipping_alone_loses_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 8 bits that is after a few fractions; a group of zeros, whose error is 0, does not prolong it."""
    weight = np.random.default_rng(2).normal(size=(64, 6)).astype(np.float32)
    weight[:32, 3] = 0
    tried = list[float]()

    class Watched:
        def __iter__(self) -> Iterator[float]:
            for fraction in fractions(8):
                tried.append(float(fraction))
                yield fraction

    monkeypatch.setattr(least_error, "fractions", lambda _: Watched())
    searched_scales(weight, symmetric_scales(weight, 8, 0, 32), 8, 0, np.zeros((), np.int32), 32)
    assert len(tried) < 6


def test_zeros_keep_their_scale() -> None:
    zeros = np.zeros((4, 2), np.float32)
    found = searched_scales(zeros, symmetric_scales(zeros, 4, 1), 4, 1, np.zeros((), np.int32), None)
    np.testing.assert_array_equal(found, [1, 1])
