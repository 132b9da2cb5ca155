"""What `origin` keeps of a layer's parameters: what is not the default, geometry and training aside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr, StringAttr, f32, i64
from xdsl.ir import Attribute

from ...dialects import nn
from .schema import Message, enum_name

_LEFT_OUT = frozenset({"num_output", "bias_term", "eps", "engine", "moving_average_fraction", "force_nd_im2col"})
_GEOMETRY = ("kernel_", "stride", "pad")

_SCALARS: dict[type, Callable[[Any], Attribute]] = {
    bool: lambda v: IntegerAttr(int(v), i64),
    int: lambda v: IntegerAttr(v, i64),
    float: lambda v: FloatAttr(v, f32),
    str: StringAttr,
}


def provenance(layer: Message) -> dict[str, Attribute]:
    """The fields of a layer's `..._param` messages by name, in MLIR; dilations of one are the default."""
    kept: dict[str, Attribute] = {}
    for outer, message in layer.ListFields():
        if not outer.name.endswith("_param"):
            continue
        for field, value in message.ListFields():
            attribute = None if _is_left_out(field.name) else _attribute(message, field, value)
            if attribute is not None:
                kept[field.name] = attribute
    return dict(sorted(kept.items()))


def _is_left_out(name: str) -> bool:
    return name in _LEFT_OUT or name.startswith(_GEOMETRY) or name.endswith("filler")


def _attribute(message: Message, field: Any, value: Any) -> Attribute | None:
    if isinstance(value, bytes):
        return None
    if hasattr(value, "extend"):
        numbers = list(value)
        if not all(isinstance(n, int | float) for n in numbers) or (field.name == "dilation" and set(numbers) == {1}):
            return None
        if all(isinstance(n, int) for n in numbers):
            return DenseArrayBase.from_list(i64, numbers)
        return nn.RealsAttr(tuple(numbers))
    if field.message_type is not None or value == field.default_value:
        return None
    return StringAttr(enum_name(message, field.name)) if field.enum_type is not None else _SCALARS[type(value)](value)
