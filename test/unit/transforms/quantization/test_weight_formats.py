"""Weights in number formats: numbers against loops over the formats' definitions, text, files, and what refuses them."""

from __future__ import annotations

from math import floor, log2
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from amct_opt import frontends
from amct_opt.configuration.json_config import json_text
from amct_opt.configuration.settings import Arq
from amct_opt.dialects import nn
from amct_opt.dialects.nn.shapes import shape_of
from amct_opt.examine.checking.bisection import bisect
from amct_opt.ir.number_formats import NUMBER_FORMATS
from amct_opt.ir.text import module_text, parse_module
from amct_opt.ir.verification import verify
from amct_opt.pipelines.passes import make_pass
from amct_opt.runtime.executor import run
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.targets.onnx import OnnxTarget
from amct_opt.targets.record import RecordTarget
from amct_opt.tools import amct
from amct_opt.transforms.quantization.decide.layers import resolve
from amct_opt.transforms.quantization.options import SettingsOptions
from amct_opt.transforms.quantization.profiles import profile_of
from amct_opt.transforms.quantization.request import settings_of

from ...ir.test_number_formats import HIF8, TABLES, nearest
from ...values import parsed
from .test_groups import net

Array = np.ndarray
FORMATS = tuple(NUMBER_FORMATS)
RUN_BY_ONNXRUNTIME = {"fp8-e4m3", "fp8-e5m2", "hif8", "mxfp8"}
"""With scales of float32; onnxruntime 1.32 has no kernels for the others."""
ELEMENTS = {
    "fp8-e4m3": ("float8_e4m3fn", 448.0, 8),
    "fp8-e5m2": ("float8_e5m2", 57344.0, 15),
    "hif8": ("hif8", 15.0, 3),
    "mxfp8": ("float8_e4m3fn", 448.0, 8),
    "mxfp4": ("float4_e2m1fn", 6.0, 2),
    "nvfp4": ("float4_e2m1fn", 6.0, 2),
}
"""The table of the elements, the one that the largest weight becomes, and its exponent."""


def wild(rng: np.random.Generator, *shape: int) -> Array:
    """Weights of very different size, some groups zero."""
    weight = (rng.normal(size=shape) * 2.0 ** rng.integers(-6, 3, shape)).astype(np.float32)
    weight[:16, 0] = 0
    return weight


def by_loop(weight: Array, name: str) -> Array:
    """The numbers that a weight `[K, N]` becomes, one group of one output channel at a time."""
    kind, largest, exponent = ELEMENTS[name]
    block = {"mxfp8": 32, "mxfp4": 32, "nvfp4": 16}.get(name, len(weight))
    of_tensor = np.float32(float(np.abs(weight).max()) / (6 * 448))
    result = np.empty_like(weight)
    for n in range(weight.shape[1]):
        for begin in range(0, len(weight), block):
            part = weight[begin : begin + block, n]
            most = float(np.abs(part).max())
            if name.startswith("mx"):
                scale = np.float32(2.0 ** (floor(log2(most)) - exponent) if most else 1)
            elif name == "nvfp4":
                code = nearest(min(most / 6 / float(of_tensor), 448.0), TABLES["float8_e4m3fn"])
                scale = np.float32(code or 2.0**-9) * of_tensor
            else:
                scale = np.float32(most / largest if most else 1)
            steps = np.clip(part / scale, -largest, largest)
            found = [
                nearest(float(step), HIF8, away=True) if kind == "hif8" else nearest(float(step), TABLES[kind])
                for step in steps
            ]
            result[begin : begin + block, n] = np.array(found, np.float32) * scale
    return result


def quantized(weight: Array, options: str, transposed: bool = False, profile: str = "qdq") -> tuple[ModuleOp, Session]:
    module, session = parsed(net(weight, transposed), profile=profile)
    make_pass("quantize", f"weight-only=true {options}").apply(session, module)
    verify(module)
    return module, session


def stored_weight(module: ModuleOp) -> Array:
    """The numbers that the product reads."""
    (product,) = (op for op in module.walk() if isinstance(op, nn.MatMulOp))
    eye = np.eye(shape_of(product.lhs)[1], dtype=np.float32)
    return run(module, {"x": eye})["y"]


