"""Deployable files of TensorFlow's networks: read back to the bit, well-formed, and the same function to TensorFlow itself.

TensorFlow knows none of Ascend's operators. Put in terms of its own, as Huawei's adapter computes them, it runs the graph.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from amct_opt import frontends
from amct_opt.lowering.ascend import LowerToAscendPass
from amct_opt.pipelines.passes import run_passes
from amct_opt.runtime.executor import run
from amct_opt.session.universe import new_session
from amct_opt.targets.tf_ascend import TfAscendTarget
from amct_opt.transforms.canonicalization import CanonicalizePass
from amct_opt.transforms.fusion.fuse_all import FuseAllPass
from amct_opt.transforms.quantization.quantize import QuantizePass

from ...frameworks import tf
from .test_ascend import WEIGHTS, network, weight

Frozen = Callable[..., Any]
APPLICATIONS = Path(__file__).parents[4] / "examples" / "tensorflow" / "applications.py"


def deployed(graph: Any, out: Path) -> tuple[Any, Any]:
    """The lowered module and what is read of the file at `out`, which is written."""
    session = graph.session()
    module = frontends.read(graph.path, session)
    run_passes(module, [CanonicalizePass(), FuseAllPass(), QuantizePass()], session)
    TfAscendTarget().write(module, out, session)
    LowerToAscendPass().apply(session, module)
    return module, frontends.read(out, new_session())


def products(x: Any, rows: Any, columns: Any) -> Any:
    y = tf.nn.bias_add(tf.linalg.matmul(tf.nn.relu(x), rows), tf.constant(np.linspace(-1, 1, 7, dtype=np.float32)))
    return tf.linalg.matmul(tf.reshape(tf.nn.tanh(y), [-1, 7]), columns)


NETWORKS: dict[str, tuple[Callable[..., Any], tuple[int, ...], list[Any]]] = {
    "images": (network, (2, 8, 8, 3), WEIGHTS),
    "channels second": (lambda x, *w: network(x, *w, layout="NCHW"), (2, 3, 8, 8), WEIGHTS),
    "products": (products, (2, 3, 4, 6), [weight(6, 7), weight(7, 5)]),
}


@pytest.fixture(params=NETWORKS)
def written(request: Any, frozen: Frozen, tmp_path: Path) -> Any:
    function, shape, variables = NETWORKS[request.param]
    x = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    graph = frozen(function, x, variables=variables)
    return graph, *deployed(graph, tmp_path / "deployed.pb"), tmp_path / "deployed.pb"


def test_read_back(written: Any) -> None:
    graph, lowered, read, _ = written
    expected, actual = run(lowered, graph.inputs), run(read, graph.inputs)
    assert list(expected) == list(actual)
    assert all(array.tobytes() == actual[name].tobytes() for name, array in expected.items())


@pytest.mark.slow
def test_an_application(tmp_path: Path, capfd: Any) -> None:
    name = "MobileNetV2"
    command = [sys.executable, str(APPLICATIONS), str(tmp_path), name, "--size", "64"]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    data, session = tmp_path / f"{name}.npz", new_session()
    module = frontends.read(tmp_path / f"{name}.pb", session)
    run_passes(module, [CanonicalizePass(), FuseAllPass(), QuantizePass(data=str(data))], session)
    TfAscendTarget().write(module, tmp_path / "deployed.pb", session)
    LowerToAscendPass().apply(session, module)
    images = dict(np.load(data))
    expected, actual = run(module, images), run(frontends.read(tmp_path / "deployed.pb", new_session()), images)
    assert list(expected) == list(actual)
    assert all(array.tobytes() == actual[output].tobytes() for output, array in expected.items())
    tf.compat.v1.GraphDef.FromString((tmp_path / "deployed.pb").read_bytes())
    assert "error" not in capfd.readouterr().err


@pytest.mark.slow
def test_the_same_function_to_tensorflow(written: Any) -> None:
    """All integers are the same, floats up to their last bits."""
    graph, lowered, _, path = written
    parsed = tf.compat.v1.GraphDef.FromString(path.read_bytes())
    substituted = tf.compat.v1.GraphDef(node=[new for old in parsed.node for new in in_own_terms(old)])
    with tf.Graph().as_default() as made:
        tf.import_graph_def(substituted, name="")
    feeds = {f"{name}:0": array for name, array in graph.inputs.items()}
    with tf.compat.v1.Session(graph=made) as session:
        (actual,) = session.run([f"{name}:0" for name in graph.outputs], feeds)
    (expected,) = run(lowered, graph.inputs).values()
    np.testing.assert_allclose(actual, expected, atol=1e-6)


def in_own_terms(node: Any) -> Iterator[Any]:
    """A node of Ascend's as nodes that TensorFlow runs; every other node as it is."""
    terms = {"AscendQuant": quant, "AscendWeightQuant": weight_quant, "AscendDequant": dequant}
    if node.op not in terms:
        yield node
        return
    with tf.Graph().as_default() as graph:
        inputs = [tf.compat.v1.placeholder(dtype, None, f"in{i}") for i, dtype in enumerate(TYPES[node.op])]
        tf.identity(terms[node.op](node.attr, *inputs), "out")
    for each in graph.as_graph_def().node:
        if each.op == "Placeholder":
            continue
        each.name = node.name if each.name == "out" else f"{node.name}/own/{each.name}"
        renamed = [node.input[int(i[2:])] if i.startswith("in") else f"{node.name}/own/{i}" for i in each.input]
        each.input[:] = renamed
        yield each


TYPES = {"AscendQuant": ["float32"], "AscendWeightQuant": ["int8", "int8"], "AscendDequant": ["float32", "uint64"]}


def quant(attr: Any, x: Any) -> Any:
    """Integers without their zero point."""
    offset = attr["offset"].f
    return tf.clip_by_value(tf.round(x * attr["scale"].f) + offset, -128.0, 127.0) - offset


def weight_quant(attr: Any, x: Any, offset: Any) -> Any:
    return tf.cast(x, tf.float32) - tf.cast(offset, tf.float32)


def dequant(attr: Any, x: Any, scale: Any) -> Any:
    """The mean of a pool's window becomes the sum, and the scale is divided by their count."""
    count = float(np.prod(attr["ksize"].list.i))
    return x * count * tf.bitcast(tf.cast(tf.bitcast(scale, tf.int64), tf.int32), tf.float32) / count
