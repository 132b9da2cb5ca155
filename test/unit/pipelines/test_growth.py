"""Work grows in proportion to the network: function calls are counted, so that no result depends on the machine's speed."""

from __future__ import annotations

import cProfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from types import CodeType
from typing import Any, Self

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper
from xdsl.ir import core

from amct_opt.tools.amct_opt import run

SIZE = 4
COMPILED = ("/amct_opt/", "/xdsl/ir/", "/xdsl/rewriter")
"""Where calls are counted."""
RUNNING = ("/amct_opt/runtime/", "/amct_opt/observers/", "/amct_opt/data/")
"""Where they are not: observers of ranges look at numbers as long as these require."""


class Network:
    """Several forms of `size` layers each: chains, readers of one value, outputs, carried nodes."""

    def __init__(self, size: int):
        self.size = size
        self.nodes: list[NodeProto] = []
        self.weights: list[TensorProto] = []
        self.outputs: list[str] = []
        self.rng = np.random.default_rng(0)

    def weight(self, *shape: int) -> str:
        values = self.rng.uniform(-1, 1, shape).astype(np.float32) / 4
        self.weights.append(numpy_helper.from_array(values, f"w{len(self.weights)}"))
        return self.weights[-1].name

    def add(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        name = f"{kind}{len(self.nodes)}"
        results = [f"{name}.{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, inputs, results, name=name, **attributes))
        return results[0]

    def convolutions(self) -> None:
        value = "x"
        for _ in range(self.size):
            value = self.add("Relu", self.add("Conv", value, self.weight(4, 4, 1, 1)))
        self.outputs.append(value)

    def sums_of_constants(self) -> None:
        """No fusion, and nothing quantized before the output."""
        value = "x"
        for _ in range(self.size):
            value = self.add("Add", value, self.weight(4, 1, 1))
        self.outputs.append(value)

    def affine(self) -> None:
        """Batch norms in small operations, alternately with what cannot be part of one."""
        value = "x"
        for _ in range(self.size):
            value = self.add("Add", self.add("Mul", value, self.weight(4, 1, 1)), self.weight(4, 1, 1))
            value = self.add("Mul", value, self.weight(4, 4, 4))
        self.outputs.append(value)

    def residuals(self) -> None:
        value = "x"
        for _ in range(self.size):
            conv = self.add("Conv", value, self.weight(4, 4, 1, 1))
            norm = self.add("BatchNormalization", conv, *(self.positive(4) for _ in range(4)))
            value = self.add("Relu", self.add("Add", norm, value))
        self.outputs.append(value)

    def positive(self, *shape: int) -> str:
        values = self.rng.uniform(0.25, 0.5, shape).astype(np.float32)
        self.weights.append(numpy_helper.from_array(values, f"w{len(self.weights)}"))
        return self.weights[-1].name

    def readers(self) -> None:
        """One value and one weight with many readers, and a Concat of all."""
        value, weight = self.add("Conv", "x", self.weight(4, 4, 1, 1)), self.weight(4, 4, 1, 1)
        parts = [self.add("Relu", self.add("Conv", value, weight)) for _ in range(2 * self.size)]
        parts += [self.add("Relu", value) for _ in range(2 * self.size)]
        self.outputs.append(self.add("Concat", *parts, axis=1))

    def passive(self) -> None:
        """What takes the parameters of its input, over a long way."""
        value = self.add("Conv", "x", self.weight(4, 4, 1, 1))
        for _ in range(self.size):
            value = self.add("MaxPool", value, kernel_shape=[3, 3], pads=[1, 1, 1, 1])
        self.outputs.append(self.add("Conv", value, self.weight(4, 4, 1, 1)))

    def moves(self) -> None:
        """Three transposes cancel, across what is between them."""
        value = "x"
        for _ in range(3 * self.size):
            value = self.add("Sigmoid", self.add("Transpose", value, perm=[0, 2, 3, 1]))
        self.outputs.append(value)

    def scores(self) -> None:
        """From each value there are twice as many ways to Softmax as from the next one."""
        value = "x"
        for _ in range(self.size):
            value = self.add("Add", value, value)
        self.outputs.append(self.add("Softmax", value))

    def products(self) -> None:
        for _ in range(self.size):
            self.outputs.append(self.add("MatMul", "x", self.weight(4, 4)))

    def carried(self) -> None:
        """Branches that define the same names, and a branch of many nodes around others."""
        inner = [
            helper.make_node(
                "If", ["c"], [f"i{i}"], name=f"inner{i}", then_branch=_branch("Relu"), else_branch=_branch("Neg")
            )
            for i in range(self.size)
        ]
        whole = helper.make_graph(inner, "then", [], [_float(f"i{self.size - 1}")])
        self.outputs.append(self.add("If", "c", then_branch=whole, else_branch=_branch("Abs")))
        for _ in range(self.size):
            self.outputs.append(self.add("If", "c", then_branch=_branch("Relu"), else_branch=_branch("Neg")))

    def save(self, path: Path) -> Path:
        shape = [1, 4, 4, 4]
        inputs = [helper.make_tensor_value_info("x", 1, shape), helper.make_tensor_value_info("c", 9, [])]
        graph = helper.make_graph(self.nodes, "g", inputs, [_float(name) for name in self.outputs], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        onnx.save(model, path)
        return path


def _branch(kind: str) -> onnx.GraphProto:
    return helper.make_graph([helper.make_node(kind, ["x"], ["t"], name="same")], "branch", [], [_float("t")])


def _float(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, 1, None)


FORMS = (
    Network.convolutions, Network.sums_of_constants, Network.affine, Network.residuals, Network.readers,
    Network.passive, Network.moves, Network.scores, Network.products, Network.carried,
)  # fmt: skip

STEPS = {"ascend": ("--lower-to-ascend", "--fuse-requant", "-t", "onnx-ascend"), "qdq": ("-t", "onnx")}


@pytest.mark.slow
@pytest.mark.parametrize("profile", STEPS)
def test_calls_grow_with_the_network(profile: str, tmp_path: Path) -> None:
    """Twice the layers take twice the calls, for each function."""
    _calls(profile, SIZE, tmp_path)  # what is imported and kept at first use
    small, middle, large = (_calls(profile, n * SIZE, tmp_path) for n in (1, 2, 4))
    superlinear = {
        str(code): (small[code], middle[code], count)
        for code, count in large.items()
        if count - middle[code] > 2.5 * (middle[code] - small[code]) + 4 * SIZE
    }
    assert not superlinear, "\n".join(map(str, superlinear.items()))


def _calls(profile: str, size: int, folder: Path) -> Counter[CodeType | str]:
    """The calls of each function, and how many operands are copied, while a network is read, fused, quantized and written."""
    net = Network(size)
    for form in FORMS:
        form(net)
    source = net.save(folder / "net.onnx")
    passes = ["--fold-constants", "--canonicalize", "--fuse-all", "--quantize=engine=numpy"]
    recorder = cProfile.Profile(builtins=False)
    calls: Counter[CodeType | str] = Counter()

    class Counted(core.SSAValues[Any]):
        def __new__(cls, values: Iterable[Any] = ()) -> Self:
            made = super().__new__(cls, values)
            calls["operands"] += len(made)
            return made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core, "SSAValues", Counted)
        status = recorder.runcall(
            run, [str(source), "--profile", profile, *passes, *STEPS[profile], "-o", str(folder / "out.onnx")]
        )
    assert status == 0
    for entry in recorder.getstats():
        if (
            isinstance(entry.code, CodeType)
            and any(part in entry.code.co_filename for part in COMPILED)
            and not any(part in entry.code.co_filename for part in RUNNING)
        ):
            calls[entry.code] += entry.callcount
    return calls
