"""Damaged files of every format that is read, and how the tools end on each.

    python test/unit/flows/hostile_files.py FORMAT SEED COUNT FOLDER

runs the tools in this process on COUNT files and prints a line of JSON for each. `campaign` starts it, again from the next file
if it does not come through. A file that ends otherwise than by success or by one line is left in FOLDER.
"""

from __future__ import annotations

import copy
import importlib
import io
import json
import os
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SECONDS = 10
"""The processor time that one file may take."""
MEGABYTES = 1500
"""What the process may keep in memory."""
_ADDRESS_SPACE = 12 << 30
_INTERNAL_ERROR = 70
_LONGEST = 3600
"""Seconds until a process that waits for something is ended."""

Files = dict[str, bytes]
Mutate = Callable[[random.Random, bytes], bytes]


@dataclass(frozen=True)
class Format:
    """Files that are read together, which of them are damaged, and commands on them."""

    files: Sequence[str]
    damaged: Sequence[str]
    commands: Sequence[str]
    """The first is run on most files."""
    package: str = ""
    """What reads or writes the files, beyond what tests have: it takes seconds to load, or is not installed everywhere."""


FORMATS: Mapping[str, Format] = {
    "onnx": Format(
        ["a.onnx", "ext.onnx", "ext.onnx.data", "q.onnx", "deployed.onnx", "loop.onnx"],
        ["a.onnx", "ext.onnx", "q.onnx", "deployed.onnx", "loop.onnx"],
        ["amct-opt {} --fuse-all -o o/r.mlir", "amct-opt {} --fuse-all --quantize='engine=numpy' -o o/r.mlir"],
    ),
    "tensorflow": Format(
        ["a.pb", "ascend.pb", "call.pbtxt"],
        ["a.pb", "ascend.pb", "call.pbtxt"],
        ["amct-opt {} --fuse-all -o o/r.mlir", "amct-opt {} --fuse-all --quantize='engine=numpy' -o o/r.mlir"],
    ),
    "saved model": Format(
        ["sm/saved_model.pb", "sm/variables/variables.index", "sm/variables/variables.data-00000-of-00001"],
        ["sm/saved_model.pb", "sm/variables/variables.index", "sm/variables/variables.data-00000-of-00001"],
        ["amct-opt sm --fuse-all -o o/r.mlir", "amct-opt sm --fuse-all --quantize='engine=numpy' -o o/r.mlir"],
    ),
    "caffe": Format(
        ["b.prototxt", "b.caffemodel"],
        ["b.prototxt", "b.caffemodel"],
        [
            "amct-opt b.prototxt --weights b.caffemodel --fuse-all -o o/r.mlir",
            "amct-opt b.prototxt --weights b.caffemodel --fuse-all --quantize='engine=numpy' -t onnx -o o/r.onnx",
        ],
    ),
    "module text": Format(
        ["nn.mlir", "nn.safetensors", "q.mlir", "q.safetensors", "ascend.mlir", "ascend.safetensors"],
        ["nn.mlir", "q.mlir", "ascend.mlir"],
        [
            "amct-opt {} --fold-constants --canonicalize --fuse-all -o o/r.mlir",
            "amct-opt {} --fuse-all --quantize='engine=numpy'",
        ],
    ),
    "safetensors": Format(
        ["nn.mlir", "nn.safetensors", "q.mlir", "q.safetensors"],
        ["nn.safetensors", "q.safetensors"],
        ["amct-opt nn.mlir --fuse-all -o o/r.mlir", "amct-opt q.mlir -t onnx -o o/r.onnx"],
    ),
    "npz": Format(
        ["a.mlir", "a.safetensors", "a.npz", "ac.npz", "a.npy"],
        ["a.npz", "ac.npz", "a.npy"],
        ["amct run a.mlir --data {} -o o/y.npz"],
    ),
    "configuration": Format(
        ["a.onnx", "a.npz", "config.json", "simple.cfg", "s.yaml", "s.toml", "s.json", "tuned.yaml"],
        ["config.json", "simple.cfg", "s.yaml", "s.toml", "s.json", "tuned.yaml"],
        ["configuration"],
    ),
    "record": Format(
        ["a.mlir", "a.safetensors", "record.txt"],
        ["record.txt"],
        ["amct-opt a.mlir --fuse-all --insert-observers='record=record.txt' -o o/r.mlir"],
    ),
    "labels": Format(
        ["b.onnx", "b.npz", "labels.csv", "labels.npy"],
        ["labels.csv", "labels.npy"],
        ["amct evaluate b.onnx --data b.npz --labels {} --engine numpy"],
    ),
    "run": Format(
        ["run/summary.json", "run/layers.json", "run/remarks.yaml"],
        ["run/summary.json", "run/layers.json", "run/remarks.yaml"],
        ["amct report run"],
    ),
    "pytorch program": Format(["p.pt2"], ["p.pt2"], ["amct-opt p.pt2 -o o/r.mlir"], "torch"),
    "keras": Format(["k.keras", "k.h5"], ["k.keras", "k.h5"], ["amct-opt {} -o o/r.mlir"], "keras"),
    "zarr": Format(
        ["a.mlir", "a.safetensors", "d.zarr/zarr.json", "d.zarr/x/zarr.json", "d.zarr/x/c/0/0/0/0"],
        ["d.zarr/zarr.json", "d.zarr/x/zarr.json", "d.zarr/x/c/0/0/0/0"],
        ["amct-opt a.mlir --fuse-all --quantize='data=d.zarr engine=numpy' -o o/r.mlir"],
        "zarr",
    ),
    "parquet": Format(
        ["a.mlir", "a.safetensors", "d/x.parquet"],
        ["d/x.parquet"],
        ["amct-opt a.mlir --fuse-all --quantize='data=d engine=numpy' -o o/r.mlir"],
        "pyarrow",
    ),
}
"""`{}` is the damaged file."""


