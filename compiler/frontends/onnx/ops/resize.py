"""Resize, and Upsample before it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ....dialects import nn
from ....dialects.nn.shapes import axis_of, known
from ..node import Converted, Node, Unmapped, converter

_MODES = {"nearest": "nearest", "linear": "linear", "cubic": "cubic", "bilinear": "linear"}
_UPSAMPLING = {"coordinates": "asymmetric", "nearest": "floor"}
"""What Upsample, and Resize of opset 10, do."""


@converter("Upsample")
def upsample(node: Node) -> Converted:
    """Scales are an attribute before opset 9, an input since."""
    if node.version >= 10:
        raise node.error("was removed in opset 10")
    scales = node.floats("scales") if node.version < 9 else node.known(1).reshape(-1)
    return node.emit(nn.ResizeOp, node.value(0), scales=scales, mode=_mode(node), **_UPSAMPLING).result


@converter("Resize")
def resize(node: Node) -> Converted:
    """Opset 10 knows scales only; 11 adds sizes and coordinates; 18 axes, antialiasing and aspect policies."""
    if node.version < 11:
        scales = node.known(1).reshape(-1)
        if _mode(node) == "nearest" and any(s < 1 for s in scales):
            raise Unmapped("how opset 10 rounds when it samples down is not defined")
        return node.emit(nn.ResizeOp, node.value(0), scales=scales, mode=_mode(node), **_UPSAMPLING).result
    if node.int("antialias", 0):
        raise Unmapped("it antialiases")
    coordinates = node.text("coordinate_transformation_mode", "half_pixel")
    if coordinates not in {c.value for c in nn.Coordinates}:
        raise Unmapped(f"coordinate_transformation_mode {coordinates}")
    return node.emit(
        nn.ResizeOp,
        node.value(0),
        **_extent(node),
        mode=_mode(node),
        coordinates=coordinates,
        nearest=node.text("nearest_mode", "round_prefer_floor"),
        cubic_coeff=node.float("cubic_coeff_a", -0.75),
        exclude_outside=bool(node.int("exclude_outside", 0)),
    ).result


def _mode(node: Node) -> str:
    mode = node.text("mode", "nearest")
    if mode not in _MODES:
        raise node.error(f"has the unknown mode '{mode}'")
    return _MODES[mode]


def _extent(node: Node) -> dict[str, Any]:
    """`scales` or `sizes` for all axes."""
    shape = node.shape(0)
    axes = [axis_of(a, len(shape)) for a in node.ints("axes") or range(len(shape))]
    if node.has(2) and node.shape(2) != (0,):
        return {"scales": _spread(node, node.known(2).reshape(-1).tolist(), axes, [1.0] * len(shape))}
    if not node.has(3):
        raise node.error("has neither scales nor sizes")
    sizes = node.known_ints(3)
    if node.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Unmapped("it keeps the aspect ratio")
    if any(not known(d) for i, d in enumerate(shape) if i not in axes):
        raise Unmapped("it keeps sizes that are not known")
    return {"sizes": _spread(node, sizes, axes, list(shape))}


def _spread(node: Node, values: Sequence[Any], axes: Sequence[int], default: list[Any]) -> list[Any]:
    if len(values) != len(axes):
        raise node.error(f"has {len(values)} sizes or scales for {len(axes)} axes")
    for axis, value in zip(axes, values, strict=True):
        default[axis] = value
    return default
