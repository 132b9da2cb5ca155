"""The rules for an operation to be passive: its results hold nothing that its input's grid does not."""

from __future__ import annotations

from typing import cast

from .....dialects.nn import PadMode, PadOp, ResizeMode, ResizeOp
from ..sites import Site
from .layer_rules import rule


@rule("pads-with-zero")
def pads_with_zero(site: Site) -> str | None:
    """what is padded is on the grid of the input: zero, which every grid holds, or elements of it"""
    pad = cast(PadOp, site.compute)
    if pad.mode.data is not PadMode.CONSTANT or pad.value.value.data == 0:
        return None
    return f"it pads with {pad.value.value.data}, which may not be among the input's values"


@rule("resize-nearest")
def picks_nearest(site: Site) -> str | None:
    """a Resize takes the nearest elements: what other modes interpolate is not on the grid of the input"""
    mode = cast(ResizeOp, site.compute).mode.data
    return None if mode is ResizeMode.NEAREST else f"its mode is {mode.value}, which onnxruntime computes in float"
