"""What must hold for an operation to be passive: its results hold nothing that its input's grid does not."""

from __future__ import annotations

from typing import cast

from ....dialects.nn import PadMode, PadOp
from ..sites import Site
from .layer_rules import rule


@rule("pads-with-zero")
def pads_with_zero(site: Site) -> str | None:
    """what is padded is on the grid of the input: zero, which every grid holds, or elements of it"""
    pad = cast(PadOp, site.compute)
    if pad.mode.data is not PadMode.CONSTANT or pad.value.value.data == 0:
        return None
    return f"it pads with {pad.value.value.data}, which may not be among the input's values"
