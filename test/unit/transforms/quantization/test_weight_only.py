"""Weights that are quantized by themselves: numbers against AMCT's formula, what stays float, records, who may have it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp, UnknownLoc

from amct_opt.configuration.record import read_record
from amct_opt.dialects import nn
from amct_opt.ir.dtypes import numpy_dtype
from amct_opt.ir.text import module_text, parse_module
from amct_opt.ir.verification import verify
from amct_opt.pipelines.passes import make_pass
from amct_opt.rewriting import layer_of
from amct_opt.runtime.affine import affine, asymmetric_params
from amct_opt.runtime.executor import run
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.targets.record import RecordTarget
from amct_opt.transforms.quantization.numbers.parameters import quantized

from ...values import dense, normal, parsed

COLUMNS = (normal(6, 20) * np.linspace(0.1, 3, 20) + np.linspace(-2, 2, 20)).astype(np.float32)
COLUMNS[:, 3], COLUMNS[:, 4], COLUMNS[:, 5] = 0, 0.25, -1e-9
BATCHED = normal(2, 20, 3)
FILTER = normal(2, 2, 1, 1)


NET = f"""
func.func @main(%x: tensor<?x2x4x6xf32> {{nn.name = "x"}}) -> (tensor<?x2x4x3xf32> {{nn.name = "y"}}) {{
  %k = nn.constant {dense(FILTER)}
  %w = nn.constant {dense(COLUMNS)}
  %b = nn.constant dense<0.5> : tensor<20xf32>
  %v = nn.constant {dense(BATCHED)}
  %0 = nn.conv %x, %k from <onnx, "Conv", "conv"> : (tensor<?x2x4x6xf32>, tensor<2x2x1x1xf32>) -> tensor<?x2x4x6xf32>
  %1 = nn.matmul %0, %w, %b from <onnx, "MatMul", "up"> :
    (tensor<?x2x4x6xf32>, tensor<6x20xf32>, tensor<20xf32>) -> tensor<?x2x4x20xf32>
  %2 = nn.relu %1 : tensor<?x2x4x20xf32>
  %y = nn.matmul %2, %v from <onnx, "MatMul", "down"> : (tensor<?x2x4x20xf32>, tensor<2x20x3xf32>) -> tensor<?x2x4x3xf32>
  func.return %y : tensor<?x2x4x3xf32>
}}
"""
X = normal(3, 2, 4, 6)

Quantize = Callable[..., tuple[ModuleOp, Session]]


@pytest.fixture
def quantize(tmp_path: Path) -> Quantize:
    """`quantize(options, text=NET, config="", profile="ascend")`, a simplified configuration being written first."""

    def quantize(options: str, text: str = NET, config: str = "", profile: str = "ascend") -> tuple[ModuleOp, Session]:
        (tmp_path / "simple.cfg").write_text(config)
        np.savez(tmp_path / "x.npz", x=X)
        module, session = parsed(text, profile=profile)
        given = f"config={tmp_path}/simple.cfg " if config else ""
        make_pass("quantize", given + options.format(tmp_path)).apply(session, module)
        verify(module)
        return module, session

    return quantize


def layer(module: ModuleOp, name: str) -> nn.MatMulOp | nn.ConvOp:
    found = [op for op in module.walk() if isinstance(op, nn.MatMulOp | nn.ConvOp) and layer_of(op) == name]
    return found[0]


def weight(module: ModuleOp, name: str) -> nn.DequantizeOp | None:
    owner = layer(module, name).operands[1].owner
    return owner if isinstance(owner, nn.DequantizeOp) else None


def reals(op: nn.DequantizeOp) -> np.ndarray:
    """`(q - zero_point) * scale`, in float32."""
    integers = nn.array_of(op.input)
    assert integers is not None
    scales, points = op.qparams.data.broadcastable(integers.shape)
    return (integers.astype(np.float32) - points.astype(np.float32)) * scales


def remarks(session: Session, kind: str) -> dict[str, tuple[str, str]]:
    return {r.layer: (r.rule, r.reason) for r in session.remarks if r.kind == kind}


# Numbers


def by_formula(channel: np.ndarray, bits: int) -> tuple[float, int, list[int]]:
    """AMCT's asymmetric ARQ, one number at a time: scale, zero point, integers."""
    low, high = min(0.0, float(channel.min())), max(0.0, float(channel.max()))
    least = -(2 ** (bits - 1))
    scale = float(np.float32((high - low) / (2**bits - 1)))
    if not scale:
        scale, point = 1.0, least
    else:
        point = round(least - low / scale)
    steps = [round(float(np.float32(x) / np.float32(scale))) + point for x in channel]
    return scale, point, [min(max(s, least), -least - 1) for s in steps]


