"""The tables of fields against the descriptor compiled into OpenCV, which is an independent copy of Caffe's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

from amct_opt.formats.caffe import schema
from amct_opt.formats.wire import Field, MalformedError, fields

OURS = {"round_mode", "clip_param", "interp_param", "upsample_param", "quant_param", "dequant_param"} | {
    *("int8_data", "int32_data", "uint64_data")
}
"""In no number of OpenCV's: matched by name, or of AMCT."""
OURS_ALONE = {"ClipParameter", "InterpParameter", "UpsampleParameter", "QuantParameter", "DeQuantParameter"}


def embedded(name: str) -> FileDescriptorProto:
    """The file descriptor of that name among the bytes of OpenCV's library: the longest run of its fields."""
    cv2 = pytest.importorskip("cv2")
    library = next(Path(cv2.__file__).parent.glob("cv2*.so")).read_bytes()
    tag = bytes([0x0A, len(name)]) + name.encode()
    found: list[FileDescriptorProto] = []
    for match in re.finditer(re.escape(tag), library):
        data = memoryview(library)[match.start() : match.start() + (1 << 18)]
        end = 0
        try:
            for field in fields(data, Field.whole(data)):
                if field.number > 14 or (field.number == 1 and end):
                    break
                end = field.end
        except MalformedError:
            pass
        found.append(FileDescriptorProto.FromString(bytes(data[:end])))
    return max(found, key=lambda f: len(f.message_type))


def described(field: FieldDescriptorProto) -> tuple[Any, ...]:
    default: Any = field.default_value
    if field.type == FieldDescriptorProto.TYPE_FLOAT and default:
        default = np.float32(default)
    return field.number, field.type, field.label, default, field.type_name.rpartition(".")[2]


def test_fields_are_those_of_opencv() -> None:
    theirs = {m.name: m for m in embedded("opencv-caffe.proto").message_type}
    ours = FileDescriptorProto()
    schema.NetParameter.DESCRIPTOR.file.CopyToProto(ours)
    compared = 0
    for message in ours.message_type:
        if message.name in OURS_ALONE:
            continue
        other = {f.name: f for f in theirs[message.name].field}
        enums = {e.name: {v.name: v.number for v in e.value} for e in theirs[message.name].enum_type}
        for field in message.field:
            if field.name not in OURS:
                assert described(field) == described(other[field.name]), f"{message.name}.{field.name}"
                assert field.options.packed == other[field.name].options.packed
                compared += 1
        for enum in message.enum_type:
            if enum.name != "RoundMode":
                assert {v.name: v.number for v in enum.value} == enums[enum.name]
    assert compared > 200


def test_types_of_the_old_format() -> None:
    names = schema.ENUMS["V1LayerParameter.LayerType"]
    upgraded = {
        n: schema.upgraded(schema.MESSAGES["V1LayerParameter"](type=number)).type for n, number in names.items()
    }
    assert upgraded["INNER_PRODUCT"] == "InnerProduct"
    assert upgraded["RELU"] == "ReLU"
    assert upgraded["TANH"] == "TanH"
    assert upgraded["SOFTMAX_LOSS"] == "SoftmaxWithLoss"
    assert upgraded["SIGMOID_CROSS_ENTROPY_LOSS"] == "SigmoidCrossEntropyLoss"
    assert upgraded["HDF5_DATA"] == "HDF5Data"
    assert upgraded["IM2COL"] == "Im2col"
