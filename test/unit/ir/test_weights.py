"""Arrays next to the text: the safetensors file, references to it, and what is said when it is not as it should be."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import safetensors.numpy
from xdsl.dialects.builtin import ModuleOp

from amct_opt import frontends
from amct_opt.dialects import nn
from amct_opt.ir.text import module_text, parse_module, write_module, write_side_file
from amct_opt.ir.verification import verify
from amct_opt.ir.weights import (
    Weight,
    WeightError,
    open_side_file,
    separate_key,
    set_aside,
    side_file_of,
)
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError

ARRAYS = {
    "conv1.weight": np.arange(12, dtype=np.float32).reshape(3, 4),
    "bytes": np.array([1, 2, 3], np.int8),
    "flag": np.array([True, False, True]),
    "half": np.array([1.5, -2.5], np.float16),
    "brain": np.array([1.5], ml_dtypes.bfloat16),
    "scalar": np.array(7, np.int64),
    "empty": np.zeros((0, 3), np.float32),
    "层/ü": np.array([1], np.uint8),
}


def read(path: Path) -> ModuleOp:
    module = frontends.read(path, new_session())
    verify(module)
    return module


def constants(module: ModuleOp) -> list[nn.ConstantOp]:
    return [op for op in module.walk() if isinstance(op, nn.ConstantOp)]


def test_safetensors_reads_what_is_written(tmp_path: Path) -> None:
    write_side_file(tmp_path / "a.safetensors", ARRAYS)
    loaded = safetensors.numpy.load_file(tmp_path / "a.safetensors")
    assert set(loaded) == set(ARRAYS)
    for key, array in ARRAYS.items():
        assert loaded[key].shape == array.shape, key
        assert loaded[key].tobytes() == array.tobytes(), key


def test_what_safetensors_writes_is_read(tmp_path: Path) -> None:
    safetensors.numpy.save_file(ARRAYS, tmp_path / "a.safetensors", metadata={"format": "pt"})
    side = open_side_file(tmp_path / "a.safetensors")
    assert sorted(side.keys()) == sorted(ARRAYS)
    for key, array in ARRAYS.items():
        assert side.array(key).dtype == array.dtype, key
        assert side.array(key).shape == array.shape, key
        assert side.array(key).tobytes() == array.tobytes(), key


@pytest.mark.parametrize(("dtype", "numbers"), [(ml_dtypes.int4, [-8, 7, 0]), (ml_dtypes.int2, [-2, 1, 0])])
def test_small_integers_take_a_byte_each(dtype: type, numbers: list[int], tmp_path: Path) -> None:
    write_side_file(tmp_path / "a.safetensors", {"q": np.array(numbers, dtype)})
    side = open_side_file(tmp_path / "a.safetensors").array("q")
    assert (side.nbytes, side.astype(np.int8).tolist()) == (3, numbers)


def test_arrays_are_mapped_aligned_and_read_only(tmp_path: Path) -> None:
    write_side_file(tmp_path / "a.safetensors", ARRAYS)
    side = open_side_file(tmp_path / "a.safetensors")
    for key in ARRAYS:
        array = side.array(key)
        assert array.flags.aligned, key
        assert not array.flags.writeable or array.size == 0 or array.dtype == bool, key
    assert Weight("conv1.weight", array=side.array("conv1.weight")).file == tmp_path / "a.safetensors"


def test_booleans_are_0_or_1_in_memory(tmp_path: Path) -> None:
    """Whatever byte says true: numpy computes nonsense with a boolean of 255."""
    (tmp_path / "a.safetensors").write_bytes(
        header({"b": entry(dtype="BOOL", shape=[2], data_offsets=[0, 2])}, b"\x00\xff")
    )
    assert open_side_file(tmp_path / "a.safetensors").array("b").tobytes() == b"\x00\x01"
    module = parse_module(
        new_session(), '%a = nn.constant dense<true> : tensor<1xi1>\n%b = nn.constant dense<"0xFF"> : tensor<1xi1>'
    )
    assert [c.array.tobytes() for c in constants(module)] == [b"\x01", b"\x01"]
    inline = parse_module(new_session(), '%a = nn.constant #nn.external<"a", tensor<1xi1>, "0xFF">')
    assert constants(inline)[0].array.tobytes() == b"\x01"


def test_foreign_byte_order_is_refused() -> None:
    with pytest.raises(ValueError, match="no element type"):
        nn.ConstantOp.of(np.zeros(3, ">f4"), "big")


def header(entries: object, data: bytes = b"") -> bytes:
    text = json.dumps(entries).encode()
    return len(text).to_bytes(8, "little") + text + data


def entry(**changed: object) -> dict[str, object]:
    return {"dtype": "F32", "shape": [2], "data_offsets": [0, 8], **changed}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "truncated, or not a safetensors file"),
        (b"\x00\x01\x02", "truncated, or not a safetensors file"),
        ((1 << 60).to_bytes(8, "little") + b"{}", "truncated, or not a safetensors file"),
        ((3).to_bytes(8, "little") + b"{]}", "not a safetensors file"),
        ((1).to_bytes(8, "little") + b"\xff", "not a safetensors file"),
        ((40000).to_bytes(8, "little") + b"[" * 40000, "not a safetensors file"),
        (header([]), "the safetensors header is not a JSON object"),
        (header({"w": 3}), "array 'w' has a malformed header entry or an unknown type"),
        (header({"w": entry(dtype="F7")}, bytes(8)), "array 'w' has a malformed header entry or an unknown type"),
        (header({"w": entry(shape=[1.5])}, bytes(8)), "array 'w' has a malformed header entry or an unknown type"),
        (header({"w": entry(shape=[-2])}, bytes(8)), "array 'w' has a malformed header entry or an unknown type"),
        (header({"w": entry(shape="2")}, bytes(8)), "array 'w' has a malformed header entry or an unknown type"),
        (header({"w": entry(data_offsets=[0])}, bytes(8)), "array 'w' has a malformed header entry or an unknown type"),
        (header({"w": entry(data_offsets=[0, 7])}, bytes(8)), "array 'w' does not fit into the file"),
        (header({"w": entry(data_offsets=[8, 0])}, bytes(8)), "array 'w' does not fit into the file"),
        (header({"w": entry()}, bytes(7)), "array 'w' does not fit into the file"),
        (header({"w": entry(shape=[2**40, 2**40])}, bytes(8)), "array 'w' does not fit into the file"),
        (header({"w": entry(shape=[0, 2**63], data_offsets=[0, 0])}), "array 'w' does not fit into the file"),
    ],
)
def test_malformed_files_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    with pytest.raises(WeightError, match=message) as e:
        open_side_file(path)
    assert str(path) in str(e.value)


MODULE = """\
func.func @main() -> tensor<3x4xf32> {
  %w = nn.constant #nn.external<"KEY", tensor<3x4xf32>>
  func.return %w : tensor<3x4xf32>
}
"""


@pytest.fixture
def net(tmp_path: Path) -> Callable[..., Path]:
    """Writes a module that refers to `key`, with a side file next to it."""
    write_side_file(tmp_path / "net.safetensors", ARRAYS)

    def write(key: str) -> Path:
        (tmp_path / "net.mlir").write_text(MODULE.replace("KEY", key))
        return tmp_path / "net.mlir"

    return write


def test_a_key_is_looked_up_beside_the_module(net: Callable[..., Path], tmp_path: Path) -> None:
    (constant,) = constants(read(net("conv1.weight")))
    assert np.array_equal(constant.array, ARRAYS["conv1.weight"])

    shutil.copy(tmp_path / "net.safetensors", tmp_path / "other.safetensors")
    (constant,) = constants(read(net("other.safetensors#conv1.weight")))
    assert np.array_equal(constant.array, ARRAYS["conv1.weight"])
    assert isinstance(constant.value, nn.ExternalAttr)
    assert constant.value.data.weight.path == tmp_path / "other.safetensors"


@pytest.mark.parametrize(
    ("key", "message"),
    [
        ("no-such", "net.safetensors: no array 'no-such'"),
        ("gone.safetensors#conv1.weight", "gone.safetensors: no such file"),
        ("bytes", r"array 'bytes' is int8\[3\], the module says tensor<3x4xf32>"),
        ("net.safetensors#bytes", r"array 'bytes' is int8\[3\], the module says tensor<3x4xf32>"),
    ],
)
def test_a_wrong_reference_is_an_error_at_the_constant(
    net: Callable[..., Path], tmp_path: Path, key: str, message: str
) -> None:
    """Said when the array is wanted: by whoever computes with it, and by whoever writes the module anew."""
    path = net(key)
    module = read(path)
    place = rf"{path}:2:3: error: 'nn.constant' op .*{message}"
    with pytest.raises(CompileError, match=place):
        _ = constants(module)[0].array
    with pytest.raises(CompileError, match=place):
        write_module(module, tmp_path / "out.mlir")
    assert not (tmp_path / "out.mlir").exists()


@pytest.mark.parametrize("key", ["../up.safetensors#k", "/etc/up.safetensors#k", "sub/up.safetensors#k"])
def test_arrays_of_other_folders_are_refused(net: Callable[..., Path], key: str) -> None:
    with pytest.raises(CompileError, match=r"net.mlir:2:\d+: error: .*only from the module's own folder"):
        read(net(key))


def test_a_damaged_file_is_an_error_at_the_constant(net: Callable[..., Path], tmp_path: Path) -> None:
    path = net("conv1.weight")
    (tmp_path / "net.safetensors").write_bytes(b"not one")
    with pytest.raises(CompileError, match=r"net.mlir:2:3: error: 'nn.constant' op .*net.safetensors: truncated"):
        _ = constants(read(path))[0].array


def module_of(**arrays: np.ndarray) -> ModuleOp:
    return ModuleOp([nn.ConstantOp.of(array, key) for key, array in arrays.items()])


def test_only_live_arrays_are_written(net: Callable[..., Path], tmp_path: Path) -> None:
    written = write_module(read(net("conv1.weight")), tmp_path / "out.mlir")
    assert written == [tmp_path / "out.mlir", tmp_path / "out.safetensors"]
    assert open_side_file(tmp_path / "out.safetensors").keys() == ["conv1.weight"]
    (constant,) = constants(read(tmp_path / "out.mlir"))
    assert np.array_equal(constant.array, ARRAYS["conv1.weight"])
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.mlir", "net.safetensors", "out.mlir", "out.safetensors"]


def test_a_module_without_arrays_has_no_file(tmp_path: Path) -> None:
    assert write_module(module_of(a=np.zeros(3)), tmp_path / "out.mlir") == [tmp_path / "out.mlir"]
    assert [p.name for p in tmp_path.iterdir()] == ["out.mlir"]


def test_different_arrays_of_one_key_are_kept_apart(tmp_path: Path) -> None:
    """One array used twice is stored once."""
    a, b = np.zeros(99, np.float32), np.ones(99, np.float32)
    weight = nn.ConstantOp.of(a, "w")
    module = ModuleOp([weight, weight.clone(), nn.ConstantOp.of(b, "w"), nn.ConstantOp.of(b.copy(), "w.1")])
    write_module(module, tmp_path / "out.mlir")
    assert open_side_file(tmp_path / "out.safetensors").keys() == ["w", "w.1", "w.1.1"]
    arrays = [c.array for c in constants(read(tmp_path / "out.mlir"))]
    assert [float(x[0]) for x in arrays] == [0, 0, 1, 1]


@pytest.mark.parametrize("key", ["__metadata__", "a.safetensors#b", "", '层/"w"\\\n', "a#b", "w.safetensors"])
def test_any_key_survives(tmp_path: Path, key: str) -> None:
    """Those that the format or a reference would take for something else are stored under another name."""
    array = np.arange(100, dtype=np.float32)
    write_module(ModuleOp([nn.ConstantOp.of(array, key)]), tmp_path / "out.mlir")
    (constant,) = constants(read(tmp_path / "out.mlir"))
    assert np.array_equal(constant.array, array)
    assert constant.key == key or key in ("__metadata__", "a.safetensors#b")


def test_scales_beside_the_text(tmp_path: Path) -> None:
    from xdsl.dialects.builtin import TensorType, f32, i8

    weight = nn.ConstantOp.of(np.zeros((20, 5), np.int8), "w")
    scales = np.linspace(0.1, 1, 20).astype(np.float32)
    qparams = nn.QParamsAttr.of(i8, scales, axis=0, key="w.scale")
    op = nn.DequantizeOp.make(weight.result, qparams=qparams, result_types=[TensorType(f32, (20, 5))])
    module = ModuleOp([weight, op])
    assert [w.key for w in nn.weights_of(module)] == ["w", "w.scale"]
    write_module(module, tmp_path / "out.mlir")
    again = [o for o in read(tmp_path / "out.mlir").walk() if isinstance(o, nn.DequantizeOp)]
    assert np.array_equal(again[0].qparams.data.scales(), scales)
    assert np.array_equal(safetensors.numpy.load_file(tmp_path / "out.safetensors")["w.scale"], scales)

    # inline, where there is no file: the text is complete
    inline = parse_module(new_session(), module_text(module))
    again = [o for o in inline.walk() if isinstance(o, nn.DequantizeOp)]
    assert np.array_equal(again[0].qparams.data.scales(), scales)


def test_text_names_the_file_of_arrays_that_have_one(net: Callable[..., Path]) -> None:
    text = module_text(read(net("conv1.weight")))
    assert '#nn.external<"net.safetensors#conv1.weight", tensor<3x4xf32>>' in text


def test_equality_is_same_file_and_key_or_same_array() -> None:
    array = np.zeros(3)
    assert Weight("a", array=array) == Weight("b", array=array)
    assert Weight("a", array=array) != Weight("a", array=array.copy())
    assert Weight("a", path=Path("f")) == Weight("a", path=Path("f"))
    assert Weight("a", path=Path("f")) != Weight("b", path=Path("f"))
    assert len({Weight("a", path=Path("f")), Weight("a", path=Path("f")), Weight("a", array=array)}) == 2


def test_the_module_file_names_its_side_file() -> None:
    assert side_file_of("dir/net.mlir") == Path("dir/net.safetensors")
    assert side_file_of("dir/net.v2") == Path("dir/net.v2.safetensors")
    assert side_file_of("net.safetensors") == Path("net.safetensors.safetensors")
    assert separate_key("a.safetensors#b#c") == ("a.safetensors", "b#c")
    assert separate_key("a#b") == ("", "a#b")


def test_a_device_takes_the_whole_text(tmp_path: Path) -> None:
    """The text contains the arrays, too: there is no file next to it."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    assert write_module(module_of(w=np.zeros(100, np.float32)), pipe) == [pipe]
    text = os.read(reader, 1 << 16).decode()
    os.close(reader)
    assert '"0x' + "0" * 800 in text
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]