VECTOR = np.array([[-1, 0.25, 0.5, 0.9], [0.1, -0.2, 0.3, -0.05]], np.float32)


def test_reference_vector() -> None:
    scale, point = asymmetric_params(VECTOR, 8)
    assert (float(scale), int(point)) == (pytest.approx(0.00745098, rel=1e-6), 6)
    integers = quantized(VECTOR, scale, 8, None, point)
    np.testing.assert_array_equal(integers, [[-128, 40, 73, 127], [19, -21, 46, -1]])


@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("axis", [0, 1])
def test_channels_are_as_the_formula_has_each(bits: int, axis: int) -> None:
    """Channels of zeros, of one number, of numbers too small to have a scale, of one sign."""
    weights = np.ascontiguousarray(COLUMNS.T) if axis == 0 else COLUMNS
    scales, points = asymmetric_params(weights, bits, axis)
    integers = np.moveaxis(quantized(weights, scales, bits, axis, points), axis, 0)
    for i, channel in enumerate(np.moveaxis(weights, axis, 0)):
        scale, point, steps = by_formula(channel, bits)
        assert (float(scales[i]), int(points[i]), integers[i].tolist()) == (scale, point, steps)
        assert affine(float(channel.min()), float(channel.max()), bits, symmetric=False) == (scale, point)


@pytest.mark.parametrize("profile", ["ascend", "qdq"])
@pytest.mark.parametrize("bits", [4, 8])
@pytest.mark.parametrize("channel_wise", [True, False])
@pytest.mark.parametrize("asymmetric", [True, False])
def test_weights_alone(profile: str, bits: int, channel_wise: bool, asymmetric: bool, quantize: Quantize) -> None:
    """Integers of the bits asked for, at most one step from the weight; the product in float; nothing else is touched."""
    options = f"weight-only=true weight-bits={bits} channel-wise={channel_wise} weight-asymmetric={asymmetric}".lower()
    module, _ = quantize(options, profile=profile)
    for name, array in (("up", COLUMNS), ("down", BATCHED)):
        back = weight(module, name)
        assert back is not None
        p = back.qparams.data
        assert (p.storage.width.data, p.axis) == (bits, array.ndim - 1 if channel_wise else None)
        if asymmetric:
            channels = np.moveaxis(array, -1, 0).reshape(array.shape[-1], -1) if channel_wise else array.reshape(1, -1)
            formula = [by_formula(c, bits) for c in channels]
            np.testing.assert_array_equal(p.scales().reshape(-1), np.array([s for s, _, _ in formula], np.float32))
            expected = [z for _, z, _ in formula]
            np.testing.assert_array_equal(np.broadcast_to(p.zero_points(), len(expected)), expected)
        else:
            assert not p.zero_points().any()
        error = np.abs(reals(back) - array) / p.scales()
        assert (
            error.max() < 1.01
        )  # rounding; the larger side decides, the other one may saturate by up to half a step more
    assert weight(module, "conv") is None
    assert not [op for op in module.walk() if isinstance(op, nn.ObserveOp | nn.QuantizeOp)]
    up, down = weight(module, "up"), weight(module, "down")
    assert up is not None
    assert down is not None
    hidden = np.maximum(run(parse_module(new_session(), CONV_ONLY, ""), {"x": X})["y"] @ reals(up) + np.float32(0.5), 0)
    np.testing.assert_allclose(run(module, {"x": X})["y"], hidden @ reals(down), rtol=1e-5, atol=1e-5)


