"""Record files: every field and flavour, every rule of AMCT's parser, exact numbers, merging."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import given, strategies as st

from amct_opt.configuration.record import NUMBERS, TYPES, LayerRecord, Record, merged, read_record, record_text
from amct_opt.support.diagnostics import CompileError

SAMPLE = """\
record {
  key: "conv1"
  value {
    scale_d: 0.0798481479
    offset_d: 1
    scale_w: 0.00297622895
    scale_w: 0.00306892535
    offset_w: 0
    offset_w: 0
    skip_fusion: true
  }
}
record {
  key: "layer1/conv ä"
  value {
    scale_d: 0.00392156886
    offset_d: -128
    scale_w: 1
    offset_w: 0
  }
}
"""
"""In the form of AMCT's manual."""


@pytest.fixture
def read(tmp_path: Path):
    def read(text: str, flavour: str | None = None, **options: bool) -> Record:
        path = tmp_path / "record.txt"
        path.write_text(text, "utf-8")
        return read_record(path, flavour, **options)

    return read


def test_the_sample(read) -> None:
    record = read(SAMPLE)
    conv = record.layers["conv1"]
    assert conv.scale_d == float(np.float32(0.0798481479))
    assert (conv.offset_d, conv.offset_w, conv.skip_fusion, conv.bits) == (1, (0, 0), True, 8)
    assert conv.scale_w == tuple(map(float, np.array([0.00297622895, 0.00306892535], np.float32)))
    assert not record.layers["layer1/conv ä"].skip_fusion
    assert record_text(record) == SAMPLE


def entry(text: str, key: str = "conv1") -> str:
    return f'record {{ key: "{key}" value {{ {text} }} }}'


FIELDS = {
    "scale_d": ("scale_d: 0.5 offset_d: 0", LayerRecord(0.5, 0)),
    "weights": ("scale_w: [0.5, 0.25] offset_w: [0, 0]", LayerRecord(scale_w=(0.5, 0.25), offset_w=(0, 0))),
    "weights alone": (
        "scale_w: [0.5, 0.25] offset_w: [-128, 7] weight_compress_only: true",
        LayerRecord(scale_w=(0.5, 0.25), offset_w=(-128, 7), weight_compress_only=True),
    ),
    "no shifts": ("shift_bit: 0 shift_bit: 0", LayerRecord(shift_bit=(0, 0))),
    "shifts": ("shift_bit: 1 shift_bit: 16", LayerRecord(shift_bit=(1, 16))),
    "one shift": ("shift_bit: 0 shift_bit: 3", LayerRecord(shift_bit=(0, 3))),
    "balance": ("tensor_balance_factor: 2 tensor_balance_factor: 0.5", LayerRecord(tensor_balance_factor=(2, 0.5))),
    "sizes": ("channels: 3 height: 4 width: 5", LayerRecord(channels=3, height=4, width=5)),
    "skip_fusion": ("skip_fusion: true", LayerRecord(skip_fusion=True)),
    "skip_fusion, default": ("skip_fusion: false", LayerRecord()),
    "tensor": ("scale_d: 1 offset_d: 2 is_tensor_quantize: true", LayerRecord(1, 2, is_tensor_quantize=True)),
    "types": ('act_type: "INT16" wts_type: "INT4"', LayerRecord(act_type="INT16", wts_type="INT4")),
    "type": ('dst_type: "INT8"', LayerRecord(dst_type="INT8")),
    "float type": ('op_data_type: "FLOAT16"', LayerRecord(op_data_type="FLOAT16")),
    "precision": ('fakequant_precision_mode: "DEFAULT"', LayerRecord(fakequant_precision_mode="DEFAULT")),
    "recurrent": ("scale_h: 1 offset_h: 2", LayerRecord(scale_h=1, offset_h=2)),
    "recurrent weights": ("scale_r: 3 offset_r: 0", LayerRecord(scale_r=(3,), offset_r=(0,))),
    "cluster": ("cluster: 1 " * 16, LayerRecord(cluster=(1,) * 16)),
    "INT16": ('scale_d: 1 offset_d: -32768 act_type: "INT16"', LayerRecord(1, -32768, act_type="INT16")),
    "the last holds": ("scale_d: 1 scale_d: 2 offset_d: 0", LayerRecord(2, 0)),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), FIELDS.values(), ids=FIELDS)
def test_fields(read, text: str, expected: LayerRecord) -> None:
    record = read(entry(text))
    assert record.layers == {"conv1": expected}
    assert read(record_text(record)) == record


