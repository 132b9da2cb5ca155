"""Resampling of images, `[N, H, W, C]`."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import SSAValue

from ....dialects import nn
from ....dialects.nn.shapes import element_of, known, shape_of
from ....formats.tensorflow.resize import FLAGS, ROUNDING, places
from ....runtime.resample import Sampling, taps_of
from ....transforms.partial_shapes import Dimension, Multiple
from ...building import Size
from ...shapes import kept_sizes
from ..node import Converted, Node, converter


@converter("ResizeNearestNeighbor")
def nearest(node: Node) -> Converted:
    """TensorFlow computes positions in float32. If exact positions give other elements, the elements are looked up."""
    coordinates, extent, x = _coordinates(node), _extent(node), node.value(0)
    sampling = Sampling(nn.ResizeMode.NEAREST, coordinates, ROUNDING[coordinates])
    for axis in (1, 2):
        size, out = shape_of(x)[axis], extent["sizes"][axis] if "sizes" in extent else 0
        if not known(size) or out in (0, size):
            continue
        elements = places(coordinates, size, out)
        if not np.array_equal(elements, taps_of(sampling, size, out, out / size).indices[:, 0]):
            x = node.emit(nn.GatherOp, x, node.constant(elements, f".places{axis}"), axis=axis).result
            extent["sizes"][axis] = 0
    return node.emit(nn.ResizeOp, x, **extent, coordinates=coordinates, nearest=ROUNDING[coordinates]).result


@converter("ResizeBilinear")
def bilinear(node: Node) -> Converted:
    """Bilinear resizing; the result is float32 for any input type."""
    return _resized(node, _float32(node), mode="linear")


@converter("ResizeBicubic")
def bicubic(node: Node) -> Converted:
    """Bicubic resizing; half-pixel centers use Keys' weights (a = -0.5) from a table of 1024 steps, without outside elements."""
    how = {"cubic_coeff": -0.5, "exclude_outside": True} if _coordinates(node) is nn.Coordinates.HALF_PIXEL else {}
    return _resized(node, _float32(node), mode="cubic", cubic_steps=1024, **how)


def _resized(node: Node, x: SSAValue, **properties: Any) -> SSAValue:
    return node.emit(nn.ResizeOp, x, **_extent(node), coordinates=_coordinates(node), **properties).result


def _coordinates(node: Node) -> nn.Coordinates:
    given = [coordinates for coordinates, flag in FLAGS.items() if flag and node.flag(flag)]
    if len(given) > 1:
        raise node.error("aligns both corners and pixel centres")
    return given[0] if given else nn.Coordinates.ASYMMETRIC


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
