"""Message classes from a table of fields, against the bytes that protobuf's encoding rules give."""

from __future__ import annotations

import pytest
from google.protobuf import text_format
from google.protobuf.message import DecodeError

from amct_opt.formats.protobuf import message_classes

FIELDS = {
    "Net": {"name": (1, "string"), "layer": (2, "repeated Layer"), "blobs": (3, "map<string, Layer.Blob>")},
    "Layer": {
        "phase": (1, "Layer.Phase = TEST"),
        "rate": (2, "packed float"),
        "pad": (3, "repeated uint32"),
        "kind": (4, "Kind"),
        "bias": (5, "bool = true"),
        "scale": (6, "float = 0.5"),
        "filler": (7, "string = constant"),
    },
    "Layer.Blob": {"raw": (1, "oneof data bytes"), "file": (2, "oneof data string"), "part": (3, "Layer.Blob.Part")},
    "Layer.Blob.Part": {"begin": (1, "int64")},
}
ENUMS = {"Kind": {"NONE": 0, "CONV": 4}, "Layer.Phase": {"TRAIN": 0, "TEST": 1}}

PROTO2 = message_classes("sample", "proto2", FIELDS, ENUMS)
PLAIN = {
    name: {f: (number, text.partition(" = ")[0]) for f, (number, text) in row.items()} for name, row in FIELDS.items()
}
PROTO3 = message_classes("sample", "proto3", PLAIN, ENUMS)


@pytest.mark.parametrize("classes", [PROTO2, PROTO3], ids=["proto2", "proto3"])
def test_encoding(classes: dict) -> None:
    net = classes["Net"](name="n", layer=[classes["Layer"](rate=[1.0], kind=4)])
    net.blobs["a"].part.begin = 300
    assert net.SerializeToString(deterministic=True) == bytes.fromhex(
        "0a016e"  # name
        "1208" + "12040000803f" + "2004"  # layer: rate, in one record, and kind
        "1a0a" + "0a0161" + "1205" + "1a03" + "08ac02"  # blobs: key and value, whose part begins at 300
    )  # fmt: skip
    assert classes["Net"].FromString(net.SerializeToString()) == net


def test_repeated_numbers_are_packed_as_the_syntax_says() -> None:
    assert PROTO2["Layer"](pad=[1, 2]).SerializeToString() == bytes.fromhex("1801" + "1802")
    assert PROTO3["Layer"](pad=[1, 2]).SerializeToString() == bytes.fromhex("1a02" + "0102")
    for data in ("1801" + "1802", "1a02" + "0102"):
        assert list(PROTO2["Layer"].FromString(bytes.fromhex(data)).pad) == [1, 2]
        assert list(PROTO3["Layer"].FromString(bytes.fromhex(data)).pad) == [1, 2]


def test_defaults() -> None:
    layer = PROTO2["Layer"]()
    assert (layer.phase, layer.bias, layer.scale, layer.filler, layer.kind) == (1, True, 0.5, "constant", 0)
    assert not layer.HasField("phase")
    assert PROTO3["Layer"]().phase == 0


def test_one_of_several() -> None:
    blob = PROTO3["Layer.Blob"](raw=b"x")
    blob.file = "f"
    assert blob.WhichOneof("data") == "file"
    assert blob.raw == b""


def test_text() -> None:
    net = text_format.Parse('name: "n" layer { phase: TRAIN kind: CONV pad: 1 pad: 2 }', PROTO2["Net"]())
    assert (net.layer[0].phase, net.layer[0].kind, list(net.layer[0].pad)) == (0, 4, [1, 2])


def test_fields_outside_the_table_are_skipped() -> None:
    assert PROTO3["Net"].FromString(bytes.fromhex("b80107" + "0a016e")).name == "n"


def test_text_must_be_utf8_in_proto3() -> None:
    with pytest.raises(DecodeError):
        PROTO3["Net"].FromString(b"\x0a\x01\xff")


def test_two_tables_of_one_package() -> None:
    other = message_classes("sample", "proto3", {"Net": {"other": (9, "int32")}}, {})
    assert other["Net"](other=1) != PROTO3["Net"]()


@pytest.mark.parametrize("text", ["Unknown", "several float", "repeated packed float"])
def test_no_such_type(text: str) -> None:
    with pytest.raises((KeyError, ValueError)):
        message_classes("sample", "proto3", {"Net": {"x": (1, text)}}, {})
