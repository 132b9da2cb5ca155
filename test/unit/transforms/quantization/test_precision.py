"""FORCE_FP16_QUANT: rounded scales, what follows from them, and where the mode is said."""

from __future__ import annotations

import struct
from math import inf, sqrt
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt.dialects import ascend, nn
from amct_opt.ir.metadata import metadata
from amct_opt.ir.precision import FORCE_FP16, float16_scales, forces_fp16, shortened
from amct_opt.ir.text import module_text, parse_module
from amct_opt.ir.verification import verify
from amct_opt.pipelines.passes import make_pass
from amct_opt.runtime.executor import run
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.targets.record import RecordTarget
from amct_opt.tools import amct_opt

from ...values import dense, made_by, normal, numbers_of, parsed


def half(number: float) -> float:
    """The nearest float16, by the standard library."""
    try:
        return struct.unpack("<e", struct.pack("<e", number))[0]
    except OverflowError:
        return inf


def halved(array: np.ndarray) -> np.ndarray:
    """float32 numbers rounded to float16's precision where it is normal."""
    return array.astype(np.float16).astype(np.float32)


def cut(number: float) -> float:
    (bits,) = struct.unpack("<I", struct.pack("<f", number))
    return struct.unpack("<f", struct.pack("<I", bits & 0xFFFFE000))[0]


@pytest.mark.parametrize(
    ("scale", "expected"),
    [
        (0.1, 0.0999755859375),
        (2.0**-14, 2.0**-14),
        (1.0 + 2.0**-11, 1.0),  # a tie goes to the even side
        (1.0 + 3 * 2.0**-11, 1.0 + 2 * 2.0**-10),
        (65504.0, 65504.0),
        (1e-6, half(sqrt(np.float32(1e-6))) ** 2),
        (70000.0, half(sqrt(70000)) ** 2),
        (1e-20, 2.0**-48),  # the least one
        (1e10, inf),
    ],
)
def test_rounded_scales(scale: float, expected: float) -> None:
    assert float(float16_scales(np.array(scale, np.float32))) == expected


def test_rounded_scales_against_the_standard_library(rng: np.random.Generator) -> None:
    scales = np.exp(rng.uniform(np.log(1e-9), np.log(1e6), 2000)).astype(np.float32)
    expected = [half(s) if 2**-14 <= s <= 65504 else half(sqrt(s)) ** 2 for s in scales.tolist()]
    np.testing.assert_array_equal(float16_scales(scales), np.array(expected, np.float32))
    within = float16_scales(scales)
    np.testing.assert_array_equal(float16_scales(within)[within >= 2**-14], within[within >= 2**-14])


def test_shortened_scales(rng: np.random.Generator) -> None:
    scales = np.exp(rng.uniform(-30, 30, (40, 5))).astype(np.float32)
    np.testing.assert_array_equal(shortened(scales), np.vectorize(cut)(scales))
    assert shortened(np.array(0.1, np.float32)).shape == ()


WEIGHT = normal(3, 2, 2, 2)
COLUMNS = normal(27, 4)


NET = f"""
func.func @main(%x: tensor<?x2x4x4xf32> {{nn.name = "x"}}) -> (tensor<?x4xf32> {{nn.name = "y"}}) {{
  %w = nn.constant {dense(WEIGHT)}
  %b = nn.constant dense<[0.5, -1.25, 3.0]> : tensor<3xf32>
  %f = nn.constant {dense(COLUMNS)}
  %1 = nn.conv %x, %w, %b from <onnx, "Conv", "conv"> :
    (tensor<?x2x4x4xf32>, tensor<3x2x2x2xf32>, tensor<3xf32>) -> tensor<?x3x3x3xf32>
  %2 = nn.flatten %1 : (tensor<?x3x3x3xf32>) -> tensor<?x27xf32>
  %y = nn.matmul %2, %f from <onnx, "Gemm", "fc"> : (tensor<?x27xf32>, tensor<27x4xf32>) -> tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}}
"""


@pytest.fixture
def folder(tmp_path: Path, rng: np.random.Generator) -> Path:
    np.savez(tmp_path / "x.npz", x=rng.normal(size=(5, 2, 4, 4)).astype(np.float32))
    (tmp_path / "simple.cfg").write_text("fakequant_precision_mode: FORCE_FP16_QUANT")
    (tmp_path / "config.json").write_text('{"fakequant_precision_mode": "FORCE_FP16_QUANT", "conv": {}, "fc": {}}')
    return tmp_path


def quantized(folder: Path, options: str) -> tuple[ModuleOp, Session]:
    module, session = parsed(NET)
    make_pass("quantize", options.replace("{}", str(folder))).apply(session, module)
    verify(module)
    return module, session


def inputs_of(module: ModuleOp) -> list[nn.QParams]:
    return [op.qparams.data for op in module.walk() if isinstance(op, nn.QuantizeOp)]


