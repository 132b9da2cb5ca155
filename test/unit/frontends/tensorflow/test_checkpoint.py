"""Checkpoints that TensorFlow writes, read without it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from unit.flows.hostile_files import with_checksums

from amct_opt.formats.tensorflow.checkpoint import Checkpoint, parse_part
from amct_opt.formats.tensorflow.leveldb import places
from amct_opt.formats.tensorflow.tensors import Array
from amct_opt.formats.wire import read_varint
from amct_opt.ir.dtypes import ELEMENT_TYPES, as_stored, dtype_named, is_narrow_float
from amct_opt.support.diagnostics import CompileError

from ...frameworks import tf

WHOLE = ""


def save(prefix: Path, tensors: Mapping[tuple[bytes, str], Any]) -> Path:
    """Saves tensors by key and part."""
    keys, parts = zip(*tensors, strict=True)
    tf.raw_ops.SaveV2(prefix=str(prefix), tensor_names=keys, shape_and_slices=parts, tensors=list(tensors.values()))
    return prefix


def read(prefix: Path, key: bytes, part: str = WHOLE) -> Array:
    return Checkpoint(prefix).read(key, parse_part(part.encode()), "here")


def restored(prefix: Path, key: bytes, part: str, dtype: Any) -> Array:
    """What TensorFlow reads."""
    (found,) = tf.raw_ops.RestoreV2(prefix=str(prefix), tensor_names=[key], shape_and_slices=[part], dtypes=[dtype])
    return found.numpy()


def some(*shape: int) -> Array:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


DTYPES = [dtype_named(row.numpy) for row in ELEMENT_TYPES if not is_narrow_float(row.mlir)]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_element_types(dtype: np.dtype[Any], tmp_path: Path) -> None:
    array = np.array([[0, 1], [1, 3], [7, 0]]).astype(dtype)
    prefix = save(tmp_path / "c", {(b"a", WHOLE): array, (b"none", WHOLE): array[:0], (b"one", WHOLE): array[1, 1]})
    for key, expected in ((b"a", array), (b"none", array[:0]), (b"one", array[1, 1])):
        actual = read(prefix, key)
        assert (actual.dtype, actual.shape) == (dtype, expected.shape)
        assert as_stored(actual).tobytes() == as_stored(expected).tobytes()


def test_arrays_are_views_of_the_file(tmp_path: Path, is_mapped: Callable[[Array], bool]) -> None:
    array = read(save(tmp_path / "c", {(b"a", WHOLE): some(4, 5)}), b"a")
    assert is_mapped(array)
    assert not array.flags.writeable


def test_many_keys(tmp_path: Path) -> None:
    """More than a block of the table holds; among them keys of odd bytes, and strings, which are not read."""
    names = [f"layer_{i // 7}/part/{i:05d}".encode() for i in range(9000)] + [b"\xff\x00\xfe", b"\x01"]
    prefix = save(
        tmp_path / "c",
        {(name, WHOLE): np.int32(i) for i, name in enumerate(names)} | {(b"text", WHOLE): np.array([b"abc"])},
    )
    assert Path(f"{prefix}.index").stat().st_size > 1 << 17
    checkpoint = Checkpoint(prefix)
    assert [int(checkpoint.read(name, (), "")) for name in names] == list(range(len(names)))


def test_several_files(tmp_path: Path) -> None:
    parts = {b"a": some(3), b"b": some(2, 2), b"c": some(1)}
    prefixes = [save(tmp_path / f"part{k.decode()}", {(k, WHOLE): array}) for k, array in parts.items()]
    prefix = tmp_path / "merged"
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=list(map(str, prefixes)), destination_prefix=str(prefix))
    assert len(list(tmp_path.glob("merged.data-*-of-00003"))) == 3
    for key, array in parts.items():
        np.testing.assert_array_equal(read(prefix, key), array)
    Path(f"{prefix}.data-00001-of-00003").unlink()
    np.testing.assert_array_equal(read(prefix, b"a"), parts[b"a"])
    with pytest.raises(CompileError, match=r"^here: error: the file that holds it is missing: .*data-00001-of-00003$"):
        read(prefix, b"b")


@pytest.mark.parametrize(("rows", "cut"), [(9, 4), (300, 63), (300, 64), (300, 200), (20000, 8191), (20000, 8192)])
def test_parts(rows: int, cut: int, tmp_path: Path) -> None:
    """A tensor saved in two parts, read whole, as saved, and cut otherwise."""
    array, key = some(rows, 3), b"\x00odd\xffname"
    parts = [f"{rows} 3 0,{cut}:-", f"{rows} 3 {cut},{rows - cut}:-"]
    prefix = save(tmp_path / "c", {(key, parts[0]): array[:cut], (key, parts[1]): array[cut:]})
    for part in (WHOLE, *parts, f"{rows} 3 1,{rows - 2}:0,2", f"{rows} 3 -:1,1"):
        np.testing.assert_array_equal(read(prefix, key, part), restored(prefix, key, part, np.float32))


def test_part_of_a_whole(tmp_path: Path) -> None:
    array = some(6, 4)
    prefix = save(tmp_path / "c", {(b"a", WHOLE): array})
    np.testing.assert_array_equal(read(prefix, b"a", "6 4 2,3:-"), array[2:5])


@pytest.mark.parametrize("text", ["6 4 x", "6 4 1", "6 4 1,2,3:-", "6 4 -1,2:-", "\xff"])
def test_no_part(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        parse_part(text.encode("latin-1"))


# What cannot be read


def error_of(read: Callable[[], Any]) -> str:
    with pytest.raises(CompileError) as caught:
        read()
    return str(caught.value)


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    return save(tmp_path / "c", {(b"layer/a", WHOLE): some(4, 5), (b"layer/b", WHOLE): some(7)})


def change(path: Path, change: Callable[[bytes], bytes]) -> None:
    path.write_bytes(change(path.read_bytes()))


def test_missing_index(tmp_path: Path) -> None:
    assert error_of(lambda: Checkpoint(tmp_path / "c")) == (
        f"{tmp_path}/c.index: error: cannot be read: No such file or directory"
    )


def test_missing_key(prefix: Path) -> None:
    assert error_of(lambda: read(prefix, b"layer/c")).startswith("here: error: its value 'layer/c' is not saved")


def test_truncated_data(prefix: Path) -> None:
    change(Path(f"{prefix}.data-00000-of-00001"), lambda data: data[:-1])
    error = error_of(lambda: read(prefix, b"layer/b"))
    assert error.startswith("here: error: needs bytes 80 to 108 of c.data-00000-of-00001, which has 107")
    assert "truncated" in error


def test_damaged_data(prefix: Path) -> None:
    """What fits its description is read, what does not fit its checksum is not: TensorFlow does the same."""
    change(Path(f"{prefix}.data-00000-of-00001"), lambda data: data[:-1] + bytes([data[-1] ^ 1]))
    assert read(prefix, b"layer/a").shape == (4, 5)
    error = error_of(lambda: read(prefix, b"layer/b"))
    assert error == "here: error: its value in c.data-00000-of-00001 is corrupted: checksum mismatch"
    with pytest.raises(tf.errors.DataLossError):
        restored(prefix, b"layer/b", WHOLE, np.float32)


def test_damaged_index(prefix: Path) -> None:
    change(Path(f"{prefix}.index"), lambda data: data.replace(b"layer", b"layes"))
    message = "is not a checkpoint index: the block at byte 0 is corrupted: checksum mismatch"
    assert error_of(lambda: Checkpoint(prefix)) == f"{prefix}.index: error: {message}"


def test_part_outside(prefix: Path) -> None:
    error = error_of(lambda: read(prefix, b"layer/a", "4 5 2,3:-"))
    assert error == "here: error: a part of it, [(2, 3), (0, -1)], is not within its shape [4, 5]"


def test_missing_part(tmp_path: Path) -> None:
    prefix = save(tmp_path / "c", {(b"a", "9 3 0,4:-"): some(4, 3)})
    assert error_of(lambda: read(prefix, b"a")) == ("here: error: the parts that are saved do not make up the whole")


def test_not_an_index(tmp_path: Path) -> None:
    Path(tmp_path / "c.index").write_bytes(b"x" * 100)
    assert "is not a checkpoint index: the magic number is missing at the end" in error_of(
        lambda: Checkpoint(tmp_path / "c")
    )


HEADER = bytes.fromhex("0801" + "1a020801")
"""One data file, version with producer 1."""


@pytest.mark.parametrize(
    ("header", "message"),
    [("0801" + "1001" + "3a00", "holds numbers in big-endian order"), ("0801" + "1a021002", "is of a newer format, 2")],
    ids=["big-endian", "newer"],
)
def test_other_kinds(header: str, message: str, prefix: Path) -> None:
    def other(data: bytes) -> bytes:
        return with_checksums(data.replace(HEADER, bytes.fromhex(header)), list(places(memoryview(data))))

    change(Path(f"{prefix}.index"), other)
    assert f"c.index: error: {message}" in error_of(lambda: Checkpoint(prefix))


def test_compressed(prefix: Path) -> None:
    def compressed(data: bytes) -> bytes:
        """The byte after the block with the places of all others says how it is compressed."""
        view, at = memoryview(data), len(data) - 48
        numbers = []
        for _ in range(4):
            number, at = read_varint(view, at, len(data))
            numbers.append(number)
        end = numbers[2] + numbers[3]
        return data[:end] + b"\x01" + data[end + 1 :]

    change(Path(f"{prefix}.index"), compressed)
    assert "a block is compressed (kind 1), which is not supported" in error_of(lambda: Checkpoint(prefix))


def test_damaged(tmp_path: Path) -> None:
    """Whatever happens to an index, it gives a located error, or tensors."""
    rows, array = 200, some(200, 2)
    names = [f"n{i}".encode() for i in range(5)]
    prefix = save(
        tmp_path / "c",
        {(b"a", f"{rows} 2 0,80:-"): array[:80], (b"a", f"{rows} 2 80,120:-"): array[80:]}
        | {(name, WHOLE): some(2) for name in names},
    )
    index = Path(f"{prefix}.index")
    data = index.read_bytes()
    rng = random.Random(0)
    damaged = [data[:n] for n in range(0, len(data), 3)]
    blocks = list(places(memoryview(data)))
    for _ in range(400):
        each = bytearray(data)
        for _ in range(rng.choice([1, 1, 1, 3])):
            each[rng.randrange(len(each))] = rng.randrange(256)
        damaged += [bytes(each), with_checksums(bytes(each), blocks)]
    errors: list[CompileError] = []
    for each in damaged:
        index.write_bytes(each)
        try:
            checkpoint = Checkpoint(prefix)
            for key in (b"a", *names):
                checkpoint.read(key, (), "here")
        except CompileError as e:
            errors.append(e)
    assert {e.where for e in errors} == {"here", str(index)}
    assert len({e.message.partition(" ")[0] for e in errors}) > 4
