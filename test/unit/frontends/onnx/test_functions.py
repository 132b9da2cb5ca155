"""Operators that ONNX defines by functions, imported through these, and functions of the model's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper
from xdsl.dialects.builtin import ModuleOp

from amct_opt.dialects import nn
from amct_opt.ir.text import module_text
from amct_opt.runtime.executor import run
from amct_opt.session import Session
from amct_opt.support.diagnostics import CompileError

from ...frameworks import ReferenceEvaluator

Build = Callable[..., ModelProto]
Load = Callable[[ModelProto], ModuleOp]
B, H, KV, S, P, D = 2, 4, 2, 5, 3, 8


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


def defined(model: ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What onnx.reference computes, whose implementations are those of ONNX's own tests."""
    return [np.asarray(each) for each in ReferenceEvaluator(model).run(None, feeds)]


def compare(model: ModelProto, module: ModuleOp, feeds: dict[str, np.ndarray]) -> None:
    results = run(module, feeds)
    for output, wanted in zip(model.graph.output, defined(model, feeds), strict=True):
        np.testing.assert_allclose(results[output.name], wanted, rtol=2e-5, atol=2e-6)


ATTENTION: dict[str, tuple[dict[str, Any], dict[str, tuple[int, ...]], int]] = {
    "plain": ({}, {"q": (B, H, S, D), "k": (B, H, S, D), "v": (B, H, S, D)}, 1),
    "causal": ({"is_causal": 1}, {"q": (B, H, S, D), "k": (B, H, S, D), "v": (B, H, S, D)}, 1),
    "more keys than queries": ({"is_causal": 1}, {"q": (B, H, S, D), "k": (B, H, 7, D), "v": (B, H, 7, 6)}, 1),
    "groups of heads": ({"is_causal": 1}, {"q": (B, H, S, D), "k": (B, KV, S, D), "v": (B, KV, S, D)}, 1),
    "heads in the channels": (
        {"q_num_heads": H, "kv_num_heads": KV},
        {"q": (B, S, H * D), "k": (B, S, KV * D), "v": (B, S, KV * D)},
        1,
    ),
    "mask": ({}, {"q": (B, H, S, D), "k": (B, H, S, D), "v": (B, H, S, D), "mask": (S, S)}, 1),
    "boolean mask": ({}, {"q": (B, H, S, D), "k": (B, H, S, D), "v": (B, H, S, D), "keep": (B, 1, S, S)}, 1),
    "mask and causal": ({"is_causal": 1}, {"q": (B, H, S, D), "k": (B, H, S, D), "v": (B, H, S, D), "mask": (S, S)}, 1),
    "scale": ({"scale": 0.25}, {"q": (B, H, S, D), "k": (B, H, S, D), "v": (B, H, S, D)}, 1),
    "softcap": ({"softcap": 2.0}, {"q": (B, H, S, D), "k": (B, H, S, D), "v": (B, H, S, D)}, 1),
    "cache": (
        {"is_causal": 1},
        {"q": (B, H, S, D), "k": (B, KV, S, D), "v": (B, KV, S, D), "": (), "pk": (B, KV, P, D), "pv": (B, KV, P, D)},
        3,
    ),
    "scores": (
        {"qk_matmul_output_mode": 1},
        {"q": (B, H, S, D), "k": (B, H, S, D), "v": (B, H, S, D), "mask": (S, S)},
        4,
    ),
}
"""Attributes, inputs and number of outputs."""


