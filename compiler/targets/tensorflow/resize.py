"""Resampling: TensorFlow's operators for images if they mean the same, otherwise each axis by neighbours and weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ...dialects import nn
from ...dialects.nn.attributes import Coordinates, Nearest, ResizeMode
from ...dialects.nn.shapes import known, shape_of, static
from ...ir.dtypes import dtype_named
from ...runtime.resample import Sampling, Taps, taps_of
from .graph import Array
from .layer import Layer, converter, transposed
from .movement import cut


class _Operator(NamedTuple):
    name: str
    attributes: Mapping[str, Any]
    round: Callable[[Array, Array], Array]
    """The input elements nearest to output elements, as TensorFlow computes them in float32."""

    def nearest(self, size: int, out: int) -> Array:
        corners = "align_corners" in self.attributes and out > 1
        scale = np.float32(size - 1) / np.float32(out - 1) if corners else np.float32(size) / np.float32(out)
        return np.clip(self.round(np.arange(out, dtype=np.float32), np.asarray(scale)), 0, size - 1)


def _start(i: Array, scale: Array) -> Array:
    return np.floor(i * scale)


def _nearest(i: Array, scale: Array) -> Array:
    return np.floor(i * scale + np.float32(0.5))


def _center(i: Array, scale: Array) -> Array:
    return np.floor((i + np.float32(0.5)) * scale)


_FLAGS: Mapping[Coordinates, tuple[Mapping[str, Any], Callable[[Array, Array], Array], Nearest]] = {
    Coordinates.ASYMMETRIC: ({}, _start, Nearest.FLOOR),
    Coordinates.ALIGN_CORNERS: ({"align_corners": True}, _nearest, Nearest.ROUND_PREFER_CEIL),
    Coordinates.HALF_PIXEL: ({"half_pixel_centers": True}, _center, Nearest.ROUND_PREFER_CEIL),
}
"""The attributes of TensorFlow's operators, and the rounding of the one for nearest elements."""

_OPERATORS: Mapping[tuple[ResizeMode, Coordinates, Nearest | None], _Operator] = {
    (mode, coordinates, rounding if mode is ResizeMode.NEAREST else None): _Operator(name, attributes, positions)
    for mode, name in ((ResizeMode.NEAREST, "ResizeNearestNeighbor"), (ResizeMode.LINEAR, "ResizeBilinear"))
    for coordinates, (attributes, positions, rounding) in _FLAGS.items()
}
"""The resizes that TensorFlow computes, for float32 images whose scales follow from their sizes."""

_LAYOUTS: Mapping[tuple[int, ...], tuple[int, ...]] = {(1, 2): (0, 1, 2, 3), (2, 3): (0, 2, 3, 1)}
"""By the axes of height and width, the order of axes that TensorFlow wants."""


@converter(nn.ResizeOp)
def resize(op: nn.ResizeOp, layer: Layer) -> str:
    x = layer.value(op.input)
    operator = _OPERATORS.get((op.mode.data, op.coordinates.data, _rounding(op)))
    space = next((axes for axes in _LAYOUTS if _resized_axes(op) <= set(axes)), None)
    if len(shape_of(op.input)) != 4 or layer.graph.elements[x] != "float32":
        return _by_axis(op, layer, x)
    if operator is None or space is None or not all(_is_exact(op, operator, axis) for axis in space):
        return _by_axis(op, layer, x)
    if (perm := _LAYOUTS[space]) == (0, 1, 2, 3):
        return _image(op, layer, x, operator, space)
    return transposed(layer, _image(op, layer, transposed(layer, x, perm), operator, space), (0, 3, 1, 2))


def _rounding(op: nn.ResizeOp) -> Nearest | None:
    return op.nearest.data if op.mode.data is ResizeMode.NEAREST else None


def _resized_axes(op: nn.ResizeOp) -> set[int]:
    shape = shape_of(op.input)
    if op.scales is not None:
        return {i for i, s in enumerate(op.scales.data) if s != 1}
    return {i for i, (d, s) in enumerate(zip(shape, nn.ints(op.sizes), strict=True)) if s not in (0, d)}


