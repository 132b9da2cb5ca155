"""Products of two inputs: plain integers in the module, in the files of both frameworks, in the record and by the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp

from amct_opt import frontends
from amct_opt.configuration.record import read_record
from amct_opt.dialects import ascend
from amct_opt.ir.text import parse_module
from amct_opt.lowering.ascend import LowerToAscendPass
from amct_opt.runtime.executor import Executable
from amct_opt.session.universe import new_session
from amct_opt.tools import amct

A, B = np.float32(0.037), np.float32(0.011)

PRODUCTS = {
    "matrices": ((5, 300), (300, 4), ""),
    "batches": ((2, 3, 5, 7), (2, 3, 7, 4), ""),
    "scores": ((2, 3, 5, 7), (2, 3, 6, 7), "transpose_b"),
    "turned": ((2, 7, 5), (2, 7, 4), "transpose_a"),
    "broadcast": ((2, 1, 5, 7), (3, 7, 4), ""),
    "one batch": ((5, 7), (2, 7, 4), ""),
    "any batch": ((-1, 3, 5, 7), (-1, 3, 6, 7), "transpose_b"),
}


def of(shape: tuple[int, ...]) -> str:
    return f"tensor<{'x'.join('?' if s < 0 else str(s) for s in shape)}xf32>"


def quantized(value: str, scale: np.float32, shape: tuple[int, ...], zero_point: int = 0) -> str:
    t, parameters = of(shape), f"<i8, scale = {float(scale)!r}, zero_point = {zero_point}>"
    return f"""
      %{value}.q = nn.quantize %{value} by {parameters} : ({t}) -> {t.replace("f32", "i8")}
      %{value}.d = nn.dequantize %{value}.q by {parameters} : ({t.replace("f32", "i8")}) -> {t}"""


def product(
    framework: str, shapes: tuple[tuple[int, ...], tuple[int, ...]], flag: str, zero_point: int = 0
) -> ModuleOp:
    a, b = shapes
    op_type = {"onnx": "MatMul", "tensorflow": "BatchMatMulV2"}[framework]
    rows, columns = a[-1] if flag == "transpose_a" else a[-2], b[-2] if flag == "transpose_b" else b[-1]
    batch = tuple(-1 if -1 in d else max(d) for d in zip(*(((1,) * 2 + s[:-2])[-2:] for s in shapes), strict=True))
    result = of((*batch[2 - max(len(a), len(b)) + 2 :], rows, columns))
    text = f"""
    func.func @main(%a: {of(a)} {{nn.name = "a"}}, %b: {of(b)} {{nn.name = "b"}}) -> ({result} {{nn.name = "y"}}) {{
      {quantized("a", A, a)} {quantized("b", B, b, zero_point)}
      %y = nn.matmul %a.d, %b.d {flag} from <{framework}, "{op_type}", "qk"> : ({of(a)}, {of(b)}) -> {result}
      func.return %y : {result}
    }}"""
    return parse_module(new_session(), text, "net.mlir")


def data(name: str) -> dict[str, Any]:
    rng = np.random.default_rng(3)
    shapes = PRODUCTS[name][:2]
    values = (np.abs(shape) for shape in shapes)
    return {key: rng.normal(0, 2, shape).astype(np.float32) for key, shape in zip("ab", values, strict=True)}


def plain(name: str) -> Any:
    """int64 sums of what AscendQuant gives, scaled once."""
    flag, x = PRODUCTS[name][2], data(name)
    a, b = (
        np.clip(np.rint(x[key] * (np.float32(1) / scale)), -128, 127).astype(np.int64)
        for key, scale in zip("ab", (A, B), strict=True)
    )
    a = a.swapaxes(-1, -2) if flag == "transpose_a" else a
    b = b.swapaxes(-1, -2) if flag == "transpose_b" else b
    return (a @ b).astype(np.float32) * np.float32(A * B)


@pytest.mark.parametrize("name", PRODUCTS)
def test_plain_integers(name: str, deploy: Any, deploy_tf: Any) -> None:
    """Equal bits: the module, the ONNX file and the file of TensorFlow, read back."""
    first, second, flag = PRODUCTS[name]
    module, inputs = product("onnx", (first, second), flag), data(name)
    lowered = module.clone()
    LowerToAscendPass().apply(new_session(), lowered)
    (made,) = (op for op in lowered.walk() if isinstance(op, ascend.BatchMatMulV2Op))
    assert str(made.y.type).endswith("xi32>")
    assert np.array_equal(Executable(lowered).run(inputs)["y"], plain(name))
    nodes = {node.name: node.op_type for node in deploy.assert_equal(module, inputs).graph.node}
    assert (nodes["qk.quant"], nodes["qk.quant1"], nodes["qk"]) == ("AscendQuant", "AscendQuant", "MatMul")
    assert nodes["qk.dequant"] == "AscendDequant"
    written = deploy_tf.assert_equal(product("tensorflow", (first, second), flag), inputs)
    assert {"qk.quant", "qk.quant1", "qk", "qk.dequant"} <= set(written)


def test_one_value_on_both_sides(deploy: Any) -> None:
    text = f"""
    func.func @main(%a: tensor<3x5xf32> {{nn.name = "a"}}) -> (tensor<3x3xf32> {{nn.name = "y"}}) {{
      {quantized("a", A, (3, 5))}
      %y = nn.matmul %a.d, %a.d transpose_b from <onnx, "MatMul", "qk"> : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x3xf32>
      func.return %y : tensor<3x3xf32>
    }}"""
    x = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
    file = deploy.assert_equal(parse_module(new_session(), text, "net.mlir"), {"a": x})
    assert [node.op_type for node in file.graph.node].count("AscendQuant") == 1


def test_zero_point_stays_float() -> None:
    module, session = product("onnx", ((3, 5), (5, 4)), "", 7), new_session()
    LowerToAscendPass().apply(session, module)
    assert [r.rule for r in session.remarks if r.kind == "missed"] == ["symmetric-activation"]
    assert not any(isinstance(op, ascend.AscendDequantOp) for op in module.walk())


@pytest.fixture
def attention(tmp_path: Path) -> Path:
    """Two heads on [batch, 6, 8]: scores of what a layer gives with the input, and what they weigh."""
    weight = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["k"], "key"),
        helper.make_node("Transpose", ["k"], ["t"], "turn", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "t"], ["s"], "qk"),
        helper.make_node("Softmax", ["s"], ["p"], "softmax", axis=-1),
        helper.make_node("MatMul", ["p", "k"], ["y"], "pv"),
    ]
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["N", 6, 8]) for n in "xy"]
    graph = helper.make_graph(nodes, "g", values[:1], values[1:], [numpy_helper.from_array(weight, "w")])
    path = tmp_path / "attention.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def test_commands(attention: Path, tmp_path: Path) -> None:
    """calibration with the profile, then convert with its record: the same graph. Without the profile products stay float."""
    x = np.random.default_rng(1).normal(size=(4, 6, 8)).astype(np.float32)
    (tmp_path / "data").mkdir()
    x.tofile(tmp_path / "data" / "0.bin")
    common = ["--input_shape", "x:4,6,8", "--data_dir", str(tmp_path / "data"), "--data_types", "float32"]
    model, profile = ["--model", str(attention)], ["--profile", "ascend-a2"]
    assert not amct.run(["calibration", *model, *profile, *common, "--save_path", str(tmp_path / "a" / "n")])
    record = read_record(tmp_path / "a" / "n_record.txt")
    assert list(record.layers) == ["key", "qk", "qk:1", "pv", "pv:1"]
    assert {record.layers[name].offset_d for name in ("qk", "qk:1", "pv", "pv:1")} == {0}
    assert not amct.run(["calibration", *model, *common, "--save_path", str(tmp_path / "b" / "n")])
    assert list(read_record(tmp_path / "b" / "n_record.txt").layers) == ["key"]
    given = ["--record_file", str(tmp_path / "a" / "n_record.txt")]
    assert not amct.run(["convert", *model, *profile, *given, "--save_path", str(tmp_path / "c" / "n")])
    first, second = (onnx.load(tmp_path / folder / "n_deploy_model.onnx").graph for folder in "ac")
    assert first == second
    assert amct.run(["convert", *model, *given, "--save_path", str(tmp_path / "d" / "n")]) == 1
    deployed, fake = (
        Executable(frontends.read(tmp_path / "a" / f"n_{kind}_model.onnx", new_session())).run({"x": x})["y"]
        for kind in ("deploy", "fake_quant")
    )
    np.testing.assert_allclose(deployed, fake, rtol=0, atol=1e-5)