CONV_ONLY = f"""
func.func @main(%x: tensor<?x2x4x6xf32> {{nn.name = "x"}}) -> (tensor<?x2x4x6xf32> {{nn.name = "y"}}) {{
  %k = nn.constant {dense(FILTER)}
  %y = nn.conv %x, %k : (tensor<?x2x4x6xf32>, tensor<2x2x1x1xf32>) -> tensor<?x2x4x6xf32>
  func.return %y : tensor<?x2x4x6xf32>
}}
"""


def test_half_floats(quantize: Quantize) -> None:
    """The integers of a float16 weight are dequantized to float16."""
    text = f"""
    func.func @main(%x: tensor<?x6xf16> {{nn.name = "x"}}) -> (tensor<?x20xf16> {{nn.name = "y"}}) {{
      %w = nn.constant dense<"0x{COLUMNS.astype(np.float16).tobytes().hex()}"> : tensor<6x20xf16>
      %y = nn.matmul %x, %w from <onnx, "Gemm", "fc"> : (tensor<?x6xf16>, tensor<6x20xf16>) -> tensor<?x20xf16>
      func.return %y : tensor<?x20xf16>
    }}"""
    module, _ = quantize("weight-only=true", text)
    back = weight(module, "fc")
    assert back is not None
    assert numpy_dtype(back.result.type.element_type) == np.float16
    np.testing.assert_allclose(reals(back), COLUMNS, atol=0.51 * float(back.qparams.data.scales()))


# What it asks for


@pytest.mark.parametrize("profile", ["ascend", "qdq"])
def test_no_data_is_needed(profile: str, quantize: Quantize, capsys: pytest.CaptureFixture[str]) -> None:
    quantize("weight-only=true", profile=profile)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("profile", ["ascend", "qdq"])
@pytest.mark.parametrize("options", ["weight-only=true", "skip-layers=conv data={}/x.npz"])
def test_twice(profile: str, options: str, quantize: Quantize) -> None:
    """What is quantized by itself stays so, whatever a second run asks for."""
    once, _ = quantize("weight-only=true", profile=profile)
    again, _ = quantize("weight-only=true", module_text(once), profile=profile)
    assert module_text(again) == module_text(once)
    other, session = quantize(options, module_text(once), profile=profile)
    for name in ("up", "down"):
        assert not isinstance(layer(other, name).operands[0].owner, nn.DequantizeOp) or profile == "qdq"
        assert weight(other, name) is not None
        assert name not in {r.layer for r in session.remarks if r.pass_name == "convert-observers"}


BY_NAME = 'override_layer_configs {{ layer_name: "{}" calibration_config {{ weight_compress_only: true {} }} }}'


def test_one_layer_beside_quantized_ones(quantize: Quantize) -> None:
    """`up` has its weight alone; the convolution before it, and nothing behind it, has a quantized input."""
    module, session = quantize("data={}/x.npz", config=BY_NAME.format("up", "arq_quantize { asymmetric: true }"))
    assert isinstance(layer(module, "conv").operands[0].owner, nn.DequantizeOp)
    assert isinstance(layer(module, "up").operands[0].owner, nn.ConvOp)
    assert isinstance(layer(module, "up").operands[2].owner, nn.ConstantOp)
    assert weight(module, "down") is None
    assert remarks(session, "missed")["down"] == ("matrix-weight", "its second operand is of rank 3")


def test_values_profile_reads_through_points(quantize: Quantize) -> None:
    """Profile qdq quantizes values: the layer reads what is quantized anyhow, its own bias and product are float."""
    module, _ = quantize("data={}/x.npz", config=BY_NAME.format("up", ""), profile="qdq")
    assert isinstance(layer(module, "up").operands[0].owner, nn.DequantizeOp)
    assert isinstance(layer(module, "up").operands[2].owner, nn.ConstantOp)
    assert weight(module, "up") is not None


