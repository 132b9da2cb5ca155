"""Operators of onnxruntime's own domain: imported where they are plain, carried otherwise, refused where nothing knows them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import ModelProto, NodeProto, TensorProto, helper
from xdsl.dialects.builtin import ModuleOp

import amct_opt
from amct_opt.dialects import nn
from amct_opt.runtime.executor import run
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError

Build = Callable[..., ModelProto]
Load = Callable[[ModelProto], ModuleOp]
IMPORTS = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]


RMS = ["pow", "reduce_mean", "add", "sqrt", "div", "mul"]


def contrib(
    op_type: str, *inputs: str, outputs: tuple[str, ...] = ("y",), domain: str = "com.microsoft", **attributes: Any
) -> NodeProto:
    return helper.make_node(op_type, list(inputs), list(outputs), "node", domain=domain, **attributes)


PLAIN: dict[str, tuple[NodeProto, list[str]]] = {
    "FusedMatMul": (contrib("FusedMatMul", "x", "w", alpha=0.5, transB=1), ["matmul"]),
    "FusedMatMul of values": (contrib("FusedMatMul", "x", "x", alpha=0.5, transA=1), ["matmul", "mul"]),
    "FusedMatMul of batches": (
        contrib("FusedMatMul", "x", "s", transBatchA=1, transBatchB=1, transB=1),
        ["transpose", "transpose", "matmul"],
    ),
    "Gelu": (contrib("Gelu", "x"), ["gelu"]),
    "BiasGelu": (contrib("BiasGelu", "x", "b"), ["add", "gelu"]),
    "FastGelu": (contrib("FastGelu", "x"), ["gelu"]),
    "FastGelu with bias": (contrib("FastGelu", "x", "b"), ["add", "gelu"]),
    "QuickGelu": (contrib("QuickGelu", "x", alpha=1.5), ["mul", "sigmoid", "mul"]),
    "SkipLayerNormalization": (
        contrib("SkipLayerNormalization", "x", "s", "b", "", "g", outputs=("y", "", "", "sum"), epsilon=1e-5),
        ["add", "add", "layer_norm"],
    ),
    "SimplifiedLayerNormalization": (contrib("SimplifiedLayerNormalization", "x", "b", domain=""), RMS),
    "SimplifiedLayerNormalization of two axes": (
        contrib("SimplifiedLayerNormalization", "x", "m", outputs=("y", ""), domain="", axis=1, epsilon=0.1),
        RMS,
    ),
    "SkipSimplifiedLayerNormalization": (
        contrib("SkipSimplifiedLayerNormalization", "x", "s", "b", "g", outputs=("y", "", "", "sum"), epsilon=0.1),
        ["add", "add", *RMS],
    ),
}


@pytest.mark.parametrize("form", PLAIN)
def test_plain_operators(build: Build, load: Load, form: str, rng: np.random.Generator) -> None:
    node, operations = PLAIN[form]
    weights = {"w": (6, 8), "b": (8,), "g": (8,), "s": (2, 4, 8), "m": (4, 8)}
    arrays = {n: rng.normal(size=s).astype(np.float32) for n, s in weights.items() if n in node.input}
    model = build([node], [("x", [2, 4, 8])], [(n, None) for n in node.output if n], arrays, opset_imports=IMPORTS)
    module = load(model)
    assert [op.name.removeprefix("nn.") for op in module.walk() if isinstance(op, nn.NNOp)] == operations
    x = rng.normal(size=(2, 4, 8)).astype(np.float32)
    names = [n for n in node.output if n]
    wanted = onnxruntime.InferenceSession(model.SerializeToString()).run(names, {"x": x})
    for name, array in zip(names, wanted, strict=True):
        np.testing.assert_allclose(run(module, {"x": x})[name], np.asarray(array), rtol=1e-4, atol=1e-5)


def test_onnxruntime_has_one_kernel_for_a_written_root_mean_square(
    build: Build, load: Load, tmp_path: Path, rng: np.random.Generator
) -> None:
    node = contrib("SkipSimplifiedLayerNormalization", "x", "s", "b", domain="com.microsoft", epsilon=0.1)
    arrays = {"b": rng.normal(size=8).astype(np.float32)}
    module = load(build([node], [("x", [2, 4, 8]), ("s", [2, 4, 8])], [("y", None)], arrays, opset_imports=IMPORTS))
    amct_opt.save(module, tmp_path / "written.onnx", new_session(), "onnx")
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    onnxruntime.InferenceSession(str(tmp_path / "written.onnx"), options)
    kinds = [n.op_type for n in onnx.load(tmp_path / "optimized.onnx").graph.node]
    assert kinds[-1] == "SimplifiedLayerNormalization", kinds


def test_fused_convolution(build: Build, load: Load, rng: np.random.Generator) -> None:
    node = contrib("FusedConv", "x", "w", "b", "z", activation="Relu", pads=[1, 1, 1, 1], kernel_shape=[3, 3])
    arrays = {"w": rng.normal(size=(4, 3, 3, 3)).astype(np.float32), "b": np.ones(4, np.float32)}
    inputs = [("x", [1, 3, 5, 5]), ("z", [1, 4, 5, 5])]
    model = build([node], inputs, [("y", None)], arrays, opset_imports=IMPORTS)
    feeds = {n: rng.normal(size=s).astype(np.float32) for n, s in inputs}
    (wanted,) = map(np.asarray, onnxruntime.InferenceSession(model.SerializeToString()).run(None, feeds))
    module = load(model)
    assert [op.name for op in module.walk() if isinstance(op, nn.NNOp)] == ["nn.conv", "nn.add", "nn.relu"]
    np.testing.assert_allclose(run(module, feeds)["y"], wanted, rtol=1e-4, atol=1e-5)


ACTIVATIONS: dict[str, dict[str, float]] = {
    "FusedConv Tanh": {},
    "FusedConv Clip": {"min": -0.5, "max": 0.7},
    "FusedConv HardSigmoid": {"alpha": 0.3, "beta": 0.4},
    "FusedGemm Sigmoid": {},
    "FusedGemm LeakyRelu": {"alpha": 0.3},
}


@pytest.mark.parametrize("form", ACTIVATIONS)
def test_fused_activations(build: Build, load: Load, form: str, rng: np.random.Generator) -> None:
    """A list of parameters on FusedConv, attributes on FusedGemm."""
    (op_type, activation), params = form.split(), ACTIVATIONS[form]
    if op_type == "FusedConv":
        given: dict[str, Any] = {"activation_params": [*params.values()]} if params else {}
        node, shape, weight = contrib(op_type, "x", "w", "b", activation=activation, **given), (2, 3, 5), (6, 3, 2)
    else:
        named: dict[str, Any] = {f"activation_{name}": value for name, value in params.items()}
        node, shape, weight = contrib(op_type, "x", "w", "b", activation=activation, transB=1, **named), (4, 3), (6, 3)
    arrays = {"w": rng.normal(size=weight).astype(np.float32), "b": rng.normal(size=6).astype(np.float32)}
    model = build([node], [("x", shape)], [("y", None)], arrays, opset_imports=IMPORTS)
    x = rng.normal(size=shape).astype(np.float32)
    (wanted,) = map(np.asarray, onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x}))
    module = load(model)
    assert not any(isinstance(op, nn.OpaqueOp) for op in module.walk())
    np.testing.assert_allclose(run(module, {"x": x})["y"], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("domain", ["", "com.microsoft"])
def test_others_are_carried(build: Build, load: Load, tmp_path: Path, domain: str, rng: np.random.Generator) -> None:
    """onnxruntime says of which type the result is, runs the operator, and reads it in the file that is written.

    It has operators of its own in ONNX's domain too, which no opset of ONNX defines.
    """
    skip = ["s"] if domain else []
    kind, outputs = ("Skip", ("h", "", "d")) if domain else ("", ("h", "d"))
    node = contrib(f"{kind}SimplifiedLayerNormalization", "x", *skip, "g", outputs=outputs, domain=domain, epsilon=1e-5)
    nodes = [node, helper.make_node("Add", ["h", "d"], ["y"])]
    weights = {"s": rng.normal(size=(2, 4, 8)).astype(np.float32), "g": np.ones(8, np.float32)}
    weights = {name: array for name, array in weights.items() if name in node.input}
    model = build(nodes, [("x", [2, 4, 8])], [("y", None)], weights, opset_imports=IMPORTS)
    module = load(model)
    (op,) = [op for op in module.walk() if isinstance(op, nn.OpaqueOp)]
    assert str(op.result_types[0]) == "tensor<2x4x8xf32>"
    x = rng.normal(size=(2, 4, 8)).astype(np.float32)
    (wanted,) = map(np.asarray, onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x}))
    np.testing.assert_allclose(run(module, {"x": x})["y"], wanted, rtol=1e-5)
    amct_opt.save(module, tmp_path / "m.onnx", new_session(), "onnx")
    written = onnx.load(tmp_path / "m.onnx")
    assert node.op_type in {n.op_type for n in written.graph.node}
    assert (("com.microsoft", 1) in [(o.domain, o.version) for o in written.opset_import]) == bool(domain)
    (found,) = map(np.asarray, onnxruntime.InferenceSession(str(tmp_path / "m.onnx")).run(None, {"x": x}))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("bits", [2, 4])
@pytest.mark.parametrize("level", [0, 1, 4])
@pytest.mark.parametrize("asymmetric", [True, False])
def test_weights_of_few_bits_in_blocks(
    build: Build, load: Load, tmp_path: Path, level: int, asymmetric: bool, bits: int, rng: np.random.Generator
) -> None:
    """MatMulNBits is a float product; at accuracy level 4 it rounds its input and is carried, its weights as constants."""
    weights = {
        "w": rng.integers(0, 256, (48, 2, 4 * bits), np.uint8),
        "scales": rng.uniform(0.01, 0.02, 96).astype(np.float32),
        **({"zeros": rng.integers(0, 256, 48, np.uint8)} if asymmetric else {}),
    }
    sizes: dict[str, Any] = {"K": 64, "N": 48, "bits": bits, "block_size": 32, "accuracy_level": level}
    node = contrib("MatMulNBits", "x", *weights, outputs=("h",), **sizes)
    nodes = [node, helper.make_node("Relu", ["h"], ["y"])]
    model = build(nodes, [("x", ["n", 64])], [("y", ["n", 48])], weights, opset_imports=IMPORTS)
    x = rng.normal(size=(16, 64)).astype(np.float32)
    (wanted,) = map(np.asarray, onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x}))
    module = load(model)
    assert any(isinstance(op, nn.OpaqueOp) for op in module.walk()) == (level == 4)
    np.testing.assert_allclose(run(module, {"x": x})["y"], wanted, rtol=1e-5, atol=1e-5)
    amct_opt.save(module, tmp_path / "m.onnx", new_session(), "onnx")
    (found,) = map(np.asarray, onnxruntime.InferenceSession(str(tmp_path / "m.onnx")).run(None, {"x": x}))
    np.testing.assert_allclose(found, wanted, rtol=0 if level == 4 else 1e-5, atol=0 if level == 4 else 1e-5)


@pytest.mark.parametrize("bits", [None, 4])
def test_experts_stay_in_their_operator(build: Build, bits: int | None, rng: np.random.Generator) -> None:
    """MoE and QMoE: 4 experts from 16 channels to 32 and back, of which each token is sent to 2."""
    shapes = {"router": (16, 4), "w1": (4, 32, 16), "s1": (4, 32), "w2": (4, 16, 32), "s2": (4, 16)}
    arrays = {name: rng.uniform(size=shape).astype(np.float32) for name, shape in shapes.items()}
    inputs, attributes = ["w1", "", "w2"], dict[str, Any](k=2)
    if bits is None:
        arrays = {name: array for name, array in arrays.items() if name not in ("s1", "s2")}
    else:
        inputs, attributes["expert_weight_bits"] = ["w1", "s1", "", "w2", "s2"], bits
        arrays |= {
            name: rng.integers(0, 256, (*s[:2], s[2] // 2), np.uint8) for name, s in shapes.items() if len(s) == 3
        }
    node = contrib("MoE" if bits is None else "QMoE", "x", "h", *inputs, **attributes)
    nodes = [helper.make_node("MatMul", ["x", "router"], ["h"]), node]
    model = build(nodes, [("x", ["n", 16])], [("y", ["n", 16])], arrays, opset_imports=IMPORTS)
    x = rng.normal(size=(8, 16)).astype(np.float32)
    (wanted,) = map(np.asarray, onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x}))
    session = new_session()
    np.testing.assert_allclose(run(amct_opt.load(model, session)[0], {"x": x})["y"], wanted, rtol=1e-5)
    assert [r.reason for r in session.remarks if r.rule == "native"] == [
        f"carried as opaque: nn has no equivalent of {node.op_type}"
    ]


def test_weights_in_blocks_of_other_sizes(build: Build, load: Load) -> None:
    weights = {"w": np.zeros((48, 2, 16), np.uint8), "scales": np.ones(95, np.float32)}
    node = contrib("MatMulNBits", "x", *weights, outputs=("y",), K=64, N=48, bits=4, block_size=32)
    model = build([node], [("x", ["n", 64])], [("y", ["n", 48])], weights, opset_imports=IMPORTS)
    with pytest.raises(
        CompileError, match=r"has \[1536, 95\] bytes, scales and zero points, which do not fit its K, N"
    ):
        load(model)


def test_unknown_operators(build: Build, load: Load) -> None:
    model = build([contrib("NoSuch", "x")], [("x", [2])], ["y"], opset_imports=IMPORTS)
    with pytest.raises(CompileError, match="NoSuch has no equivalent here, and the type of its result 0 is not known"):
        load(model)
    node = helper.make_node("BitwiseNot", ["x"], ["y"], "not")
    model = build([node], [helper.make_tensor_value_info("x", TensorProto.INT32, [2])], ["y"], opset=17)
    with pytest.raises(CompileError, match="BitwiseNot is not an operator of opset 17, which the model is of"):
        load(model)


EXAMPLES = Path(__file__).parents[4] / "examples"


@pytest.mark.parametrize("level", ["EXTENDED", "ALL"])
@pytest.mark.parametrize("example", ["models/transformer.onnx", "digits/digits.onnx"])
def test_files_of_the_optimizer(example: str, level: str, tmp_path: Path) -> None:
    """Read, quantized and written, for onnxruntime to load; what has channels in blocks (NCHWc) is carried."""
    optimized, options = tmp_path / "optimized.onnx", onnxruntime.SessionOptions()
    options.optimized_model_filepath, options.log_severity_level = str(optimized), 3
    options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, f"ORT_ENABLE_{level}")
    source = onnxruntime.InferenceSession(EXAMPLES / example, options)
    assert {n.domain for n in onnx.load(optimized).graph.node} - {""}
    module, session = amct_opt.load(optimized)
    session.profile = "qdq"
    (value,) = source.get_inputs()
    x = np.random.default_rng(0).normal(size=[d if isinstance(d, int) else 2 for d in value.shape]).astype(np.float32)
    amct_opt.quantize(module, session, data=[{value.name: x}])
    assert any(isinstance(op, nn.DequantizeOp) for op in module.walk())
    amct_opt.save(module, tmp_path / "m.onnx", session, "onnx")
    quantized = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    (wanted,), (found,) = (map(np.asarray, each.run(None, {value.name: x})) for each in (source, quantized))
    assert np.linalg.norm(found - wanted) < 0.05 * np.linalg.norm(wanted)


def gathered(build: Build, table: np.ndarray[Any, Any], scales: np.ndarray[Any, Any], **given: int) -> Any:
    """Rows of a table of 4 bits unless `given` says otherwise; 48 tokens of 32 columns."""
    sizes: dict[str, Any] = {"bits": 4, "block_size": 16, "gather_axis": 0, "quantize_axis": 1, **given}
    node = contrib("GatherBlockQuantized", "table", "x", "scales", outputs=("y",), **sizes)
    x, y = ("x", TensorProto.INT64, ["n"]), ("y", TensorProto.FLOAT, ["n", 32])
    values = [helper.make_tensor_value_info(*each) for each in (x, y)]
    return build([node], values[:1], values[1:], {"table": table, "scales": scales}, opset_imports=IMPORTS)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_rows_of_a_table_in_blocks(bits: int, build: Build, load: Load, rng: np.random.Generator) -> None:
    """What does not fit is an error."""
    table = rng.integers(0, 256, (48, 4 * bits), np.uint8)
    scales = rng.uniform(0.1, 1, (48, 2)).astype(np.float32)
    x, model = np.array([0, 47, -1]), gathered(build, table, scales, bits=bits)
    (wanted,) = map(np.asarray, onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x}))
    module = load(model)
    np.testing.assert_array_equal(run(module, {"x": x})["y"], wanted)
    assert not any(isinstance(op, nn.OpaqueOp) for op in module.walk())
    with pytest.raises(CompileError, match=r"has scales and zero points of \[\(48, 3\)\], which do not fit its table"):
        load(gathered(build, table, np.ones((48, 3), np.float32), bits=bits))
