"""Resize against TensorFlow, in every mode."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest

from ...frameworks import later, tf

Agrees = Callable[..., Any]
raw = later("tensorflow.raw_ops")

IMAGE = np.random.default_rng(0).normal(size=(2, 6, 7, 3)).astype(np.float32)

OPERATORS = {
    "nearest": ("ResizeNearestNeighbor", 0.0),
    "bilinear": ("ResizeBilinear", 1e-6),
    "bicubic": ("ResizeBicubic", 4e-6),
}
"""The operator, and how far results may lie apart."""

COORDINATES: dict[str, dict[str, bool]] = {
    "legacy": {},
    "corners": {"align_corners": True},
    "centres": {"half_pixel_centers": True},
}
SIZES = ([12, 14], [3, 4], [13, 5], [6, 7], [1, 1], [1, 9], [24, 21])


@pytest.mark.parametrize(("operator", "coordinates"), [*product(OPERATORS, COORDINATES)])
def test_known_sizes(operator: str, coordinates: str, agrees: Agrees) -> None:
    resize, atol = OPERATORS[operator]
    how = COORDINATES[coordinates]
    agrees(lambda x: [getattr(raw, resize)(images=x, size=s, **how) for s in SIZES], IMAGE, atol=atol, rtol=1e-5)


@pytest.mark.parametrize(("operator", "coordinates"), [*product(OPERATORS, COORDINATES)])
@pytest.mark.parametrize("unknown", [1, 3])
def test_unknown_sizes(operator: str, coordinates: str, unknown: int, agrees: Agrees) -> None:
    """Only the batch, and height and width too: sizes that are given, and multiples of the image's own."""
    resize, atol = OPERATORS[operator]
    how = COORDINATES[coordinates]

    def resized(x: Any) -> list[Any]:
        shape = tf.shape(x)
        sizes = [[13, 5], shape[1:3] * 2, shape[1:-1] * [3, 2], tf.stack([shape[1] * 2, 3 * shape[2]]), shape[1:3]]
        return [getattr(raw, resize)(images=x, size=s, **how) for s in sizes]

    signature = [tf.TensorSpec([None] * unknown + list(IMAGE.shape[unknown:]), tf.float32)]
    module = agrees(resized, IMAGE, signature=signature, atol=atol, rtol=1e-5)
    assert not [op for op in module.walk() if op.name in ("nn.opaque", "nn.shape")]


@pytest.mark.parametrize(
    ("coordinates", "size", "out"), [("legacy", 14, 16), ("corners", 54, 27), ("corners", 7, 57), ("centres", 2, 41)]
)
def test_positions_that_float32_does_not_hold(coordinates: str, size: int, out: int, agrees: Agrees) -> None:
    """TensorFlow multiplies by a scale where ONNX divides by another one, and takes another element."""
    x = np.arange(3 * size, dtype=np.float32).reshape(1, size, 3, 1)
    how = COORDINATES[coordinates]
    module = agrees(lambda x: raw.ResizeNearestNeighbor(images=x, size=[out, 5], **how), x)
    assert [op.name for op in module.walk() if op.name in ("nn.gather", "nn.resize")] == ["nn.gather", "nn.resize"]


@pytest.mark.slow
@pytest.mark.parametrize("coordinates", COORDINATES)
def test_nearest_of_many_sizes(coordinates: str, agrees: Agrees) -> None:
    how = COORDINATES[coordinates]
    for size in (1, 7, 14, 54):
        x = np.arange(size, dtype=np.float32).reshape(1, size, 1, 1)
        agrees(lambda x: [raw.ResizeNearestNeighbor(images=x, size=[o, 1], **how) for o in range(1, 90)], x)


@pytest.mark.parametrize("dtype", [np.float16, np.uint8, np.int32])
@pytest.mark.parametrize("operator", OPERATORS)
def test_other_types(operator: str, dtype: Any, agrees: Agrees) -> None:
    """Only the nearest neighbour keeps the type; all others give float32."""
    resize, atol = OPERATORS[operator]
    x = (np.abs(IMAGE) * 10).astype(dtype)
    agrees(lambda x: getattr(raw, resize)(images=x, size=[9, 4], half_pixel_centers=True), x, atol=atol * 30)


def test_image_resize(agrees: Agrees) -> None:
    """As `tf.image.resize` builds it."""
    signature = [tf.TensorSpec([None, None, None, 3], tf.float32)]
    module = agrees(lambda x: tf.image.resize(x, tf.shape(x)[1:3] * 2), IMAGE, signature=signature)
    (resize,) = (op for op in module.walk() if op.name.startswith("nn."))
    assert resize.scales.data == (1.0, 2.0, 2.0, 1.0)