def _scale(op: nn.ResizeOp, axis: int) -> float | None:
    """The factor of an axis; None if it gets a fixed size."""
    if op.scales is not None:
        return op.scales.data[axis]
    size = shape_of(op.input)[axis]
    return op.output_sizes(shape_of(op.input))[axis] / size if known(size) else None


def _is_exact(op: nn.ResizeOp, operator: _Operator, axis: int) -> bool:
    """Whether TensorFlow, which derives the scale from the sizes in float32, selects the same elements."""
    size, scale = shape_of(op.input)[axis], _scale(op, axis)
    if not known(size):
        return scale is None or scale.is_integer()
    out = op.output_sizes(shape_of(op.input))[axis]
    assert scale is not None
    if out != size * scale:
        return False
    if op.mode.data is not ResizeMode.NEAREST:
        return True
    return bool(np.array_equal(operator.nearest(size, out), _taps(op, axis).indices[:, 0]))


def _image(op: nn.ResizeOp, layer: Layer, x: str, operator: _Operator, space: tuple[int, ...]) -> str:
    """The operator, on images with channels last."""
    shape, sizes = shape_of(op.input), op.output_sizes(shape_of(op.input))
    out = [sizes[axis] for axis in space]
    if static(out):
        vector = layer.ints(out, "size")
    else:
        own = cut(layer, layer.sizes(x), [slice(1, 3)])
        vector = layer.helper("Mul", own, layer.ints([int(_scale(op, a) or 0) for a in space], "scales"))
        if op.scales is None:
            wanted = [0 if not known(s) else s for s in out]
            kept = layer.constant(np.array([not known(s) for s in out]), "kept")
            vector = layer.helper("SelectV2", kept, own, layer.ints(wanted, "size"))
    assert len(shape) == 4
    return layer.node(operator.name, x, vector, **operator.attributes)


def _taps(op: nn.ResizeOp, axis: int) -> Taps:
    """The neighbours of each element of an axis, and their weights."""
    sampling = Sampling(
        op.mode.data, op.coordinates.data, op.nearest.data, op.cubic_coeff.value.data, op.exclude_outside is not None
    )
    shape, scale = shape_of(op.input), _scale(op, axis)
    assert scale is not None
    return taps_of(sampling, shape[axis], op.output_sizes(shape)[axis], scale)


def _by_axis(op: nn.ResizeOp, layer: Layer, x: str) -> str:
    """Each axis as the weighted sum of neighbours, as in the interpreter."""
    shape, element = shape_of(op.input), layer.graph.elements[x]
    exact = op.mode.data is ResizeMode.NEAREST
    if not exact and dtype_named(element).kind in "iu":
        raise layer.error("weights integers, which TensorFlow does not")
    y = x if exact or element == "float64" else layer.cast(x, "float32")
    for axis in sorted(_resized_axes(op)):
        if not known(shape[axis]):
            raise layer.error("needs its input's size", "--infer-shapes sets the sizes of inputs")
        y = _resampled(layer, y, axis, len(shape), _taps(op, axis))
    return layer.cast(y, element) if y != x else layer.node("Identity", x)


def _resampled(layer: Layer, x: str, axis: int, rank: int, taps: Taps) -> str:
    columns = [layer.ints(taps.indices[:, k].tolist(), "indices") for k in range(taps.indices.shape[1])]
    parts = [layer.helper("GatherV2", x, column, layer.int(axis, "axis")) for column in columns]
    if len(parts) == 1:
        return parts[0]
    dtype, shape = dtype_named(layer.graph.elements[x]), (-1, *(1,) * (rank - 1 - axis))
    weights = [layer.constant(taps.weights[:, k].astype(dtype).reshape(shape), "weights") for k in range(len(parts))]
    return layer.helper("AddN", *(layer.helper("Mul", p, w) for p, w in zip(parts, weights, strict=True)))
