"""The common geometry of convolutions and pooling in ONNX."""

from __future__ import annotations

from typing import Any

from ..node import Node

_AUTO_PADS = {"SAME_UPPER": "same_upper", "SAME_LOWER": "same_lower"}


def geometry(node: Node) -> dict[str, Any]:
    """strides, pads, dilations and auto_pad of a node, as properties. `auto_pad` other than NOTSET overrides `pads`."""
    auto_pad = node.choice("auto_pad", "NOTSET", (*_AUTO_PADS, "NOTSET", "VALID"))
    return {
        "strides": node.ints("strides"),
        "pads": node.ints("pads") if auto_pad == "NOTSET" else None,
        "dilations": node.ints("dilations"),
        "auto_pad": _AUTO_PADS.get(auto_pad),
    }