ERRORS = {
    "unknown field": ("scale: 1", "record has no field 'record.value.scale'"),
    "a number as a field": ("0.5: 0", "record has no field 'record.value.0.5'"),
    "wrong type": ('scale_d: "a"', "is not a record: "),
    "scale of 0": ("scale_d: 0 offset_d: 0", "scale_d must be positive and finite, not 0"),
    "negative": ("scale_d: -1 offset_d: 0", "scale_d must be positive and finite, not -1"),
    "endless": ("scale_d: inf offset_d: 0", "scale_d must be positive and finite, not inf"),
    "beyond float32": ("scale_d: 1e39 offset_d: 0", "scale_d must be positive and finite, not inf"),
    "nan": ("scale_d: nan offset_d: 0", "scale_d must be positive and finite, not nan"),
    "scale_w": ("scale_w: 1 scale_w: 0 offset_w: 0 offset_w: 0", "scale_w must be positive and finite, not 0"),
    "no offset": ("scale_d: 1", "scale_d and offset_d belong together"),
    "no scale": ("offset_d: 1", "scale_d and offset_d belong together"),
    "offset": ("scale_d: 1 offset_d: 128", "offset_d must lie in [-128, 127], not 128"),
    "INT16 offset": ('scale_d: 1 offset_d: 32768 dst_type: "INT16"', "offset_d must lie in [-32768, 32767], not 32768"),
    "offset_w": ("scale_w: 1 offset_w: 1", "offset_w must be 0, not 1"),
    "offset_w alone": (
        'scale_w: 1 offset_w: 8 weight_compress_only: true wts_type: "INT4"',
        "offset_w must lie in [-8, 7], not 8",
    ),
    "input of a weight alone": (
        "scale_d: 1 offset_d: 0 scale_w: 1 offset_w: 0 weight_compress_only: true",
        "weight_compress_only is for weights that are quantized by themselves: scale_d does not apply",
    ),
    "lengths": ("scale_w: 1 scale_w: 1 offset_w: 0", "scale_w and offset_w must have the same length, not 2 and 1"),
    "shift_bit of 17": ("shift_bit: 0 shift_bit: 17", "shift_bit must lie in [0, 16]"),
    "cluster": ("cluster: 1", "cluster must hold 16 or 32 numbers, not 1"),
    "cluster out of range": ("cluster: 128 " * 16, "cluster must lie in [-128, 127], not 128"),
    "balance": ("tensor_balance_factor: 1e-7", "tensor_balance_factor must lie in [1.19209e-07, 8.38861e+06], not 1e-07"),
    "large balance": ("tensor_balance_factor: 9e6", "not 9e+06"),
    "type": ('dst_type: "INT3"', "dst_type must be one of INT4, INT8, INT16, not 'INT3'"),
    "type of a weight": ('wts_type: "INT16"', "wts_type must be one of INT4, INT8, INT6, INT7, not 'INT16'"),
    "tensor with weight": ("is_tensor_quantize: true scale_w: 1 offset_w: 0", "is_tensor_quantize is for inputs"),
    "recurrent offset": ("scale_h: 1 offset_h: 200", "offset_h must lie in [-128, 127], not 200"),
    "recurrent weight": ("scale_r: 1 offset_r: 3", "offset_r must be 0, not 3"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "message"), ERRORS.values(), ids=ERRORS)
def test_errors(read, text: str, message: str) -> None:
    with pytest.raises(CompileError) as error:
        read("\n" + entry(text))
    assert message in str(error.value)
    assert error.value.where.endswith("record.txt:2")


BAD_FILES = {
    "a layer twice": (entry("") + "\n" + entry(""), 2, "layer 'conv1' appears twice"),
    "no key": ("record { value { } }", 1, "MapFiledEntry has no key"),
    "no value": ('record { key: "a" }', 1, "MapFiledEntry has no value"),
    "no record": ("records { }", 1, "record has no field 'records'"),
    "no text": ('\n\nrecord { key: "', 3, "is not a record"),
    "the line of the field": (entry("\nscale_d: 1\noffset_d: 200"), 3, "layer 'conv1': offset_d must lie in"),
}


@pytest.mark.parametrize(("text", "line", "message"), BAD_FILES.values(), ids=BAD_FILES)
def test_bad_files(read, text: str, line: int, message: str) -> None:
    with pytest.raises(CompileError) as error:
        read(text)
    assert message in str(error.value)
    assert error.value.where.endswith(f"record.txt:{line}")


def test_shifts_need_joint_quantization(read) -> None:
    with pytest.raises(CompileError, match="layer 'conv1': shift_bit requires joint_quant"):
        read(entry("shift_bit: 0"), joint_quant=False)
    assert read(entry("shift_bit: 3")).layers["conv1"].shift_bit == (3,)


CACHE = """record {
  key: "k"
  kv_cache_value {
    scale: 0.016491164
    scale: 0.5
    offset: -2
    offset: 0
  }
}
"""