def onnx_outputs(path: Path, x: Array) -> Array:
    (y,) = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    return np.asarray(y)


@pytest.mark.slow
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("shape", [(96, 5), (40, 3), (10, 2)])
@pytest.mark.parametrize("name", FORMATS)
def test_numbers_text_and_files(
    name: str, shape: tuple[int, int], transposed: bool, tmp_path: Path, rng: np.random.Generator
) -> None:
    """The interpreter has what a loop gives, to the bit; text and files read back as the same; onnxruntime agrees."""
    weight = wild(rng, *shape)
    module, session = quantized(weight, f"weight-format={name}", transposed)
    expected = by_loop(weight, name)
    np.testing.assert_array_equal(stored_weight(module), expected)
    text = module_text(module)
    again = parse_module(new_session(), text, "again.mlir")
    assert module_text(again) == text
    np.testing.assert_array_equal(stored_weight(again), expected)
    x = rng.normal(size=(4, shape[0])).astype(np.float32)
    for opset in (None, 24):
        path = tmp_path / f"net{opset}.onnx"
        OnnxTarget(opset=opset).write(module, path, session)
        model = onnx.load(path)
        onnx.checker.check_model(model, full_check=True)
        types = {each.name: onnx.TensorProto.DataType.Name(each.data_type) for each in model.graph.initializer}
        assert ("FLOAT8E8M0" in types.values()) == (opset == 24 and name.startswith("mx"))
        read = frontends.read(path, new_session())
        np.testing.assert_array_equal(stored_weight(read), expected)
    if name in RUN_BY_ONNXRUNTIME:
        np.testing.assert_allclose(onnx_outputs(tmp_path / "netNone.onnx", x), x @ expected, rtol=1e-5, atol=1e-5)
    simulated = tmp_path / "simulated.onnx"
    OnnxTarget(simulate_formats=True).write(module, simulated, session)
    assert [n.op_type for n in onnx.load(simulated).graph.node if n.op_type != "Transpose"] in (["MatMul"], ["Gemm"])
    np.testing.assert_allclose(onnx_outputs(simulated, x), x @ expected, rtol=1e-5, atol=1e-5)
    reasons = {r.reason.partition(":")[0] for r in session.remarks if r.rule == "simulated"}
    assert reasons == {"is written as float32", *(["ONNX has no type for HiF8"] if name == "hif8" else [])}


def test_files_say_what_onnxruntime_does_not_run(tmp_path: Path, rng: np.random.Generator) -> None:
    said: dict[tuple[str, int | None], set[str]] = {}
    for name in FORMATS:
        for opset in (None, 25):
            module, session = quantized(wild(rng, 32, 2), f"weight-format={name}")
            path = tmp_path / "net.onnx"
            OnnxTarget(opset=opset).write(module, path, session)
            said[name, opset] = {r.reason.split(":")[0] for r in session.remarks if r.rule == "onnxruntime"}
            try:
                onnx_outputs(path, np.zeros((1, 32), np.float32))
                runs = True
            except NotImplemented:
                runs = False
            assert runs == (not said[name, opset])
    assert said["mxfp4", None] == {"onnxruntime 1.32 has no kernel for weights of float4e2m1"}
    assert said["mxfp8", 25] == {"onnxruntime 1.32 has no kernel for scales of float8e8m0"}


@pytest.mark.parametrize("name", FORMATS)
def test_a_search_takes_scales_of_less_error(name: str, rng: np.random.Generator) -> None:
    weight = rng.normal(size=(128, 8)).astype(np.float32)
    errors = [
        float(np.square(stored_weight(quantized(weight, f"weight-format={name} {search}")[0]) - weight).sum())
        for search in ("", "weight-search=true")
    ]
    assert errors[1] < errors[0]


@pytest.mark.parametrize("name", FORMATS)
def test_a_search_among_the_largest_weights_stays_finite(name: str, rng: np.random.Generator) -> None:
    weight = wild(rng, 64, 4)
    weight[3, 1], weight[40, 2] = 3.2e38, -1e20
    found = stored_weight(quantized(weight, f"weight-format={name} weight-search=true")[0])
    assert np.isfinite(found).all()
    assert abs(found[3, 1] / weight[3, 1] - 1) < 0.4


