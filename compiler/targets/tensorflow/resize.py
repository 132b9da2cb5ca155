"""Resampling: TensorFlow's operators for images if they mean the same, otherwise each axis by neighbours and weights."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...dialects import nn
from ...dialects.nn.attributes import ResizeMode
from ...dialects.nn.shapes import known, shape_of, static
from ...formats.tensorflow.resize import FLAGS, ROUNDING, places
from ...ir.dtypes import dtype_named
from ...runtime.resample import Sampling, Taps, taps_of
from .layer import TensorFlowLayer, converter, transposed
from .movement import cut

_OPERATORS: Mapping[ResizeMode, str] = {
    ResizeMode.NEAREST: "ResizeNearestNeighbor",
    ResizeMode.LINEAR: "ResizeBilinear",
}
"""The operators for float32 images whose scales follow from their sizes."""

_LAYOUTS: Mapping[tuple[int, ...], tuple[int, ...]] = {(1, 2): (0, 1, 2, 3), (2, 3): (0, 2, 3, 1)}
"""The order of axes that TensorFlow wants, by the axes of height and width."""


@converter(nn.ResizeOp)
def resize(op: nn.ResizeOp, layer: TensorFlowLayer) -> str:
    x = layer.value(op.input)
    space = next((axes for axes in _LAYOUTS if _resized_axes(op) <= set(axes)), None)
    if len(shape_of(op.input)) != 4 or layer.graph.elements[x] != "float32":
        return _by_axis(op, layer, x)
    if space is None or not _has_operator(op) or not all(_is_exact(op, axis) for axis in space):
        return _by_axis(op, layer, x)
    if (perm := _LAYOUTS[space]) == (0, 1, 2, 3):
        return _image(op, layer, x, space)
    return transposed(layer, _image(op, layer, transposed(layer, x, perm), space), (0, 3, 1, 2))


def _has_operator(op: nn.ResizeOp) -> bool:
    coordinates = op.coordinates.data
    rounds = op.mode.data is not ResizeMode.NEAREST or ROUNDING.get(coordinates) is op.nearest.data
    return op.mode.data in _OPERATORS and coordinates in FLAGS and rounds


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


def _is_exact(op: nn.ResizeOp, axis: int) -> bool:
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
    return bool(np.array_equal(places(op.coordinates.data, size, out), _taps(op, axis).indices[:, 0]))


def _image(op: nn.ResizeOp, layer: TensorFlowLayer, x: str, space: tuple[int, ...]) -> str:
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
    flag = FLAGS[op.coordinates.data]
    return layer.node(_OPERATORS[op.mode.data], x, vector, **({flag: True} if flag else {}))


def _taps(op: nn.ResizeOp, axis: int) -> Taps:
    """The neighbours of each element of an axis, and their weights."""
    sampling = Sampling(
        op.mode.data, op.coordinates.data, op.nearest.data, op.cubic_coeff.value.data, op.exclude_outside is not None
    )
    shape, scale = shape_of(op.input), _scale(op, axis)
    assert scale is not None
    return taps_of(sampling, shape[axis], op.output_sizes(shape)[axis], scale)


def _by_axis(op: nn.ResizeOp, layer: TensorFlowLayer, x: str) -> str:
    """Computes each axis as the weighted sum of neighbours, as in the interpreter."""
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


def _resampled(layer: TensorFlowLayer, x: str, axis: int, rank: int, taps: Taps) -> str:
    columns = [layer.ints(taps.indices[:, k].tolist(), "indices") for k in range(taps.indices.shape[1])]
    parts = [layer.helper("GatherV2", x, column, layer.int(axis, "axis")) for column in columns]
    if len(parts) == 1:
        return parts[0]
    dtype, shape = dtype_named(layer.graph.elements[x]), (-1, *(1,) * (rank - 1 - axis))
    weights = [layer.constant(taps.weights[:, k].astype(dtype).reshape(shape), "weights") for k in range(len(parts))]
    return layer.helper("AddN", *(layer.helper("Mul", p, w) for p, w in zip(parts, weights, strict=True)))
