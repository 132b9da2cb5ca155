"""The passes of quantization on modules: ranges, sources, idempotence, errors."""

from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt.dialects import nn
from amct_opt.ir.metadata import metadata
from amct_opt.ir.text import module_text
from amct_opt.ir.verification import verify
from amct_opt.lowering.ascend.profiles import ASCEND_PYTORCH
from amct_opt.runtime.executor import run
from amct_opt.runtime.metrics import sqnr
from amct_opt.session import Session
from amct_opt.support.diagnostics import CompileError
from amct_opt.transforms.quantization.calibrate import CalibratePass
from amct_opt.transforms.quantization.place.insert_observers import InsertObserversPass
from amct_opt.transforms.quantization.quantize import QuantizePass

from ...values import dense, made_by, normal, parsed

WEIGHT = normal(4, 3, 3, 3)
COLUMNS = normal(64, 5)


NET = f"""
func.func @main(%x: tensor<?x3x6x6xf32> {{nn.name = "x"}}) -> (tensor<?x5xf32> {{nn.name = "y"}}) {{
  %w = nn.constant {dense(WEIGHT)}
  %b = nn.constant dense<[0.5, -0.5, 0.25, 0.0]> : tensor<4xf32>
  %f = nn.constant {dense(COLUMNS)}
  %c = nn.conv %x, %w, %b from <onnx, "Conv", "conv"> :
    (tensor<?x3x6x6xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>) -> tensor<?x4x4x4xf32>
  %r = nn.relu %c : tensor<?x4x4x4xf32>
  %l = nn.flatten %r : (tensor<?x4x4x4xf32>) -> tensor<?x64xf32>
  %y = nn.matmul %l, %f from <onnx, "Gemm", "fc"> : (tensor<?x64xf32>, tensor<64x5xf32>) -> tensor<?x5xf32>
  func.return %y : tensor<?x5xf32>
}}
"""


def network(text: str = NET) -> tuple[ModuleOp, Session]:
    return parsed(text)


def points(module: ModuleOp) -> list[nn.ObserveOp]:
    return [op for op in module.walk() if isinstance(op, nn.ObserveOp)]


@pytest.fixture
def data(tmp_path: Path, rng: np.random.Generator) -> tuple[Path, np.ndarray]:
    x = rng.normal(size=(6, 3, 6, 6)).astype(np.float32)
    np.savez(tmp_path / "calib.npz", x=x)
    return tmp_path / "calib.npz", x


def test_calibrated_ranges_are_the_smallest_and_largest_values(data: tuple[Path, np.ndarray]) -> None:
    path, x = data
    module, session = network()
    InsertObserversPass(observer="minmax").apply(session, module)
    CalibratePass(str(path)).apply(session, module)
    verify(module)
    conv, fc = points(module)
    assert conv.range is not None
    assert conv.range.data == (x.min(), x.max())
    assert fc.range is not None
    assert fc.range.data[0] == 0  # after a relu
    assert conv.source is not None
    assert conv.source.data is nn.ParamsSource.DATA


def test_a_part_of_the_samples(data: tuple[Path, np.ndarray]) -> None:
    path, x = data
    module, session = network()
    InsertObserversPass(observer="minmax").apply(session, module)
    CalibratePass(str(path), samples=2).apply(session, module)
    (conv, _) = points(module)
    assert conv.range is not None
    assert conv.range.data == (x[:2].min(), x[:2].max())
    assert metadata(module)["samples"] == "2"


def test_parameters_in_the_module_win(data: tuple[Path, np.ndarray]) -> None:
    path, _ = data
    text = NET.replace(
        "%c = nn.conv %x,",
        '%o = nn.observe %x as "conv:0" by "minmax" gives <i8, scale = 0.5> given user : tensor<?x3x6x6xf32>\n'
        "  %c = nn.conv %o,",
    )
    module, session = network(text)
    QuantizePass(str(path)).apply(session, module)
    quantizes = [op for op in module.walk() if isinstance(op, nn.QuantizeOp)]
    assert quantizes[0].qparams.data.scale == (0.5,)
    assert quantizes[0].source is not None
    assert quantizes[0].source.data is nn.ParamsSource.USER
    assert quantizes[1].source is not None
    assert quantizes[1].source.data is nn.ParamsSource.DATA


