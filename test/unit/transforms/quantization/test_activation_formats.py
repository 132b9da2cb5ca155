"""Inputs of layers in FP8: numbers against tables of the formats and onnxruntime, text, files, and what refuses them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from amct_opt import frontends
from amct_opt.dialects import nn
from amct_opt.examine.checking.bisection import bisect
from amct_opt.ir.text import module_text, parse_module
from amct_opt.ir.verification import verify
from amct_opt.pipelines.passes import make_pass
from amct_opt.runtime.executor import run
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.targets.onnx import OnnxTarget
from amct_opt.tools import amct
from amct_opt.transforms.quantization.options import SettingsOptions
from amct_opt.transforms.quantization.request import settings_of

from ...frameworks import ReferenceEvaluator
from ...ir.test_number_formats import TABLES, nearest
from ...values import parsed
from .test_groups import net
from .test_weight_formats import CONVOLUTIONS, by_loop, missed, onnx_outputs

Array = np.ndarray
FORMATS = {
    "fp8-e4m3": ("f8E4M3FN", "float8_e4m3fn", 448.0, TensorProto.FLOAT8E4M3FN),
    "fp8-e5m2": ("f8E5M2", "float8_e5m2", 57344.0, TensorProto.FLOAT8E5M2),
}
"""MLIR's type, the table of the elements, the largest of them, and ONNX's type."""


def quantized(text: str, options: str, data: Path, profile: str = "qdq") -> tuple[ModuleOp, Session]:
    module, session = parsed(text, profile=profile)
    make_pass("quantize", f"data={data} {options}").apply(session, module)
    verify(module)
    return module, session


def by_table(x: Array, scale: np.float32, name: str) -> Array:
    """What a quantized input stands for, one number at a time."""
    _, table, largest, _ = FORMATS[name]
    steps = np.clip(x.astype(np.float32) / scale, -largest, largest).reshape(-1)
    return (np.array([nearest(float(s), TABLES[table]) for s in steps], np.float32) * scale).reshape(x.shape)


@pytest.fixture
def data(tmp_path: Path, rng: np.random.Generator) -> Path:
    """Samples of very different size."""
    x = (rng.normal(size=(24, 40)) * 2.0 ** rng.integers(-12, 4, (24, 40))).astype(np.float32)
    np.save(tmp_path / "x.npy", x)
    return tmp_path / "x.npy"


@pytest.mark.parametrize("name", FORMATS)
def test_the_cast_is_that_of_onnx(name: str, rng: np.random.Generator) -> None:
    """Ties to even, numbers below the least normal one, saturation, infinity and NaN: by the interpreter, onnxruntime and
    ONNX's reference.
    """
    kind, _, largest, code = FORMATS[name]
    ends = [0, -0.0, 1, largest, largest * 1.1, -1e30, np.inf, -np.inf, np.nan, 2.0**-9, 2.0**-10, 3 * 2.0**-17]
    ties = np.arange(-64, 64) / 32 + 1
    x = np.array([*ends, *ties, *(rng.normal(size=4000) * 2.0 ** rng.integers(-20, 12, 4000))], np.float32)
    for scale in (np.float32(1), np.float32(0.0123)):
        text = f"""
