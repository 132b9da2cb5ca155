"""Resampling of images, `[N, H, W, C]`."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import SSAValue

from ....dialects import nn
from ....dialects.nn.shapes import element_of, known, shape_of
from ....runtime.resample import Sampling, taps_of
from ....transforms.partial_shapes import Dimension, Multiple
from ...building import Size
from ...shapes import kept_sizes
from ..node import Array, Converted, Node, converter


@converter("ResizeNearestNeighbor")
def nearest(node: Node) -> Converted:
    """Positions round down; with `align_corners` to the nearest, with `half_pixel_centers` those of ONNX less a half do.

    TensorFlow computes them in float32. If exact positions give other elements, the elements are looked up.
    """
    coordinates, extent, x = _coordinates(node), _extent(node), node.value(0)
    rounding = "floor" if coordinates == "asymmetric" else "round_prefer_ceil"
    sampling = Sampling(nn.ResizeMode.NEAREST, nn.Coordinates(coordinates), nn.Nearest(rounding))
    for axis in (1, 2):
        size, out = shape_of(x)[axis], extent["sizes"][axis] if "sizes" in extent else 0
        if not known(size) or out in (0, size):
            continue
        places = _places(coordinates, size, out)
        if not np.array_equal(places, taps_of(sampling, size, out, out / size).indices[:, 0]):
            x = node.emit(nn.GatherOp, x, node.constant(places, f".places{axis}"), axis=axis).result
            extent["sizes"][axis] = 0
    return node.emit(nn.ResizeOp, x, **extent, coordinates=coordinates, nearest=rounding).result


def _places(coordinates: str, size: int, out: int) -> Array:
    """The input elements of `out` output elements along an axis, as the kernel of ResizeNearestNeighbor computes them."""
    corners = coordinates == "align_corners" and out > 1
    scale = np.float32(size - corners) / np.float32(out - corners)
    shift = np.float32(0.5 if coordinates == "half_pixel" else 0)
    positions = (np.arange(out, dtype=np.float32) + shift) * scale
    # halves round away from 0; adding 0.5 could round up a number just below a half
    up = coordinates == "align_corners" and positions - np.floor(positions) >= 0.5
    return np.minimum(np.floor(positions) + up, size - 1).astype(np.int64)


@converter("ResizeBilinear")
def bilinear(node: Node) -> Converted:
    """Bilinear resizing; the result is float32 for any input type."""
    return _resized(node, _float32(node), mode="linear")


@converter("ResizeBicubic")
def bicubic(node: Node) -> Converted:
    """Bicubic resizing; half-pixel centers use Keys' weights (a = -0.5) from a table of 1024 steps, without outside elements."""
    how = {"cubic_coeff": -0.5, "exclude_outside": True} if _coordinates(node) == "half_pixel" else {}
    return _resized(node, _float32(node), mode="cubic", cubic_steps=1024, **how)


def _resized(node: Node, x: SSAValue, **properties: Any) -> SSAValue:
    return node.emit(nn.ResizeOp, x, **_extent(node), coordinates=_coordinates(node), **properties).result


def _coordinates(node: Node) -> str:
    corners, centres = node.flag("align_corners"), node.flag("half_pixel_centers")
    if corners and centres:
        raise node.error("aligns both corners and pixel centres")
    return "align_corners" if corners else "half_pixel" if centres else "asymmetric"


def _float32(node: Node) -> SSAValue:
    x = node.value(0)
    if element_of(x) == f32:
        return x
    return node.emit(nn.CastOp, x, result_types=[TensorType(f32, shape_of(x))]).result


def _extent(node: Node) -> dict[str, Any]:
    """`sizes` for all axes; `scales` if height and width are multiples of the input's."""
    shape = node.shape(0)
    if len(shape) != 4 or node.shape(1) != (2,):
        raise node.error(f"resizes rank {len(shape)} to sizes of shape {list(node.shape(1))}")
    if (factors := _factors(node)) is not None:
        return {"scales": [1.0, *factors, 1.0]}
    own: list[Size] = [d if known(d) else Dimension(node.value(0), i) for i, d in enumerate(shape)]
    return {"sizes": kept_sizes(node, [own[0], *(node.sizes(1) or (None, None)), own[3]])}


def _factors(node: Node) -> list[float] | None:
    """The factors of height and width, if the sizes are unknown multiples of the input's."""
    if node.array(1) is not None or (sizes := node.sink.shapes.multiples(node.value(1))) is None:
        return None
    own = [Dimension(node.value(0), axis) for axis in (1, 2)]
    factors = [m.factor for m, d in zip(sizes, own, strict=True) if isinstance(m, Multiple) and m.dimension == d]
    return [float(f) for f in factors] if len(factors) == 2 and min(factors) > 0 else None
