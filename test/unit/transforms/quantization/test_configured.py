"""Quantization as AMCT's files and the options next to them say it."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt.configuration.json_config import json_text
from amct_opt.dialects import nn
from amct_opt.ir.text import module_text, parse_module
from amct_opt.ir.verification import verify
from amct_opt.lowering.ascend.profiles import ASCEND
from amct_opt.pipelines.passes import make_pass, parse_pipeline
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.transforms.quantization.decide.layers import candidates
from amct_opt.transforms.quantization.options import SettingsOptions
from amct_opt.transforms.quantization.request import settings_of

from ...values import made_by, numbers_of, parsed

NET = """
func.func @main(%x: tensor<?x2x4x4xf32> {nn.name = "x"}) -> (tensor<?x3xf32> {nn.name = "y"}) {
  %w = nn.constant dense<[[[[1.27]], [[-0.64]]], [[[1.28]], [[-2.56]]]]> : tensor<2x2x1x1xf32>
  %c = nn.constant dense<[0.5, 100.0]> : tensor<2xf32>
  %f = nn.constant dense<0.5> : tensor<32x3xf32>
  %1 = nn.conv %x, %w, %c from <onnx, "Conv", "conv1"> :
    (tensor<?x2x4x4xf32>, tensor<2x2x1x1xf32>, tensor<2xf32>) -> tensor<?x2x4x4xf32>
  %2 = nn.conv %x, %w from <onnx, "Conv", "conv2"> : (tensor<?x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<?x2x4x4xf32>
  %3 = nn.add %1, %2 from <onnx, "Add", "add"> : (tensor<?x2x4x4xf32>, tensor<?x2x4x4xf32>) -> tensor<?x2x4x4xf32>
  %4 = nn.flatten %3 : (tensor<?x2x4x4xf32>) -> tensor<?x32xf32>
  %y = nn.matmul %4, %f from <onnx, "Gemm", "fc"> : (tensor<?x32xf32>, tensor<32x3xf32>) -> tensor<?x3xf32>
  func.return %y : tensor<?x3xf32>
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    x = np.linspace(-1, 3, 6 * 32, dtype=np.float32).reshape(6, 2, 4, 4)
    np.savez(tmp_path / "x.npz", x=x)
    return tmp_path


@pytest.fixture
def quantize(folder: Path):
    """Run `--quantize` with these options, `{}` in them being the test's folder, on calibration data."""

    def quantize(options: str, text: str = NET, data: str = "data={}/x.npz ") -> tuple[ModuleOp, Session]:
        module, session = parsed(text)
        make_pass("quantize", (data + options).replace("{}", str(folder))).apply(session, module)
        verify(module)
        return module, session

    return quantize


def write(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(text, "utf-8")


def inputs(module: ModuleOp) -> dict[str, Any]:
    """What each layer's input is quantized by: QParams, or None."""
    layers = [op for op in module.walk() if isinstance(op, nn.ConvOp | nn.MatMulOp)]
    return {op.origin.layer.data: params(op.operands[0]) for op in layers if isinstance(op.origin, nn.OriginAttr)}


def weights(module: ModuleOp) -> dict[str, Any]:
    layers = [op for op in module.walk() if isinstance(op, nn.ConvOp | nn.MatMulOp)]
    return {op.origin.layer.data: params(op.operands[1]) for op in layers if isinstance(op.origin, nn.OriginAttr)}


def params(value) -> nn.QParams | None:
    return value.owner.qparams.data if isinstance(value.owner, nn.DequantizeOp) else None


def missed(session: Session) -> dict[str, str]:
    return {r.layer: r.rule for r in session.remarks if r.kind == "missed"}


@pytest.mark.parametrize("kind", ["Conv", "Conv2D"])
def test_settings_of_a_layer_and_a_type(quantize, folder: Path, kind: str) -> None:
    """Types are called as the framework calls them, or as Ascend IR does (ATC's configurations)."""
    write(
        folder,
        "simple.cfg",
        """
        activation_offset: false
        override_layer_types { layer_type: "KIND" calibration_config { arq_quantize { quant_bits: 6 } } }
        override_layer_configs { layer_name: "conv2" calibration_config {
            ifmr_quantize { dst_type: INT16 asymmetric: true } arq_quantize { channel_wise: false } } }
        """.replace("KIND", kind),
    )
    module, _ = quantize("config={}/simple.cfg")
    storage = {name: p.storage.width.data for name, p in inputs(module).items()}
    assert storage == {"conv1": 8, "conv2": 16, "fc": 8}
    assert inputs(module)["conv1"].zero_point == (0,)
    assert inputs(module)["conv2"].zero_point != (0,)
    assert weights(module)["conv1"].scale == pytest.approx((1.27 / 31, 2.56 / 32))  # six bits: -32 to 31
    assert weights(module)["conv2"].scale == pytest.approx((2.56 / 128,))
    assert weights(module)["fc"].axis is None


def test_an_algorithm_of_all_layers(quantize, folder: Path) -> None:
    write(folder, "simple.cfg", "common_config { hfmg_quantize { num_of_bins: 1024 } }")
    _, session = quantize("config={}/simple.cfg")
    observed = [r.reason for r in session.remarks if r.rule == "observed"]
    assert observed == ["input observed by hfmg{num-of-bins=1024}"] * 3


def test_the_default_of_a_configuration_is_amct_s(quantize, folder: Path) -> None:
    write(folder, "simple.cfg", "")
    _, session = quantize("config={}/simple.cfg")
    assert "input observed by ifmr" in {r.reason for r in session.remarks}


def test_skipped_layers_and_types(quantize, folder: Path) -> None:
    write(folder, "simple.cfg", 'skip_layers: "conv1" skip_layer_types: "Gemm"')
    module, session = quantize("config={}/simple.cfg skip-layers=conv2")
    assert set(inputs(module).values()) == {None}
    assert missed(session) == {
        "conv1": "skip-layers",
        "conv2": "skip-layers",
        "fc": "skip-layer-types",
        "add": "tensor-only",
    }


def test_what_all_layers_cannot_have_is_remarked(quantize, folder: Path) -> None:
    write(folder, "simple.cfg", "common_config { arq_quantize { quant_bits: 7 channel_wise: true } }")
    module, session = quantize("config={}/simple.cfg")
    (remark,) = [r for r in session.remarks if r.kind == "analysis"]
    assert remark.layer == "fc"
    assert "does not support channel_wise" in remark.reason
    assert "cannot have a weight of 7 bits" in remark.reason
    assert weights(module)["fc"].scale == pytest.approx((0.5 / 127,))


def test_json_lists_what_is_quantized(quantize, folder: Path) -> None:
    module = parse_module(new_session(), NET, "net.mlir")
    settings = settings_of(SettingsOptions(observer="ifmr", skip_layers=("conv1",)))
    write(
        folder,
        "config.json",
        json_text(settings, [each.layer for each in candidates(module, ASCEND) if each.whole is None]),
    )
    module, session = quantize("config={}/config.json batch-num=6")
    assert {name for name, p in inputs(module).items() if p is not None} == {"conv2", "fc"}
    assert missed(session)["conv1"] == "quant-enable"


def test_batches(quantize, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first of six samples holds -1 up to -0.35; options win over the configuration."""
    write(folder, "simple.cfg", "batch_num: 6 common_config { ifmr_quantize { asymmetric: true } }")
    module, _ = quantize("config={}/simple.cfg observer=minmax batch-num=1")
    assert inputs(module)["conv1"].scale == pytest.approx((1 / 255,))
    assert "batch_num 1 leaves samples for 5 more runs unused" in capsys.readouterr().err
    with pytest.raises(CompileError, match="holds samples for 6 runs, not 7 "):
        quantize("batch-num=7")
    for option in ("batch-num", "samples"):
        with pytest.raises(CompileError, match=f"{option.replace('-', '_')} must be at least 1, not 0"):
            quantize(f"{option}=0")


def test_options_that_a_json_configuration_leaves_nothing_to(quantize, folder: Path) -> None:
    write(folder, "config.json", '{"conv1": {}}')
    for option in ("bits=16", "weight-bits=4", "channel-wise=false", "weight-only=true", "dmq=0.5"):
        with pytest.raises(CompileError, match=r"config.json: error: has settings of its own .*changes nothing"):
            quantize("config={}/config.json " + option)
    module, _ = quantize("config={}/config.json activation-offset=false")
    assert inputs(module)["conv1"].zero_point == (0,)


def test_a_mapping_file_is_read_before_data_runs(quantize, folder: Path) -> None:
    write(folder, "simple.cfg", f'nuq_config {{ mapping_file: "{folder}/none.json" }}')
    with pytest.raises(CompileError, match=r"none.json: error: cannot be read"):
        quantize("config={}/simple.cfg", data="data={}/none.npz ")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ("skip-layer-types=Conv,Gemm", "2 nn.conv, because its type is on the list of skip-layer-types; "),
        ("skip-layer-types=Conv2D,MatMulV2", "2 nn.conv, because its type is on the list of skip-layer-types; "),
        ("record={}/record.txt", "1 nn.conv, because the record has no scale_d of it; 1 nn.conv, because "),
    ],
)
def test_that_nothing_is_quantized_is_said(
    quantize, folder: Path, capsys: pytest.CaptureFixture[str], options: str, why: str
) -> None:
    write(folder, "record.txt", 'record { key: "conv1" value { skip_fusion: true } }')
    _, session = quantize(options)
    (warning,) = session.warnings
    assert warning.startswith(f"nothing is quantized: {why}")
    assert capsys.readouterr().err == f"warning: {warning}\n"
    reasons = {r.layer: r.reason for r in session.remarks if r.kind == "missed"}
    assert set(reasons) == {"conv1", "conv2", "add", "fc"}
    assert "record" not in options or reasons["conv1"] == "the record has no scale_d of it"


def test_options_without_a_configuration(quantize) -> None:
    module, _ = quantize("bits=16 weight-bits=4 channel-wise=false activation-offset=false skip-layer-types=Gemm")
    assert inputs(module)["conv1"].storage.width.data == 16
    assert inputs(module)["conv1"].zero_point == (0,)
    assert weights(module)["conv1"].storage.width.data == 4
    assert weights(module)["conv1"].scale == pytest.approx((2.56 / 8,))
    assert inputs(module)["fc"] is None


BAD_CONFIGS = {
    "unknown layer": ('skip_layers: "conv9"', "skip_layers names 'conv9', which is not a layer or module of the model"),
    "unknown type": (
        'skip_layer_types: "Relu"',
        "skip_layer_types names 'Relu', which is not a type that can be quantized",
    ),
    "never quantized": (
        'override_layer_configs { layer_name: "add" calibration_config { } }',
        "override_layer_configs names 'add', which cannot be quantized: only its input can be",
    ),
    "what a layer cannot have": (
        'override_layer_configs { layer_name: "fc" calibration_config { arq_quantize { channel_wise: true } } }',
        "layer 'fc' (Gemm) does not support channel_wise",
    ),
    "tensors": (
        'tensor_quantize { layer_name: "conv1" input_index: 0 }',
        "tensor_quantize names 'conv1:0', which cannot be quantized (tensor-only)",
    ),
    "the weight alone": (
        'override_layer_configs { layer_name: "conv1" calibration_config { weight_compress_only: true } }',
        "layer 'conv1' (Conv) has no weight that can be quantized by itself",
    ),
    "weights alone of a type": (
        'override_layer_types { layer_type: "Conv" calibration_config { weight_compress_only: true } }',
        "layer 'conv1' (Conv) has no weight that can be quantized by itself",
    ),
    "a zero point of the weight": (
        'override_layer_configs { layer_name: "fc" calibration_config { arq_quantize { asymmetric: true } } }',
        "layer 'fc' (Gemm) cannot have an asymmetric weight: only weights that are quantized by themselves have zero points",
    ),
}


@pytest.mark.parametrize(("text", "message"), BAD_CONFIGS.values(), ids=BAD_CONFIGS)
def test_bad_configurations(quantize, folder: Path, text: str, message: str) -> None:
    write(folder, "simple.cfg", text)
    with pytest.raises(CompileError) as error:
        quantize("config={}/simple.cfg")
    assert message in str(error.value)
    assert "simple.cfg" in error.value.where


RECORD = """
record { key: "conv1" value { scale_d: 0.25 offset_d: 3 scale_w: [0.01, 0.02] offset_w: [0, 0] } }
record { key: "fc" value { scale_d: 0.5 offset_d: 0 scale_w: 0.00390625 offset_w: 0 wts_type: "INT4" } }
"""


def test_a_record_needs_no_data(quantize, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(folder, "record.txt", RECORD)
    module, session = quantize("record={}/record.txt", data="")
    assert not capsys.readouterr().err
    conv, fc = inputs(module)["conv1"], inputs(module)["fc"]
    assert (conv.scale, conv.zero_point) == ((0.25,), (3,))
    assert (fc.scale, fc.zero_point) == ((0.5,), (0,))
    assert weights(module)["conv1"].scale == pytest.approx((0.01, 0.02))
    assert weights(module)["conv1"].axis == 0
    assert weights(module)["fc"].scale == (0.00390625,)
    assert weights(module)["fc"].storage.width.data == 4
    assert inputs(module)["conv2"] is None
    assert missed(session)["conv2"] == "record"
    sources = {op.source.data for op in module.walk() if isinstance(op, nn.QuantizeOp) and op.source is not None}
    assert sources == {nn.ParamsSource.RECORD}
    integers = next(op for op in module.walk() if isinstance(op, nn.ConstantOp) and op.array.dtype == np.int32)
    np.testing.assert_array_equal(integers.array, [200, 20000])  # 0.5 / (0.25 * 0.01) and 100 / (0.25 * 0.02)


def test_a_record_twice_changes_nothing(quantize, folder: Path) -> None:
    write(folder, "record.txt", RECORD)
    module, _ = quantize("record={}/record.txt", data="")
    once = module_text(module)
    module, _ = quantize("record={}/record.txt", once, data="")
    assert module_text(module) == once


def test_layers_on_one_value_have_their_own_records(quantize, folder: Path) -> None:
    other = 'record { key: "conv2" value { scale_d: 0.125 offset_d: 0 scale_w: 1 offset_w: 0 } }'
    write(folder, "record.txt", RECORD + other)
    module, _ = quantize("record={}/record.txt", data="")
    assert (inputs(module)["conv1"].scale, inputs(module)["conv2"].scale) == ((0.25,), (0.125,))


GIVEN = NET.replace(
    "%1 = nn.conv %x,",
    '%o = nn.observe %x as "conv1:0" by "minmax" gives <i8, scale = 0.75> given user : tensor<?x2x4x4xf32>\n'
    "  %1 = nn.conv %o,",
)
OBSERVED = GIVEN.replace("gives <i8, scale = 0.75> given user ", "")


def test_parameters_in_the_module_win_over_the_record(quantize, folder: Path) -> None:
    write(folder, "record.txt", RECORD)
    module, _ = quantize("record={}/record.txt", GIVEN, data="")
    assert inputs(module)["conv1"].scale == (0.75,)
    assert weights(module)["conv1"].scale == pytest.approx((0.01, 0.02))


def test_the_record_wins_over_data(quantize, folder: Path) -> None:
    write(folder, "record.txt", RECORD)
    module, _ = quantize("record={}/record.txt", OBSERVED)
    assert inputs(module)["conv1"].scale == (0.25,)
    assert not [op for op in module.walk() if isinstance(op, nn.ObserveOp)]


BAD_RECORDS = {
    "unknown layer": ('key: "conv9" value { }', "layer 'conv9': the model has no such layer"),
    "never quantized": ('key: "add" value { }', "layer 'add': cannot be quantized"),
    "no weight": ('key: "fc" value { scale_d: 1 offset_d: 0 }', "layer 'fc': has no scale_w"),
    "channels": (
        'key: "conv2" value { scale_d: 1 offset_d: 0 scale_w: [1, 1, 1] offset_w: [0, 0, 0] }',
        "layer 'conv2': scale_w has 3 numbers, but its weight takes one or 2",
    ),
    "columns": (
        'key: "fc" value { scale_d: 1 offset_d: 0 scale_w: [1, 1] offset_w: [0, 0] }',
        "layer 'fc': scale_w has 2 numbers, but its weight takes one",
    ),
    "bits": (
        'key: "fc" value { scale_d: 1 offset_d: 0 scale_w: 1 offset_w: 0 wts_type: "INT6" }',
        "layer 'fc': wts_type INT6: only two-dimensional convolutions take",
    ),
    "balance": ('key: "fc" value { tensor_balance_factor: 1 }', "layer 'fc': tensor_balance_factor has 1 n"),
    "tensor": ('key: "fc" value { is_tensor_quantize: true }', "layer 'fc': has no scale_d"),
    "no tensor": (
        'key: "fc:0" value { scale_d: 1 offset_d: 0 }',
        "tensor_quantize names 'fc:0', which cannot be quantized (tensor-only)",
    ),
}


@pytest.mark.parametrize(("text", "message"), BAD_RECORDS.values(), ids=BAD_RECORDS)
def test_bad_records(quantize, folder: Path, text: str, message: str) -> None:
    write(folder, "record.txt", f"record {{ {text} }}")
    with pytest.raises(CompileError) as error:
        quantize("record={}/record.txt", data="")
    assert message in str(error.value)
    assert "record.txt" in error.value.where


@pytest.mark.parametrize("off", ["joint-quant=false", "config={}/off.cfg"])
def test_shifts_of_a_record_where_joint_quant_is_off(quantize, folder: Path, off: str) -> None:
    write(folder, "off.cfg", "activation_offset: true")
    write(folder, "record.txt", 'record { key: "fc" value { shift_bit: 1 } }')
    with pytest.raises(CompileError, match="layer 'fc': shift_bit requires joint_quant"):
        quantize(f"record={{}}/record.txt {off}", data="")


def test_a_bias_beyond_int32(quantize, folder: Path) -> None:
    """100 / (1e-6 * 1e-6) is 1e14."""
    write(folder, "record.txt", 'record { key: "conv1" value { scale_d: 1e-6 offset_d: 0 scale_w: 1e-6 offset_w: 0 } }')
    with pytest.raises(CompileError, match="has a bias that does not fit into int32") as error:
        quantize("record={}/record.txt", data="")
    assert error.value.where.startswith("net.mlir:6")


def test_a_bias_that_raises_the_scales_of_weights(quantize) -> None:
    """Sums of an input of 16 bits have small units, in which a bias of 1e5 next to weights up to 1.27 is beyond 2^30."""
    text = NET.replace("[0.5, 100.0]", "[0.5, 1.0e5]")
    module, session = quantize("bits=16", text)
    (reason,) = [r.reason for r in session.remarks if r.rule == "bias-range"]
    assert reason == "1 of 2 weight scales are raised, so that its bias fits into int32"
    bias = next(op for op in module.walk() if isinstance(op, nn.ConvOp)).bias
    assert np.abs(numbers_of(made_by(bias, nn.DequantizeOp).input)).max() <= 2**30
    assert not [r for r in quantize("bits=8", text)[1].remarks if r.rule == "bias-range"]


NARROW = """
func.func @main(%x: tensor<2x2x4x4xf32> {nn.name = "x"}) -> (tensor<2x2x2x2xf32> {nn.name = "y"}) {
  %w = nn.constant dense<0.5> : tensor<2x2x1x1x1xf32>
  %0 = nn.unsqueeze %x axes [2] : (tensor<2x2x4x4xf32>) -> tensor<2x2x1x4x4xf32>
  %1 = nn.conv %0, %w from <onnx, "Conv", "conv3"> : (tensor<2x2x1x4x4xf32>, tensor<2x2x1x1x1xf32>) -> tensor<2x2x1x4x4xf32>
  %2 = nn.squeeze %1 axes [2] : (tensor<2x2x1x4x4xf32>) -> tensor<2x2x4x4xf32>
  %y = nn.average_pool %2 kernel [2, 2] strides [2, 2] from <onnx, "AveragePool", "pool"> :
    (tensor<2x2x4x4xf32>) -> tensor<2x2x2x2xf32>
  func.return %y : tensor<2x2x2x2xf32>
}
"""
"""Layers that no operator of Ascend IR computes with an input of 16 bits."""


def test_layers_that_keep_8_bits(quantize) -> None:
    module, session = quantize("bits=16", NARROW)
    assert {op.qparams.data.storage.width.data for op in module.walk() if isinstance(op, nn.QuantizeOp)} == {8}
    reasons = {r.layer: r.reason for r in session.remarks if "16 bits" in r.reason}
    said = "not as the configuration has it: cannot have an input of 16 bits: x is of i16,"
    rows = {"conv3": "Conv3D takes i8, f16, bf16, f32", "pool": "AvgPoolV2 takes f16, f32, bf16, f64, i8"}
    assert reasons == {layer: f"{said} {types}" for layer, types in rows.items()}


def test_a_record_of_16_bits_for_a_layer_without_them(quantize, folder: Path) -> None:
    write(folder, "record.txt", 'record { key: "pool" value { scale_d: 0.1 offset_d: 0 act_type: "INT16" } }')
    with pytest.raises(CompileError, match="'pool': its input is INT16, which no operator of Ascend IR for it takes"):
        quantize("record={}/record.txt", NARROW, data="")


def test_the_bias_of_a_record(quantize, folder: Path) -> None:
    """AMCT's numbers: 0.5 / (0.02 * 0.01) is 2500, and 100 / (0.02 * 0.005) is 1000000."""
    write(
        folder,
        "record.txt",
        'record { key: "conv1" value { scale_d: 0.02 offset_d: 0 scale_w: [0.01, 0.005] offset_w: [0, 0] } }',
    )
    module, _ = quantize("record={}/record.txt", data="")
    (conv,) = [op for op in module.walk() if isinstance(op, nn.ConvOp) and op.bias is not None]
    integers = numbers_of(made_by(conv.bias, nn.DequantizeOp).input)
    assert integers.tolist() == [2500, 1000000]


def test_a_bias_at_scales_that_are_lost(quantize, folder: Path) -> None:
    """1e-30 times 1e-30 is not a float32, neither is 1e30 times 1e30, and 1e-19 times 1e-20 has few digits."""
    for first, second in (("1e-30", "1e-30"), ("1e+30", "1e+30"), ("1e-19", "1e-20")):
        entry = f"scale_d: {first} offset_d: 0 scale_w: {second} offset_w: 0"
        write(folder, "record.txt", f'record {{ key: "conv1" value {{ {entry} }} }}')
        units = re.escape(f"has sums in units of {first} times {second}, which is not a normal float32 number")
        with pytest.raises(CompileError, match=units):
            quantize("record={}/record.txt", data="")


def test_a_bias_of_data_always_fits(quantize) -> None:
    """A channel whose weights are nearly nothing takes a scale at which its bias is an int32."""
    text = NET.replace("[[1.28]], [[-2.56]]", "[[1.28e-30]], [[-2.56e-30]]").replace("[0.5, 100.0]", "[0.5, 1.0e+20]")
    module, _ = quantize("", text)
    (conv,) = [op for op in module.walk() if isinstance(op, nn.ConvOp) and op.bias is not None]
    back = made_by(conv.bias, nn.DequantizeOp)
    integers = numbers_of(back.input).astype(np.float64)
    assert np.abs(integers).max() <= 2**30
    np.testing.assert_allclose(integers * back.qparams.data.scales(), [0.5, 1e20], rtol=1e-3)


def test_files_that_are_not_there(quantize) -> None:
    for option in ("config={}/none.cfg", "config={}/none.json", "record={}/none.txt"):
        with pytest.raises(CompileError, match="cannot be read: No such file"):
            quantize(option)


def test_the_first_of_the_steps_decides(folder: Path, quantize) -> None:
    write(
        folder,
        "simple.cfg",
        "common_config { arq_quantize { channel_wise: false } ifmr_quantize { asymmetric: false } }",
    )
    whole, _ = quantize("config={}/simple.cfg")
    module, session = parsed(NET)
    options = f'config="{folder}/simple.cfg"'
    pipeline = f'insert-observers{{{options}}},calibrate{{data="{folder}/x.npz"}},convert-observers'
    for each in parse_pipeline(pipeline):
        each.apply(session, module)
    assert module_text(module) == module_text(whole)


CUBE = """
func.func @main(%x: tensor<?x1x2x2x2xf32> {nn.name = "x"}) -> (tensor<?x1x2x2x2xf32> {nn.name = "y"}) {
  %w = nn.constant dense<0.5> : tensor<1x1x1x1x1xf32>
  %y = nn.conv %x, %w from <tensorflow, "Conv3D", "cube"> :
    (tensor<?x1x2x2x2xf32>, tensor<1x1x1x1x1xf32>) -> tensor<?x1x2x2x2xf32>
  func.return %y : tensor<?x1x2x2x2xf32>
}
"""


def test_three_dimensional_convolutions_have_no_zero_point(quantize, folder: Path) -> None:
    np.savez(folder / "cube.npz", x=np.arange(8, dtype=np.float32).reshape(1, 1, 2, 2, 2))
    module, session = quantize("data={}/cube.npz", CUBE, data="")
    cube = inputs(module)["cube"]
    assert (cube.zero_point, cube.scale) == ((0,), pytest.approx((7 / 127,)))
    make_pass("lower-to-ascend").apply(session, module)
    assert "ascend.Conv3D" in module_text(module)
    write(
        folder,
        "type.cfg",
        'override_layer_types { layer_type: "Conv3D" calibration_config { ifmr_quantize { asymmetric: true } } }',
    )
    module, _ = quantize("data={}/cube.npz config={}/type.cfg", CUBE, data="")
    assert inputs(module)["cube"].zero_point == (0,)
    write(
        folder,
        "layer.cfg",
        'override_layer_configs { layer_name: "cube" calibration_config { ifmr_quantize { asymmetric: true } } }',
    )
    with pytest.raises(CompileError, match=r"layer 'cube' \(Conv3D\) cannot have an asymmetric input"):
        quantize("data={}/cube.npz config={}/layer.cfg", CUBE, data="")


def test_a_path_with_blanks(quantize, folder: Path) -> None:
    write(folder, "my file.cfg", 'skip_layer_types: "Conv"')
    module, _ = quantize("config='{}/my file.cfg'")
    assert {name for name, p in inputs(module).items() if p is not None} == {"fc"}


def test_ada_is_planned_rounding(quantize, tmp_path: Path) -> None:
    """The layers whose settings have it are rounded by their outputs; the others to the nearest numbers."""
    config = tmp_path / "ada.cfg"
    config.write_text(
        'override_layer_configs { layer_name: "conv1" calibration_config { ada_quantize { num_iteration: 40 } } }'
    )
    _, session = quantize(f"config={config}")
    rounding = [(r.layer, r.kind, r.rule) for r in session.remarks if r.pass_name == "round-weights"]
    assert [(layer, rule in ("rounded", "improves")) for layer, _, rule in rounding] == [("conv1", True)]
    assert not [r for r in session.remarks if r.rule == "rounding"]