func.func @main(%x: tensor<?xf32> {{nn.name = "x"}}) -> (tensor<?xf32> {{nn.name = "y"}}) {{
  %s = nn.constant dense<{float(scale)!r}> : tensor<f32>
  %q = nn.quantize_float %x, %s : (tensor<?xf32>, tensor<f32>) -> tensor<?x{kind}>
  %y = nn.dequantize_float %q, %s : (tensor<?x{kind}>, tensor<f32>) -> tensor<?xf32>
  func.return %y : tensor<?xf32>
}}
"""
        found = run(parse_module(new_session(), text, "cast.mlir"), {"x": x})["y"]
        finite = np.isfinite(x)
        np.testing.assert_array_equal(found[finite], by_table(x[finite], scale, name))
        np.testing.assert_array_equal(found[6:9], [largest * scale, -largest * scale, np.nan])
        inner = [helper.make_tensor("s", 1, [], [float(scale)]), helper.make_tensor("z", code, [], b"\0", raw=True)]
        nodes = [
            helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
            helper.make_node("DequantizeLinear", ["q", "s"], ["y"]),
        ]
        ends_of = [helper.make_tensor_value_info(n, 1, ["n"]) for n in "xy"]
        graph = helper.make_graph(nodes, "cast", ends_of[:1], ends_of[1:], inner)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
        runtime: Any = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        np.testing.assert_array_equal(found, runtime.run(None, {"x": x})[0])
        np.testing.assert_array_equal(found, cast(Any, ReferenceEvaluator(model).run(None, {"x": x}))[0])


@pytest.mark.parametrize("weights", ["", "weight-format=mxfp8"])
@pytest.mark.parametrize("name", FORMATS)
def test_numbers_text_and_files(name: str, weights: str, data: Path, tmp_path: Path, rng: np.random.Generator) -> None:
    """The largest magnitude of the data becomes the largest float; text and files read back as the same; onnxruntime agrees."""
    weight = rng.normal(size=(40, 3)).astype(np.float32)
    text, x = net(weight, False), np.load(data)
    module, session = quantized(text, f"activation-format={name} {weights}", data)
    scale = np.float32(np.abs(x).max().astype(np.float64) / FORMATS[name][2])
    expected = by_table(x, scale, name) @ by_loop(weight, "mxfp8" if weights else name)
    found = run(module, {"x": x})["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())
    again = parse_module(new_session(), module_text(module), "again.mlir")
    assert module_text(again) == module_text(module)
    for target in (OnnxTarget(), OnnxTarget(simulate_formats=True)):
        target.write(module, path := tmp_path / "net.onnx", session)
        onnx.checker.check_model(onnx.load(path), full_check=True)
        np.testing.assert_array_equal(run(frontends.read(path, new_session()), {"x": x})["y"], found)
        np.testing.assert_allclose(onnx_outputs(path, x), found, rtol=1e-5, atol=1e-5 * np.abs(found).max())
    said = {r.rule: r.reason for r in session.remarks}
    assert said["input-format"] == f"its input becomes {name}, observed by minmax"
    assert said["quantized"].startswith(f"{name} input; {'mxfp8' if weights else name} weight per ")
    assert said["weight-only"] == "its weight is quantized by itself"
    result = bisect(parse_module(new_session(), text, "net.mlir"), module, [{"x": x}])
    assert (result.first, result.quantized) == (None, True)


def computes_the_same(text: str, x: np.ndarray, folder: Path) -> ModuleOp:
    """The network in fp8, calibrated on x: the file computes what the module does."""
    np.save(folder / "x.npy", x)
    module, session = quantized(text, "activation-format=fp8-e4m3", folder / "x.npy")
    OnnxTarget().write(module, path := folder / "net.onnx", session)
    found = run(module, {"x": x[:1]})["y"]
    np.testing.assert_allclose(onnx_outputs(path, x[:1]), found, rtol=1e-5, atol=1e-5)
    return module


def test_convolutions(tmp_path: Path, rng: np.random.Generator) -> None:
    weight, x = (rng.normal(size=s).astype(np.float32) for s in ((6, 2, 3, 3), (4, 4, 6, 6)))
    module = computes_the_same(CONVOLUTIONS.replace("WEIGHT", weight.tobytes().hex()), x, tmp_path)
    assert [op.name for op in module.walk() if "_float" in op.name].count("nn.quantize_float") == 1


@pytest.mark.parametrize("bound", ["relu", "relu6"])
def test_bounds_before_it_are_kept(bound: str, tmp_path: Path, rng: np.random.Generator) -> None:
    """onnxruntime drops a Relu before QuantizeLinear, as if its zero point were the least number."""
    weight, x = (rng.normal(size=s).astype(np.float32) for s in ((6, 2, 3, 3), (4, 4, 6, 6)))
    text = CONVOLUTIONS.replace("WEIGHT", weight.tobytes().hex()).replace("nn.conv %x", "nn.conv %r")
    text = text.replace("  %y = nn.conv", f"  %r = nn.{bound} %x : tensor<1x4x6x6xf32>\n  %y = nn.conv")
    computes_the_same(text, x, tmp_path)


def test_channels_that_are_last_become_second(tmp_path: Path, rng: np.random.Generator) -> None:
    weight, x = rng.normal(size=(6, 4, 3, 3)).astype(np.float32), rng.normal(size=(4, 5, 5, 4)).astype(np.float32)
    text = f"""