@pytest.mark.parametrize("search", ["", "weight-search=true"])
@pytest.mark.parametrize("name", FORMATS)
def test_checks_explain_what_elements_lose_and_no_more(name: str, search: str, rng: np.random.Generator) -> None:
    weight = wild(rng, 64, 4)
    runs = [{"x": np.eye(64, dtype=np.float32)}]
    original = parse_module(new_session(), net(weight, False), "net.mlir")
    module, _ = quantized(weight, f"weight-format={name} {search}")
    result = bisect(original, module, runs)
    assert result.first is None
    assert result.quantized
    weight[:, 2] *= 4
    other, _ = quantized(weight, f"weight-format={name} {search}")
    assert bisect(original, other, runs).first is not None


def test_scales_of_a_search_keep_their_type(rng: np.random.Generator) -> None:
    module, _ = quantized(wild(rng, 64, 4), "weight-format=mxfp4 weight-search=true")
    (back,) = (op for op in module.walk() if isinstance(op, nn.DequantizeFloatOp))
    assert str(back.scale.type) == "tensor<2x4xf8E8M0FNU>"


def test_a_weight_of_two_layers_is_stored_once(rng: np.random.Generator) -> None:
    weight = rng.normal(size=(32, 32)).astype(np.float32)
    text = f"""
func.func @main(%x: tensor<?x32xf32>) -> tensor<?x32xf32> {{
  %w = nn.constant #nn.external<"w", tensor<32x32xf32>, "0x{weight.tobytes().hex()}">
  %a = nn.matmul %x, %w from <onnx, "MatMul", "a"> : (tensor<?x32xf32>, tensor<32x32xf32>) -> tensor<?x32xf32>
  %b = nn.matmul %a, %w from <onnx, "MatMul", "b"> : (tensor<?x32xf32>, tensor<32x32xf32>) -> tensor<?x32xf32>
  func.return %b : tensor<?x32xf32>
}}
"""
    module, session = parsed(text, profile="qdq")
    step = make_pass("quantize", "weight-only=true weight-format=nvfp4")
    step.apply(session, module)
    once = module_text(module)
    assert once.count("f4E2M1FN>, tensor") == 1  # one operation reads the elements
    assert not any(
        isinstance(op, nn.ConstantOp) and op.array.dtype == np.float32 and op.array.size > 1 for op in module.walk()
    )
    step.apply(session, module)
    assert module_text(module) == once


def test_half_precision_weights_give_their_own_type(rng: np.random.Generator) -> None:
    weight = rng.normal(size=(32, 2)).astype(np.float16)
    text = f"""
func.func @main(%x: tensor<?x32xf16> {{nn.name = "x"}}) -> (tensor<?x2xf16> {{nn.name = "y"}}) {{
  %w = nn.constant dense<"0x{weight.tobytes().hex()}"> : tensor<32x2xf16>
  %y = nn.matmul %x, %w from <onnx, "MatMul", "fc"> : (tensor<?x32xf16>, tensor<32x2xf16>) -> tensor<?x2xf16>
  func.return %y : tensor<?x2xf16>
}}
"""
    module, session = parsed(text, profile="qdq")
    make_pass("quantize", "weight-only=true weight-format=mxfp8").apply(session, module)
    (back,) = (op for op in module.walk() if isinstance(op, nn.DequantizeFloatOp))
    assert str(back.result.type) == "tensor<32x2xf16>"
    found = run(module, {"x": np.eye(32, dtype=np.float16)})["y"]
    np.testing.assert_array_equal(found, by_loop(weight.astype(np.float32), "mxfp8").astype(np.float16))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"weight_format": "mxfp4"}, "weight-format applies to weights that are quantized by themselves"),
        ({"weight_format": "mxfp4", "weight_only": True, "weight_bits": 4}, "mxfp4 has bits and groups of its own"),
        ({"weight_format": "mxfp4", "weight_only": True, "group_size": 32}, "mxfp4 has bits and groups of its own"),
        ({"weight_format": "nvfp4", "weight_only": True, "weight_asymmetric": True}, "and no zero points"),
        ({"weight_format": "mxfp8", "weight_only": True, "channel_wise": False}, "channel_wise cannot be false"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, object], reason: str) -> None:
    with pytest.raises(CompileError, match=reason):
        settings_of(SettingsOptions(**options))  # pyright: ignore[reportArgumentType]


