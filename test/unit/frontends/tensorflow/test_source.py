"""Files of graphs: what stays in them, what they are refused for, and that TensorFlow is not needed."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from google.protobuf import text_format
from onnx import helper

from amct_opt.formats.tensorflow.schema import DATA_TYPES
from amct_opt.formats.tensorflow.tensors import Array, array_of
from amct_opt.formats.wire import LARGE
from amct_opt.frontends.tensorflow.source import Source, load
from amct_opt.support.diagnostics import CompileError

from ...frameworks import later, tf
from ...values import normal

GraphDef = later("tensorflow.compat.v1.GraphDef")

STRING = DATA_TYPES["DT_STRING"]
KERNEL = normal(3, 3, 32, 32)
BIAS = normal(32)
MATRIX = normal(128, 64).astype(np.float16)


def graph_def() -> Any:
    """Large and small constants, in the graph and in a function that it calls."""
    with tf.Graph().as_default() as graph:

        @tf.function(autograph=False)
        def inner(x: Any) -> Any:
            return tf.matmul(x, tf.constant(MATRIX, name="matrix"), transpose_b=True)

        x = tf.compat.v1.placeholder(tf.float32, [1, 8, 8, 32], "x")
        y = tf.nn.conv2d(x, tf.constant(KERNEL, name="kernel"), 1, "SAME") + tf.constant(BIAS, name="bias")
        filled = tf.constant(0.5, shape=[200, 200], name="filled")
        tf.identity(
            tf.reduce_sum(inner(tf.cast(tf.reshape(y, [-1, 64]), tf.float16))) + tf.cast(filled[0, 0], tf.float16)
        )
        return graph.as_graph_def()


@pytest.fixture(scope="module")
def frozen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("frozen") / "net.pb"
    path.write_bytes(graph_def().SerializeToString())
    return path


def constants(source: Source) -> dict[str, Array]:
    """All of them that are numbers, by key."""
    graph = source.graph
    nodes = {n.name: n for n in graph.node}
    nodes |= {f"{f.signature.name}/{n.name}": n for f in graph.library.function for n in f.node_def}
    held = {key: n.attr["value"].tensor for key, n in nodes.items() if n.op == "Const"}
    return {key: array_of(t, key, source.weights.get(key)) for key, t in held.items() if t.dtype != STRING}


def test_large_constants_stay_in_the_file(frozen: Path) -> None:
    source = load(frozen)
    (function,) = (f.signature.name for f in source.graph.library.function)
    assert {key: a.size for key, a in source.weights.items()} == {
        "kernel": KERNEL.nbytes,
        f"{function}/matrix": MATRIX.nbytes,
    }
    assert MATRIX.nbytes == LARGE
    assert source.graph.ByteSize() < 8000
    for key, expected in {"kernel": KERNEL, f"{function}/matrix": MATRIX, "bias": BIAS}.items():
        np.testing.assert_array_equal(constants(source)[key], expected)
    np.testing.assert_array_equal(constants(source)["filled"], np.full((200, 200), 0.5, np.float32))


def test_they_are_views_of_the_file(frozen: Path, is_mapped: Callable[[Array], bool]) -> None:
    array = constants(load(frozen))["kernel"]
    assert not array.flags.writeable
    assert is_mapped(array)


def test_the_rest_is_as_it_was(frozen: Path) -> None:
    theirs, ours = graph_def(), load(frozen).graph
    for node in (*theirs.node, *theirs.library.function[0].node_def):
        if node.name in ("kernel", "matrix"):
            node.attr["value"].tensor.ClearField("tensor_content")
    # names of functions are numbered anew with every trace
    name = theirs.library.function[0].signature.name
    text = text_format.MessageToString(theirs).replace(name, ours.library.function[0].signature.name)
    parsed = type(ours)()
    text_format.Parse(text, parsed, allow_unknown_field=True)
    ours.DiscardUnknownFields()
    assert parsed == ours


def test_as_text(frozen: Path, tmp_path: Path) -> None:
    path = tmp_path / "net.pbtxt"
    path.write_text(text_format.MessageToString(GraphDef.FromString(frozen.read_bytes())))
    binary, text = constants(load(frozen)), constants(load(path))
    assert list(text) == list(binary)
    for key, array in binary.items():
        np.testing.assert_array_equal(text[key], array)


def test_inside_a_saved_model(tmp_path: Path) -> None:
    module = tf.Module()
    module.call = tf.function(lambda x: x @ tf.constant(MATRIX, name="matrix"), [tf.TensorSpec([2, 128], tf.float16)])
    tf.saved_model.save(module, str(tmp_path / "model"))
    source = load(tmp_path / "model")
    (key,) = source.weights
    assert key.endswith("/matrix")
    np.testing.assert_array_equal(constants(source)[key], MATRIX)


def test_a_name_given_twice(tmp_path: Path) -> None:
    """Only one can be known by it; the other stays in the graph."""
    graph = GraphDef()
    for value in (1, 2):
        node = graph.node.add(name="twice", op="Const")
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(np.full(LARGE, value, np.float32)))
    (tmp_path / "net.pb").write_bytes(graph.SerializeToString())
    source = load(tmp_path / "net.pb")
    first, second = (array_of(n.attr["value"].tensor, "", source.weights["twice"]) for n in source.graph.node)
    assert (first[0], second[0]) == (1, 2)


def test_producer(frozen: Path) -> None:
    assert load(frozen).producer == f"tensorflow (graph version {graph_def().versions.producer})"
    assert load(frozen).graph.versions.min_consumer == graph_def().versions.min_consumer


def test_without_tensorflow(frozen: Path, tmp_path: Path) -> None:
    tf.saved_model.save(tf.Module(), str(tmp_path / "model"))
    script = (
        "import sys; from pathlib import Path; from amct_opt.frontends.tensorflow.source import load\n"
        "for path in sys.argv[1:]: assert load(Path(path)).graph.node\n"
        "assert not {'tensorflow', 'keras'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", script, str(frozen), str(tmp_path / "model")], check=True)


# What is not a model


def error_of(path: Path) -> str:
    with pytest.raises(CompileError) as caught:
        load(path)
    return str(caught.value).replace(str(path), path.name)


def written(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


ONNX = helper.make_model(
    helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [], [onnx.ValueInfoProto(name="y")])
)
NAMED_ONNX = onnx.ModelProto.FromString(ONNX.SerializeToString())
NAMED_ONNX.producer_name = "somebody"


@pytest.mark.parametrize(
    ("data", "message", "hint"),
    [
        (b"", "is empty", None),
        (b"version https://git-lfs.github.com/spec/v1\noid", "is not a TensorFlow model", "git lfs pull"),
        (b"\x89HDF\r\n\x1a\n" + bytes(100), "is not a TensorFlow model", "HDF5"),
        (b"PK\x03\x04" + bytes(100), "is not a TensorFlow model", "name it .keras"),
        (b"\x1f\x8b\x08" + bytes(100), "is not a TensorFlow model", "unpack"),
        (b"\x1c\x00\x00\x00TFL3" + bytes(100), "is not a TensorFlow model", "TensorFlow Lite"),
        (b'node {\n  name: "x"\n}', "is not a TensorFlow model", "name it .pbtxt"),
        (ONNX.SerializeToString(), "is not a TensorFlow model", "name it .onnx"),
        (NAMED_ONNX.SerializeToString(), "is not a TensorFlow model", "name it .onnx"),
        (b"no model at all", "is not a TensorFlow model", "damaged"),
        (bytes(100), "is not a TensorFlow model", "damaged"),
        (b"\x0a\x03abc", "is not a TensorFlow model", "damaged"),
        (b"\x0a\x03\x0a\x01x", "is not a TensorFlow model: a node names no operator", "damaged"),
        (b"\x0a\x06\x0a\x01\xff\x12\x01a", "is not a TensorFlow model: String field had bad UTF-8", "damaged"),
        (b"\x08\x01", "is not a TensorFlow model: it holds no graph", "damaged"),
        (b"\x08\x01\x12\x00", "holds a graph without nodes", None),
    ],
    ids=["empty", "lfs", "hdf5", "zip", "gzip", "tflite", "text", "onnx", "named onnx", "garbage", "zeros", "no node",
         "no operator", "no utf-8", "no graph", "no nodes"],
)  # fmt: skip
def test_no_model(data: bytes, message: str, hint: str | None, tmp_path: Path) -> None:
    for name in ("net.pb", "saved_model.pb"):
        error = error_of(written(tmp_path / name, data))
        assert error.startswith(f"{name}: error: {message}")
        assert (hint or "") in error.partition("\n  hint: ")[2]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("node {\n  name: x\n}", "net.pbtxt:2: error: is not the text of a TensorFlow model: '  name: x': Expected"),
        ("node {", "net.pbtxt:1: error: is not the text of a TensorFlow model: "),
        ("", "net.pbtxt: error: holds a graph without nodes"),
        ("other: 1", "net.pbtxt: error: holds a graph without nodes"),
        ("meta_graphs { }", "net.pbtxt: error: holds a graph without nodes"),
        ("node { attr { value { func {" + " attr { value { func {" * 2000, "net.pbtxt: error: is nested too deeply"),
    ],
    ids=["value", "cut off", "empty", "other", "no nodes", "deep"],
)
def test_no_text(text: str, message: str, tmp_path: Path) -> None:
    assert error_of(written(tmp_path / "net.pbtxt", text.encode())).startswith(message)


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    assert error_of(written(tmp_path / "net.pbtxt", b'node { name: "\xff" }')) == "net.pbtxt: error: is not UTF-8 text"


def test_missing(tmp_path: Path) -> None:
    for name in ("net.pb", "net.pbtxt"):
        assert error_of(tmp_path / name) == f"{name}: error: cannot be read: No such file or directory"


def test_nested_too_deep(tmp_path: Path) -> None:
    graph = GraphDef()
    node = graph.node.add(name="x", op="Call")
    inner = node.attr["f"].func
    for _ in range(60):
        inner = inner.attr["f"].func
    inner.name = "end"
    error = error_of(written(tmp_path / "net.pb", graph.SerializeToString()))
    assert error.startswith("net.pb: error: is not a TensorFlow model: Exceeded")


def test_damaged(frozen: Path, tmp_path: Path) -> None:
    """Whatever happens to a file, it gives a located error, or a graph whose constants are arrays or located errors."""
    data, path, rng = frozen.read_bytes(), tmp_path / "net.pb", random.Random(0)
    weights = [range(at := data.index(a.tobytes()), at + a.nbytes) for a in (KERNEL, MATRIX)]
    structure = [i for i in range(len(data)) if not any(i in each for each in weights)]
    damaged = [data[:n] for n in structure[::7]]
    for _ in range(600):
        each = bytearray(data)
        for at in rng.sample(structure, 3):
            each[at] = rng.randrange(256)
        damaged.append(bytes(each))
    errors = []
    for each in damaged:
        try:
            constants(load(written(path, each)))
        except CompileError as e:
            errors.append(e)
    assert all(e.where for e in errors)
    assert len({e.message for e in errors}) > 3
