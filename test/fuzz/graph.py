"""A random ONNX graph under construction: onnxruntime runs each node as it is added, so that shapes and numbers are known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

Array = np.ndarray[Any, np.dtype[Any]]

LARGEST = 20_000
"""Elements of a value: what is larger is not added."""
LEAST_OF_LOG = 1e-30
LEAST_WITHOUT_INTEGER = 2.0**31
LARGEST_EXPONENT = 80
"""Of e, beyond which sums of powers leave the range of float32."""

ON_NOTHING = frozenset(
    ("Relu", "Sigmoid", "Tanh", "Add", "Mul", "Sub", "Concat", "Transpose", "Reshape", "Flatten", "Slice",
     "Identity", "ReduceSum", "Squeeze", "Unsqueeze", "Shape")
)  # fmt: skip
"""Operators that may read values without elements; onnxruntime never ends a convolution of zero channels."""

IR_VERSIONS = {
    9: 3, 10: 4, 11: 4, 12: 6, 13: 7, 14: 7, 15: 8, 16: 8, 17: 8, 18: 9, 19: 9, 20: 9, 21: 10, 22: 10, 23: 11,
}  # fmt: skip
"""The IR version that exporters wrote with each opset; version 3 lists initializers among the inputs."""
VALUES: Mapping[str, Callable[[int, str], str]] = {
    "numbers": lambda n, _: str(n + 1),
    "paths": lambda n, kind: f"/layer{n // 4}/layer{n // 4}.{n % 4}/{kind.lower()}/{kind}_output_0",
    "dynamo": lambda n, kind: f"{kind.lower()}_{n}" if n % 3 else f"val_{n}",
    "tensorflow": lambda n, kind: f"StatefulPartitionedCall/model/{kind.lower()}_{n}/{kind}:0",
    "paddle": lambda n, kind: f"{kind.lower()}_{n}.tmp_0",
    "unicode": lambda n, kind: f"層{n}·{kind}é",
    "quoted": lambda n, kind: f'a "{n}" \\{kind} {{x}} %y, [b]; #c',
}
NODES: Mapping[str, Callable[[int, str], str]] = {
    "unnamed": lambda _, __: "",
    "counted": lambda n, kind: f"{kind}_{n}",
    "dynamo": lambda n, kind: f"node_{kind}_{n}",
    "paths": lambda n, kind: f"/layer{n // 4}/layer{n // 4}.{n % 4}/{kind}",
    "numbers": lambda n, _: str(n),
    "unicode": lambda n, kind: f"нода{n}\\{kind}",
}


class Refused(Exception):
    """A node that onnxruntime does not run, or whose result is too large to go on with."""


def run(model: onnx.ModelProto | bytes, inputs: Mapping[str, Array], *, optimized: bool) -> dict[str, Array]:
    """What onnxruntime computes, by output name."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    data = model if isinstance(model, bytes) else model.SerializeToString()
    session: Any = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return dict(zip((o.name for o in session.get_outputs()), session.run(None, dict(inputs)), strict=True))