def test_a_rank_that_inputs_may_not_have(quantize: Quantize) -> None:
    """Table 3 asks for a constant; that a matrix is asked for next to quantized inputs does not matter."""
    module, session = quantize("weight-only=true")
    assert weight(module, "down") is not None
    assert remarks(session, "missed") == {
        "conv": (
            "weight-compress-only",
            "only weights are quantized, and it has no weight that can be quantized by itself",
        )
    }


def test_a_weight_that_layers_share(quantize: Quantize) -> None:
    """Integers of its own for each way of quantization."""
    text = f"""
    func.func @main(%x: tensor<?x6xf32> {{nn.name = "x"}}) ->
        (tensor<?x20xf32> {{nn.name = "a"}}, tensor<?x20xf32> {{nn.name = "b"}}, tensor<?x20xf32> {{nn.name = "c"}}) {{
      %w = nn.constant {dense(COLUMNS)}
      %a = nn.matmul %x, %w from <onnx, "Gemm", "alone"> : (tensor<?x6xf32>, tensor<6x20xf32>) -> tensor<?x20xf32>
      %b = nn.matmul %x, %w from <onnx, "Gemm", "both"> : (tensor<?x6xf32>, tensor<6x20xf32>) -> tensor<?x20xf32>
      %c = nn.matmul %x, %w from <onnx, "Gemm", "none"> : (tensor<?x6xf32>, tensor<6x20xf32>) -> tensor<?x20xf32>
      func.return %a, %b, %c : tensor<?x20xf32>, tensor<?x20xf32>, tensor<?x20xf32>
    }}"""
    config = BY_NAME.format("alone", "arq_quantize { asymmetric: true }") + ' skip_layers: "none"'
    module, _ = quantize("", text, config)
    alone, both = weight(module, "alone"), weight(module, "both")
    assert alone is not None
    assert both is not None
    assert alone.qparams.data.zero_points().any()
    assert not both.qparams.data.zero_points().any()
    assert nn.array_of(layer(module, "none").operands[1]) is not None


def test_integers_of_a_constant_without_a_place_have_the_layer_s() -> None:
    """ONNX initializers have none; errors at the integers name a layer nevertheless."""
    module = parse_module(new_session(), NET, "net.mlir")
    for op in module.walk():
        if isinstance(op, nn.ConstantOp):
            op.location = UnknownLoc()
    make_pass("quantize", "weight-only=true").apply(new_session(), module)
    for name in ("up", "down"):
        back = weight(module, name)
        assert back is not None
        assert back.location == layer(module, name).location


TURNED = f"""
func.func @main(%x: tensor<?x6xf32> {{nn.name = "x"}}) -> (tensor<?x20xf32> {{nn.name = "y"}}) {{
  %w = nn.constant {dense(np.ascontiguousarray(COLUMNS.T))}
  %y = nn.matmul %x, %w transpose_b from <tensorflow, "MatMul", "turned", {{transpose_b = 1 : i64}}> :
    (tensor<?x6xf32>, tensor<20x6xf32>) -> tensor<?x20xf32>
  func.return %y : tensor<?x20xf32>
}}
"""


def test_transposes_that_inputs_may_not_have(quantize: Quantize) -> None:
    """Table 1 refuses them next to a quantized input; alone the channels are the other axis."""
    for config in ("", BY_NAME.format("turned", "arq_quantize { channel_wise: true }")):
        module, _ = quantize("" if config else "weight-only=true channel-wise=true", TURNED, config)
        back = weight(module, "turned")
        assert back is not None
        assert back.qparams.data.axis == 0
    with pytest.raises(CompileError, match="names 'turned', which cannot be quantized: its transpose_b is true"):
        quantize("", TURNED, 'override_layer_configs { layer_name: "turned" calibration_config { } }')


BITS = "common_config {{ weight_compress_only: true arq_quantize {{ quant_bits: {} }} }}"


def test_bits(quantize: Quantize) -> None:
    """4 and 8; asked of all layers for others, 8 with a remark, of one layer an error."""
    module, session = quantize("", config=BITS.format(6))
    back = weight(module, "up")
    assert back is not None
    assert np.abs(np.asarray(nn.array_of(back.input))).max() > 31
    assert (
        "cannot have a weight of 6 bits: a weight that is quantized by itself has 2, 3, 4 or 8 bits"
        in remarks(session, "analysis")["up"][1]
    )
    with pytest.raises(
        CompileError,
        match=r"layer 'up' \(MatMul\) cannot have a weight of 6 bits: a weight that is quantized by itself has 2, 3, 4 or 8 bits",
    ):
        quantize("", config=BY_NAME.format("up", "arq_quantize { quant_bits: 6 }"))


