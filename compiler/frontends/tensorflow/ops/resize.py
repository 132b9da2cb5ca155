"""Resampling of images, `[N, H, W, C]`."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import SSAValue

from ....dialects import nn
from ....dialects.nn.shapes import element_of, known, shape_of
from ....transforms.partial_shapes import Dimension, Multiple
from ...building import Size
from ...shapes import kept_sizes
from ..node import Converted, Node, converter


@converter("ResizeNearestNeighbor")
def nearest(node: Node) -> Converted:
    """Positions round down; with `align_corners` to the nearest, with `half_pixel_centers` those of ONNX less a half do."""
    rounding = "floor" if _coordinates(node) == "asymmetric" else "round_prefer_ceil"
    return _resized(node, node.value(0), mode="nearest", nearest=rounding)


@converter("ResizeBilinear")
def bilinear(node: Node) -> Converted:
    """The result is float32 whatever the input is."""
    return _resized(node, _float32(node), mode="linear")


@converter("ResizeBicubic")
def bicubic(node: Node) -> Converted:
    """With half-pixel centres Keys' weights (a = -0.5), without what lies outside. TensorFlow rounds positions to 1/1024."""
    if _coordinates(node) == "half_pixel":
        return _resized(node, _float32(node), mode="cubic", cubic_coeff=-0.5, exclude_outside=True)
    return _resized(node, _float32(node), mode="cubic")


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
    """`sizes` for all axes; `scales` where the height and the width are multiples of the input's own."""
    shape = node.shape(0)
    if len(shape) != 4 or node.shape(1) != (2,):
        raise node.error(f"resizes rank {len(shape)} to sizes of shape {list(node.shape(1))}")
    if (factors := _factors(node)) is not None:
        return {"scales": [1.0, *factors, 1.0]}
    own: list[Size] = [d if known(d) else Dimension(node.value(0), i) for i, d in enumerate(shape)]
    return {"sizes": kept_sizes(node, [own[0], *(node.sizes(1) or (None, None)), own[3]])}


def _factors(node: Node) -> list[float] | None:
    """How often the height and the width of the input are wanted, where these sizes are not known."""
    if node.array(1) is not None or (sizes := node.sink.shapes.multiples(node.value(1))) is None:
        return None
    own = [Dimension(node.value(0), axis) for axis in (1, 2)]
    factors = [m.factor for m, d in zip(sizes, own, strict=True) if isinstance(m, Multiple) and m.dimension == d]
    return [float(f) for f in factors] if len(factors) == 2 and min(factors) > 0 else None