func.func @main(%x: tensor<1x5x5x4xf32> {{nn.name = "x"}}) -> (tensor<1x5x5x6xf32> {{nn.name = "y"}}) {{
  %w = nn.constant #nn.external<"w", tensor<6x4x3x3xf32>, "0x{weight.tobytes().hex()}">
  %y = nn.conv %x, %w pads [1, 1, 1, 1] layout nhwc from <tensorflow, "Conv2D", "conv"> :
    (tensor<1x5x5x4xf32>, tensor<6x4x3x3xf32>) -> tensor<1x5x5x6xf32>
  func.return %y : tensor<1x5x5x6xf32>
}}
"""
    computes_the_same(text, x, tmp_path)


def test_layers_that_read_one_value_share_its_scale_and_half_precision_is_given_back(
    tmp_path: Path, rng: np.random.Generator
) -> None:
    weight = rng.normal(size=(32, 32)).astype(np.float16)
    np.save(tmp_path / "x.npy", np.zeros((4, 32), np.float16))
    text = f"""
func.func @main(%x: tensor<?x32xf16> {{nn.name = "x"}}) -> (tensor<?x32xf16> {{nn.name = "y"}}) {{
  %w = nn.constant dense<"0x{weight.tobytes().hex()}"> : tensor<32x32xf16>
  %a = nn.matmul %x, %w from <onnx, "MatMul", "a"> : (tensor<?x32xf16>, tensor<32x32xf16>) -> tensor<?x32xf16>
  %b = nn.matmul %x, %w from <onnx, "MatMul", "b"> : (tensor<?x32xf16>, tensor<32x32xf16>) -> tensor<?x32xf16>
  %y = nn.matmul %a, %b transpose_b from <onnx, "MatMul", "c"> : (tensor<?x32xf16>, tensor<?x32xf16>) -> tensor<?x?xf16>
  %z = nn.reshape %y, %y : (tensor<?x?xf16>, tensor<?x?xf16>) -> tensor<?x32xf16>
  func.return %a : tensor<?x32xf16>
}}
""".replace("  %z = nn.reshape %y, %y : (tensor<?x?xf16>, tensor<?x?xf16>) -> tensor<?x32xf16>\n", "")
    module, session = quantized(text, "activation-format=fp8-e4m3", tmp_path / "x.npy")
    (point,) = (op for op in module.walk() if isinstance(op, nn.QuantizeFloatOp))
    scale = nn.array_of(point.scale)
    assert scale == 1  # nothing but zeros was seen
    (back,) = (use.operation for use in point.result.uses)
    assert str(back.results[0].type) == "tensor<?x32xf16>"
    assert len(list(back.results[0].uses)) == 2
    assert missed(session, "weight-constant") == ["its weight is computed at run time"]


def test_inputs_that_come_quantized_stay(data: Path, rng: np.random.Generator) -> None:
    """What is quantized already says so, also when the pass runs again."""
    text = net(rng.normal(size=(40, 3)).astype(np.float32), False).replace(
        "  %y = nn.matmul %x,",
        """  %q = nn.quantize %x by <i8, scale = 0.1> : (tensor<?x40xf32>) -> tensor<?x40xi8>
  %d = nn.dequantize %q by <i8, scale = 0.1> : (tensor<?x40xi8>) -> tensor<?x40xf32>
  %y = nn.matmul %d,""",
    )
    module, session = quantized(text, "activation-format=fp8-e4m3 only-layers=fc", data)
    assert missed(session, "input-format") == ["its input is quantized already"]
    assert not any(isinstance(op, nn.QuantizeFloatOp) for op in module.walk())


def test_an_input_inside_a_region_stays(data: Path, rng: np.random.Generator) -> None:
    text = net(rng.normal(size=(40, 3)).astype(np.float32), False)
    product = next(line for line in text.splitlines() if "nn.matmul" in line)
    region = f"""  %y = nn.fused "Act" (%a = %x, %b = %w) : (tensor<?x40xf32>, tensor<40x3xf32>) -> tensor<?x3xf32> {{
    %r = nn.sin %a : tensor<?x40xf32>
  {product.replace("%y", "%p").replace("%x", "%r").replace("%w", "%b")}
    nn.yield %p : tensor<?x3xf32>
  }}"""
    module, session = quantized(text.replace(product, region), "activation-format=fp8-e4m3", data)
    assert missed(session, "input-format") == ["its input stays float: it is computed in the same region"]
    assert not any(isinstance(op, nn.QuantizeFloatOp) for op in module.walk())


def test_targets_of_amct_refuse(data: Path, rng: np.random.Generator) -> None:
    module, session = quantized(
        net(rng.normal(size=(40, 3)).astype(np.float32), False), "activation-format=fp8-e4m3", data, "ascend"
    )
    assert not any(isinstance(op, nn.ObserveOp | nn.QuantizeFloatOp | nn.DequantizeFloatOp) for op in module.walk())
    (reason,) = missed(session, "integer-weight")
    assert reason.startswith("this target takes weights of integers")


@pytest.mark.parametrize("pass_name", ["lower-to-ascend", "nn-to-quant"])
def test_what_has_no_form_of_it_says_so(pass_name: str, data: Path, rng: np.random.Generator) -> None:
    module, session = quantized(
        net(rng.normal(size=(40, 3)).astype(np.float32), False), "activation-format=fp8-e4m3", data
    )
    make_pass(pass_name, "").apply(session, module)
    reasons = {r.reason for r in session.remarks if r.kind == "missed" and r.op == "nn.quantize_float"}
    assert reasons in ({"no ascend operation stands for nn.quantize_float"}, {"quant stores integers, not f8E4M3FN"})


@pytest.mark.parametrize("recovery", ["correct-bias=true", "fit-ranges=true", "round-weights=gptq", "equalize=true"])
def test_what_works_on_integers_refuses(recovery: str, data: Path) -> None:
    with pytest.raises(CompileError, match="activation-format cannot be used with"):
        quantized(net(np.eye(40, dtype=np.float32), False), f"activation-format=fp8-e4m3 {recovery}", data)


@pytest.mark.parametrize(
    "given", [{"weight_only": False}, {"bits": 8}, {"observer": "mse"}, {"activation_offset": False}, {"dmq": 0.5}]
)
def test_options_that_change_nothing(given: dict[str, object]) -> None:
    (name,) = given
    with pytest.raises(CompileError, match=f"{name.replace('_', '-')} does not apply"):
        settings_of(SettingsOptions(activation_format="fp8-e4m3", **given))  # pyright: ignore[reportArgumentType]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where a rounding that goes the other way is amplified, as by a step: onnxruntime gives numpy no floats of 8 bits."""
    rng = np.random.default_rng(30)
    text = net(rng.normal(size=(40, 3)).astype(np.float32), False)
    steep = """%y0 = nn.matmul %x, %w from <onnx, "MatMul", "fc"> : (tensor<?x40xf32>, tensor<40x3xf32>) -> tensor<?x3xf32>
  %far = nn.constant dense<1.0e+06> : tensor<f32>
  %big = nn.mul %y0, %far : (tensor<?x3xf32>, tensor<f32>) -> tensor<?x3xf32>
  %y = nn.sin %big from <onnx, "Sin", "sin"> : tensor<?x3xf32>"""
    product = next(line.strip() for line in text.splitlines() if "nn.matmul" in line)
    (tmp_path / "net.mlir").write_text(text.replace(product, steep))
    np.save(tmp_path / "x.npy", rng.normal(size=(16, 40)).astype(np.float32))
    given = ["quantize", str(tmp_path / "net.mlir"), "--data", str(tmp_path / "x.npy"), "--profile", "qdq"]
    out = ["--activation-format", "fp8-e5m2", "--no-report", "-o", str(tmp_path / "out")]
    assert amct.run([*given, *out]) == 0
    said = capsys.readouterr().out
    assert "runs the file" in said
    assert "outputs differ from the interpreter's" in said
    assert amct.run([*given, *out, "--opset", "17"]) == 1
    assert "hint: write a newer opset: --opset 19" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["sensitivity", "tune"])
