"""Whole models in TensorFlow: the digits example in int8, and a network that TensorFlow made, there and back.

Given the same input, quantization is the same to the bit (tested on every tensor of the model). Between quantizations stand sums
of float32, which TensorFlow and the interpreter take in different orders: where one falls on a tie, a step may go the other way.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt import frontends
from amct_opt.dialects import nn
from amct_opt.formats.tensorflow.schema import GraphDef
from amct_opt.pipelines.passes import make_pass, run_passes
from amct_opt.runtime.executor import run
from amct_opt.session.universe import new_session
from amct_opt.targets.graph import label_of
from amct_opt.targets.tensorflow import TfFakequantTarget

from ...values import kernel_of
from ..operations import Array

DIGITS = Path(__file__).parents[4] / "examples" / "digits"


@pytest.fixture(scope="module")
def digits() -> ModuleOp:
    """The example, fused and quantized; its layout is NCHW."""
    session = new_session()
    module = frontends.read(DIGITS / "digits.onnx", session)
    passes = [make_pass("fuse-all"), make_pass("quantize", f"data={DIGITS / 'calib.npz'}")]
    run_passes(module, passes, session)
    return module


@pytest.fixture(scope="module")
def images() -> dict[str, Array]:
    with np.load(DIGITS / "heldout.npz") as data:
        return dict(data)


def write(module: ModuleOp, path: Path, nodes: str = "plain") -> Any:
    TfFakequantTarget(nodes=nodes).write(module, path, new_session())
    return GraphDef.FromString(path.read_bytes())


def transposes(graph: Any) -> int:
    return sum(n.op == "Transpose" for n in graph.node)


def test_digits(digits: ModuleOp, images: Any, run_graph: Any, tmp_path: Path) -> None:
    """Nearly all of the logits are the interpreter's, bit for bit; the file holds integers."""
    path = tmp_path / "digits.pb"
    write(digits, path)
    expected = run(digits, images)["logits"]
    (actual,) = run_graph(path, images, ["logits"])
    assert np.mean(actual == expected) > 0.95
    assert np.abs(actual - expected).max() < 0.02 * expected.std()
    assert path.stat().st_size < 40_000


def test_every_quantization_is_exact(digits: ModuleOp, images: Any, run_graph: Any, tmp_path: Path) -> None:
    """What TensorFlow quantizes its own values to is what the interpreter quantizes them to."""
    path = tmp_path / "digits.pb"
    nodes = {n.name: n for n in write(digits, path).node}
    steps = [op for op in digits.walk() if isinstance(op, nn.QuantizeOp)]
    assert len(steps) == 7
    for op in steps:
        first = nodes[f"{label_of(op)}/Cast"]
        before, after = run_graph(path, images, [first.input[0], f"{label_of(op)}/Cast_2"])
        np.testing.assert_array_equal(after, kernel_of(op)(before))


def test_digits_with_fake_quant(digits: ModuleOp, images: Any, run_graph: Any, tmp_path: Path) -> None:
    """Ties and the rounding of float32 aside; all images are told as before."""
    path = tmp_path / "digits.pb"
    graph = write(digits, path, "fakequant")
    assert not any(n.op in ("Round", "RealDiv") for n in graph.node)
    expected = run(digits, images)["logits"]
    (actual,) = run_graph(path, images, ["logits"])
    assert np.mean(actual.argmax(1) == expected.argmax(1)) > 0.99
    assert np.sqrt(np.mean((actual - expected) ** 2)) < 0.02 * expected.std()


@pytest.mark.parametrize("nodes", ["plain", "fakequant"])
def test_digits_read_back(nodes: str, digits: ModuleOp, images: Any, tmp_path: Path) -> None:
    """The file is a model of the same numbers."""
    write(digits, tmp_path / "digits.pb", nodes)
    read = frontends.read(tmp_path / "digits.pb", new_session())
    np.testing.assert_array_equal(run(read, images)["logits"], run(digits, images)["logits"])


def test_channels_second_become_last(digits: ModuleOp, images: Any, run_graph: Any, tmp_path: Path) -> None:
    """Of the whole file once: what is left is a transpose of its input."""
    path = tmp_path / "digits.pb"
    assert transposes(write(digits, path)) <= 1
    expected = run(digits, images)["logits"]
    assert np.mean(run_graph(path, images, ["logits"])[0] == expected) > 0.95


