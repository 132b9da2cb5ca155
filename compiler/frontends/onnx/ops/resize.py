"""Resize, and Upsample before it."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

from ....dialects import nn
from ....dialects.nn.shapes import axes_of, known
from ....transforms.partial_shapes import Dimension
from ...shapes import kept_sizes
from ..node import Converted, Node, Size, Unmapped, converter

_MODES = {"nearest": "nearest", "linear": "linear", "cubic": "cubic", "bilinear": "linear"}
_UPSAMPLING = {"coordinates": "asymmetric", "nearest": "floor"}
"""The computation of Upsample, and of Resize in opset 10."""


@converter("Upsample")
def upsample(node: Node) -> Converted:
    """Scales are an attribute before opset 9, an input since."""
    if node.version >= 10:
        raise node.error("was removed in opset 10")
    scales = node.floats("scales") if node.version < 9 else _scales(node, 1)
    return node.emit(nn.ResizeOp, node.value(0), scales=scales, mode=_mode(node), **_UPSAMPLING).result


@converter("Resize")
def resize(node: Node) -> Converted:
    """Opset 10 knows scales only; 11 adds sizes and coordinates; 18 axes, antialiasing and aspect policies."""
    if node.version < 11:
        scales = _scales(node, 1)
        if _mode(node) == "nearest" and any(s < 1 for s in scales):
            raise Unmapped("how opset 10 rounds when it samples down is not defined")
        return node.emit(nn.ResizeOp, node.value(0), scales=scales, mode=_mode(node), **_UPSAMPLING).result
    extent = _extent(node)
    if node.int("antialias", 0):
        raise Unmapped("it antialiases")
    coordinates = node.text("coordinate_transformation_mode", "half_pixel")
    if coordinates not in {c.value for c in nn.Coordinates}:
        raise Unmapped(f"coordinate_transformation_mode {coordinates}")
    return node.emit(
        nn.ResizeOp,
        node.value(0),
        **extent,
        mode=_mode(node),
        coordinates=coordinates,
        nearest=node.choice("nearest_mode", "round_prefer_floor", [n.value for n in nn.Nearest]),
        cubic_coeff=node.float("cubic_coeff_a", -0.75),
        exclude_outside=bool(node.int("exclude_outside", 0)),
    ).result


def _scales(node: Node, index: int) -> list[float]:
    """The scales in an input. Raises CompileError unless they are positive and finite, also for nodes that are carried."""
    scales: list[float] = node.known(index).reshape(-1).tolist()
    if not all(0 < s < inf for s in scales):
        raise node.error(f"has the scales {scales}, which must be positive and finite")
    return scales


def _mode(node: Node) -> str:
    return _MODES[node.choice("mode", "nearest", _MODES)]


def _extent(node: Node) -> dict[str, Any]:
    """`scales` or `sizes` for all axes."""
    shape = node.shape(0)
    axes = axes_of(node.ints("axes") or range(len(shape)), len(shape))
    if node.has(2) and node.shape(2) != (0,):
        return {"scales": _spread(node, _scales(node, 2), axes, [1.0] * len(shape))}
    if not node.has(3):
        raise node.error("has neither scales nor sizes")
    sizes = node.sizes(3)
    if any(isinstance(s, int) and s < 0 for s in sizes or ()):
        raise node.error(f"has the sizes {sizes}, which must not be negative")
    if node.text("keep_aspect_ratio_policy", "stretch") != "stretch":
        raise Unmapped("it keeps the aspect ratio")
    if sizes is None:
        raise Unmapped("input 3 is computed at run time")
    own: list[Size] = [d if known(d) else Dimension(node.value(0), i) for i, d in enumerate(shape)]
    return {"sizes": kept_sizes(node, _spread(node, sizes, axes, own))}


def _spread(node: Node, values: Sequence[Any], axes: Sequence[int], default: Sequence[Any]) -> list[Any]:
    if len(values) != len(axes):
        raise node.error(f"has {len(values)} sizes or scales for {len(axes)} axes")
    given = dict(zip(axes, values, strict=True))
    return [given.get(i, d) for i, d in enumerate(default)]
