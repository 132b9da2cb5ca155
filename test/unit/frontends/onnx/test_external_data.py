"""Weights in files next to the model: mapped, checked, and read from the model's own folder only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from onnx import ModelProto, StringStringEntryProto, TensorProto, helper

from amct_opt import frontends
from amct_opt.dialects import nn
from amct_opt.frontends.onnx import read
from amct_opt.runtime.executor import run
from amct_opt.session import ImportOptions
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError

WEIGHT = np.arange(200, dtype=np.float32).reshape(2, 100)
Write = Callable[..., Path]


@pytest.fixture
def write(build: Callable[..., ModelProto], tmp_path: Path) -> Write:
    """A model in its own folder that adds a weight kept in a file, with these entries of `external_data`."""

    def make(code: int = TensorProto.FLOAT, dims: tuple[int, ...] = (2, 100), **entries: object) -> Path:
        model = build([helper.make_node("Identity", ["w"], ["y"], "copy")], [], ["y"])
        tensor = TensorProto(name="w", data_type=code, dims=dims, data_location=TensorProto.EXTERNAL)
        tensor.external_data.extend(StringStringEntryProto(key=k, value=str(v)) for k, v in entries.items())
        model.graph.initializer.append(tensor)
        folder = tmp_path / "model"
        folder.mkdir(exist_ok=True)
        path = folder / "net.onnx"
        path.write_bytes(model.SerializeToString())
        return path

    return make


def weight_of(path: Path) -> np.ndarray:
    module = read(path, new_session())
    return next(op for op in module.walk() if isinstance(op, nn.ConstantOp)).array


def error_of(path: Path) -> str:
    with pytest.raises(CompileError) as caught:
        read(path, new_session())
    assert caught.value.where == f"{path}: initializer 'w'"
    return caught.value.message


def test_mapped_at_offset(write: Write) -> None:
    path = write(location="weights.bin", offset=3, length=WEIGHT.nbytes)
    path.with_name("weights.bin").write_bytes(b"abc" + WEIGHT.tobytes())
    array = weight_of(path)
    np.testing.assert_array_equal(array, WEIGHT)
    assert not array.flags.owndata
    assert not array.flags.writeable


@pytest.mark.parametrize("form", ["initializer", "constant", "output"])
def test_inner_graphs_are_carried_with_their_data(build: Callable[..., ModelProto], tmp_path: Path, form: str) -> None:
    tensor = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=(3,), data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="w.data")
    output = "w" if form == "output" else "z"
    nodes = [] if form == "output" else [helper.make_node("Add", ["x", "w"], ["z"])]
    held = [] if form == "constant" else [tensor]
    if form == "constant":
        nodes.insert(0, helper.make_node("Constant", [], ["w"], value=tensor))
    inside = helper.make_graph(nodes, "then", [], [helper.make_tensor_value_info(output, 1, [3])], held)
    negated = [helper.make_node("Neg", ["x"], ["n"])]
    other = helper.make_graph(negated, "else", [], [helper.make_tensor_value_info("n", 1, [3])])
    choice = helper.make_node("If", ["c"], ["y"], "choice", then_branch=inside, else_branch=other)
    inputs = [helper.make_tensor_value_info("c", TensorProto.BOOL, []), helper.make_tensor_value_info("x", 1, [3])]
    path = tmp_path / "net.onnx"
    path.write_bytes(build([choice], inputs, ["y"]).SerializeToString())
    weight = np.arange(3, dtype=np.float32)
    (tmp_path / "w.data").write_bytes(weight.tobytes())
    module = read(path, new_session())
    assert path.with_name("w.data") in frontends.files_of(path, ImportOptions())
    (tmp_path / "w.data").unlink()
    x = np.ones(3, np.float32)
    (y,) = run(module, {"c": np.array(True), "x": x}).values()
    np.testing.assert_array_equal(y, weight if form == "output" else x + weight)


def test_offset_and_length_are_optional(write: Write) -> None:
    path = write(location="weights.bin")
    path.with_name("weights.bin").write_bytes(WEIGHT.tobytes() + b"more")
    np.testing.assert_array_equal(weight_of(path), WEIGHT)


def test_file_in_a_folder_below(write: Write) -> None:
    path = write(location="parts/weights.bin")
    (path.parent / "parts").mkdir()
    (path.parent / "parts" / "weights.bin").write_bytes(WEIGHT.tobytes())
    np.testing.assert_array_equal(weight_of(path), WEIGHT)


def test_relative_model_path(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(location="weights.bin")
    path.with_name("weights.bin").write_bytes(WEIGHT.tobytes())
    monkeypatch.chdir(path.parent)
    np.testing.assert_array_equal(weight_of(Path("net.onnx")), WEIGHT)


def test_no_elements(write: Write) -> None:
    path = write(dims=(0, 4), location="weights.bin")
    path.with_name("weights.bin").write_bytes(b"")
    assert weight_of(path).shape == (0, 4)


def test_packed_integers(write: Write) -> None:
    """Two elements per byte, the first in the low half; the seventh of seven leaves half a byte."""
    path = write(TensorProto.INT4, (7,), location="weights.bin")
    path.with_name("weights.bin").write_bytes(bytes([0x81, 0xF7, 0x20, 0x05]))
    array = weight_of(path)
    assert array.dtype == ml_dtypes.int4
    np.testing.assert_array_equal(array.astype(int), [1, -8, 7, -1, 0, 2, 5])


@pytest.mark.parametrize(
    ("type_", "numbers"), [(TensorProto.INT2, [1, 0, -2, -1, 1, -2]), (TensorProto.UINT2, [1, 0, 2, 3, 1, 2])]
)
def test_four_integers_in_a_byte(type_: int, numbers: list[int], write: Write) -> None:
    path = write(type_, (6,), location="weights.bin")
    path.with_name("weights.bin").write_bytes(bytes([0b11100001, 0b1001]))
    np.testing.assert_array_equal(weight_of(path).astype(int), numbers)


@pytest.mark.parametrize(
    "location", ["/etc/hostname", "../outside.bin", "a/../../outside.bin", "", "..", "a\\..\\b", "a\0b"]
)
def test_outside_the_folder(write: Write, location: str) -> None:
    path = write(location=location)
    (path.parent.parent / "outside.bin").write_bytes(WEIGHT.tobytes())
    assert error_of(path) == f"external data at '{location}' is not read"


def test_link_out_of_the_folder(write: Write) -> None:
    path = write(location="weights.bin")
    outside = path.parent.parent / "outside.bin"
    outside.write_bytes(WEIGHT.tobytes())
    path.with_name("weights.bin").symlink_to(outside)
    assert error_of(path) == "external data at 'weights.bin' is a link that leaves the model's folder"


def test_linked_folder(write: Write) -> None:
    path = write(location="parts/weights.bin")
    outside = path.parent.parent / "outside"
    outside.mkdir()
    (outside / "weights.bin").write_bytes(WEIGHT.tobytes())
    (path.parent / "parts").symlink_to(outside)
    assert "is a link that leaves the model's folder" in error_of(path)


def test_link_inside_the_folder(write: Write) -> None:
    path = write(location="weights.bin")
    path.with_name("real.bin").write_bytes(WEIGHT.tobytes())
    path.with_name("weights.bin").symlink_to("real.bin")
    np.testing.assert_array_equal(weight_of(path), WEIGHT)


def test_missing_file(write: Write) -> None:
    path = write(location="weights.bin")
    assert error_of(path) == f"external data is missing: there is no file {path.parent}/weights.bin"


def test_directory(write: Write) -> None:
    path = write(location="weights.bin")
    path.with_name("weights.bin").mkdir()
    assert "external data is missing" in error_of(path)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"length": 40}, "is said to have 40 bytes of external data, but its shape needs 800"),
        ({"offset": 1}, "needs bytes 1 to 801 of weights.bin, which has 800"),
        ({"offset": 2**70}, f"needs bytes {2**70} to {2**70 + 800} of weights.bin, which has 800"),
        ({"offset": -4}, "the offset of its external data is '-4', not a number of bytes"),
        ({"offset": "4.0"}, "the offset of its external data is '4.0', not a number of bytes"),
        ({"length": "many"}, "the length of its external data is 'many', not a number of bytes"),
    ],
)
def test_offset_and_length(write: Write, entries: dict[str, object], message: str) -> None:
    path = write(location="weights.bin", **entries)
    path.with_name("weights.bin").write_bytes(WEIGHT.tobytes())
    assert error_of(path) == message


def test_huge_shape_is_not_allocated(write: Write) -> None:
    path = write(dims=(2**40, 2**20), location="weights.bin")
    path.with_name("weights.bin").write_bytes(WEIGHT.tobytes())
    assert error_of(path) == f"needs bytes 0 to {2**62} of weights.bin, which has 800"
