"""Scales of weights by least squared error, against trying every candidate for each of them."""

from __future__ import annotations

import numpy as np
import pytest

from amct_opt.runtime.affine import asymmetric_params, symmetric_scales
from amct_opt.transforms.quantization.convert import weight_search
from amct_opt.transforms.quantization.convert.weight_search import FRACTIONS, searched_scales

SHAPE = (70, 6)
"""Groups of 32 do not divide the 70 rows."""


def by_trial(part: np.ndarray, scale: float, point: int) -> float:
    """The best fraction of the scale of one range of 4 bits."""
    candidates = [np.float32(np.float64(scale) * fraction) for fraction in FRACTIONS]
    numbers = [(np.clip(np.rint(part / s) + point, -8, 7) - point) * s for s in candidates]
    return float(candidates[int(np.argmin([np.square((n - part).astype(np.float64)).sum() for n in numbers]))])


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("asymmetric", [False, True])
@pytest.mark.parametrize("piece", [1, 1 << 22])
def test_groups(axis: int, asymmetric: bool, piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight_search, "_PIECE", piece)
    weight = np.random.default_rng(0).normal(size=SHAPE).astype(np.float32)
    weight = weight if axis == 0 else np.ascontiguousarray(weight.T)
    none = np.zeros((), np.int32)
    scales, points = (
        asymmetric_params(weight, 4, axis, 32) if asymmetric else (symmetric_scales(weight, 4, axis, 32), none)
    )
    found = searched_scales(weight, scales, 4, axis, points, 32)
    assert (found.shape, found.dtype, (found < scales).mean() > 0.5) == (scales.shape, np.float32, True)
    rows = weight if axis == 0 else weight.T
    parts = [rows[g * 32 : (g + 1) * 32, c] for g in range(3) for c in range(6)]
    order = np.arange(18) if axis == 0 else np.arange(18).reshape(6, 3).T.reshape(-1)
    every = np.broadcast_to(points, scales.shape)
    wanted = [by_trial(part, scales[i], every[i]) for part, i in zip(parts, order, strict=True)]
    np.testing.assert_array_equal(found[order], wanted)


@pytest.mark.parametrize("axis", [None, 1])
def test_tensors_and_channels(axis: int | None) -> None:
    weight = np.random.default_rng(1).normal(size=SHAPE).astype(np.float32)
    scales = symmetric_scales(weight, 4, axis)
    found = searched_scales(weight, scales, 4, axis, np.zeros((), np.int32), None)
    parts = [weight] if axis is None else [*weight.T]
    wanted = [by_trial(p, s, 0) for p, s in zip(parts, scales.reshape(-1), strict=True)]
    np.testing.assert_array_equal(found.reshape(-1), wanted)


def test_zeros_keep_their_scale() -> None:
    zeros = np.zeros((4, 2), np.float32)
    found = searched_scales(zeros, symmetric_scales(zeros, 4, 1), 4, 1, np.zeros((), np.int32), None)
    np.testing.assert_array_equal(found, [1, 1])