@dataclass
class Outcome:
    """How the tools ended on the files of one format."""

    count: int = 0
    accepted: int = 0
    """Ended with status 0: the damage was not one."""
    slowest: float = 0.0
    """Seconds."""
    failures: list[str] = field(default_factory=list[str])
    """Files that did not end by success or by one line: format, seed, number, and what happened."""


# Damage


_NUMBERS = ["0", "-1", "1", "2147483647", "2147483648", "4294967296", "4611686018427387904", "9223372036854775807",
            "-9223372036854775808", "18446744073709551616", "9" * 40, "9" * 5000, "1e400", "-1e-400", "nan", "inf", "0x7f",
            "0.5", "1000000007"]  # fmt: skip
_PIECES = ["", '"', "[", "{", "}", "]", "<", "(", "\\", "\n", "\0", "\x1b[31m", "\u202e", "'", ":", "#", "//", "x", "%0", "@",
           "!!", "&a", "*a", "~", "true", "null", "é", "tensor<", "dense<", "?",
           "[" * 500, "{" * 500, "(" * 200, "a" * 3000]  # fmt: skip
_TOKEN = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|[A-Za-z_][\w.]*|\s+|.", re.DOTALL)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


def damaged_text(rng: random.Random, data: bytes) -> bytes:
    """Text with one to four tokens or lines changed; bytes, at times."""
    if rng.random() < 0.2:
        return damaged_bytes(rng, data)
    text = data.decode()
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        text = rng.choice((_numbers, _numbers, _tokens, _tokens, _lines))(rng, text)
    return text.encode("utf-8", "surrogatepass")


def _numbers(rng: random.Random, text: str) -> str:
    if not (found := list(_NUMBER.finditer(text))):
        return text
    at = rng.choice(found)
    return text[: at.start()] + rng.choice(_NUMBERS) + text[at.end() :]


def _tokens(rng: random.Random, text: str) -> str:
    tokens = _TOKEN.findall(text)
    if not tokens:
        return text
    i = rng.randrange(len(tokens))
    words = [t for t in tokens if t.strip()] or [""]
    tokens[i] = rng.choice((rng.choice(_PIECES), rng.choice(words), tokens[i] * 2, tokens[i] + rng.choice(_PIECES)))
    return "".join(tokens)


def _lines(rng: random.Random, text: str) -> str:
    lines = text.split("\n")
    i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(4):
        case 0:
            del lines[i]
        case 1:
            lines.insert(j, lines[i])
        case 2:
            lines[i], lines[j] = lines[j], lines[i]
        case _:
            lines = lines[:i]
    return "\n".join(lines)