@dataclass
class File:
    """A model under construction. `values` are what nodes compute, `constants` what they read next to it, both by name."""

    random: np.random.Generator
    opset: int
    style: str = "numbers"
    nodes_style: str = "counted"
    dtype: Any = np.float32
    wild: str = ""
    """What is extreme about the weights."""
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    constants: dict[str, Array] = field(default_factory=dict[str, Array])
    values: dict[str, Array] = field(default_factory=dict[str, Array])
    divides: bool = False
    """Whether it divides by a value, which rounds to zero when it is quantized, or takes its logarithm."""
    computed: dict[str, Array] = field(default_factory=dict[str, Array])
    """Values of nodes that read constants only."""

    def chance(self, p: float) -> bool:
        return bool(self.random.random() < p)

    def pick(self, *choices: Any) -> Any:
        return choices[int(self.random.integers(len(choices)))]

    def int(self, low: int, high: int) -> int:
        """An integer from low to high, both included."""
        return int(self.random.integers(low, high + 1))

    def shape(self, x: str) -> tuple[int, ...]:
        return self.array(x).shape

    def array(self, x: str) -> Array:
        for held in (self.values, self.computed, self.constants):
            if x in held:
                return held[x]
        raise KeyError(x)

    # Constants

    def constant(self, values: Any, dtype: Any = None) -> str:
        """An initializer, or one of the other forms in which exporters write a constant."""
        array = np.asarray(values, self.dtype if dtype is None else dtype)
        form = self.random.random()
        if form < 0.75:
            return self._initializer(array)
        if form < 0.92:
            return self._node("Constant", [], [array], value=numpy_helper.from_array(array))[0]
        if form < 0.95:
            return self._node("Identity", [self._initializer(array)], [array])[0]
        if array.dtype == np.float32 and array.ndim == 2:
            return self._node("Transpose", [self._initializer(np.ascontiguousarray(array.T))], [array], perm=[1, 0])[0]
        if array.dtype == np.float32 and self.opset >= 13:
            wide = self._initializer(array.astype(np.float64))
            return self._node("Cast", [wide], [array], to=TensorProto.FLOAT)[0]
        return self._initializer(array)

    def _initializer(self, array: Array) -> str:
        n = len(self.constants)
        name = {"numbers": f"{n + 1000}", "unicode": f"вес/{n}", "quoted": f'w "{n}"\t'}.get(
            self.style, f"layer{n}.weight"
        )
        self.constants[name] = array
        return name

    def integers(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64), np.int64)

    def normal(self, *shape: int, scale: float = 1.0) -> str:
        """A weight: normal numbers, with what is wild about the file."""
        array = self.random.normal(0, scale, shape)
        if array.size and self.wild and self.chance(0.5):
            flat = array.reshape(shape[0] if shape else 1, -1)
            row = self.int(0, flat.shape[0] - 1)
            if self.wild == "outliers":
                flat[row] *= 100
            elif self.wild == "zeros":
                flat[row] = 0
            elif self.wild == "tiny":
                flat *= 1e-20
            elif self.wild == "huge":
                flat *= 1e12
            elif self.wild == "nan":
                flat[row, 0] = np.nan
            elif self.wild == "inf":
                flat[row, 0] = self.pick(np.inf, -np.inf)
        return self.constant(array)

    def spread(self, *shape: int) -> str:
        """Positive numbers about one."""
        return self.constant(self.random.uniform(0.5, 1.5, shape))

    # Nodes

    def op(self, kind: str, inputs: Sequence[str], outputs: int = 1, **attributes: Any) -> list[str]:
        """Adds a node. Raises Refused, and adds nothing, where onnxruntime does not run it."""
        domain = attributes.pop("domain", "")
        arrays = {f"i{k}": self.array(name) for k, name in enumerate(inputs) if name}
        if kind == "Log" and np.abs(self.array(inputs[0])).min(initial=1) < LEAST_OF_LOG:
            raise Refused("what is nearly zero may be zero in another kernel")
        if kind == "ReduceLogSumExp" and self.array(inputs[0]).max(initial=0) > LARGEST_EXPONENT:
            raise Refused("the definition overflows, onnxruntime subtracts the maximum first")
        floats = [a for a in arrays.values() if a.dtype.kind == "f"]
        if kind == "Cast" and not all((np.abs(a, dtype=np.float64) < LEAST_WITHOUT_INTEGER).all() for a in floats):
            raise Refused("what becomes of NaN and of numbers beyond all integers is not defined")
        if kind in ("MaxPool", "MeanVarianceNormalization") and any(
            np.isnan(a).any() or np.ptp(a) == 0 for a in floats
        ):
            raise Refused("onnxruntime passes over NaN, and makes NaN where nothing varies")
        if kind not in ON_NOTHING and any(not a.size for n, a in arrays.items() if inputs[int(n[1:])] in self.values):
            raise Refused(f"{kind} of no elements")
        names = [f"i{k}" if name else "" for k, name in enumerate(inputs)]
        made = [f"o{k}" for k in range(outputs)]
        graph = helper.make_graph(
            [helper.make_node(kind, names, made, domain=domain, **attributes)],
            "node",
            [
                helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
                for n, a in arrays.items()
            ],
            [onnx.ValueInfoProto(name=name) for name in made],
        )
        try:
            results = list(run(self.model_of(graph), arrays, optimized=False).values())
        except Exception as e:  # onnxruntime raises classes of its own
            raise Refused(f"{kind}: {e}") from e
        for result in results:
            self._check(kind, result)
        if (kind in ("Div", "Mod") and inputs[1] in self.values) or kind in (
            "Reciprocal",
            "Log",
            "Pow",
            "ReduceLogSumExp",
        ):
            self.divides = True
        return self._node(kind, inputs, results, domain=domain, **attributes)

    def _check(self, kind: str, result: Array) -> None:
        if not isinstance(result, np.ndarray) or result.size > LARGEST or result.ndim > 6:
            raise Refused(f"{kind}: too large")
        if self.wild or result.dtype.kind != "f" or not result.size:
            return
        if not np.isfinite(result).all() or np.abs(result.astype(np.float64)).max() > 1e4:
            raise Refused(f"{kind}: numbers are out of hand")

    def _node(self, kind: str, inputs: Sequence[str], results: Sequence[Array], **attributes: Any) -> list[str]:
        n, count = len(self.nodes), len(self.values) + len(self.computed)
        names = [VALUES[self.style](count + i, kind) for i in range(len(results))]
        self.nodes.append(helper.make_node(kind, inputs, names, NODES[self.nodes_style](n, kind), **attributes))
        held = self.values if any(name in self.values for name in inputs) else self.computed
        held.update(zip(names, results, strict=True))
        return names

    def one(self, kind: str, inputs: Sequence[str], **attributes: Any) -> str:
        return self.op(kind, inputs, **attributes)[0]

    def like(self, x: str) -> str:
        """A value of the same shape and type, x itself among them."""
        a = self.values[x]
        return self.pick(*(n for n, b in self.values.items() if b.shape == a.shape and b.dtype == a.dtype))

    def undo(self, mark: tuple[int, int, int, int]) -> None:
        """Back to what `mark()` gave: a step that failed leaves nothing behind."""
        del self.nodes[mark[0] :]
        for held, count in zip((self.constants, self.values, self.computed), mark[1:], strict=True):
            for name in [*held][count:]:
                del held[name]

    def mark(self) -> tuple[int, int, int, int]:
        return len(self.nodes), len(self.constants), len(self.values), len(self.computed)

    def model_of(self, graph: onnx.GraphProto) -> onnx.ModelProto:
        opsets = [helper.make_opsetid("", self.opset)]
        if any(n.domain == "com.microsoft" for n in graph.node):
            opsets.append(helper.make_opsetid("com.microsoft", 1))
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSIONS[self.opset])