def test_arrays_set_aside_are_the_same_numbers_in_a_file(tmp_path: Path) -> None:
    """Also when the file is gone; what is small, or in a file already, stays where it is."""
    numbers, few = np.arange(1 << 19, dtype=np.float32).reshape(512, -1), np.ones(3, np.float32)
    once, again, small = Weight("a", array=numbers), Weight("b", array=numbers), Weight("c", array=few)
    set_aside([once, again, small], tmp_path / "aside")
    (tmp_path / "aside").unlink()
    assert once == again
    assert once.in_memory_only
    assert once.file is not None
    assert small.array is few
    moved = once.array
    set_aside([once, again, small], tmp_path / "aside")
    assert once.array is moved
    np.testing.assert_array_equal(moved, numbers)
    once.release()
    np.testing.assert_array_equal(moved, numbers)


def pair(folder: Path, value: float) -> Path:
    """A module text with two arrays next to it."""
    folder.mkdir()
    arrays = {"a": np.full(100, value, np.float32), "b": np.arange(100, dtype=np.float32)}
    module = ModuleOp([nn.ConstantOp.of(array, key) for key, array in arrays.items()])
    write_module(module, folder / "net.mlir")
    return folder / "net.mlir"


def flip(path: Path) -> None:
    """Change the last bit of a file."""
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def without_hash(path: Path) -> None:
    text = re.sub(r" attributes {nn.arrays = .*?}", "", path.read_text())
    assert "nn.arrays" not in text
    path.write_text(text)