def damaged_json(rng: random.Random, data: bytes) -> bytes:
    """JSON with one to four values at any depth gone, nested, or replaced by others; other text, at times."""
    if rng.random() < 0.3:
        return damaged_text(rng, data)
    root: list[Any] = [json.loads(data)]
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        places = list(_places(root))
        holder, key = rng.choice(places)
        others = [None, True, *_INTEGERS, *_FLOATS, *_TEXTS, [], {}, *(rng.choice(places) for _ in range(9))]
        other = rng.choice(others)
        match rng.randrange(4):
            case 0 if holder is not root:
                del holder[key]
            case 1:
                holder[key] = [holder[key]]
            case _:
                holder[key] = copy.deepcopy(other[0][other[1]]) if isinstance(other, tuple) else other
    return json.dumps(root[0]).encode()


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Lists and dictionaries at any depth, with the keys of their values."""
    for key in range(len(value)) if isinstance(value, list) else value:
        yield value, key
        if isinstance(value[key], list | dict):
            yield from _places(value[key])


def damaged_bytes(rng: random.Random, data: bytes) -> bytes:
    """Bytes flipped, replaced, cut out, repeated, or cut off."""
    result = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        if not result:
            break
        i, n = rng.randrange(len(result)), rng.choice((1, 1, 2, 4, 16))
        match rng.randrange(7):
            case 0:
                result[i] ^= 1 << rng.randrange(8)
            case 1:
                result[i] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
            case 2:
                result[i : i + n] = b"\xff" * n
            case 3:
                del result[i : i + n]
            case 4:
                result[i:i] = result[i : i + n]
            case 5:
                j = rng.randrange(len(result))
                result[i : i + n] = result[j : j + n]
            case _:
                if rng.random() < 0.2:
                    del result[i:]
    return bytes(result)


_INTEGERS = [
    0, 1, -1, 2, 3, 7, 127, 255, 65536, (1 << 31) - 1, -(1 << 31), 1 << 32, 1 << 40, 1 << 62, (1 << 63) - 1,
    -(1 << 63),
]  # fmt: skip
_FLOATS = [0.0, -1.0, 1e-45, 3e38, float("inf"), float("nan"), -0.0]
_TEXTS = ["", "x", "y", "w1", "Conv", "Relu", "Add", "f0", "\x1b[2J", "a\nb", "../e", "\u202e", "n" * 3000]


def damaged_message(message: Any) -> Mutate:
    """A function that changes one to four fields of an encoded message, at any depth."""

    def mutate(rng: random.Random, data: bytes) -> bytes:
        if rng.random() < 0.35:
            return damaged_bytes(rng, data)
        parsed = message()
        parsed.ParseFromString(data)
        names = [text for each in _messages(parsed) for f, v in each.ListFields() if isinstance(v, str) for text in [v]]
        for _ in range(rng.choice((1, 1, 1, 2, 4))):
            _change(rng, rng.choice(list(_messages(parsed))), names)
        try:
            return parsed.SerializeToString()
        except ValueError:  # the text is not one that can be encoded
            return data

    return mutate


def _messages(message: Any) -> Iterator[Any]:
    yield message
    for descriptor, value in message.ListFields():
        if descriptor.message_type is None:
            continue
        if not hasattr(value, "ListFields"):
            # the order of a map's entries differs from process to process
            inner = [value[key] for key in sorted(value)] if hasattr(value, "values") else value
            for each in inner:
                if hasattr(each, "ListFields"):
                    yield from _messages(each)
        else:
            yield from _messages(value)


def _change(rng: random.Random, message: Any, names: Sequence[str]) -> None:
    present = message.ListFields()
    if not present:
        return
    descriptor, value = rng.choice(present)
    name = descriptor.name
    if isinstance(value, bool | int | float | str | bytes):
        if rng.random() < 0.15:
            message.ClearField(name)
            return
        _set(message, name, value, rng, names)
    elif hasattr(value, "ListFields"):
        if rng.random() < 0.3:
            message.ClearField(name)
    elif hasattr(value, "values"):
        if rng.random() < 0.5:
            del value[rng.choice(sorted(value))]
    elif len(value):
        i = rng.randrange(len(value))
        match rng.randrange(4):
            case 0:
                del value[i]
            case 1:
                value.append(value[i]) if not hasattr(value[i], "ListFields") else value.add().CopyFrom(value[i])
            case 2 if not hasattr(value[i], "ListFields"):
                if isinstance(value[i], str):
                    value[i] = rng.choice((*_TEXTS, *names))
                elif isinstance(value[i], int | float):
                    _set_at(value, i, rng)
            case _:
                del value[i:]


def _set(message: Any, name: str, value: Any, rng: random.Random, names: Sequence[str]) -> None:
    if isinstance(value, bool):
        setattr(message, name, not value)
    elif isinstance(value, bytes):
        setattr(message, name, damaged_bytes(rng, value))
    elif isinstance(value, str):
        setattr(message, name, rng.choice((*_TEXTS, *names)))
    else:
        for _ in range(4):  # not every number fits every type
            try:
                setattr(message, name, rng.choice(_INTEGERS if isinstance(value, int) else _FLOATS))
            except ValueError:
                continue
            return


def _set_at(values: Any, index: int, rng: random.Random) -> None:
    for _ in range(4):
        try:
            values[index] = rng.choice(_INTEGERS if isinstance(values[index], int) else _FLOATS)
        except ValueError:
            continue
        return


def damaged_archive(rng: random.Random, data: bytes) -> bytes:
    """A zip archive with its bytes damaged, or with members damaged and packed again, so that checksums fit: arrays at their
    heads, or one member of JSON.
    """
    if not data.startswith(b"PK") or rng.random() < 0.5:
        return damaged_bytes(rng, data)
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as archive, zipfile.ZipFile(made, "w") as packed:
        texts = [name for name in archive.namelist() if name.endswith(".json")]
        chosen = rng.choice(texts) if texts and rng.random() < 0.8 else ""
        for info in archive.infolist():
            content = archive.read(info)
            if chosen:
                packed.writestr(info.filename, damaged_json(rng, content) if info.filename == chosen else content)
                continue
            head = damaged_bytes(rng, content[:128])
            if rng.random() < 0.5:
                head = _numbers(rng, content[:128].decode("latin-1")).encode("latin-1")
            packed.writestr(info.filename, head + content[128:], rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))
    return made.getvalue()


def damaged_safetensors(rng: random.Random, data: bytes) -> bytes:
    """A safetensors file with its bytes damaged, or with another header, whose length fits."""
    if rng.random() < 0.4:
        return damaged_bytes(rng, data)
    length = int.from_bytes(data[:8], "little")
    header = damaged_text(rng, data[8 : 8 + length])
    return len(header).to_bytes(8, "little") + header + data[8 + length :]


def damaged_index(rng: random.Random, data: bytes) -> bytes:
    """The index of a checkpoint with its bytes damaged, or with a block damaged whose checksum fits."""
    from amct_opt.formats.tensorflow.leveldb import places

    if rng.random() < 0.3:
        return damaged_bytes(rng, data)
    blocks = list(places(memoryview(data)))
    offset, size = rng.choice(blocks)
    block = damaged_bytes(rng, data[offset : offset + size])[:size].ljust(size, b"\0")
    return with_checksums(data[:offset] + block + data[offset + size :], blocks)


def with_checksums(index: bytes, blocks: Sequence[tuple[int, int]]) -> bytes:
    """The index of a checkpoint with checksums that fit its blocks, of which each has an offset and a size."""
    import numpy as np

    from amct_opt.formats.tensorflow.crc32c import masked_crc32c

    result = bytearray(index)
    for offset, size in blocks:
        end = offset + size + 1  # after the kind of its compression
        result[end : end + 4] = masked_crc32c(np.frombuffer(index[offset:end], np.uint8)).to_bytes(4, "little")
    return bytes(result)


def mutator(name: str) -> Mutate:
    """How files of this name are damaged."""
    import onnx

    from amct_opt.formats.caffe.schema import NetParameter
    from amct_opt.formats.tensorflow.schema import GraphDef, SavedModel

    if name.endswith("/saved_model.pb"):
        return damaged_message(SavedModel)
    ending = name.rpartition(".")[2]
    by_ending: Mapping[str, Mutate] = {
        "onnx": damaged_message(onnx.ModelProto),
        "pb": damaged_message(GraphDef),
        "index": damaged_index,
        **dict.fromkeys(("data-00000-of-00001", "h5", "parquet", "zarr/x/c/0/0/0/0"), damaged_bytes),
        "caffemodel": damaged_message(NetParameter),
        **dict.fromkeys(("npz", "pt2", "keras"), damaged_archive),
        "npy": damaged_bytes,
        "safetensors": damaged_safetensors,
        "json": damaged_json,
    }
    return by_ending.get(ending, damaged_text)


# Files


def make_files(folder: Path) -> None:
    """Writes small valid files of every format to a folder."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    from amct_opt.tools import amct, amct_opt

    rng = np.random.default_rng(0)

    def f(*shape: int) -> Any:
        return (rng.normal(size=shape) * 0.5).astype(np.float32)

    def value(name: str, shape: Sequence[Any], kind: int = TensorProto.FLOAT) -> Any:
        return helper.make_tensor_value_info(name, kind, shape)

    def save(name: str, nodes: Any, inputs: Any, outputs: Any, weights: Mapping[str, Any], **options: Any) -> None:
        arrays = [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()]
        functions = options.pop("functions", [])
        domains = [helper.make_opsetid("", 17), *([helper.make_opsetid("f", 1)] if functions else [])]
        graph = helper.make_graph(nodes, "g", inputs, outputs, arrays)
        model = helper.make_model(graph, opset_imports=domains, ir_version=8, functions=functions)
        onnx.save(model, folder / name, **options)

    node = helper.make_node
    weights = {"w1": f(4, 3, 3, 3), "b1": f(4), "s": abs(f(4)) + 1, "b": f(4), "m": f(4), "v": abs(f(4)) + 0.5, "w2": f(64, 5),
               "b2": f(5), "shape": np.array([0, -1]), "pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]), "start": np.array([0]),
               "end": np.array([4]), "axis": np.array([1])}  # fmt: skip
    nodes = [
        node("Pad", ["x", "pads"], ["p"], "pad"),
        node("Conv", ["p", "w1", "b1"], ["c"], "conv", kernel_shape=[3, 3], strides=[1, 1], group=1),
        node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"], "bn"),
        node("Relu", ["n"], ["r"], "relu"),
        node("AveragePool", ["r"], ["a"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Slice", ["a", "start", "end", "axis"], ["t"], "slice"),
        node("Reshape", ["t", "shape"], ["f"], "reshape"),
        node("Gemm", ["f", "w2", "b2"], ["y"], "fc"),
        node("Softmax", ["y"], ["z"], "softmax", axis=-1),
    ]
    ends = [value("x", ["N", 3, 8, 8])], [value("y", ["N", 5]), value("z", ["N", 5])]
    save("a.onnx", nodes, *ends, weights)
    save("ext.onnx", nodes, *ends, weights, save_as_external_data=True, location="ext.onnx.data", size_threshold=16)
    body = helper.make_graph(
        [node("Identity", ["go"], ["on"]), node("MatMul", ["h", "w"], ["k"]), node("Tanh", ["k"], ["ho"])],
        "body",
        [value("i", [], TensorProto.INT64), value("go", [], TensorProto.BOOL), value("h", [2, 4])],
        [value("on", [], TensorProto.BOOL), value("ho", [2, 4])],
    )
    twice = helper.make_function(
        "f", "f0", ["a"], ["c"], [node("Relu", ["a"], ["b"]), node("Add", ["b", "a"], ["c"])], domains_of(helper)
    )
    loop = [node("f0", ["x"], ["d"], "call", domain="f"), node("Loop", ["n", "go", "d"], ["y"], "loop", body=body)]
    given = {"n": np.array(3), "go": np.array(True), "w": f(4, 4)}
    save("loop.onnx", loop, [value("x", [2, 4])], [value("y", [2, 4])], given, functions=[twice])
    plain = [
        node("Conv", ["x", "w1", "b1"], ["c"], "conv", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", ["c"], ["r"], "relu"),
        node("MaxPool", ["r"], ["a"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", ["a"], ["f"], "flat"),
        node("Gemm", ["f", "w2", "b2"], ["y"], "fc"),
    ]
    used = {name: weights[name] for name in ("w1", "b1", "w2", "b2")}
    save("b.onnx", plain, [value("x", [1, 3, 8, 8])], [value("y", [1, 5])], used)
    x = rng.normal(size=(2, 3, 8, 8)).astype(np.float32)
    np.savez(folder / "a.npz", x=x)
    np.savez_compressed(folder / "ac.npz", x=x)
    np.save(folder / "a.npy", x)

    def run(tool: Any, *arguments: str) -> None:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()) as said:
            status = tool.run([str(folder / a) if a.partition(".")[2] in _ENDINGS else a for a in arguments])
        assert status == 0, said.getvalue()

    quantize = f"--quantize=data={folder / 'a.npz'} engine=numpy"
    run(amct_opt, "a.onnx", "-o", "a.mlir")
    run(amct_opt, "a.onnx", "--fuse-all", "-o", "nn.mlir")
    run(amct_opt, "a.onnx", "--fuse-all", quantize, "-o", "q.mlir")
    run(amct_opt, "q.mlir", "--lower-to-ascend", "-o", "ascend.mlir")
    run(amct_opt, "q.mlir", "-t", "onnx", "-o", "q.onnx")
    run(amct_opt, "q.mlir", "-t", "onnx-ascend", "-o", "deployed.onnx")
    run(amct_opt, "q.mlir", "-t", "record", "-o", "record.txt")
    run(amct_opt, "a.onnx", "-t", "tf-fakequant", "-o", "a.pb")
    run(amct_opt, "q.mlir", "-t", "tf-ascend", "-o", "ascend.pb")
    run(amct_opt, "b.onnx", "-t", "caffe", "-o", "b.prototxt")
    run(amct, "create-config", "a.onnx", "-o", "config.json")
    np.savez(folder / "b.npz", x=np.repeat(x, 2, 0))
    np.save(folder / "labels.npy", np.array([0, 4, 2, 1]))
    (folder / "labels.csv").write_text("0\n4\n2\n1\n")
    data = "--data", str(folder / "b.npz"), "--engine", "numpy", "--effort", "0"
    run(amct, "quantize", "b.onnx", *data, "-o", str(folder / "run"))
    for name, text in _TEXT_FILES.items():
        (folder / name).write_text(text, "utf-8")


def make_saved_model(folder: Path) -> None:
    """Writes a SavedModel as TensorFlow saves it, `sm`."""
    import tensorflow as tf

    draw = tf.random.Generator.from_seed(0)

    class Net(tf.Module):
        def __init__(self) -> None:
            self.kernel = tf.Variable(draw.normal((3, 3, 3, 4)), name="kernel")
            self.bias = tf.Variable(draw.normal((4,)), name="bias")
            self.weight = tf.Variable(draw.normal((4, 5)), name="weight")

        @tf.function(input_signature=[tf.TensorSpec((None, 8, 8, 3), tf.float32)])
        def __call__(self, x: Any) -> Any:
            y = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(x, self.kernel, 1, "SAME"), self.bias))
            return tf.matmul(tf.reduce_mean(y, [1, 2]), self.weight)

    net = Net()
    tf.saved_model.save(net, str(folder / "sm"), signatures=net.__call__)


def make_program(folder: Path) -> None:
    """Writes a program as PyTorch saves it."""
    import torch

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 5))
    torch.export.save(torch.export.export(net.eval(), (torch.zeros(1, 3, 8, 8),)), folder / "p.pt2")