# Made by TensorFlow


def network(tf: Any, x: Any) -> Any:
    """A small network of channels last, with batch norms, a depthwise convolution, a shortcut, pools and a dense layer."""
    rng = np.random.default_rng(3)

    def weight(*shape: int) -> Array:
        return rng.normal(size=shape, scale=np.sqrt(2 / np.prod(shape[:-1]))).astype(np.float32)

    def normalized(y: Any, name: str) -> Any:
        n = y.shape[-1]
        scale, offset, mean, variance = (rng.uniform(0.5, 1.5, n).astype(np.float32) for _ in range(4))
        return tf.compat.v1.nn.fused_batch_norm(y, scale, offset, mean, variance, is_training=False, name=name)[0]

    y = tf.nn.conv2d(x, weight(3, 3, 3, 8), 2, "SAME", name="stem/conv")
    y = tf.nn.relu6(normalized(y, "stem/norm"), name="stem/relu")
    short = y
    y = tf.nn.depthwise_conv2d(y, weight(3, 3, 8, 1), [1, 1, 1, 1], "SAME", name="block/depthwise")
    y = tf.nn.relu(normalized(y, "block/norm"), name="block/relu")
    y = tf.nn.bias_add(tf.nn.conv2d(y, weight(1, 1, 8, 8), 1, "VALID", name="block/conv"), weight(8), name="block/bias")
    y = tf.add(y, short, name="block/add")
    y = tf.nn.max_pool2d(y, 3, 2, "SAME", name="pool")
    y = tf.reshape(tf.nn.avg_pool2d(y, 2, 2, "VALID", name="mean"), [-1, 4 * 8], name="flat")
    y = tf.nn.bias_add(tf.matmul(y, weight(32, 10), name="dense/product"), weight(10), name="dense/bias")
    return tf.nn.softmax(y, name="scores")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, run_graph: Callable[..., Any]) -> tuple[Path, Array, Array]:
    """A frozen graph, an input of it, and what TensorFlow computes."""
    import tensorflow as tf

    path = tmp_path_factory.mktemp("made") / "network.pb"
    with tf.Graph().as_default() as graph:
        network(tf, tf.compat.v1.placeholder(tf.float32, [None, 16, 16, 3], "image"))
    path.write_bytes(graph.as_graph_def().SerializeToString())
    x = np.random.default_rng(4).normal(size=(4, 16, 16, 3)).astype(np.float32)
    return path, x, run_graph(path, {"image": x}, ["scores"])[0]


def test_there_and_back(made: Any, run_graph: Any, tmp_path: Path) -> None:
    """The layers have the names that they had, and TensorFlow computes what it did."""
    path, x, expected = made
    again = tmp_path / "again.pb"
    graph = write(frontends.read(path, new_session()), again)
    layers = [n.name for n in GraphDef.FromString(path.read_bytes()).node if n.op not in ("Const", "Identity")]
    written = {n.name: n.op for n in graph.node}
    given = {n.name: n.op for n in GraphDef.FromString(path.read_bytes()).node}
    assert {n: written.get(n) for n in layers} == {n: given[n] for n in layers}
    assert transposes(graph) == 0
    np.testing.assert_array_equal(run_graph(again, {"image": x}, ["scores"])[0], expected)


@pytest.mark.parametrize("nodes", ["plain", "fakequant"])
def test_quantized_and_back(nodes: str, made: Any, run_graph: Any, tmp_path: Path) -> None:
    """Quantized, TensorFlow's file is near the float one, and as near to the interpreter as rounding lets it."""
    path, x, expected = made
    np.savez(tmp_path / "calib.npz", image=x)
    session = new_session()
    module = frontends.read(path, session)
    run_passes(module, [make_pass("fuse-all"), make_pass("quantize", f"data={tmp_path / 'calib.npz'}")], session)
    write(module, tmp_path / "quantized.pb", nodes)
    (actual,) = run_graph(tmp_path / "quantized.pb", {"image": x}, ["scores"])
    simulated = run(module, {"image": x})["scores"]
    noise = np.abs(simulated - expected).max()
    assert 0 < noise < 0.1
    assert np.abs(actual - simulated).max() < noise