def test_quantized_network(data: tuple[Path, np.ndarray]) -> None:
    """8 bits leave about 6 dB a bit less what the ranges waste: well above 25 dB here, and the second run changes nothing."""
    path, x = data
    module, session = network()
    (reference,) = run(module, {"x": x}).values()
    QuantizePass(str(path)).apply(session, module)
    verify(module)
    (result,) = run(module, {"x": x}).values()
    assert 25 < sqnr(reference, result) < 60
    once = module_text(module)
    QuantizePass(str(path)).apply(session, module)
    assert module_text(module) == once
    assert {r.layer for r in session.remarks if r.rule == "quantized"} == {"conv", "fc"}


def scaled(of_x: int, of_weights: int) -> str:
    """NET for inputs times 2^of_x, with weights times 2^of_weights: each number of it times a power of two."""
    text = NET.replace(dense(WEIGHT), dense(np.ldexp(WEIGHT, of_weights)))
    text = text.replace(dense(COLUMNS), dense(np.ldexp(COLUMNS, of_weights)))
    return text.replace("[0.5, -0.5, 0.25, 0.0]", str([x * 2.0 ** (of_x + of_weights) for x in (0.5, -0.5, 0.25, 0.0)]))


@pytest.mark.parametrize("profile", ["ascend", "qdq"])
@pytest.mark.parametrize(("bits", "observer"), [(8, "ifmr"), (8, "hfmg"), (16, "mse")])
@pytest.mark.parametrize(("of_x", "of_weights"), [(-30, 0), (0, -40), (-20, -25)])
def test_small_numbers_get_the_same_integers(
    tmp_path: Path, profile: str, bits: int, observer: str, of_x: int, of_weights: int
) -> None:
    """Scaling by powers of two changes the exponents of the scales and nothing else."""
    x = np.random.default_rng(1).normal(size=(6, 3, 6, 6)).astype(np.float32)
    found: list[list[object]] = []
    for by in ((0, 0), (of_x, of_weights)):
        np.savez(tmp_path / "calib.npz", x=np.ldexp(x, by[0]))
        module, session = network(scaled(*by))
        session.profile = profile
        QuantizePass(data=str(tmp_path / "calib.npz"), observer=observer, bits=bits).apply(session, module)
        backs = [op for op in module.walk() if isinstance(op, nn.DequantizeOp)]
        integers = [array.tolist() for op in backs if (array := nn.array_of(op.input)) is not None]
        mantissas = [np.frexp(op.qparams.data.scales())[0].tolist() for op in backs]
        found.append([integers, mantissas, [op.qparams.data.zero_point for op in backs]])
    assert found[1] == found[0]


def test_sums_of_no_normal_scale_raise_those_of_weights(data: tuple[Path, np.ndarray]) -> None:
    """Weights near 1e-37 times inputs near 1: the scales of the sums are 2^-126, and a remark reports it."""
    module, session = network(scaled(0, -123))
    QuantizePass(data=str(data[0])).apply(session, module)
    verify(module)
    (conv,) = [op for op in module.walk() if isinstance(op, nn.ConvOp)]
    assert (made_by(conv.bias, nn.DequantizeOp).qparams.data.scales() == np.float32(2.0**-126)).all()
    assert {(r.layer, r.rule) for r in session.remarks if r.rule == "scale-range"} == {
        ("conv", "scale-range"),
        ("fc", "scale-range"),
    }


@pytest.mark.parametrize("profile", ["ascend", "ascend-pytorch"])
def test_a_rule_that_zeroes_a_weight_names_its_layer(profile: str, data: tuple[Path, np.ndarray]) -> None:
    """AMCT for PyTorch has scale 1 for weights near 1e-9; the default keeps them."""
    text = (
        scaled(0, -30).replace('"conv">', '"conv", {module = "Conv2d"}>').replace('"fc">', '"fc", {module = "Linear"}>')
    )
    module, session = network(text)
    session.register_profile(ASCEND_PYTORCH)
    session.profile = profile
    QuantizePass(data=str(data[0])).apply(session, module)
    found = {r.layer: r.reason for r in session.remarks if r.rule == "zeroed"}
    reason = "all weights under {0} of {0} scales become zero: the scales are too large for them"
    assert found == ({} if profile == "ascend" else {"conv": reason.format(4), "fc": reason.format(1)})


