"""Weights with a scale for each group of input channels: numbers against a loop, text, files, and what refuses them."""

from __future__ import annotations

import re
from itertools import product as combinations
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto
from xdsl.dialects.builtin import IntegerType, ModuleOp
from xdsl.utils.exceptions import VerifyException

from amct_opt import frontends
from amct_opt.dialects import nn
from amct_opt.ir.text import module_text, parse_module
from amct_opt.ir.verification import verify
from amct_opt.pipelines.passes import make_pass
from amct_opt.runtime.affine import affine
from amct_opt.runtime.executor import run
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.targets.onnx import OnnxTarget
from amct_opt.tools import amct
from amct_opt.transforms.quantization.decide.layers import resolve
from amct_opt.transforms.quantization.decide.sites import sites
from amct_opt.transforms.quantization.numbers import weights as of_weights
from amct_opt.transforms.quantization.options import SettingsOptions
from amct_opt.transforms.quantization.profiles import profile_of
from amct_opt.transforms.quantization.recover.equalize.grids import grids_of
from amct_opt.transforms.quantization.recover.equalize.search import Grids, Weight
from amct_opt.transforms.quantization.request import settings_of

from ...values import parsed

SHAPES = [(48, 6), (40, 6), (10, 5)]
"""Weights `[K, N]` for groups of 16: whole ones, a shorter last one, less than one."""
Array = np.ndarray


def net(weight: Array, transposed: bool) -> str:
    k, n = weight.shape
    stored = np.ascontiguousarray(weight.T if transposed else weight)
    e = "f16" if weight.dtype == np.float16 else "f32"
    shape, flag = "x".join(map(str, stored.shape)), " transpose_b" if transposed else ""
    return f"""
func.func @main(%x: tensor<?x{k}x{e}> {{nn.name = "x"}}) -> (tensor<?x{n}x{e}> {{nn.name = "y"}}) {{
  %w = nn.constant dense<"0x{stored.tobytes().hex()}"> : tensor<{shape}x{e}>
  %y = nn.matmul %x, %w{flag} from <onnx, "MatMul", "fc"> : (tensor<?x{k}x{e}>, tensor<{shape}x{e}>) -> tensor<?x{n}x{e}>
  func.return %y : tensor<?x{n}x{e}>
}}
"""


def quantized(
    weight: Array, options: str = "", transposed: bool = False, profile: str = "qdq"
) -> tuple[ModuleOp, Session]:
    module, session = parsed(net(weight, transposed), profile=profile)
    make_pass("quantize", f"weight-only=true group-size=16 {options}").apply(session, module)
    verify(module)
    return module, session


def by_loop(weight: Array, bits: int, symmetric: bool) -> Array:
    """AMCT's formula, one group of 16 input channels of one output channel at a time."""
    result = np.empty_like(weight)
    least = -(2 ** (bits - 1))
    for n in range(weight.shape[1]):
        for begin in range(0, weight.shape[0], 16):
            part = weight[begin : begin + 16, n]
            scale, point = affine(float(part.min()), float(part.max()), bits, symmetric=symmetric)
            steps = np.clip(np.rint(part / np.float32(scale)) + point, least, -least - 1)
            result[begin : begin + 16, n] = (steps - point).astype(np.float32) * np.float32(scale)
    return result