def test_layer_by_layer_commands_refuse(
    command: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "net.mlir").write_text(net(np.eye(40, dtype=np.float32), False))
    given = [command, str(tmp_path / "net.mlir"), "--data", str(data), "--profile", "qdq"]
    rest = ["--sqnr", "20", "-o", str(tmp_path / "out")] if command == "tune" else []
    assert amct.run([*given, "--activation-format", "fp8-e4m3", *rest]) == 1
    assert "layers whose inputs become floats of 8 bits are not measured one by one" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("types", "result", "reason"),
    [
        ("(tensor<4xi8>, tensor<f32>)", "tensor<4xf8E5M2>", "input must be of a float type"),
        ("(tensor<4xf32>, tensor<4xf32>)", "tensor<4xf8E5M2>", "scale must be one number of f32"),
        ("(tensor<4xf32>, tensor<f16>)", "tensor<4xf8E5M2>", "scale must be one number of f32"),
        ("(tensor<4xf32>, tensor<f32>)", "tensor<4xf4E2M1FN>", "result must be of f8E4M3FN or f8E5M2, not f4E2M1FN"),
    ],
)
def test_operands_that_do_not_fit(types: str, result: str, reason: str) -> None:
    first, second = types.strip("()").split(", ")
    text = f"""
func.func @main(%x: {first}, %s: {second}) -> {result} {{
  %y = nn.quantize_float %x, %s : {types} -> {result}
  func.return %y : {result}
}}
"""
    with pytest.raises((VerifyException, CompileError), match=reason):
        verify(parse_module(new_session(), text, "net.mlir"))