def test_a_record_that_zeroes_a_channel_names_its_layer(data: tuple[Path, np.ndarray], tmp_path: Path) -> None:
    scales = "".join(f"scale_w: {scale} offset_w: 0 " for scale in (0.03, 1000.0, 0.03, 0.03))
    record = f'record {{ key: "conv" value {{ scale_d: 0.03 offset_d: 0 {scales}}} }}'
    (tmp_path / "record.txt").write_text(record)
    module, session = network()
    QuantizePass(data=str(data[0]), record=str(tmp_path / "record.txt")).apply(session, module)
    (found,) = [r for r in session.remarks if r.rule == "zeroed"]
    assert found.layer == "conv"
    assert found.reason.startswith("all weights under 1 of 4 scales become zero")


def test_metadata_names_the_data(data: tuple[Path, np.ndarray]) -> None:
    module, session = network()
    QuantizePass(str(data[0])).apply(session, module)
    found = metadata(module)
    assert (found["profile"], found["observer"], found["samples"]) == ("ascend", "mse", "6")
    assert found["data_hash"].startswith("sha256:")
    assert found["synthetic"] == "false"


def test_without_data_everything_is_marked_synthetic(capsys: pytest.CaptureFixture[str]) -> None:
    module, session = network()
    QuantizePass().apply(session, module)
    assert capsys.readouterr().err.count("warning: no calibration data") == 1
    sources = {op.source.data for op in module.walk() if isinstance(op, nn.QuantizeOp) and op.source is not None}
    assert sources == {nn.ParamsSource.SYNTHETIC}
    assert metadata(module)["synthetic"] == "true"


def test_overflow_inside_the_model_is_located(tmp_path: Path) -> None:
    np.savez(tmp_path / "huge.npz", x=np.full((1, 3, 6, 6), 3e38, np.float32))
    module, session = network()
    with pytest.raises(CompileError, match="NaN or Inf") as error:
        QuantizePass(str(tmp_path / "huge.npz")).apply(session, module)
    assert str(error.value).startswith("net.mlir:")


def test_shared_weight_becomes_one_constant(data: tuple[Path, np.ndarray]) -> None:
    text = NET.replace(
        "  %r = nn.relu %c",
        '  %d = nn.conv %x, %w, %b from <onnx, "Conv", "twin"> :\n'
        "    (tensor<?x3x6x6xf32>, tensor<4x3x3x3xf32>, tensor<4xf32>) -> tensor<?x4x4x4xf32>\n"
        "  %s = nn.add %c, %d : tensor<?x4x4x4xf32>\n  %r = nn.relu %s",
    )
    module, session = network(text)
    QuantizePass(str(data[0])).apply(session, module)
    verify(module)
    weights = [
        op for op in module.walk() if isinstance(op, nn.ConstantOp) and op.result.type.get_shape() == (4, 3, 3, 3)
    ]
    assert len(weights) == 1


def test_empty_pipeline_needs_no_data() -> None:
    """Nothing to observe: no data is asked for, nothing is warned about."""
    module, session = network(
        "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n"
        "  %y = nn.relu %x : tensor<2xf32>\n  func.return %y : tensor<2xf32>\n}"
    )
    before = module_text(module)
    QuantizePass("missing.npz").apply(session, module)
    assert module_text(module) == before


def test_nothing_is_told_twice(data: tuple[Path, np.ndarray]) -> None:
    """A second run has no layer to quantize, and says so by saying nothing; pools, which have no weight, included."""
    text = NET.replace(
        "  %l = nn.flatten %r : (tensor<?x4x4x4xf32>) -> tensor<?x64xf32>",
        '  %p = nn.average_pool %r kernel [1, 1] from <onnx, "AveragePool", "pool"> : tensor<?x4x4x4xf32>\n'
        "  %l = nn.flatten %p : (tensor<?x4x4x4xf32>) -> tensor<?x64xf32>",
    )
    module, session = network(text)
    QuantizePass(str(data[0])).apply(session, module)
    assert [r.layer for r in session.remarks if r.rule == "quantized"] == ["conv", "pool", "fc"]
    session.remarks.clear()
    QuantizePass(str(data[0])).apply(session, module)
    assert session.remarks == []
