"""A small transformer encoder with seeded weights, as an ONNX model of opset 17.

    python examples/models/transformer.py [OUT]

Input `x` `[batch, sequence, 64]` float32, both sizes dynamic; two layers of four-headed attention and a feed-forward network,
LayerNormalization after each, GELU by Erf; a linear head on the first position; output `probabilities` `[batch, 10]`.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

Array = np.ndarray[Any, np.dtype[Any]]

PATH = Path(__file__).with_suffix(".onnx")
LAYERS, HEADS, WIDTH, HIDDEN, CLASSES = 2, 4, 64, 128, 10


def build(seed: int = 0) -> ModelProto:
    network = _Network(np.random.default_rng(seed))
    x = "x"
    for i in range(LAYERS):
        x = network.norm(network.add(x, network.attention(x, f"layer{i}.attention")), f"layer{i}.attention.norm")
        x = network.norm(network.add(x, network.feed_forward(x, f"layer{i}.ffn")), f"layer{i}.ffn.norm")
    first = network.node("Gather", x, network.constant("first", np.array(0, np.int64)), axis=1)
    # rows of unit variance times weights of variance 4 / WIDTH: logits of standard deviation 2
    logits = network.linear(first, CLASSES, "head", gain=2)
    network.node("Softmax", logits, name="softmax", output="probabilities", axis=-1)
    return network.model()


class _Network:
    """Nodes and weights; every method adds one building block and gives the name of its result."""

    def __init__(self, rng: np.random.Generator):
        self.rng = rng
        self.nodes: list[NodeProto] = []
        self.weights: dict[str, Array] = {}

    def constant(self, name: str, value: Array) -> str:
        self.weights[name] = value
        return name

    def node(self, op_type: str, *inputs: str, name: str = "", output: str = "", **attributes: Any) -> str:
        name = name or f"{op_type}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(op_type, inputs, [output or f"{name}_out"], name, **attributes))
        return self.nodes[-1].output[0]

    def add(self, a: str, b: str) -> str:
        return self.node("Add", a, b)

    def linear(self, x: str, columns: int, name: str, gain: float = 1) -> str:
        """MatMul and Add, as exporters write a linear layer on a tensor of rank 3."""
        rows = HIDDEN if name.endswith("down") else WIDTH
        weight = self.rng.normal(size=(rows, columns)) * gain / np.sqrt(rows)
        bias = self.rng.normal(size=columns) * 0.1
        product = self.node("MatMul", x, self.constant(f"{name}.weight", weight.astype(np.float32)), name=name)
        return self.node(
            "Add", product, self.constant(f"{name}.bias", bias.astype(np.float32)), name=f"{name}.bias_add"
        )

    def norm(self, x: str, name: str) -> str:
        scale = self.rng.uniform(0.5, 1.5, WIDTH).astype(np.float32)
        bias = (self.rng.normal(size=WIDTH) * 0.1).astype(np.float32)
        weights = self.constant(f"{name}.weight", scale), self.constant(f"{name}.bias", bias)
        return self.node("LayerNormalization", x, *weights, name=name, axis=-1, epsilon=1e-5)

    def feed_forward(self, x: str, name: str) -> str:
        """Two linear layers around `h * (1 + erf(h / sqrt 2)) * 0.5`."""
        h = self.linear(x, HIDDEN, f"{name}.up")
        bent = self.node("Erf", self.node("Div", h, self.scalar("sqrt2", np.sqrt(2))))
        gelu = self.node("Mul", self.node("Mul", h, self.add(bent, self.scalar("one", 1))), self.scalar("half", 0.5))
        return self.linear(gelu, WIDTH, f"{name}.down")

    def scalar(self, name: str, value: float) -> str:
        return self.constant(name, np.array(value, np.float32))

    def attention(self, x: str, name: str) -> str:
        query, key, value = (self.linear(x, WIDTH, f"{name}.{part}") for part in ("query", "key", "value"))
        scores = self.node(
            "MatMul", self.heads(query, (0, 2, 1, 3)), self.heads(key, (0, 2, 3, 1)), name=f"{name}.scores"
        )
        scaled = self.node("Div", scores, self.scalar("sqrt_head", np.sqrt(WIDTH // HEADS)))
        weights = self.node("Softmax", scaled, name=f"{name}.softmax", axis=-1)
        mixed = self.node("MatMul", weights, self.heads(value, (0, 2, 1, 3)), name=f"{name}.mix")
        together = self.node("Transpose", mixed, perm=(0, 2, 1, 3))
        return self.linear(self.node("Reshape", together, self.merged_shape(x)), WIDTH, f"{name}.output")

    def heads(self, x: str, perm: tuple[int, ...]) -> str:
        """`[batch, sequence, width]` in heads, its axes reordered."""
        split = self.constant("split", np.array([0, 0, HEADS, WIDTH // HEADS], np.int64))
        return self.node("Transpose", self.node("Reshape", x, split), perm=perm)

    def merged_shape(self, x: str) -> str:
        """`[batch, sequence, width]`, taken from the shape of x at run time, as PyTorch's exporter writes it."""
        shape = self.node("Shape", x)
        sizes = [
            self.node(
                "Unsqueeze",
                self.node("Gather", shape, self.constant(f"axis{axis}", np.array(axis, np.int64))),
                self.constant("axes", np.array([0], np.int64)),
            )
            for axis in (0, 1)
        ]
        return self.node("Concat", *sizes, self.constant("width", np.array([WIDTH], np.int64)), axis=0)

    def model(self) -> ModelProto:
        x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "sequence", WIDTH])
        y = helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, ["batch", CLASSES])
        weights = [numpy_helper.from_array(array, name) for name, array in self.weights.items()]
        graph = helper.make_graph(self.nodes, "transformer", [x], [y], weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.checker.check_model(model, full_check=True)
        return model


if __name__ == "__main__":
    onnx.save(build(), sys.argv[1] if len(sys.argv) > 1 else PATH)