@pytest.mark.slow
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("bits", [2, 3, 4, 8])
@pytest.mark.parametrize("shape", SHAPES)
def test_numbers_and_files(
    shape: tuple[int, int], bits: int, symmetric: bool, transposed: bool, tmp_path: Path, rng: np.random.Generator
) -> None:
    """The interpreter computes what a loop computes, and onnxruntime with its default options the same from the file."""
    weight = (rng.normal(size=shape) * rng.uniform(0.1, 5, shape)).astype(np.float32)
    x = rng.normal(size=(4, shape[0])).astype(np.float32)
    options = f"weight-bits={bits} weight-search=false{'' if symmetric else ' weight-asymmetric=true'}"
    module, session = quantized(weight, options, transposed)
    (found,) = run(module, {"x": x}).values()
    expected = x @ by_loop(weight, bits, symmetric)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    text = module_text(module)
    assert "block = 16" in text
    again = parse_module(new_session(), text, "again.mlir")
    assert module_text(again) == text
    np.testing.assert_array_equal(run(again, {"x": x})["y"], found)
    path = tmp_path / "net.onnx"
    OnnxTarget().write(module, path, session)
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    (node,) = (n for n in model.graph.node if n.op_type == "DequantizeLinear")
    attributes = {a.name: a.i for a in node.attribute}
    assert (attributes["axis"], attributes["block_size"]) == (int(transposed), 16)
    packed = tmp_path / "packed.onnx"
    OnnxTarget(matmul_nbits=True).write(module, packed, session)
    assert [n.op_type for n in onnx.load(packed).graph.node] == ["MatMulNBits"]
    for each in (path, packed):
        runner = onnxruntime.InferenceSession(each, providers=["CPUExecutionProvider"])
        (y,) = map(np.asarray, runner.run(None, {"x": x}))
        np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
        read = frontends.read(each, new_session())
        np.testing.assert_allclose(run(read, {"x": x})["y"], found, rtol=1e-6, atol=1e-6)
        (back,) = (op for op in read.walk() if isinstance(op, nn.DequantizeOp))
        (own,) = (op for op in module.walk() if isinstance(op, nn.DequantizeOp))
        np.testing.assert_array_equal(back.qparams.data.scales().size, own.qparams.data.scales().size)


@pytest.mark.parametrize(
    ("target", "kinds"),
    [
        (OnnxTarget(), {TensorProto.INT4}),
        (OnnxTarget(opset=25), {TensorProto.INT2}),
        (OnnxTarget(matmul_nbits=True), {TensorProto.UINT8}),
    ],
    ids=["int4", "int2", "bytes"],
)
@pytest.mark.parametrize("options", ["", "weight-asymmetric=true", "weight-search=false"])
@pytest.mark.parametrize("shape", SHAPES)
def test_two_bits(
    shape: tuple[int, int], options: str, target: OnnxTarget, kinds: set[int], tmp_path: Path, rng: np.random.Generator
) -> None:
    """onnxruntime reads the numbers of the interpreter, to the bit, from each form of a file: rows of ones pick them."""
    weight = rng.normal(size=shape).astype(np.float32)
    weight[:3] = [[-3], [-1.5], [1.5]]  # each integer occurs, whatever the other numbers are
    module, session = quantized(weight, f"weight-bits=2 {options}")
    (back,) = (op for op in module.walk() if isinstance(op, nn.DequantizeOp))
    integers = nn.array_of(back.input)
    assert integers is not None
    assert (back.qparams.data.storage, back.bits) == (IntegerType(2), None)
    assert set(integers.astype(int).reshape(-1)) == {-2, -1, 0, 1}
    x = {"x": np.eye(shape[0], dtype=np.float32)}
    expected = run(module, x)["y"]
    target.write(module, tmp_path / "net.onnx", session)
    model = onnx.load(tmp_path / "net.onnx")
    onnx.checker.check_model(model, full_check=True)
    assert {each.data_type for each in model.graph.initializer} - {TensorProto.FLOAT} == kinds
    runner = onnxruntime.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(np.asarray(runner.run(None, x)[0]), expected)
    np.testing.assert_array_equal(run(frontends.read(tmp_path / "net.onnx", new_session()), x)["y"], expected)
    again = parse_module(new_session(), module_text(module), "again.mlir")
    np.testing.assert_array_equal(run(again, x)["y"], expected)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("bits", [2, 3, 4])