def test_caches(read) -> None:
    """The outputs that a KV cache keeps, next to the record of a layer; as AMCT for PyTorch writes them."""
    record = read(CACHE + 'record { key: "v" value { scale_d: 0.5 offset_d: 1 } }')
    assert list(record.layers) == ["v"]
    assert record.caches["k"].offset == (-2, 0)
    assert record_text(Record(caches=record.caches), "pytorch") == CACHE
    assert merged(Record(), record).caches == record.caches


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("scale: 0.5", "scale: 0"), "layer 'k': scale must be positive and finite, not 0"),
        (("    scale: 0.5\n", ""), "layer 'k': scale and offset must have the same length, not 1 and 2"),
        (("offset: -2", "offset: 128"), r"layer 'k': offset must lie in \[-128, 127\], not 128"),
        (("kv_cache_value {", "} record { kv_cache_value {"), "MapFiledEntry has no value"),
    ],
)
def test_bad_caches(read, change: tuple[str, str], message: str) -> None:
    with pytest.raises(CompileError, match=message):
        read(CACHE.replace(*change))
    with pytest.raises(CompileError, match="layer 'k' appears twice"):
        read(CACHE + CACHE)


def test_nothing(read) -> None:
    assert read("") == Record()
    assert record_text(Record()) == ""


@pytest.mark.parametrize("flavour", NUMBERS)
def test_flavours(read, flavour: str) -> None:
    """Each has the fields and numbers of its schema: the text means the same to a message made here from these."""
    file = FileDescriptorProto(name="f.proto", syntax="proto2")
    message = file.message_type.add(name="M")
    kinds = {"float": 2, "int32": 5, "uint32": 13, "bool": 8, "string": 9}
    for name, number in NUMBERS[flavour].items():
        *repeated, kind = TYPES[name].split()
        message.field.add(name=name, number=number, type=kinds[kind], label=3 if repeated else 1)
    pool = DescriptorPool()
    pool.Add(file)
    oracle: Any = GetMessageClass(pool.FindMessageTypeByName("M"))()
    text = "scale_d: 0.1 offset_d: 3 scale_w: 0.2 offset_w: 0 skip_fusion: true"
    text_format.Parse(text, oracle)
    layer = read(entry(text), flavour).layers["conv1"]
    assert (layer.scale_d, layer.offset_d, list(layer.scale_w)) == (
        oracle.scale_d,
        oracle.offset_d,
        list(oracle.scale_w),
    )
    foreign = next(name for name in TYPES if name not in NUMBERS[flavour] and TYPES[name] == "string")
    with pytest.raises(CompileError, match=f"has no field 'record.value.{foreign}'"):
        read(entry(f'{foreign}: "INT8"'), flavour)
    record = Record({"a": LayerRecord(scale_d=0.5, offset_d=1, **dict[str, Any]({foreign: "INT8"}))})
    own = f"# amct-opt's own, not of AMCT's record for {flavour}"
    lines = [line.strip() for line in record_text(record, flavour).splitlines()]
    assert [lines[i - 1] == own for i, line in enumerate(lines) if ": " in line] == [False, False, False, True]
    assert read(record_text(record, flavour)) == record


@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8"), min_size=1),
        st.lists(st.floats(width=32, min_value=0, exclude_min=True, allow_infinity=False), min_size=1, max_size=4),
        max_size=3,
    )
)
def test_every_float32_survives(tmp_path_factory, layers: dict[str, list[float]]) -> None:
    record = Record(
        {
            name: LayerRecord(scales[0], -128, scale_w=tuple(scales), offset_w=(0,) * len(scales))
            for name, scales in layers.items()
        }
    )
    path = tmp_path_factory.mktemp("record") / "record.txt"
    path.write_text(record_text(record), "utf-8", newline="")
    again = read_record(path)
    assert again == record
    for name, scales in layers.items():
        assert struct.pack("<4f", *(again.layers[name].scale_w * 4)[:4]) == struct.pack("<4f", *(scales * 4)[:4])


def test_merging() -> None:
    activations = Record({"a": LayerRecord(0.5, 1), "b": LayerRecord(0.25, 0)})
    weights = Record({"a": LayerRecord(scale_w=(1,), offset_w=(0,)), "c": LayerRecord(skip_fusion=True)})
    both = merged(activations, weights)
    assert both.layers == {
        "a": LayerRecord(0.5, 1, (1,), (0,)),
        "b": LayerRecord(0.25, 0),
        "c": LayerRecord(skip_fusion=True),
    }
    assert merged(both, activations) == both
    with pytest.raises(CompileError, match="layer 'a': scale_d differs") as error:
        merged(both, Record({"a": LayerRecord(0.25, 1)}, "second.txt"))
    assert error.value.where == "second.txt"


def test_merging_what_does_not_belong_together() -> None:
    tensor = Record({"a": LayerRecord(0.5, 1, is_tensor_quantize=True)})
    with pytest.raises(CompileError, match="layer 'a': is_tensor_quantize is for inputs"):
        merged(Record({"a": LayerRecord(scale_w=(1,), offset_w=(0,))}), tensor)