def test_an_unknown_format() -> None:
    with pytest.raises(CompileError, match=r"number_format must be one of fp8-e4m3, .*, not mxfp6"):
        Arq(number_format="mxfp6")


def test_json_keeps_the_format(tmp_path: Path, rng: np.random.Generator) -> None:
    module, session = parsed(net(wild(rng, 32, 2), False), profile="qdq")
    settings = settings_of(SettingsOptions(weight_format="mxfp4", weight_only=True, weight_search=True))
    layers = resolve(settings, module, profile_of(session))
    text = json_text(layers.settings, [each.layer for each in layers.candidates])
    (path := tmp_path / "config.json").write_text(text)
    again = settings_of(SettingsOptions(config=str(path)))
    assert again.by_layer["fc"].weight == Arq(True, 8, None, None, True, "mxfp4")


def test_a_layer_with_bits_of_its_own_has_integers(rng: np.random.Generator) -> None:
    module, _ = quantized(wild(rng, 32, 2), "weight-format=mxfp4 layer-weight-bits=fc:4")
    assert [op.name for op in module.walk() if "dequantize" in op.name] == ["nn.dequantize"]


def test_fp8_with_one_scale(rng: np.random.Generator) -> None:
    module, _ = quantized(wild(rng, 32, 2), "weight-format=fp8-e4m3 channel-wise=false")
    (back,) = (op for op in module.walk() if isinstance(op, nn.DequantizeFloatOp))
    assert str(back.scale.type) == "tensor<f32>"


CONVOLUTIONS = """
func.func @main(%x: tensor<1x4x6x6xf32> {nn.name = "x"}) -> (tensor<1x6x6x6xf32> {nn.name = "y"}) {
  %w = nn.constant #nn.external<"w", tensor<6x2x3x3xf32>, "0xWEIGHT">
  %b = nn.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]> : tensor<6xf32>
  %y = nn.conv %x, %w, %b pads [1, 1, 1, 1] groups 2 from <onnx, "Conv", "conv"> :
    (tensor<1x4x6x6xf32>, tensor<6x2x3x3xf32>, tensor<6xf32>) -> tensor<1x6x6x6xf32>
  func.return %y : tensor<1x6x6x6xf32>
}
"""