def test_negative_scales(bits: int, transposed: bool, tmp_path: Path, rng: np.random.Generator) -> None:
    """They pass through text and files, and onnxruntime computes the same with them, in either form."""
    weight = rng.normal(size=(40, 6)).astype(np.float32)
    module, session = quantized(weight, f"weight-bits={bits}", transposed)
    (own,) = (op for op in module.walk() if isinstance(op, nn.DequantizeOp))
    scales, points = own.qparams.data.scales(), own.qparams.data.zero_points()
    assert (bool((scales < 0).any()), bool((scales > 0).any()), bool(points.any())) == (True, True, False)
    x = rng.normal(size=(4, 40)).astype(np.float32)
    expected = run(module, {"x": x})["y"]
    np.testing.assert_array_equal(
        run(parse_module(new_session(), module_text(module), "again.mlir"), {"x": x})["y"], expected
    )
    for nbits in (False, True):
        path = tmp_path / f"{nbits}.onnx"
        OnnxTarget(matmul_nbits=nbits).write(module, path, session)
        assert ("MatMulNBits" in [n.op_type for n in onnx.load(path).graph.node]) == nbits
        runner = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        np.testing.assert_allclose(np.asarray(runner.run(None, {"x": x})[0]), expected, rtol=1e-5, atol=1e-5)
        read = frontends.read(path, new_session())
        np.testing.assert_allclose(run(read, {"x": x})["y"], expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("weight-only=true weight-bits=4 channel-wise=true", "its weight has no groups of input channels"),
        ("weight-only=true weight-bits=4 group-size=16", None),
    ],
)
def test_matmul_nbits_on_request(options: str, reason: str | None, tmp_path: Path, rng: np.random.Generator) -> None:
    """A product between a transpose and a bias, next to a graph output that needs the reals of the same weight."""
    weight = rng.normal(size=(32, 4)).astype(np.float32)
    text = f"""
func.func @main(%x: tensor<2x32x3xf32> {{nn.name = "x"}})
    -> (tensor<2x3x4xf32> {{nn.name = "y"}}, tensor<3x4xf32> {{nn.name = "z"}}) {{
  %w = nn.constant dense<"0x{weight.tobytes().hex()}"> : tensor<32x4xf32>
  %b = nn.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %i = nn.constant dense<0.5> : tensor<3x32xf32>
  %y = nn.matmul %x, %w, %b transpose_a from <onnx, "MatMul", "fc"> :
    (tensor<2x32x3xf32>, tensor<32x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  %s = nn.slice %x starts [0, 0, 0] ends [1, 32, 3] axes [0, 1, 2] steps [1, 1, 1] : (tensor<2x32x3xf32>) -> tensor<1x32x3xf32>
  %r = nn.reshape %s to [32, 3] : (tensor<1x32x3xf32>) -> tensor<32x3xf32>
  %z = nn.matmul %r, %w transpose_a from <onnx, "MatMul", "again"> : (tensor<32x3xf32>, tensor<32x4xf32>) -> tensor<3x4xf32>
  func.return %y, %z : tensor<2x3x4xf32>, tensor<3x4xf32>
}}
"""
    module, session = parsed(text, profile="qdq")
    make_pass("quantize", options).apply(session, module)
    x = rng.normal(size=(2, 32, 3)).astype(np.float32)
    expected = run(module, {"x": x})
    path = tmp_path / "net.onnx"
    OnnxTarget(matmul_nbits=True).write(module, path, session)
    operators = [n.op_type for n in onnx.load(path).graph.node]
    assert ("MatMulNBits" in operators, "DequantizeLinear" in operators) == (reason is None, reason is not None)
    said = {r.reason for r in session.remarks if r.rule == "matmul-nbits"}
    assert said == (set() if reason is None else {f"is not written as MatMulNBits: {reason}"})
    found = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]).run(None, {"x": x})
    for y, name in zip(found, expected, strict=True):
        np.testing.assert_allclose(np.asarray(y), expected[name], rtol=1e-5, atol=1e-5)


def half(weight: Array, options: str) -> tuple[ModuleOp, Session]:
    """A product in float16, its weight in groups of 16."""
    module, session = parsed(net(weight.astype(np.float16), False), profile="qdq")
    make_pass("quantize", f"weight-only=true group-size=16 {options}").apply(session, module)
    return module, session


@pytest.mark.parametrize("options", ["weight-bits=4", "weight-bits=4 weight-asymmetric=true", "weight-bits=8"])
def test_matmul_nbits_in_float16(options: str, tmp_path: Path, rng: np.random.Generator) -> None:
    """Its scales are float16, with a remark; onnxruntime computes what the file, read back, stands for."""
    weight = rng.normal(size=(40, 6)).astype(np.float16)
    module, session = half(weight, options)
    OnnxTarget(matmul_nbits=True).write(module, tmp_path / "net.onnx", session)
    (node,) = onnx.load(tmp_path / "net.onnx").graph.node
    assert node.op_type == "MatMulNBits"
    (said,) = (r.reason for r in session.remarks if r.rule == "float16-scales")
    assert re.fullmatch(r"\d+ of 18 scales are rounded to float16, the type of its input", said)
    x = rng.normal(size=(4, 40)).astype(np.float16)
    runner = onnxruntime.InferenceSession(tmp_path / "net.onnx", providers=["CPUExecutionProvider"])
    found = np.asarray(runner.run(None, {"x": x})[0])
    read = frontends.read(tmp_path / "net.onnx", new_session())
    assert found.dtype == np.float16
    sums = np.abs(x).astype(np.float64) @ np.abs(weight).astype(np.float64)
    for each, steps in ((read, 2), (module, 4)):  # products of weights that are rounded to float16, and scales that are
        np.testing.assert_array_less(
            np.abs(found - run(each, {"x": x})["y"].astype(np.float64)), steps * 2.0**-11 * sums
        )


