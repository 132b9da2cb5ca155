"""onnxruntime's attention: the product with its weights is visible and quantized, the rest is carried, and runs as before."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, TensorProto, helper
from xdsl.dialects.builtin import ModuleOp

import amct_opt
from amct_opt.dialects import nn
from amct_opt.runtime.executor import run
from amct_opt.session import Session
from amct_opt.support.diagnostics import CompileError

from ...values import normal as floats

Build = Callable[..., ModelProto]
Load = Callable[[ModelProto], ModuleOp]
IMPORTS = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
B, S, K, HEADS, SIZE, P = 2, 3, 32, 4, 8, 5


FORMS: dict[str, tuple[dict[str, Any], dict[str, np.ndarray], int]] = {
    "plain": ({}, {}, 1),
    "mask": ({"mask_filter_value": -100.0}, {"mask": np.array([[1, 1, 0], [1, 1, 1]], np.int32)}, 1),
    "mask of rank 3": ({}, {"mask": (floats(B, S, S) > 0).astype(np.int32)}, 1),
    "lengths": ({}, {"mask": np.array([2, 3], np.int32)}, 1),
    "causal": ({"unidirectional": 1, "scale": 0.5}, {}, 1),
    "scores": ({}, {"bias": floats(B, HEADS, S, S)}, 1),
    "cache": ({"unidirectional": 1}, {"past": floats(2, B, HEADS, P, SIZE)}, 2),
    "empty cache": ({"unidirectional": 1}, {"past": floats(2, B, HEADS, 0, SIZE)}, 2),
    "unequal sizes": ({"qkv_hidden_sizes": [32, 32, 16]}, {}, 1),
}
"""Attributes, inputs after the bias, and the number of outputs."""


def model_of(build: Build, form: str, **more: Any) -> tuple[ModelProto, dict[str, np.ndarray]]:
    attributes, given, outputs = FORMS[form]
    columns = sum(attributes.get("qkv_hidden_sizes", [K] * 3))
    weights = {"w": floats(K, columns), "b": floats(columns)}
    names = ["mask", "past", "bias"]
    inputs = ["x", "w", "b", *(n if n in given else "" for n in names)]
    while not inputs[-1]:
        inputs.pop()
    node = helper.make_node(
        "Attention",
        inputs,
        ["y", "present"][:outputs],
        "attention",
        domain="com.microsoft",
        num_heads=HEADS,
        **attributes,
        **more,
    )
    kinds = {n: TensorProto.INT32 if a.dtype == np.int32 else TensorProto.FLOAT for n, a in given.items()}
    shapes = {n: [d if n != "past" or i != 3 else "p" for i, d in enumerate(a.shape)] for n, a in given.items()}
    declared = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", "s", K])]
    declared += [helper.make_tensor_value_info(n, kinds[n], shapes[n]) for n in given]
    model = build([node], declared, [(n, None) for n in node.output], weights, opset_imports=IMPORTS)
    return model, {"x": floats(B, S, K), **given}


@pytest.mark.parametrize("form", [form for form in FORMS if form != "lengths"])
def test_the_product_is_visible(build: Build, load: Load, form: str) -> None:
    model, feeds = model_of(build, form)
    module = load(model)
    assert sum(isinstance(op, nn.MatMulOp) for op in module.walk()) == 1
    assert [op.op_type.data for op in module.walk() if isinstance(op, nn.OpaqueOp)] == ["MultiHeadAttention"]
    names = [o.name for o in model.graph.output]
    wanted = onnxruntime.InferenceSession(model.SerializeToString()).run(names, feeds)
    found = run(module, feeds)
    for name, array in zip(names, wanted, strict=True):
        np.testing.assert_allclose(found[name], np.asarray(array), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("form", "more", "reason"),
    [("causal", {"do_rotary": 1}, "it rotates queries and keys (do_rotary)"), ("lengths", {}, "its mask is of rank 1")],
)
def test_what_stays_whole_says_why(
    build: Build, load: Load, session: Session, form: str, more: dict[str, object], reason: str
) -> None:
    model, _ = model_of(build, form, **more)
    module = load(model)
    assert [op.op_type.data for op in module.walk() if isinstance(op, nn.OpaqueOp)] == ["Attention"]
    assert any(reason in r.reason for r in session.remarks)


def test_operators_that_are_carried_by_name(build: Build, load: Load, session: Session, tmp_path: Path) -> None:
    """Attention of opset 23 has a definition by which it would be taken apart."""
    nodes = [helper.make_node("Attention", ["q", "k", "v"], ["y"], "attention", q_num_heads=HEADS, kv_num_heads=HEADS)]
    model = build(nodes, [(n, ["n", "s", K]) for n in "qkv"], [("y", ["n", "s", K])], opset=23, ir_version=11)
    session.imports = replace(session.imports, carried=("Attention",))
    module = load(model)
    assert [op.name for op in module.walk() if isinstance(op, nn.NNOp)] == ["nn.opaque"]
    assert any(r.reason == "carried as opaque: --carry names it" for r in session.remarks)
    amct_opt.save(module, tmp_path / "written.onnx", session, "onnx")
    assert [n.op_type for n in onnx.load(tmp_path / "written.onnx").graph.node] == ["Attention"]
    feeds = {n: floats(B, S, K) for n in "qkv"}
    (wanted,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds)
    np.testing.assert_array_equal(run(module, feeds)["y"], wanted)


def test_heads_that_do_not_divide_the_weights(build: Build, load: Load) -> None:
    model, _ = model_of(build, "plain")
    model.graph.node[0].attribute[0].i = 5
    with pytest.raises(CompileError, match="has 5 heads, which do not divide its 96 columns of weights"):
        load(model)


def test_its_weights_are_quantized(build: Build, amct_tool: Any, tmp_path: Path) -> None:
    model, feeds = model_of(build, "cache")
    onnx.save(model, tmp_path / "m.onnx")
    options = (
        "--profile", "qdq", "--weight-only", "--weight-bits", "8", "--group-size", "32", "--matmul-nbits",
        "--no-report",
    )  # fmt: skip
    assert amct_tool("quantize", tmp_path / "m.onnx", *options, "-o", tmp_path / "out").status == 0
    written = onnx.load(tmp_path / "out" / "m_qdq.onnx")
    kinds = [n.op_type for n in written.graph.node]
    assert {"MatMulNBits", "MultiHeadAttention"} < {*kinds}
    wanted, found = (onnxruntime.InferenceSession(m.SerializeToString()).run(None, feeds) for m in (model, written))
    for a, b in zip(wanted, found, strict=True):
        difference = np.abs(np.asarray(a) - np.asarray(b))
        assert (
            difference.max() < K * 4 * 4 / 255
        )  # half a step of weights up to 4, times inputs up to 4, K times, twice