def make_keras(folder: Path) -> None:
    """Writes a model in both formats of Keras."""
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import keras

    layers = keras.layers
    net = keras.Sequential(
        [
            keras.Input((8, 8, 3)),
            layers.Conv2D(4, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.Flatten(),
            layers.Dense(5),
        ]
    )
    for name in FORMATS["keras"].files:
        net.save(folder / name)


def make_zarr(folder: Path) -> None:
    """Writes a group with the array of `a.npy`."""
    import numpy as np
    import zarr  # pyright: ignore

    zarr.open_group(folder / "d.zarr", mode="w").create_array("x", data=np.load(folder / "a.npy"))


def make_parquet(folder: Path) -> None:
    """Writes the array of `a.npy` as lists in lists, a sample in each row."""
    import numpy as np
    import pyarrow as pa  # pyright: ignore
    import pyarrow.parquet as pq  # pyright: ignore

    (folder / "d").mkdir(exist_ok=True)
    cells = pa.array(np.load(folder / "a.npy").tolist(), pa.list_(pa.list_(pa.list_(pa.float32()))))
    pq.write_table(pa.table({"x": cells}), folder / "d" / "x.parquet")


_MAKERS: Mapping[str, Callable[[Path], None]] = {
    "saved model": make_saved_model,
    "pytorch program": make_program,
    "keras": make_keras,
    "zarr": make_zarr,
    "parquet": make_parquet,
}
"""They write the files of formats that `make_files` does not write."""


def domains_of(helper: Any) -> list[Any]:
    return [helper.make_opsetid("", 17)]


_ENDINGS = ("onnx", "mlir", "txt", "pb", "prototxt", "json")
_TEXT_FILES = {
    "simple.cfg": """batch_num : 1
activation_offset : true
skip_layers : "fc"
common_config : {
  arq_quantize : { channel_wise : true }
  ifmr_quantize : {
    search_range_start : 0.7
    search_range_end : 1.3
    search_step : 0.01
    max_percentile : 0.999999
  }
}
override_layer_configs : {
  layer_name : "conv"
  calibration_config : { arq_quantize : { channel_wise : true } hfmg_quantize : { num_of_bins : 4096 } }
}
""",
    "s.yaml": "observer: minmax\nbatch-num: 1\nskip-layers: [conv, fc]\nlayer-weight-bits: {fc: 8}\nweight-only: false\n"
    "engine: numpy\n",
    "tuned.yaml": "also:\n- nn\n- record\neffort: 0\nprofile: qdq\ndata: a.npz\nengine: numpy\nlayer-bits:\n- conv:8\n"
    "layer-weight-bits:\n- fc:8\nround-weights: nearest\ncorrect-bias: true\n",
    "s.toml": 'observer = "minmax"\nbatch-num = 1\nskip-layers = ["conv", "fc"]\nengine = "numpy"\n'
    "[layer-weight-bits]\nfc = 8\n",
    "s.json": '{"observer": "minmax", "batch-num": 1, "skip-layers": ["conv", "fc"], "layer-weight-bits": {"fc": 8},\n'
    ' "engine": "numpy"}\n',
    "call.pbtxt": """node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "shape" value { shape { dim { size: 2 } dim { size: 4 } } } } }
node { name: "y" op: "PartitionedCall" input: "x" attr { key: "f" value { func { name: "f0" } } }
  attr { key: "Tin" value { list { type: DT_FLOAT } } } attr { key: "Tout" value { list { type: DT_FLOAT } } } }
library { function { signature { name: "f0" input_arg { name: "a" type: DT_FLOAT } output_arg { name: "o" type: DT_FLOAT } }
  node_def { name: "n" op: "Relu" input: "a" attr { key: "T" value { type: DT_FLOAT } } }
  ret { key: "o" value: "n:activations:0" } } }
versions { producer: 1087 }
""",
}
_CONFIGURED = {
    "config.json": "amct-opt a.onnx --fuse-all --insert-observers='config={}' -o o/r.mlir",
    "simple.cfg": "amct-opt a.onnx --fuse-all --insert-observers='config={}' -o o/r.mlir",
    "tuned.yaml": "amct quantize a.onnx -o o --no-report --settings {} --trust-settings",
}
_SETTINGS = "amct quantize a.onnx --data a.npz -o o --no-report --settings {}"


# Runs


class Hang(BaseException):
    """A file took longer than it may."""


def _alarm(*_: object) -> None:
    raise Hang


def _work(name: str, seed: int, count: int, folder: Path) -> None:
    """Damages `count` files from `seed` on and runs a command on each; prints what came of it."""
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    warnings.simplefilter("ignore")
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, _alarm)
    form, case = FORMATS[name], folder / f"case-{os.getpid()}"
    if form.package:  # as the tools do it with their limit
        resource.setrlimit(resource.RLIMIT_DATA, (2 << 30, resource.RLIM_INFINITY))
    valid = {each: (folder / "valid" / each).read_bytes() for each in form.files}
    _try(form, valid, case)
    for number in range(seed, seed + count):
        # an alarm does not end code in C, the kernel does
        ends = int(time.process_time()) + 3 * SECONDS
        resource.setrlimit(resource.RLIMIT_CPU, (ends, resource.RLIM_INFINITY))
        print(json.dumps({"begin": number}), flush=True)
        rng = random.Random(number)
        chosen = rng.choice(form.damaged)
        files = {**valid, chosen: mutator(chosen)(rng, valid[chosen])}
        _write(files, case)
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        started = time.process_time()
        command = _command(form, chosen, rng)
        status, said = _run(command, case)
        seconds = time.process_time() - started
        wrong = _wrong(status, said, case / "o", seconds)
        if wrong:
            kept = folder / "kept" / f"{name.replace(' ', '-')}-{number}"
            shutil.rmtree(kept, ignore_errors=True)
            shutil.copytree(case, kept)
            (kept / "command").write_text(f"{command}\n{said[-6000:]}", "utf-8", "surrogateescape")
        print(json.dumps({"end": number, "status": status, "seconds": seconds, "wrong": wrong}), flush=True)
    os.chdir(folder)  # torch asks for the current folder when the process ends
    shutil.rmtree(case, ignore_errors=True)