@pytest.mark.parametrize("name", ["fp8-e4m3", "fp8-e5m2", "hif8"])
def test_convolutions_have_a_scale_for_each_channel(name: str, tmp_path: Path, rng: np.random.Generator) -> None:
    weight = rng.normal(size=(6, 2, 3, 3)).astype(np.float32)
    module, session = parsed(CONVOLUTIONS.replace("WEIGHT", weight.tobytes().hex()), profile="qdq")
    step = make_pass("quantize", f"weight-only=true only-layers=conv weight-format={name}")
    step.apply(session, module)
    (back,) = (op for op in module.walk() if isinstance(op, nn.DequantizeFloatOp))
    assert str(back.scale.type) == "tensor<6xf32>"
    columns = weight.reshape(6, -1).T
    expected = by_loop(columns, name).T.reshape(weight.shape)
    rounded = parse_module(session, CONVOLUTIONS.replace("WEIGHT", expected.tobytes().hex()), "net.mlir")
    x = rng.normal(size=(1, 4, 6, 6)).astype(np.float32)
    found = run(module, {"x": x})["y"]
    np.testing.assert_array_equal(found, run(rounded, {"x": x})["y"])
    OnnxTarget().write(module, path := tmp_path / "net.onnx", session)
    np.testing.assert_allclose(onnx_outputs(path, x), found, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(run(frontends.read(path, new_session()), {"x": x})["y"], found)
    once = module_text(module)
    step.apply(session, module)
    assert module_text(module) == once


def test_convolutions_have_no_blocks(rng: np.random.Generator) -> None:
    weight = rng.normal(size=(6, 2, 3, 3)).astype(np.float32)
    module, session = parsed(CONVOLUTIONS.replace("WEIGHT", weight.tobytes().hex()), profile="qdq")
    make_pass("quantize", "weight-only=true weight-format=mxfp8").apply(session, module)
    assert missed(session, "weight-compress-only") == [
        "only weights are quantized, and it has no weight that can be quantized by itself"
    ]


def missed(session: Session, rule: str) -> list[str]:
    return [r.reason for r in session.remarks if r.kind == "missed" and r.rule == rule]


def test_targets_of_amct_refuse(rng: np.random.Generator) -> None:
    module, session = quantized(wild(rng, 32, 2), "weight-format=mxfp4", profile="ascend")
    assert not any(isinstance(op, nn.DequantizeFloatOp) for op in module.walk())
    assert missed(session, "integer-weight") == [
        "this target takes weights of integers, not of floats of 8 or 4 bits: use profile qdq, or weight-bits"
    ]


def test_rounding_by_outputs_says_that_it_leaves_formats(tmp_path: Path, rng: np.random.Generator) -> None:
    np.save(tmp_path / "x.npy", rng.normal(size=(8, 32)).astype(np.float32))
    _, session = quantized(wild(rng, 32, 2), f"weight-format=mxfp4 round-weights=gptq data={tmp_path / 'x.npy'}")
    assert missed(session, "number-format") == ["its weight is in mxfp4: only integers are rounded by outputs"]


def test_records_have_integers(tmp_path: Path, rng: np.random.Generator) -> None:
    module, session = quantized(wild(rng, 32, 2), "weight-format=fp8-e4m3")
    RecordTarget().write(module, tmp_path / "record.txt", session)
    assert missed(session, "recorded") == ["its weight is stored as f8E4M3FN, and a record has integers"]


def test_the_dialect_quant_has_integers(rng: np.random.Generator) -> None:
    module, session = quantized(wild(rng, 32, 2), "weight-format=mxfp4")
    make_pass("nn-to-quant", "").apply(session, module)
    assert missed(session, "storage-type") == ["quant stores integers, not f4E2M1FN"]


def test_the_lowering_refuses(rng: np.random.Generator) -> None:
    module, session = quantized(wild(rng, 32, 2), "weight-format=fp8-e4m3")
    make_pass("lower-to-ascend", "").apply(session, module)
    assert missed(session, "no-ascend-op") == ["no ascend operation stands for nn.dequantize_float"]


def test_equalization_refuses(rng: np.random.Generator) -> None:
    with pytest.raises(CompileError, match="cannot be used with equalization"):
        quantized(wild(rng, 32, 2), "weight-format=mxfp4 equalize=true")


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        ('weight "mxfp6" axis 0 block 32', "'mxfp6' is not a number format"),
        ('weight "mxfp4" axis 0 block 16', "mxfp4 has blocks of 32, not 16"),
        ('weight "mxfp4" axis 0', "mxfp4 has blocks of 32, not None"),
        ('input, weight "fp8-e4m3" axis 1', "goes with a float input"),
        ('weight "fp8-e4m3" axis 1 asymmetric', "a number format has no zero points"),
    ],
)
def test_plans_that_contradict_themselves(plan: str, reason: str, rng: np.random.Generator) -> None:
    text = net(wild(rng, 32, 2), False).replace('"fc"> :', f'"fc"> {{nn.plan = #nn.plan<{plan}>}} :')
    with pytest.raises((VerifyException, CompileError), match=reason):
        verify(parse_module(new_session(), text, "net.mlir"))