REFUSED = {
    "no mode": (BY_NAME.format("conv", ""), r"layer 'conv' \(Conv\) has no weight that can be quantized by itself"),
    "no mode of its type": (
        'override_layer_types { layer_type: "Conv" calibration_config { weight_compress_only: true } }',
        r"layer 'conv' \(Conv\) has no weight that can be quantized by itself",
    ),
    "computed": (
        BY_NAME.format("computed", ""),
        "override_layer_configs names 'computed', which cannot be quantized: its weight is computed at run time",
    ),
    "balanced": (BY_NAME.format("up", "dmq_balancer { }"), "layer 'up' .MatMul. does not support dmq_balancer"),
}
COMPUTED = NET.replace(
    "func.return",
    '%n = nn.matmul %2, %2 transpose_b from <onnx, "MatMul", "computed"> : '
    "(tensor<?x2x4x20xf32>, tensor<?x2x4x20xf32>) -> tensor<?x2x4x4xf32>\n  func.return",
)


@pytest.mark.parametrize(("config", "message"), REFUSED.values(), ids=REFUSED)
def test_refused_by_name(config: str, message: str, quantize: Quantize) -> None:
    with pytest.raises(CompileError, match=message) as error:
        quantize("", COMPUTED, config)
    assert error.value.where.endswith("simple.cfg")


def test_computed_weights_are_remarked(quantize: Quantize) -> None:
    _, session = quantize("weight-only=true", COMPUTED)
    assert remarks(session, "missed")["computed"] == ("weight-constant", "its weight is computed at run time")


# Records


@pytest.mark.parametrize("options", ["", "channel-wise=true weight-asymmetric=true", "weight-bits=4 channel-wise=true"])
def test_a_record_restores_the_module(options: str, quantize: Quantize, tmp_path: Path) -> None:
    module, session = quantize(f"weight-only=true {options}")
    RecordTarget().write(module, tmp_path / "record.txt", session)
    record = read_record(tmp_path / "record.txt")
    assert [(name, r.weight_compress_only, r.scale_d) for name, r in record.layers.items()] == [
        ("up", True, None),
        ("down", True, None),
    ]
    again, _ = quantize("record={}/record.txt")
    assert module_text(again) == module_text(module)


def test_a_record_of_both_kinds(quantize: Quantize, tmp_path: Path) -> None:
    module, session = quantize("data={}/x.npz", config=BY_NAME.format("up", "arq_quantize { asymmetric: true }"))
    RecordTarget().write(module, tmp_path / "record.txt", session)
    again, _ = quantize("record={}/record.txt")
    assert weight(again, "up") is not None
    assert isinstance(layer(again, "conv").operands[0].owner, nn.DequantizeOp)
    np.testing.assert_array_equal(run(again, {"x": X})["y"], run(module, {"x": X})["y"])


def test_flavours_mark_weights_alone(quantize: Quantize, tmp_path: Path) -> None:
    """AMCT's record for ONNX has no field for them: ours is marked, and read back."""
    module, session = quantize("weight-only=true")
    RecordTarget(flavour="onnx").write(module, tmp_path / "record.txt", session)
    assert "# amct-opt's own" in (tmp_path / "record.txt").read_text()
    assert read_record(tmp_path / "record.txt").layers["up"].weight_compress_only


def test_a_record_of_a_layer_without_the_mode(quantize: Quantize, tmp_path: Path) -> None:
    text = 'record { key: "conv" value { scale_w: 1 offset_w: 0 weight_compress_only: true } }'
    (tmp_path / "record.txt").write_text(text)
    with pytest.raises(CompileError, match="layer 'conv': has no weight that can be quantized by itself"):
        quantize("record={}/record.txt")
