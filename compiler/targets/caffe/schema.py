"""What the files of AMCT hold beside Caffe's own messages: parameters of the layers Quant, AntiQuant and DeQuant, integer blobs.

Names are those that AMCT's layers for Caffe and Ascend's converter read. A prototxt is read by name, so the numbers of the
parameters, which are not public, stand in no file; they are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from ...frontends.caffe.schema import ENUMS, FIELDS, Message
from ...frontends.protobuf import message_classes

_OURS = 600_000

_FIELDS = {
    **FIELDS,
    "LayerParameter": {
        **FIELDS["LayerParameter"],
        "quant_param": (_OURS + 1, "QuantParameter"),
        "dequant_param": (_OURS + 2, "DeQuantParameter"),
    },
    "QuantParameter": {"scale": (1, "float"), "offset": (2, "bytes"), "with_offset": (3, "bool")},
    "DeQuantParameter": {"channel_wise": (1, "bool")},
    "BlobProto": {
        **FIELDS["BlobProto"],
        "int8_data": (10, "bytes"),
        "int32_data": (11, "packed int32"),
        "uint64_data": (12, "packed uint64"),
    },
}

_MESSAGES = message_classes("amct_caffe", "proto2", _FIELDS, ENUMS)
NetParameter, LayerParameter, BlobProto = (_MESSAGES[n] for n in ("NetParameter", "LayerParameter", "BlobProto"))


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
