"""Random networks of convolutions, activations, pools, Resize, Concat, Add and Sub, whose values have several readers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Graph:
    """An ONNX graph under construction: input `x` `[N, 4, 8, 8]`, and random weights."""

    def __init__(self, seed: int = 0):
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []

    def constant(self, values: Any, dtype: type = np.float32) -> str:
        name = f"constant{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values, dtype), name))
        return name

    def op(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, inputs, [name], name=name, **attributes))
        return name

    def conv(self, x: str, inputs: int = 4, outputs: int = 4, scale: float = 0.5) -> str:
        weight = self.constant(self.random.normal(0, scale, (outputs, inputs, 1, 1)))
        return self.op("Conv", x, weight, self.constant(self.random.normal(0, scale, outputs)))

    def slice(self, x: str, axis: int, size: int, start: int = 0) -> str:
        return self.op("Slice", x, *(self.constant([v], np.int64) for v in (start, start + size, axis)))

    def resize(self, x: str, factor: float, mode: str) -> str:
        return self.op("Resize", x, "", self.constant([1, 1, factor, factor]), mode=mode)

    def clip(self, x: str, low: float, high: float) -> str:
        return self.op("Clip", x, self.constant(low), self.constant(high))

    def save(self, path: Path, *outputs: str) -> Path:
        graph = helper.make_graph(
            self.nodes,
            "graph",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4, 8, 8])],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            self.constants,
        )
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
        return path


def random_network(seed: int) -> tuple[Graph, list[str]]:
    """Values of `[N, 4, 8, 8]`, each made of one or two earlier ones, which others may read as well."""
    g = Graph(seed)
    values = ["x", g.conv("x")]

    def scaled(x: str) -> str:
        return g.conv(x, scale=float(g.random.choice([0.1, 0.5, 3])))

    def activated(x: str) -> str:
        return g.op("Relu", x) if g.random.random() < 0.5 else g.clip(x, -float(g.random.random()), 1)

    def pooled(x: str) -> str:
        kind = str(g.random.choice(["MaxPool", "AveragePool"]))
        return g.op(kind, x, kernel_shape=[3, 3], pads=[1, 1, 1, 1])

    def resized(x: str) -> str:
        """Up and down again, or down and up."""
        modes = [str(m) for m in g.random.choice(["nearest", "linear", "cubic"], 2)]
        factor = float(g.random.choice([0.5, 2]))
        inner = g.resize(x, factor, modes[0])
        return g.resize(activated(inner) if g.random.random() < 0.3 else inner, 1 / factor, modes[1])

    def joined(x: str, y: str) -> str:
        both = g.op("Concat", x, y, axis=1)
        both = activated(both) if g.random.random() < 0.5 else both
        return g.slice(both, 1, 4, int(g.random.integers(5))) if g.random.random() < 0.5 else g.conv(both, inputs=8)

    def summed(x: str, y: str) -> str:
        return g.op(str(g.random.choice(["Add", "Sub"])), x, y)

    alone = (scaled, scaled, activated, pooled, resized, lambda x: g.op("Sigmoid", x))
    for _ in range(int(g.random.integers(4, 12))):
        x, y = (str(g.random.choice(values[-4:])) for _ in range(2))
        if g.random.random() < 0.5:
            values.append(alone[int(g.random.integers(len(alone)))](x))
        else:
            values.append((joined, summed)[int(g.random.integers(2))](x, y))
    others = [str(v) for v in g.random.choice(values[1:], 2)]
    return g, list(dict.fromkeys([values[-1], *others]))