def _try(form: Format, valid: Files, case: Path) -> None:
    """Runs each command on files without damage, which must end well: and loads all that the commands load."""
    if form in (FORMATS["tensorflow"], FORMATS["saved model"], FORMATS["keras"]):
        importlib.import_module("tensorflow")  # for an operator that is not known; it takes seconds
    for chosen in form.damaged:
        for command in form.commands:
            _write(valid, case)
            made = _CONFIGURED.get(chosen, _SETTINGS) if command == "configuration" else command
            status, said = _run(made.replace("{}", chosen), case)
            assert status == 0, f"{made} {chosen}: {said}"


def _write(files: Files, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "o").mkdir(parents=True)
    for each, data in files.items():
        (folder / each).parent.mkdir(parents=True, exist_ok=True)
        (folder / each).write_bytes(data)


def _command(form: Format, chosen: str, rng: random.Random) -> str:
    if form.commands == ["configuration"]:
        return _CONFIGURED.get(chosen, _SETTINGS).format(chosen)
    command = form.commands[0] if rng.random() < 0.8 else rng.choice(form.commands)
    if chosen.startswith("q.") and "nn.mlir" in command:
        command = form.commands[1]
    elif chosen.startswith("nn.") and "q.mlir" in command:
        command = form.commands[0]
    return command.replace("{}", chosen)


