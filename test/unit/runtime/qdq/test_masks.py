"""Masks of attention do not widen ranges: quantized attention is as near to the float model with them as without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

import amct_opt
from amct_opt.runtime.metrics import difference
from amct_opt.session.universe import new_session

from .peer import Array, in_onnxruntime

TOKENS, WIDTH = 10, 16
LOWEST = float(np.finfo(np.float32).min)
SQNR = {"minmax": 27, "mse": 27, "percentile": 16}
"""What each observer must reach, in dB, 2 below what it does; percentile cuts off what is large without masks, too."""
CAUSAL = np.triu(np.ones((TOKENS, TOKENS), bool), 1)


class Attention:
    """`softmax(mask(q k / 4)) v`, its nodes as exporters write them. `keep`, an input, is 1 for tokens that count, else 0."""

    def __init__(self) -> None:
        self.rng = np.random.default_rng(0)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[TensorProto] = []
        q, k, v = (self.add("MatMul", "x", self.parameter(WIDTH, WIDTH)) for _ in range(3))
        self.v = v
        product = self.add("MatMul", q, self.add("Transpose", k, perm=[0, 2, 1]))
        self.scores = self.add("Div", product, self.constant(np.float32(4)))

    def constant(self, array: Array | np.generic) -> str:
        self.weights.append(numpy_helper.from_array(np.asarray(array), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def parameter(self, *shape: int) -> str:
        return self.constant((self.rng.normal(size=shape) / 2).astype(np.float32))

    def add(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        node = helper.make_node(op_type, inputs, [f"v{len(self.nodes)}"], f"{op_type}{len(self.nodes)}", **attributes)
        self.nodes.append(node)
        return node.output[0]

    def model(self, weights: str) -> ModelProto:
        out = self.add("MatMul", self.add("MatMul", weights, self.v), self.parameter(WIDTH, WIDTH))
        used = {name for node in self.nodes for name in node.input}
        shapes = {"x": ("N", TOKENS, WIDTH), "keep": ("N", TOKENS), out: ("N", TOKENS, WIDTH)}
        infos = {n: helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in shapes.items()}
        inputs = [infos[n] for n in ("x", "keep") if n in used]
        graph = helper.make_graph(self.nodes, "g", inputs, [infos[out]], self.weights)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    def softmax(self, masked: str) -> str:
        return self.add("Softmax", masked, axis=-1)

    def small_softmax(self, masked: str, *, shifted: bool) -> str:
        """A Softmax in small operations, with the largest score subtracted first or not."""
        if shifted:
            masked = self.add("Sub", masked, self.add("ReduceMax", masked, axes=[-1]))
        exponential = self.add("Exp", masked)
        total = self.add("ReduceSum", exponential, self.constant(np.array([-1], np.int64)))
        return self.add("Div", exponential, total)


def added(net: Attention, lowest: float) -> str:
    return net.add("Add", net.scores, net.constant(np.where(CAUSAL, lowest, 0).astype(np.float32)))


def added_from_input(net: Attention, lowest: float) -> str:
    """`(1 - keep) * lowest`; -inf is not written like this, because 0 * -inf is NaN."""
    kept = net.add("Unsqueeze", "keep", net.constant(np.array([1], np.int64)))
    inverted = net.add("Sub", net.constant(np.float32(1)), kept)
    return net.add("Add", net.scores, net.add("Mul", inverted, net.constant(np.float32(max(lowest, LOWEST)))))


def chosen(net: Attention, lowest: float) -> str:
    return net.add("Where", net.constant(CAUSAL), net.constant(np.float32(lowest)), net.scores)


def chosen_then_added(net: Attention, lowest: float) -> str:
    """A mask that is made of booleans."""
    mask = net.add("Where", net.constant(CAUSAL), net.constant(np.float32(lowest)), net.constant(np.float32(0)))
    return net.add("Add", net.scores, mask)


MASKS: dict[str, Callable[[Attention, float], str]] = {
    m.__name__: m for m in (added, added_from_input, chosen, chosen_then_added)
}


@pytest.mark.slow
@pytest.mark.parametrize("observer", SQNR)
@pytest.mark.parametrize("lowest", [-1e4, LOWEST, -np.inf])
@pytest.mark.parametrize("mask", MASKS)
def test_masked_attention(mask: str, lowest: float, observer: str, tmp_path: Path) -> None:
    net = Attention()
    found = quantized_sqnr(net, net.softmax(MASKS[mask](net, lowest)), "qdq", observer, tmp_path)
    assert found > SQNR[observer]


@pytest.mark.parametrize("profile", ["qdq", "ppq"])
@pytest.mark.parametrize("shifted", [True, False])
def test_a_softmax_in_small_operations(shifted: bool, profile: str, tmp_path: Path) -> None:
    """Its parts stay float as a Softmax does, and masks widen no range."""
    net = Attention()
    weights = net.small_softmax(added(net, -1e4), shifted=shifted)
    assert quantized_sqnr(net, weights, profile, "minmax", tmp_path) > SQNR["minmax"]


def quantized_sqnr(net: Attention, weights: str, profile: str, observer: str, tmp_path: Path) -> float:
    """How far the quantized network is from the float one in onnxruntime, in dB."""
    onnx.save(net.model(weights), tmp_path / "float.onnx")
    x = net.rng.normal(size=(8, TOKENS, WIDTH)).astype(np.float32)
    keep = (np.arange(TOKENS) < net.rng.integers(4, TOKENS, (8, 1))).astype(np.float32)
    session = new_session()
    session.profile = profile
    module, session = amct_opt.load(tmp_path / "float.onnx", session)
    inputs: dict[str, Any] = {"x": x, "keep": keep} if any("keep" in node.input for node in net.nodes) else {"x": x}
    np.savez(tmp_path / "data.npz", **inputs)
    pipeline = f'quantize{{data="{tmp_path / "data.npz"}" observer={observer} engine=numpy}}'
    amct_opt.run_pipeline(module, pipeline, session)
    amct_opt.save(module, tmp_path / "q.onnx", session, "onnx")
    ((expected,), _), ((actual,), _) = (
        in_onnxruntime(tmp_path / name, [*inputs.values()], tmp_path) for name in ("float.onnx", "q.onnx")
    )
    return difference(expected, actual).sqnr