def test_a_text_is_read_only_with_the_arrays_that_it_was_written_with(tmp_path: Path) -> None:
    """Those of another run, changed ones and a file that another library wrote; without a hash, any."""
    path, other = pair(tmp_path / "a", 1), pair(tmp_path / "b", 2)
    assert [op.array[0] for op in constants(read(path))] == [1, 0]
    side, message = path.with_suffix(".safetensors"), r"a/net.safetensors: error: does not belong to .*a/net.mlir: its"
    arrays = safetensors.numpy.load_file(side)
    shutil.copyfile(other.with_suffix(".safetensors"), side)
    with pytest.raises(CompileError, match=message):
        read(path)
    safetensors.numpy.save_file(arrays, side)
    with pytest.raises(CompileError, match=message):
        read(path)
    without_hash(path)
    assert [op.array[0] for op in constants(read(path))] == [1, 0]


def test_a_changed_array_is_an_error_when_it_is_used(tmp_path: Path) -> None:
    path = pair(tmp_path / "a", 1)
    flip(path.with_suffix(".safetensors"))
    one, other = constants(read(path))
    assert one.array[0] == 1
    with pytest.raises(CompileError, match=r"net.mlir:3:3: error: .* is corrupted: checksum mismatch of array 'b'"):
        _ = other.array


def test_a_module_that_was_read_keeps_its_arrays(tmp_path: Path) -> None:
    """Although another run replaces the files before they are used; the hash is in the text only."""
    path = pair(tmp_path / "a", 1)
    module = read(path)
    pair(tmp_path / "b", 2).with_suffix(".safetensors").replace(path.with_suffix(".safetensors"))
    assert constants(module)[0].array[0] == 1
    assert module_text(module).startswith("builtin.module {")


@pytest.mark.parametrize("hash", ['"md5:0"', "3"])
def test_a_malformed_hash(hash: str, tmp_path: Path) -> None:
    path = pair(tmp_path / "a", 1)
    path.write_text(re.sub(r"nn.arrays = [^}]*", f"nn.arrays = {hash}", path.read_text()))
    with pytest.raises(CompileError, match=r"net.mlir: error: nn.arrays must be a text that begins with sha256:"):
        read(path)