WAYS = {
    "option": "data={}/x.npz fakequant-precision-mode=FORCE_FP16_QUANT observer=ifmr",
    "simplified": "data={}/x.npz config={}/simple.cfg",
    "json": "data={}/x.npz config={}/config.json",
}


@pytest.mark.parametrize("options", WAYS.values(), ids=WAYS)
def test_scales_of_activations(folder: Path, options: str) -> None:
    """Those of the same calibration without the mode, rounded; zero points are the same."""
    module, session = quantized(folder, options)
    plain, _ = quantized(folder, f"data={{}}/x.npz observer=ifmr weights-first={str('config' in options).lower()}")
    for params, before in zip(inputs_of(module), inputs_of(plain), strict=True):
        assert float(params.scales()) == half(float(before.scales())) != float(before.scales())
        assert params.zero_point == before.zero_point
    assert [r.rule for r in session.remarks if r.kind == "analysis"] == ["fp16-scale"] * 2
    assert metadata(module)["fakequant_precision_mode"] == FORCE_FP16
    assert forces_fp16(parse_module(new_session(), module_text(module)))
    assert not forces_fp16(plain)


def test_bias_and_accumulator(folder: Path) -> None:
    """The bias is in units of the rounded scale; in Ascend's dialect scales of accumulators lose 13 bits, and only these."""
    module, session = quantized(folder, WAYS["option"] + " correct-bias=false")
    (bias,) = [op for op in module.walk() if isinstance(op, nn.ConvOp)]
    scale = inputs_of(module)[0].scales().astype(np.float64)
    params = made_by(bias.weight, nn.DequantizeOp).qparams.data
    products = (scale * params.scales()).astype(np.float32)
    integers = numbers_of(made_by(bias.bias, nn.DequantizeOp).input)
    expected = [round(b / p) for b, p in zip([0.5, -1.25, 3.0], products.astype(np.float64).tolist(), strict=True)]
    np.testing.assert_array_equal(integers, expected)
    lowered = module.clone()
    make_pass("lower-to-ascend").apply(session, lowered)
    first, _ = [op for op in lowered.walk() if isinstance(op, ascend.AscendDequantOp)]
    stored = numbers_of(first.operands[1])
    np.testing.assert_array_equal(stored, [cut(p) for p in products.tolist()])
    assert not np.array_equal(stored, products)


def test_the_lowered_model_by_hand(folder: Path) -> None:
    """The first layer's integers and its shortened scales, in exact arithmetic."""
    text = NET.replace("return %y : tensor<?x4xf32>", "return %1 : tensor<?x3x3x3xf32>")
    text = text.replace('-> (tensor<?x4xf32> {nn.name = "y"})', '-> (tensor<?x3x3x3xf32> {nn.name = "y"})')
    module, session = parsed(text)
    options = "fakequant-precision-mode=FORCE_FP16_QUANT data={}/x.npz skip-layers=fc".replace("{}", str(folder))
    make_pass("quantize", options).apply(session, module)
    make_pass("lower-to-ascend").apply(session, module)
    quant, conv, dequant = [op for op in module.walk() if op.name.startswith("ascend.")][:3]
    assert isinstance(quant, ascend.AscendQuantOp)
    assert isinstance(dequant, ascend.AscendDequantOp)
    w, b = (numbers_of(v).astype(np.int64) for v in (conv.operands[1], conv.operands[2]))
    x = np.load(folder / "x.npz")["x"][:1]
    zero = int(quant.offset.value.data)
    scaled = halved(halved(x) * halved(np.array(quant.scale.value.data, np.float32)))
    q = np.clip(np.rint(halved(scaled + np.float32(zero))), -128, 127).astype(np.int64) - zero
    windows = np.lib.stride_tricks.sliding_window_view(q, (2, 2), (2, 3))
    sums = np.einsum("nchwij,ocij->nohw", windows, w) + b[:, None, None]
    expected = sums.astype(np.float32) * numbers_of(dequant.operands[1]).reshape(-1, 1, 1)
    np.testing.assert_array_equal(run(module, {"x": x})["y"], halved(expected))


HALF = 'fakequant_precision_mode "FORCE_FP16_QUANT"'


