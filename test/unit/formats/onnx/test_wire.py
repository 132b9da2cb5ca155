"""Taking weights out of the encoding, before protobuf sees it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, helper

from amct_opt.dialects import nn
from amct_opt.formats.onnx.file import without_weights
from amct_opt.formats.wire import LARGE, MalformedError
from amct_opt.frontends.onnx import read
from amct_opt.session.universe import new_session

Build = Callable[..., ModelProto]


def model_with(build: Build, weights: dict[str, np.ndarray]) -> ModelProto:
    nodes = [helper.make_node("Concat", [*weights], ["y"], "join", axis=0)]
    return build(nodes, [], ["y"], weights, producer_name="somebody")


def test_only_the_large_ones_leave(build: Build) -> None:
    large, small = np.arange(LARGE, dtype=np.float32), np.arange(4, dtype=np.float32)
    data = model_with(build, {"a": large, "b": small, "c": large + 1}).SerializeToString()
    stripped, places = without_weights(memoryview(data))
    assert len(stripped) < 1000
    assert {n: data[b:e] for n, (b, e) in places.items()} == {"a": large.tobytes(), "c": (large + 1).tobytes()}
    rest = ModelProto.FromString(stripped)
    full = ModelProto.FromString(data)
    for tensor in full.graph.initializer:
        if tensor.name in places:
            tensor.ClearField("raw_data")
    assert rest == full


def test_unusual_encodings(build: Build) -> None:
    """A message may come in parts, which protobuf joins, and a number in more bytes than it needs."""
    large = np.arange(LARGE, dtype=np.float32)
    whole = model_with(build, {"a": large})
    graph = whole.graph.SerializeToString()
    head = ModelProto(ir_version=8, opset_import=whole.opset_import).SerializeToString()
    length = bytes([len(graph) & 0x7F | 0x80, len(graph) >> 7 & 0x7F | 0x80, len(graph) >> 14 & 0x7F | 0x80, 0x80, 0])
    data = b"\x3a\x00" + head + b"\x3a" + length + graph
    stripped, places = without_weights(memoryview(data))
    assert list(places) == ["a"]
    assert [n.name for n in ModelProto.FromString(stripped).graph.node] == ["join"]


@pytest.mark.parametrize(
    "data",
    [
        b"\x08",
        b"\x3a\x05\x00",
        b"\x0b",
        b"\x80" * 11,
        b"\x00\x00",
        b"\x09\x00",
        b"\x3a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    ],
    ids=["no value", "short", "group", "long number", "field 0", "short fixed", "huge length"],
)
def test_malformed(data: bytes) -> None:
    with pytest.raises(MalformedError):
        without_weights(memoryview(data))


def test_weights_are_views_of_the_file(build: Build, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    values = np.arange(LARGE, dtype=np.float32)
    model = build([helper.make_node("Identity", ["w"], ["y"])], [], ["y"], {"w": values})
    path.write_bytes(model.SerializeToString())
    constant = next(op for op in read(path, new_session()).walk() if isinstance(op, nn.ConstantOp))
    array = constant.array
    np.testing.assert_array_equal(array, values)
    assert not array.flags.owndata
    assert not array.flags.writeable
    base = array
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base if not isinstance(base.base, memoryview) else base.base.obj
    assert isinstance(base, np.memmap)
