"""Numbers of joint quantization and of inputs that are quantized by themselves, against numpy."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt.configuration.record import read_record
from amct_opt.dialects import ascend, nn
from amct_opt.ir.text import parse_module
from amct_opt.pipelines.passes import make_pass, run_passes
from amct_opt.runtime.executor import Executable
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.targets.onnx import OnnxTarget
from amct_opt.targets.record import RecordTarget

from ...values import parsed

Array = np.ndarray[Any, np.dtype[Any]]

NET = """
func.func @main(%x: tensor<?x2x4x4xf32> {nn.name = "x"}) -> (tensor<?x2x4x4xf32> {nn.name = "y"}) {
  %w = nn.constant dense<[[[[1.27]], [[-0.64]]], [[[0.5]], [[-2.5]]]]> : tensor<2x2x1x1xf32>
  %a = nn.conv %x, %w from <onnx, "Conv", "conv1"> : (tensor<?x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<?x2x4x4xf32>
  %s = nn.add %a, %x from <onnx, "Add", "sum"> : tensor<?x2x4x4xf32>
  %r = nn.relu %s from <onnx, "Relu", "relu"> : tensor<?x2x4x4xf32>
  %y = nn.conv %r, %w from <onnx, "Conv", "conv2"> : (tensor<?x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<?x2x4x4xf32>
  func.return %y : tensor<?x2x4x4xf32>
}
"""
WEIGHT = np.array([[1.27, -0.64], [0.5, -2.5]], np.float32)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    x = np.random.default_rng(3).standard_normal((6, 2, 4, 4)).astype(np.float32) ** 3
    np.savez(tmp_path / "x.npz", x=x)
    return tmp_path / "x.npz"


def quantized(text: str, options: str, session: Session | None = None) -> ModuleOp:
    session = session or new_session()
    module = parse_module(session, text, "net.mlir")
    run_passes(module, [make_pass("quantize", options)], session)
    return module


def params(module: ModuleOp) -> list[nn.QParams]:
    return [op.qparams.data for op in module.walk() if isinstance(op, nn.QuantizeOp)]


def values(data: Path) -> tuple[Array, Array]:
    """The inputs of conv1 and conv2."""
    x = np.load(data)["x"]
    s = np.einsum("oc,ncij->noij", WEIGHT, x) + x
    return x, np.maximum(s, 0)


def ifmr(array: Array) -> tuple[float, float]:
    """AMCT's IFMR with its defaults, asymmetric, as the manual has it: low, high."""
    flat = np.sort(array.reshape(-1).astype(np.float64))
    k = max(1, flat.size - int(np.floor(0.999999 * flat.size)))
    high, low = max(0.0, flat[-k]), min(0.0, flat[k - 1])
    best: tuple[float, float] = (np.inf, 0.0)
    for i in range(61):
        top = (0.7 + 0.01 * i) * high
        step = (top - low) / 255
        error = float(np.square(np.rint(np.clip(flat, low, top) / step) * step - flat).sum())
        best = min(best, (error, top), key=lambda each: each[0])
    return low, best[1]


def test_the_range_is_searched_on_the_union(data: Path) -> None:
    """The least error over both values, which neither of them alone has."""
    module = quantized(NET, f"data={data} observer=ifmr joint-quant=true")
    x, r = values(data)
    low, high = ifmr(np.concatenate([x.reshape(-1), r.reshape(-1)]))
    scale = (high - low) / 255
    first, second = params(module)
    assert first == second
    assert float(first.scales()) == pytest.approx(scale, rel=1e-6)
    assert first.zero_point == (round(-128 - low / scale),)
    assert scale not in [pytest.approx((b - a) / 255, rel=1e-3) for a, b in (ifmr(x), ifmr(r))]


def test_apart_each_has_its_own(data: Path) -> None:
    first, second = params(quantized(NET, f"data={data} observer=ifmr"))
    for found, array in zip((first, second), values(data), strict=True):
        low, high = ifmr(array)
        assert float(found.scales()) == pytest.approx((high - low) / 255, rel=1e-6)


def test_a_value_that_two_layers_read_counts_once(data: Path) -> None:
    """PPQ's percentile is a mean over batches: here those of both values."""
    twice = NET.replace(
        "func.return %y",
        """%z = nn.conv %x, %w from <onnx, "Conv", "conv3"> :
        (tensor<?x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<?x2x4x4xf32>
        func.return %y""",
    )
    batches = np.sort(np.concatenate([each.reshape(6, -1) for each in values(data)]))
    low, high = float(batches[:, 3].mean()), float(batches[:, 28].mean())
    for text in (NET, twice):
        first, *others = params(quantized(text, f"data={data} observer=percentile{{percentile=0.9}} joint-quant=true"))
        assert float(first.scales()) == pytest.approx((high - low) / 255, rel=1e-5)
        assert all(other == first for other in others)


POOL = """
func.func @main(%x: tensor<?x2x4x4xf32> {nn.name = "x"}) -> (tensor<?x2x3x3xf32> {nn.name = "y"}) {
  %m = nn.max_pool %x kernel [2, 2] from <onnx, "MaxPool", "max"> : (tensor<?x2x4x4xf32>) -> tensor<?x2x3x3xf32>
  %b = nn.constant dense<0.3> : tensor<1x2x1x1xf32>
  %y = nn.add %m, %b from <onnx, "Add", "sum"> : (tensor<?x2x3x3xf32>, tensor<1x2x1x1xf32>) -> tensor<?x2x3x3xf32>
  func.return %y : tensor<?x2x3x3xf32>
}
"""


def pooled(x: Array) -> Array:
    return np.max([x[..., i : i + 3, j : j + 3] for i in (0, 1) for j in (0, 1)], axis=0)


def through(x: Array, *, by_reciprocal: bool) -> Array:
    """float32 to int8 and back, range from the smallest to the largest value."""
    low, high = float(x.min()), float(x.max())
    scale = np.float32((high - low) / 255)
    zero = int(np.rint(-128 - low / ((high - low) / 255)))
    steps = x * (np.float32(1) / scale) if by_reciprocal else x / scale
    return ((np.clip(np.rint(steps + np.float32(zero)), -128, 127) - zero) * scale).astype(np.float32)


@pytest.mark.parametrize("lowered", [False, True])
def test_a_tensor_point_in_numbers(data: Path, lowered: bool) -> None:
    """nn divides by the scale, ascend multiplies by its reciprocal; both are exact."""
    session = new_session()
    module = quantized(POOL, f"data={data} observer=minmax tensor-quantize=max:0,sum:0", session)
    if lowered:
        run_passes(module, [make_pass("lower-to-ascend", ""), make_pass("legalize-ascend", "")], session)
        kinds = [type(op) for op in module.walk() if isinstance(op, ascend.AscendOp)]
        quantization = [ascend.AscendQuantOp, ascend.AscendAntiQuantOp]
        assert kinds == [*quantization, ascend.MaxPoolV3Op, *quantization, ascend.AddOp]
    x = np.load(data)["x"]
    first = through(x, by_reciprocal=lowered)
    low_high = pooled(x)  # what the second point saw, in float
    scale = np.float32((float(low_high.max()) - min(0.0, float(low_high.min()))) / 255)
    zero = int(np.rint(-128 - min(0.0, float(low_high.min())) / float(scale)))
    steps = pooled(first) * (np.float32(1) / scale) if lowered else pooled(first) / scale
    second = (np.clip(np.rint(steps + np.float32(zero)), -128, 127) - zero) * scale
    expected = second.astype(np.float32) + np.float32(0.3)
    assert np.array_equal(Executable(module).run({"x": x})["y"], expected)


def test_a_tensor_point_of_16_bits_has_8(data: Path) -> None:
    session = new_session()
    (point,) = params(quantized(POOL, f"data={data} bits=16 tensor-quantize=max:0", session))
    assert point.storage.width.data == 8
    (reason,) = [r.reason for r in session.remarks if r.rule == "tensor-quantize-left"]
    assert reason == "input max:0 has 8 bits, not 16: AscendAntiQuant takes int8"


def test_onnxruntime_computes_the_same(data: Path, tmp_path: Path) -> None:
    session = new_session()
    module = quantized(NET, f"data={data} joint-quant=true tensor-quantize=sum:0,sum:1", session)
    OnnxTarget().write(module, tmp_path / "net.onnx", session)
    x = np.load(data)["x"]
    runner = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    (theirs,) = runner.run(None, {"x": x})
    ours = Executable(module).run({"x": x})["y"]
    assert np.abs(theirs - ours).max() <= 1e-6 * np.abs(ours).max()


def test_group_parameters_given_before_calibration() -> None:
    """What one member has, by hand, holds for the others."""
    session = new_session()
    given = 'nn.observe %x as "mine" by "minmax" gives <i8, scale = 0.5, zero_point = 7> given user group "g"'
    module = parse_module(
        session,
        f"""func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {{
          %a = {given} : tensor<4xf32>
          %r = nn.relu %x : tensor<4xf32>
          %b = nn.observe %r as "other" by "minmax" group "g" : tensor<4xf32>
          func.return %a, %b : tensor<4xf32>, tensor<4xf32>
        }}""",
        "net.mlir",
    )
    run_passes(module, [make_pass("calibrate", "")], session)
    first, second = (op for op in module.walk() if isinstance(op, nn.ObserveOp))
    assert second.qparams == first.qparams
    assert second.source == first.source


@pytest.mark.parametrize("flavour", ["onnx", "tensorflow"])
def test_records_hold_tensor_points(data: Path, tmp_path: Path, flavour: str) -> None:
    """By `layer:index`, marked where the flavour has a mark; the record alone gives the same parameters again."""
    session = new_session()
    module = quantized(NET, f"data={data} joint-quant=true tensor-quantize=sum:0,sum:1", session)
    RecordTarget(flavour=flavour).write(module, tmp_path / "r.txt", session)
    record = read_record(tmp_path / "r.txt")
    assert list(record.layers) == ["conv1", "sum:0", "sum:1", "conv2"]
    assert record.layers["sum:0"].is_tensor_quantize == (flavour == "onnx")
    again = quantized(NET, f"record={tmp_path}/r.txt")
    assert params(again) == params(module)


def test_a_record_without_the_tensor_that_is_asked_for(data: Path, tmp_path: Path) -> None:
    session = new_session()
    RecordTarget().write(quantized(NET, f"data={data}", session), tmp_path / "r.txt", session)
    session = new_session()
    module = quantized(NET, f"record={tmp_path}/r.txt tensor-quantize=sum:0", session)
    assert len(params(module)) == 2
    said = [r.reason for r in session.remarks if r.rule == "tensor-quantize-left"]
    assert said == ["input sum:0 stays float: the record does not list it"]


def test_states_of_parts_merge_into_those_of_all(data: Path, tmp_path: Path) -> None:
    """Processes that share calibration find the joint range of all the data."""
    x = np.load(data)["x"]
    np.savez(tmp_path / "a.npz", x=x[:2])
    np.savez(tmp_path / "b.npz", x=x[2:])
    points = "observer=ifmr{exact=false} joint-quant=true"

    def calibrated(options: str) -> list[nn.QParamsAttr | None]:
        module, session = parsed(NET)
        run_passes(module, [make_pass("insert-observers", points), make_pass("calibrate", options)], session)
        return [op.qparams for op in module.walk() if isinstance(op, nn.ObserveOp)]

    for part in "ab":
        assert calibrated(f"data={tmp_path}/{part}.npz save-state={tmp_path}/{part}") == [None, None]
    first, second = calibrated(f"load-state={tmp_path}/a,{tmp_path}/b")
    assert first == second
    assert [first, second] == calibrated(f"data={data}")


def test_a_value_that_is_quantized_once_more_runs_in_onnxruntime(data: Path, tmp_path: Path) -> None:
    """Without forced alignment the sum reads relu's value by other parameters than conv2: to the last bit."""
    text = NET.replace(
        "func.return %y",
        """%z = nn.add %y, %r from <onnx, "Add", "sum2"> : tensor<?x2x4x4xf32>
    func.return %z""",
    )
    session = new_session()
    session.profile = "ppq"
    module = quantized(text, f"data={data} force-alignment-overlap=false", session)
    twice = [
        op for op in module.walk() if isinstance(op, nn.QuantizeOp) and isinstance(op.input.owner, nn.DequantizeOp)
    ]
    assert len(twice) == 1
    OnnxTarget().write(module, tmp_path / "net.onnx", session)
    x = np.load(data)["x"]
    runner = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"), providers=["CPUExecutionProvider"])
    assert np.array_equal(np.asarray(runner.run(None, {"x": x})[0]), Executable(module).run({"x": x})["y"])
