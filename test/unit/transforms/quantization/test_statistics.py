"""Statistics that exporters write as single operations stay float under profile qdq: their rounding would destroy a network."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import amct_opt
from amct_opt import frontends
from amct_opt.session.universe import new_session
from amct_opt.targets.onnx import OnnxTarget

WIDTH = 16
FIRST, SECOND = np.random.default_rng(0).normal(size=(2, WIDTH, WIDTH)).astype(np.float32)
ROWS = (8, WIDTH)
INTEGERS = {"Gemm", "MatMul"}

CONSTANTS = {
    "w1": FIRST,
    "w2": SECOND,
    "count": np.float32(1 / WIDTH),
    "small": np.float32(1e-6),
    "last": np.array([-1]),
}

LAYER_NORM = [
    ("ReduceSum", ["h", "last"], "sum"),
    ("Mul", ["sum", "count"], "mean"),
    ("Mul", ["h", "h"], "squares"),
    ("ReduceSum", ["squares", "last"], "energy"),
    ("Mul", ["energy", "count"], "mean of squares"),
    ("Mul", ["mean", "mean"], "square of mean"),
    ("Sub", ["mean of squares", "square of mean"], "variance"),
    ("Add", ["variance", "small"], "positive"),
    ("Sqrt", ["positive"], "deviation"),
    ("Reciprocal", ["deviation"], "factor"),
    ("Sub", ["h", "mean"], "centered"),
    ("Mul", ["centered", "factor"], "n"),
]
"""As jax2tf writes it: the mean of the squares, less the square of the mean."""

LOG_POWER = [
    ("Mul", ["h", "h"], "power"),
    ("Add", ["power", "small"], "positive"),
    ("Log", ["positive"], "log"),
    ("ReduceMin", ["log"], "least"),
    ("Sub", ["log", "least"], "above"),
    ("ReduceMax", ["above"], "most"),
    ("Div", ["above", "most"], "n"),
]
"""A spectrogram's logarithm, between 0 and 1."""


def model(steps: list[tuple[str, list[str], str]]) -> onnx.ModelProto:
    nodes = [("MatMul", ["x", "w1"], "h"), *steps, ("MatMul", ["n", "w2"], "y")]
    graph = helper.make_graph(
        [helper.make_node(kind, inputs, [output]) for kind, inputs, output in nodes],
        "graph",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ROWS)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in CONSTANTS.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)


def samples(count: int) -> np.ndarray:
    """Rows of very different size: with quantized statistics, 15 dB are left of the layer norm, 8 of the logarithm."""
    sizes = np.geomspace(3, 30, ROWS[0], dtype=np.float32)[:, None]
    return np.random.default_rng(1).normal(size=(count, *ROWS)).astype(np.float32) * sizes + sizes


@pytest.mark.parametrize("steps", [LAYER_NORM, LOG_POWER], ids=["layer norm", "logarithm"])
def test_statistics_stay_float(steps: list[tuple[str, list[str], str]], tmp_path: Path) -> None:
    onnx.save(model(steps), tmp_path / "float.onnx")
    session = new_session()
    session.profile = "qdq"
    module = frontends.read(tmp_path / "float.onnx", session)
    amct_opt.quantize(module, session, data=({"x": x} for x in samples(8)))
    OnnxTarget().write(module, tmp_path / "qdq.onnx", session)

    graph = onnx.load(tmp_path / "qdq.onnx").graph
    dequantized = {n.output[0] for n in graph.node if n.op_type == "DequantizeLinear"}
    in_integers = {n.op_type for n in graph.node if set(n.input) & dequantized} - {"QuantizeLinear"}
    assert in_integers <= INTEGERS

    feed = {"x": samples(9)[-1]}
    expected, found = (
        np.asarray(onnxruntime.InferenceSession(tmp_path / name, providers=["CPUExecutionProvider"]).run(None, feed)[0])
        for name in ("float.onnx", "qdq.onnx")
    )
    assert 10 * np.log10(np.square(expected).sum() / np.square(expected - found).sum()) > 20