def _run(command: str, folder: Path) -> tuple[int, str]:
    """The exit status of a command in a folder, and what it printed on stderr."""
    import shlex

    from amct_opt.tools import amct, amct_opt

    tool, *arguments = shlex.split(command)
    os.chdir(folder)
    said = io.StringIO()
    run = amct.run if tool == "amct" else amct_opt.run
    try:
        with redirect_stdout(io.StringIO()), redirect_stderr(said):
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
            try:
                status = run(arguments)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
    except Hang:
        return -signal.SIGPROF, f"took more than {SECONDS} seconds"
    except SystemExit as e:
        return int(e.code or 0), said.getvalue()
    except Exception:
        return _INTERNAL_ERROR, f"{said.getvalue()}\n{traceback.format_exc()}"
    return status, said.getvalue()


def _wrong(status: int, said: str, written: Path, seconds: float) -> str:
    """What is wrong with how a command ended; empty if nothing is."""
    errors = [line for line in said.split("\n") if re.search(r"(^|: )error: ", line)]
    if "Traceback" in said or status not in (0, 1, 2):
        return f"status {status}: {said.strip().splitlines()[-1][:200] if said.strip() else ''}"
    if status and len(errors) != 1:
        return f"{len(errors)} lines of errors"
    if status and not errors[0].partition("error: ")[0]:
        return f"not located: {errors[0][:200]}"
    if any(ord(c) < 32 and c != "\n" for c in said):
        return "control characters"
    if status and (left := sorted(p.name for p in written.iterdir())):
        return f"left {left}"
    if (used := _peak()) > MEGABYTES:
        return f"{used} MB of memory"
    return f"{seconds:.1f} s" if seconds > SECONDS else ""