@pytest.mark.parametrize(
    ("mode", "expected"), [("", [-112, -122, 111, -95, 87, 127, 0]), (HALF, [-112, -122, 110, -94, 86, 127, 0])]
)
def test_integers_of_the_real_operator(mode: str, expected: list[int]) -> None:
    """What AMCT's operator AscendQuant gives (CANN of March 2025); in this mode the sum with the offset is rounded, too."""
    x = [-5.374, -5.825, 5.775, -4.476, 4.575, 7.1e4, 0.25]
    quant = f"ascend.AscendQuant %x scale 20.002442 offset -5.0 {mode} : (tensor<7xf32>) -> tensor<7xi8>"
    module = parse_module(new_session(), function("7xf32", quant, "7xi8"))
    assert run(module, {"x": np.array(x, np.float32)})["y"].tolist() == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ("shift_n [0, 0, 3]", [32.76700210571289, 9.830100059509277, -0.7000799775123596]),
        (f"shift_n [0, 0, 3] {HALF}", [32.75, 9.828125, -0.7001953125]),
        ("", [100.00100708007812, 12.000000953674316, -0.7000100016593933]),
        (HALF, [99.9375, 12.0, -0.69970703125]),
    ],
)
def test_reals_of_the_real_operator(options: str, expected: list[float]) -> None:
    """What AMCT's operator AscendDequant gives: one shift above 0 clips all channels to 16 bits."""
    scales = "%s = nn.constant dense<[0.001, 0.0003, 0.00001]> : tensor<3xf32>"
    dequant = f"ascend.AscendDequant %x, %s {options} : (tensor<1x3x1xi32>, tensor<3xf32>) -> tensor<1x3x1xf32>"
    module = parse_module(new_session(), function("1x3x1xi32", dequant, "1x3x1xf32", scales))
    sums = np.array([100001, 40000, -70001], np.int32).reshape(1, 3, 1)
    assert run(module, {"x": sums})["y"].ravel().tolist() == expected


def function(given: str, operation: str, result: str, before: str = "") -> str:
    head = f'func.func @main(%x: tensor<{given}> {{nn.name = "x"}}) -> (tensor<{result}> {{nn.name = "y"}})'
    return f"{head} {{\n  {before}\n  %y = {operation}\n  func.return %y : tensor<{result}>\n}}"


def test_record(folder: Path) -> None:
    """It says so of every layer, and read back gives the same model."""
    module, session = quantized(folder, WAYS["option"])
    path = folder / "record.txt"
    RecordTarget().write(module, path, session)
    assert path.read_text().count(f'fakequant_precision_mode: "{FORCE_FP16}"') == 2
    again, _ = quantized(folder, "record={}/record.txt")
    assert forces_fp16(again)
    assert inputs_of(again) == inputs_of(module)


def test_records_of_a_flavour_without_the_mode(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module, session = quantized(folder, WAYS["option"])
    RecordTarget(flavour="onnx").write(module, folder / "record.txt", session)
    mark = "# amct-opt's own, not of AMCT's record for onnx"
    assert f'{mark}\n    fakequant_precision_mode: "FORCE_FP16_QUANT"' in (folder / "record.txt").read_text()
    assert "the record marks fakequant_precision_mode as amct-opt's own" in capsys.readouterr().err


LAYER = 'record {{ key: "{}" value {{ scale_d: {} offset_d: 0 scale_w: 0.02 offset_w: 0 {} }} }}\n'
MODE = "fakequant_precision_mode: 'FORCE_FP16_QUANT'"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            LAYER.format("conv", 0.1, MODE) + LAYER.format("fc", 0.1, ""),
            "layer 'fc': fakequant_precision_mode must be FORCE_FP16_QUANT",
        ),
        (LAYER.format("conv", 0.1, "fakequant_precision_mode: 'FP8'"), "must be DEFAULT or FORCE_FP16_QUANT, not FP8"),
        (LAYER.format("conv", 1e20, MODE), "has a scale of 1e\\+20, which FORCE_FP16_QUANT cannot hold"),
    ],
)
def test_bad_records(folder: Path, text: str, message: str) -> None:
    (folder / "record.txt").write_text(text)
    with pytest.raises(CompileError, match=message):
        quantized(folder, "record={}/record.txt")


def test_a_record_of_another_tool_is_rounded(folder: Path) -> None:
    (folder / "record.txt").write_text(LAYER.format("conv", 0.1, MODE))
    module, _ = quantized(folder, "record={}/record.txt")
    assert [float(p.scales()) for p in inputs_of(module)] == [half(0.1)]


def test_command_line_and_onnx(folder: Path) -> None:
    """The exported file computes what the interpreter does, and keeps the mode when it is read again."""
    import onnxruntime

    net, out, again = folder / "net.mlir", folder / "out.onnx", folder / "again.mlir"
    net.write_text(NET)
    options = "--quantize=" + WAYS["simplified"].replace("{}", str(folder))
    assert amct_opt.run([str(net), options, "-t", "onnx", "-o", str(out)]) == 0
    module, _ = quantized(folder, WAYS["simplified"])
    x = np.load(folder / "x.npz")["x"]
    plain = onnxruntime.SessionOptions()
    plain.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    runner = onnxruntime.InferenceSession(out, plain, providers=["CPUExecutionProvider"])
    (found,) = map(np.asarray, runner.run(None, {"x": x}))
    np.testing.assert_allclose(found, run(module, {"x": x})["y"], rtol=1e-5, atol=1e-5)
    assert amct_opt.run([str(out), "--lower-to-ascend", "-o", str(again)]) == 0
    text = again.read_text()
    assert FORCE_FP16 in text
