"""Filling messages of Caffe's schema from Python values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from ...frontends.caffe.schema import BlobProto, LayerParameter, Message, NetParameter


def fill(message: Message, values: Mapping[str, object]) -> None:
    """Sets fields from Python values: messages from dictionaries, repeated fields from lists, enums by name.

    None, and a number that is the field's default, leave it out.
    """
    for name, value in values.items():
        field = message.DESCRIPTOR.fields_by_name[name]
        if isinstance(value, dict):
            fill(getattr(message, name), cast("dict[str, object]", value))
        elif isinstance(value, list | tuple):
            getattr(message, name).extend(value)
        elif field.enum_type is not None:
            setattr(message, name, field.enum_type.values_by_name[value].number)
        elif value is not None and not _is_default(field, value):
            setattr(message, name, value)


def _is_default(field: Message, value: object) -> bool:
    """Of `..._h` and `..._w` OpenCV wants both or none."""
    return field.has_default_value and value == field.default_value and not field.name.endswith(("_h", "_w"))


__all__ = ["BlobProto", "LayerParameter", "Message", "NetParameter", "fill"]