@pytest.mark.parametrize("opset", [23, 26])
@pytest.mark.parametrize("unknown", [(), (B,), (B, S, P, 7)], ids=["known", "batch unknown", "lengths unknown"])
@pytest.mark.parametrize("form", ATTENTION)
def test_attention(build: Build, load: Load, form: str, unknown: tuple[int, ...], opset: int) -> None:
    """Its two matrix products are visible, whatever its form."""
    attributes, shapes, outputs = ATTENTION[form]
    names = ["y", "present_k", "present_v", "scores"][:outputs]
    written = ["y", "", "", "scores"] if form == "scores" else names
    node = helper.make_node("Attention", list(shapes), written, "attention", **attributes)
    given = {name: shape for name, shape in shapes.items() if name}
    sizes: dict[str, list[int | str]] = {}
    for name, shape in given.items():
        sizes[name] = [f"n{n}" if n in unknown and (i == 0) == (n == B) else n for i, n in enumerate(shape)]
    kinds = {name: TensorProto.BOOL if name == "keep" else TensorProto.FLOAT for name in given}
    inputs = [helper.make_tensor_value_info(n, kinds[n], sizes[n]) for n in given]
    model = build([node], inputs, [n for n in written if n], opset=opset, ir_version=10)
    for output in model.graph.output:
        output.type.tensor_type.elem_type = TensorProto.FLOAT
    module = load(model)
    left = {op.op_type.data for op in module.walk() if isinstance(op, nn.OpaqueOp)}
    assert left <= (
        {"Range", "Pad"} if S in unknown else set()
    )  # positions, which are integers, and a mask made longer
    assert sum(isinstance(op, nn.MatMulOp) for op in module.walk()) == 2
    feeds = {n: floats(*shape) for n, shape in given.items()}
    compare(model, module, {n: a > 0 if n == "keep" else a for n, a in feeds.items()})


