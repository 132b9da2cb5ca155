"""How far two arrays are apart. All arithmetic in float64; shapes must agree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Difference:
    """`sqnr` in dB (inf where equal), `cosine` in [-1, 1], `largest` absolute difference, `differing` elements of `count`."""

    sqnr: float
    cosine: float
    largest: float
    differing: int
    count: int


def difference(reference: Array, value: Array) -> Difference:
    """Compare `value` with `reference`. Raises ValueError when shapes differ."""
    if reference.shape != value.shape:
        raise ValueError(f"shapes {list(reference.shape)} and {list(value.shape)} differ")
    a, b = _float(reference), _float(value)
    return Difference(
        sqnr=sqnr(a, b),
        cosine=cosine(a, b),
        largest=float(np.max(np.abs(a - b), initial=0.0)),
        differing=int(np.count_nonzero((a != b) & ~(np.isnan(a) & np.isnan(b)))),
        count=a.size,
    )


def sqnr(reference: Array, value: Array) -> float:
    """Signal to quantization noise ratio in dB: `10 log10(sum reference^2 / sum (reference - value)^2)`.

    inf when there is no noise, -inf when there is noise but no signal.
    """
    a, b = _float(reference), _float(value)
    noise = float(np.sum((a - b) ** 2))
    signal = float(np.sum(a**2))
    if noise == 0:
        return float("inf")
    return 10 * float(np.log10(signal / noise)) if signal else float("-inf")


def cosine(reference: Array, value: Array) -> float:
    """Cosine similarity; 1 when both are all zero, 0 when one is."""
    a, b = _float(reference).reshape(-1), _float(value).reshape(-1)
    scale = float(np.linalg.norm(a) * np.linalg.norm(b))
    if scale == 0:
        return 1.0 if not a.any() and not b.any() else 0.0
    return float(np.clip(a @ b / scale, -1, 1))


def _float(array: Array) -> Array:
    return array.astype(np.float64, copy=False)
