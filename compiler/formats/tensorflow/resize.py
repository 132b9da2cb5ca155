"""The operators that resize images: their flags, and the elements that ResizeNearestNeighbor takes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...dialects.nn.attributes import Coordinates, Nearest

FLAGS: Mapping[Coordinates, str] = {
    Coordinates.ASYMMETRIC: "",
    Coordinates.ALIGN_CORNERS: "align_corners",
    Coordinates.HALF_PIXEL: "half_pixel_centers",
}
"""The flag that asks for coordinates; without one they are asymmetric."""

ROUNDING: Mapping[Coordinates, Nearest] = {
    Coordinates.ASYMMETRIC: Nearest.FLOOR,
    Coordinates.ALIGN_CORNERS: Nearest.ROUND_PREFER_CEIL,
    Coordinates.HALF_PIXEL: Nearest.ROUND_PREFER_CEIL,
}
"""The rounding of ONNX that selects the same elements: its positions with half-pixel centers are half an element less."""


def places(coordinates: Coordinates, size: int, out: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    """The input elements of `out` output elements along an axis, as ResizeNearestNeighbor computes them in float32."""
    corners = coordinates is Coordinates.ALIGN_CORNERS and out > 1
    scale = np.float32(size - corners) / np.float32(out - corners)
    shift = np.float32(0.5 if coordinates is Coordinates.HALF_PIXEL else 0)
    positions = (np.arange(out, dtype=np.float32) + shift) * scale
    # halves round away from 0; adding 0.5 could round up a number just below a half
    up = (coordinates is Coordinates.ALIGN_CORNERS) & (positions - np.floor(positions) >= 0.5)
    return np.minimum(np.floor(positions) + up, size - 1).astype(np.int64)