def test_scales_that_float16_has_no_normal_numbers_for(tmp_path: Path) -> None:
    module, session = half(np.full((40, 6), 1e-6), "weight-bits=4")
    OnnxTarget(matmul_nbits=True).write(module, tmp_path / "net.onnx", session)
    assert "MatMulNBits" not in [n.op_type for n in onnx.load(tmp_path / "net.onnx").graph.node]
    (said,) = (r.reason for r in session.remarks if r.rule == "matmul-nbits")
    assert said == "is not written as MatMulNBits: a scale of its weight leaves the normal range of float16"


def test_the_command(tmp_path: Path, rng: np.random.Generator) -> None:
    module, session = parsed(net(rng.normal(size=(32, 4)).astype(np.float32), False))
    OnnxTarget().write(module, tmp_path / "net.onnx", session)
    given = ["quantize", str(tmp_path / "net.onnx"), "--profile", "qdq", "--weight-bits", "4", "--group-size", "16"]
    assert amct.run([*given, "-o", str(tmp_path / "refused")]) == 1
    assert not (tmp_path / "refused").exists()
    assert amct.run([*given, "--weight-only", "--matmul-nbits", "-o", str(tmp_path / "out")]) == 0
    model = onnx.load(tmp_path / "out" / "net_qdq.onnx")
    assert ([n.op_type for n in model.graph.node], model.opset_import[0].version) == (["MatMulNBits"], 17)


def test_scales_are_searched_once(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    weights: list[Array] = []

    def searched(values: Array, scales: Array, *_: object) -> Array:
        weights.append(values)
        return scales

    monkeypatch.setattr(of_weights, "searched_scales", searched)
    quantized(rng.normal(size=(48, 6)).astype(np.float32), "weight-bits=4 weight-search=true")
    assert len(weights) == 1


def test_transposed_parameters(rng: np.random.Generator) -> None:
    """Blocks follow the axes of a transposed tensor; the reals stay the same."""
    integers = rng.integers(-8, 8, (5, 3, 40)).astype(np.int8)
    scales, points = rng.uniform(0.1, 1, 5 * 3 * 3), rng.integers(-8, 8, 45)
    params = nn.QParamsAttr.of(IntegerType(4), scales, points.tolist(), axis=2, block=16).data
    scale, point = params.broadcastable(integers.shape)
    reals = (integers - point) * scale
    for perm in [(2, 0, 1), (1, 2, 0), (0, 1, 2)]:
        moved = params.transposed(perm, integers.shape)
        turned = integers.transpose(perm)
        scale, point = moved.broadcastable(turned.shape)
        np.testing.assert_array_equal((turned - point) * scale, reals.transpose(perm))


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        ("<i8, scale = [0.1, 0.2], axis = 0, block = 2>", "2 scales for 6 blocks"),
        (
            "<i8, scale = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], zero_point = [1, 2], axis = 0, block = 2>",
            "2 zero points for 6 scales",
        ),
        ("<i8, scale = 0.1, block = 2>", "block must be positive and needs an axis"),
        (
            "<i8, scale = [0.1, -0.2, 0.3], axis = 0>",
            "scales must be positive and finite; those of blocks may be negative",
        ),
        ("<i8, scale = [0.1, 0.0, 0.1, 0.1, 0.1, 0.1], axis = 0, block = 2>", "scales must be positive and finite"),
        ("<i8, scale = [0.1], axis = 0, block = 0>", "block must be positive and needs an axis"),
    ],
)
def test_parameters_that_do_not_fit(params: str, reason: str) -> None:
    text = f"""
func.func @main(%x: tensor<3x3xi8>) -> tensor<3x3xf32> {{
  %y = nn.dequantize %x by {params} : (tensor<3x3xi8>) -> tensor<3x3xf32>
  func.return %y : tensor<3x3xf32>
}}
"""
    with pytest.raises(Exception, match=reason):
        verify(parse_module(new_session(), text, "net.mlir"))