def test_points_of_an_unknown_format() -> None:
    text = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = nn.observe %x as "fc:0" by "minmax" number_format "mxfp4" : tensor<4xf32>
  func.return %y : tensor<4xf32>
}
"""
    with pytest.raises((VerifyException, CompileError), match="must be fp8-e4m3 or fp8-e5m2, not 'mxfp4'"):
        verify(parse_module(new_session(), text, "net.mlir"))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"saturate": 0}, "does not saturate"),
        ({"zero": b"\x38"}, "makes floats with a zero point"),
        ({"scales": 2}, "one scale"),
    ],
)
def test_files_that_nn_cannot_express(change: dict[str, Any], reason: str, tmp_path: Path) -> None:
    scales = 2 if "scales" in change else 1
    zero = change.get("zero", b"\0" * scales)
    inner = [
        helper.make_tensor("s", 1, [scales] if scales > 1 else [], [0.5] * scales),
        helper.make_tensor("z", TensorProto.FLOAT8E4M3FN, [scales] if scales > 1 else [], zero, raw=True),
    ]
    attributes = {"saturate": 0} if "saturate" in change else {}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], "q", **attributes),  # pyright: ignore[reportArgumentType]
        helper.make_node("DequantizeLinear", ["q", "s"], ["y"], "d"),
    ]
    ends = [helper.make_tensor_value_info(n, 1, [3, 2]) for n in "xy"]
    model = helper.make_model(
        helper.make_graph(nodes, "cast", ends[:1], ends[1:], inner),
        opset_imports=[helper.make_opsetid("", 19)],
        ir_version=9,
    )
    onnx.save(model, tmp_path / "net.onnx")
    session = new_session()
    module = frontends.read(tmp_path / "net.onnx", session)
    assert any(isinstance(op, nn.OpaqueOp) for op in module.walk())
    assert any(reason in r.reason for r in session.remarks)