def _peak() -> int:
    """The most memory of this process in MB. What `getrusage` gives starts with that of the process that started this one."""
    found = re.search(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) >> 10


def campaign(name: str, count: int, folder: Path, seed: int = 0) -> Outcome:
    """Damages `count` files of a format, from a seed on, and runs the tools on each in another process."""
    _prepare(name, folder)
    outcome = Outcome()
    at, end = seed, seed + count
    while at < end:
        at = _through(name, at, end, folder, outcome)
    return outcome


def _prepare(name: str, folder: Path) -> None:
    """The files to damage, unless they are there."""
    valid = folder / "valid"
    valid.mkdir(parents=True, exist_ok=True)
    if not (valid / "call.pbtxt").exists():
        make_files(valid)
    if (make := _MAKERS.get(name)) is not None and not (valid / FORMATS[name].files[-1]).exists():
        make(valid)


def _through(name: str, at: int, end: int, folder: Path, outcome: Outcome) -> int:
    """Runs a process on the files from `at` on; the number of the file that is next when it ends."""
    command = [sys.executable, __file__, name, str(at), str(end - at), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        last = threading.Timer(_LONGEST, process.kill)
        last.start()
        assert process.stdout is not None
        current, begun = at, False
        for line in process.stdout:
            report = json.loads(line)
            if "begin" in report:
                current, begun = report["begin"], True
                continue
            outcome.count += 1
            outcome.accepted += report["status"] == 0
            outcome.slowest = max(outcome.slowest, report["seconds"])
            if report["wrong"]:
                outcome.failures.append(f"{name} {current}: {report['wrong']}")
            current += 1
        last.cancel()
        said = process.stderr.read() if process.stderr is not None else ""
    if not begun:
        raise RuntimeError(f"{name}: files without damage are refused: {said}")
    if process.returncode:
        outcome.count += 1
        outcome.failures.append(f"{name} {current}: process ended with {process.returncode}: {said.strip()[-200:]}")
        current += 1
    return current


if __name__ == "__main__":
    _prepare(sys.argv[1], Path(sys.argv[4]))
    _work(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]).resolve())