def test_blocks_of_values_with_unknown_sizes() -> None:
    text = """
func.func @main(%x: tensor<?x3xi8>) -> tensor<?x3xf32> {
  %y = nn.dequantize %x by <i8, scale = [0.1, 0.2, 0.3], axis = 0, block = 2> : (tensor<?x3xi8>) -> tensor<?x3xf32>
  func.return %y : tensor<?x3xf32>
}
"""
    with pytest.raises(Exception, match="blocks need a tensor of known sizes"):
        verify(parse_module(new_session(), text, "net.mlir"))


def test_plans() -> None:
    assert nn.PlanAttr(nn.Plan(weights=(nn.How(4, axis=0, block=128),)))
    for plan, reason in [
        (nn.Plan(weights=(nn.How(4, block=32),)), "block must be positive and needs an axis"),
        (nn.Plan(input=True, weights=(nn.How(4, axis=0, block=32),)), "a weight with blocks goes with a float input"),
    ]:
        with pytest.raises(VerifyException, match=reason):
            nn.PlanAttr(plan)


def test_other_forms(tmp_path: Path, rng: np.random.Generator) -> None:
    """A record has no groups, and says so; MLIR's quant dialect has them as sub-channels."""
    module, session = quantized(rng.normal(size=(32, 4)).astype(np.float32))
    from amct_opt.targets.record import RecordTarget

    RecordTarget().write(module, tmp_path / "record.txt", session)
    make_pass("nn-to-quant", "").apply(session, module)
    said = {(r.pass_name, r.rule): r.reason for r in session.remarks if r.kind == "missed"}
    assert said["record", "recorded"] == "its weight has scales per group, which no record has"
    assert not any(name == "nn-to-quant" for name, _ in said)
    assert "!quant.uniform<i8:f32:{0:16, 1:1}" in module_text(module)


def test_equalization_rounds_weights_by_groups(rng: np.random.Generator) -> None:
    """Its costs are those of weight-only layers: inputs are not rounded, and each group has a scale."""
    weight = rng.normal(size=(40, 3)).astype(np.float32)
    module, session = parsed(net(weight, False), profile="qdq")
    options = settings_of(SettingsOptions(weight_only=True, weight_bits=4, group_size=16))
    found = sites(module, (nn.MatMulOp,))
    (grids,) = grids_of(found, resolve(options, module, profile_of(session)))
    assert grids == Grids(None, 4, True, False, 16)
    op = found[0].compute
    assert isinstance(op, nn.MatMulOp)
    rounded = Weight.of(op, weight, grids).quantized(np.zeros(40, np.int32), np.zeros(3, np.int32))
    for n, begin in combinations(range(3), range(0, 40, 16)):
        part = weight[begin : begin + 16, n]
        scale = np.abs(part).max() / np.float32(7)
        np.testing.assert_allclose(rounded[0, begin : begin + 16, n, 0], np.rint(part / scale) * scale, rtol=1e-6)


def test_many_zero_points_are_bytes(rng: np.random.Generator) -> None:
    """As numbers they would be most of the text; malformed bytes are errors with a place."""
    weight = rng.normal(size=(48, 6)).astype(np.float32)
    module, _ = quantized(weight, "weight-bits=4 weight-asymmetric=true")
    text = module_text(module)
    assert 'zero_point = "0x' in text
    (op,) = (op for op in parse_module(new_session(), text, "net.mlir").walk() if isinstance(op, nn.DequantizeOp))
    (own,) = (op for op in module.walk() if isinstance(op, nn.DequantizeOp))
    np.testing.assert_array_equal(op.qparams.data.zero_points(), own.qparams.data.zero_points())
    with pytest.raises(Exception, match="malformed bytes"):
        parse_module(new_session(), text.replace('zero_point = "0x', 'zero_point = "0xG'), "net.mlir")