@pytest.mark.parametrize(
    ("operands", "properties", "types", "reason"),
    [
        ("%q, %s", "", "(tensor<4x2xi8>, tensor<f32>)", "input must be of f8E4M3FN, f8E5M2, f4E2M1FN or f16, not i8"),
        ("%q, %s", "", "(tensor<4x2xf8E8M0FNU>, tensor<f32>)", "input must be of f8E4M3FN"),
        ("%q, %s", "", "(tensor<4x2xf8E5M2>, tensor<f16>)", "scale must be of f32, f8E8M0FNU or f8E4M3FN, not f16"),
        ("%q, %s", "", "(tensor<4x2xf8E5M2>, tensor<2xf32>)", r"scale has the shape \[2\], not \[\]"),
        ("%q, %s", "axis 1", "(tensor<4x2xf8E5M2>, tensor<4xf32>)", r"scale has the shape \[4\], not \[2\]"),
        (
            "%q, %s",
            "axis 0 block 3",
            "(tensor<4x2xf8E5M2>, tensor<1x2xf32>)",
            r"scale has the shape \[1, 2\], not \[2, 2\]",
        ),
        ("%q, %s", "block 3", "(tensor<4x2xf8E5M2>, tensor<f32>)", "block needs an axis"),
        ("%q, %s", "axis 0 block 0", "(tensor<4x2xf8E5M2>, tensor<f32>)", "block must be positive, not 0"),
        ("%q, %s", "axis 1", "(tensor<?x2xf8E5M2>, tensor<2xf32>)", "need a tensor of known sizes"),
    ],
)
def test_operands_that_do_not_fit(operands: str, properties: str, types: str, reason: str) -> None:
    first, second = types.strip("()").split(", ")
    result = first.replace(first.split("x")[-1], "f32>")
    text = f"""
func.func @main(%q: {first}, %s: {second}) -> {result} {{
  %y = nn.dequantize_float {operands} {properties} : {types} -> {result}
  func.return %y : {result}
}}
"""
    with pytest.raises((VerifyException, CompileError), match=reason):
        verify(parse_module(new_session(), text, "net.mlir"))


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], rng: np.random.Generator) -> None:
    """A file that onnxruntime does not run is an error that says what helps; simulated, it runs."""
    session = new_session()
    OnnxTarget().write(parse_module(session, net(wild(rng, 32, 2), False), "net.mlir"), tmp_path / "net.onnx", session)
    given = ["quantize", str(tmp_path / "net.onnx"), "--profile", "qdq", "--weight-only", "--weight-format", "mxfp4"]
    assert amct.run([*given, "--no-report", "-o", str(tmp_path / "out")]) == 1
    assert (
        "hint: all files were written; --simulate-formats writes numbers that onnxruntime runs"
        in capsys.readouterr().err
    )
    assert (
        amct.run(
            [*given, "--no-report", "--simulate-formats", "--check", "--also", "nn", "-o", str(tmp_path / "simulated")]
        )
        == 0
    )
    read = frontends.read(tmp_path / "simulated" / "net_nn.mlir", new_session())
    (elements,) = (
        op for op in read.walk() if isinstance(op, nn.ConstantOp) and len(op.array.shape) == 2 and len(op.array) == 32
    )
    assert elements.array.dtype.name == "float4_e2m1fn"
    capsys.readouterr()
    assert amct.run([*given, "--opset", "21", "--no-report", "-o", str(tmp_path / "old")]) == 1
    assert "in opset 21 takes no float4e2m1" in capsys.readouterr().err
    amct.run(
        [given[0], str(tmp_path / "out" / "net_qdq.onnx"), *given[2:4], "--no-report", "-o", str(tmp_path / "twice")]
    )
    assert "is quantized already, and these layers stay as they are\n" in capsys.readouterr().err
    np.save(tmp_path / "x.npy", rng.normal(size=(2, 32)).astype(np.float32))
    for form, status in (("net_qdq.onnx", 1), ("net_nn.mlir", 0)):
        pair = [str(tmp_path / "net.onnx"), str(tmp_path / "simulated" / form)]
        assert amct.run(["bisect", *pair, "--data", str(tmp_path / "x.npy")]) == status
        assert ("hint: its weights differ: a file of simulated" in capsys.readouterr().err) == bool(status)
    assert amct.run(["convert", "--model", str(tmp_path / "out" / "net_qdq.onnx"), "--save_path", f"{tmp_path}/c"]) == 1
    assert "net_qdq.onnx: error: has f4E2M1FN where AMCT's files have integers" in capsys.readouterr().err
    integers = [*given[:4], "--weight-only", "--simulate-formats", "--no-report", "-o", str(tmp_path / "integers")]
    assert amct.run(integers) == 0
    assert "warning: simulate-formats has nothing to do: no weight is in a number format" in capsys.readouterr().err
    assert not (tmp_path / "old").exists()
