"""The common geometry of convolutions and pooling: a number for all spatial axes, one for each, or `..._h` and `..._w`."""

from __future__ import annotations

from typing import Any

from ....formats.caffe.schema import Message
from ..node import Node


def per_axis(node: Node, message: Message, name: str, axes: int, default: int | None = None) -> list[int]:
    """A number for each spatial axis. Raises CompileError if there are too many or, without a default, none."""
    stem = name.removesuffix("_size")
    pair = [f"{stem}_h", f"{stem}_w"]
    single = getattr(message, name)
    given = [single] * message.HasField(name) if isinstance(single, int) else list(single)
    if any(message.DESCRIPTOR.fields_by_name.get(p) is not None and message.HasField(p) for p in pair):
        if given or axes != 2:
            raise node.error(f"has {pair[0]} and {pair[1]}, which stand for {name} on two spatial axes")
        return [getattr(message, p) for p in pair]
    if not given and default is None:
        raise node.error(f"has no {name}")
    values = given or [default or 0]
    if len(values) not in (1, axes):
        raise node.error(f"has {len(values)} numbers in {name}, but it has {axes} spatial axes")
    return values * (axes // len(values))


def geometry(node: Node, message: Message, axes: int) -> dict[str, Any]:
    """strides, pads and, if the message has any, dilations as properties; None if they are defaults."""
    strides, pads = per_axis(node, message, "stride", axes, 1), per_axis(node, message, "pad", axes, 0)
    properties: dict[str, Any] = {
        "strides": strides if set(strides) != {1} else None,
        "pads": [*pads, *pads] if any(pads) else None,
    }
    if "dilation" in message.DESCRIPTOR.fields_by_name:
        dilations = per_axis(node, message, "dilation", axes, 1)
        properties["dilations"] = dilations if set(dilations) != {1} else None
    return properties
