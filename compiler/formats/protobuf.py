"""Makes protobuf messages from a table of their fields, so that a format is read without the package that defines it.

    fields = {
        "Net": {"name": (1, "string"), "layer": (2, "repeated Layer"), "blobs": (3, "map<string, Layer.Blob>")},
        "Layer": {"phase": (1, "Layer.Phase = TEST"), "rate": (2, "packed float")},
        "Layer.Blob": {"raw": (1, "oneof data bytes"), "file": (2, "oneof data string")},
    }
    enums = {"Layer.Phase": {"TRAIN": 0, "TEST": 1}}

A field is its number and its type: a scalar of protobuf's, or a message or enum of the table (`Layer.Blob` is nested in `Layer`).
The type may be preceded by `repeated`, `packed` (repeated, and declared packed in proto2) or `oneof` with a name. In proto2 `= `
and a default may follow. A table needs only the fields that are read; files may contain others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto as _Field, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

Fields = Mapping[str, Mapping[str, tuple[int, str]]]
"""Number and type by message and field."""
Enums = Mapping[str, Mapping[str, int]]
"""Number by enum and value."""

_Types = Mapping[str, _Field]
"""The types of fields, by their names in tables."""

_SCALARS: _Types = {name.removeprefix("TYPE_").lower(): _Field(type=number) for name, number in _Field.Type.items()}


def message_classes(
    package: str, syntax: Literal["proto2", "proto3"], fields: Fields, enums: Enums
) -> dict[str, type[Any]]:
    """The classes of a table's messages, by name. They have a descriptor pool of their own, separate from any other `package`."""
    pool = DescriptorPool()
    pool.Add(_file(package, syntax, fields, enums))
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in fields}


def _file(package: str, syntax: str, fields: Fields, enums: Enums) -> FileDescriptorProto:
    file = FileDescriptorProto(name=f"{package}.proto", package=package, syntax=syntax)
    messages: dict[str, DescriptorProto] = {}
    for name in sorted(fields):  # each before the messages nested in it
        outer, _, own = name.rpartition(".")
        messages[name] = messages[outer].nested_type.add(name=own) if outer else file.message_type.add(name=own)
    for name, numbers in enums.items():
        outer, _, own = name.rpartition(".")
        enum = messages[outer].enum_type.add(name=own) if outer else file.enum_type.add(name=own)
        for value, number in numbers.items():
            enum.value.add(name=value, number=number)
    types = {
        **_SCALARS,
        **{n: _Field(type=_Field.TYPE_MESSAGE, type_name=f".{package}.{n}") for n in fields},
        **{n: _Field(type=_Field.TYPE_ENUM, type_name=f".{package}.{n}") for n in enums},
    }
    for name, declared in fields.items():
        for field, (number, text) in declared.items():
            _declare(messages[name], field, number, text, types)
    return file


def _declare(message: DescriptorProto, name: str, number: int, text: str, types: _Types) -> None:
    text, _, default = text.partition(" = ")
    field = message.field.add(name=name, number=number, label=_Field.LABEL_OPTIONAL)
    if default:
        field.default_value = default
    if text.startswith("map<"):
        field.MergeFrom(_Field(label=_Field.LABEL_REPEATED, type=_Field.TYPE_MESSAGE))
        field.type_name = _map_entry(message, name, text, types)
        return
    *before, kind = text.split()
    field.MergeFrom(types[kind])
    match before:
        case []:
            pass
        case ["repeated"]:
            field.label = _Field.LABEL_REPEATED
        case ["packed"]:
            field.label = _Field.LABEL_REPEATED
            field.options.packed = True
        case ["oneof", group]:
            field.oneof_index = _oneof(message, group)
        case _:
            raise ValueError(f"field {name} of {message.name} is declared as '{text}'")


def _map_entry(message: DescriptorProto, field: str, text: str, types: _Types) -> str:
    """The nested message for the entries of a map; protobuf requires a name derived from the field."""
    key, value = text.removeprefix("map<").removesuffix(">").split(", ")
    entry = message.nested_type.add(name="".join(part.capitalize() for part in field.split("_")) + "Entry")
    entry.options.map_entry = True
    _declare(entry, "key", 1, key, types)
    _declare(entry, "value", 2, value, types)
    return entry.name


def _oneof(message: DescriptorProto, name: str) -> int:
    names = [group.name for group in message.oneof_decl]
    if name not in names:
        message.oneof_decl.add(name=name)
        names.append(name)
    return names.index(name)