CASES: dict[str, tuple[NodeProto, dict[str, tuple[int, ...]], int]] = {
    "rms": (helper.make_node("RMSNormalization", ["x", "s"], ["y"], epsilon=1e-6), {"x": (2, 5, 8), "s": (8,)}, 23),
    "rms of two axes": (
        helper.make_node("RMSNormalization", ["x", "s"], ["y"], axis=1),
        {"x": (2, 5, 8), "s": (5, 8)},
        24,
    ),
    "swish": (helper.make_node("Swish", ["x"], ["y"], alpha=1.5), {"x": (3, 7)}, 24),
    "rotary": (
        helper.make_node("RotaryEmbedding", ["x", "c", "s"], ["y"]),
        {"x": (B, H, S, D), "c": (B, S, D // 2), "s": (B, S, D // 2)},
        23,
    ),
    "interleaved rotary of a part": (
        helper.make_node("RotaryEmbedding", ["x", "c", "s"], ["y"], interleaved=1, rotary_embedding_dim=4),
        {"x": (B, H, S, D), "c": (B, S, 2), "s": (B, S, 2)},
        23,
    ),
    "rotary of heads in the channels": (
        helper.make_node("RotaryEmbedding", ["x", "c", "s"], ["y"], num_heads=H),
        {"x": (B, S, H * D), "c": (B, S, D // 2), "s": (B, S, D // 2)},
        23,
    ),
    "variance": (helper.make_node("MeanVarianceNormalization", ["x"], ["y"]), {"x": (2, 3, 4, 5)}, 18),
    "celu": (helper.make_node("Celu", ["x"], ["y"], alpha=2.0), {"x": (3, 7)}, 17),
}


@pytest.mark.parametrize("case", CASES)
def test_definitions(build: Build, load: Load, case: str) -> None:
    node, shapes, opset = CASES[case]
    model = build([node], list(shapes.items()), ["y"], opset=opset, ir_version=10)
    model.graph.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    module = load(model)
    assert [op for op in module.walk() if isinstance(op, nn.OpaqueOp)] == []
    compare(model, module, {n: floats(*shape) for n, shape in shapes.items()})


def test_layers_of_a_definition_are_named_after_the_node(build: Build, load: Load, session: Session) -> None:
    node = helper.make_node("Celu", ["x"], ["y"], "act", alpha=2.0)
    ops = [op for op in load(build([node], [("x", [2])], ["y"], opset=17)).walk() if isinstance(op, nn.NNOp)]
    assert [op.origin and op.origin.layer.data for op in ops] == ["act/Div", "act/Elu", "act/Mul"]
    (summary,) = [r for r in session.remarks if r.rule == "summary"]
    assert summary.reason.startswith("1 nodes: 1 mapped to nn, 0 carried")


def test_random_and_quantizing_operators_stay(build: Build, load: Load) -> None:
    """They are defined by functions too, which would hide what they are."""
    node = helper.make_node("Bernoulli", ["x"], ["y"])
    (op,) = [op for op in load(build([node], [("x", [2])], ["y"], opset=15)).walk() if isinstance(op, nn.OpaqueOp)]
    assert op.op_type.data == "Bernoulli"


# Functions of the model


def calling(build: Build, functions: dict[str, list[str]]) -> ModelProto:
    """A model that calls the first of the functions, which each call others one after the other, or none."""
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("my", 1)]
    made = []
    for name, called in functions.items():
        chain = ["a", *(f"t{i}" for i in range(1, len(called))), "b"]
        nodes = [helper.make_node(f, [chain[i]], [chain[i + 1]], domain="my") for i, f in enumerate(called)]
        made.append(
            helper.make_function("my", name, ["a"], ["b"], nodes or [helper.make_node("Relu", ["a"], ["b"])], imports)
        )
    call = helper.make_node(next(iter(functions)), ["x"], ["y"], "call", domain="my")
    return build([call], [("x", [2])], [("y", [2])], functions=made, opset_imports=imports)


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ({"F": ["F"]}, "function 'my.F': error: is part of a cycle: my.F -> my.F"),
        ({"F": ["G"], "G": ["F"]}, "function 'my.F': error: is part of a cycle: my.G -> my.F -> my.G"),
        (
            {**{f"F{i}": [f"F{i + 1}", f"F{i + 1}"] for i in range(40)}, "F40": []},
            f"function 'my.F0': error: has {3 * 2**40 - 2} nodes once the functions that it calls are inlined",
        ),
    ],
    ids=["itself", "each other", "exponential"],
)
def test_functions_without_end(build: Build, load: Load, functions: dict[str, list[str]], message: str) -> None:
    with pytest.raises(CompileError) as error:
        load(calling(build, functions))
    assert message in str(error.value)


def test_functions_that_call_functions(build: Build, load: Load) -> None:
    module = load(calling(build, {"F": ["G", "G"], "G": ["H", "H"], "H": []}))
    assert [op.name for op in module.walk() if isinstance(op, nn.NNOp)] == ["nn.relu"] * 4


def test_celu_of_a_scalar_is_a_scalar(build: Build, load: Load) -> None:
    """ONNX's own definition multiplies by a vector of one number."""
    node = helper.make_node("Celu", ["x"], ["y"], alpha=0.5)
    module = load(build([node], [("x", [])], ["y"]))
    (found,) = run(module, {"x": np.array(-1.5, np.float32)[()]}).values()
    assert found.shape == ()
    np.testing.assert_allclose(found, 0.5 * np.expm1(-3), rtol=1e-6)


@pytest.mark.parametrize(
    ("op_type", "opset"), [("Celu", 17), ("ThresholdedRelu", 18), ("ThresholdedRelu", 22), ("Shrink", 18)]
)
def test_definitions_keep_scalars(op_type: str, opset: int, build: Build, load: Load) -> None:
    """Celu's multiplies by a vector of one number."""
    model = build([helper.make_node(op_type, ["x"], ["y"])], [("x", [])], ["y"], opset=opset)
    x = {"x": np.array(-1.5, np.float32)[()]}
    module = load(model)
    assert "nn.opaque" not in module_text(module), "a version that only takes more types keeps the function"
    (found,) = run(module, x).values()
    assert found.shape == ()
    np.testing.assert_allclose(found, defined(model, x)[0], rtol=1e-6)
