"""Record files as a target: what is written, what is left out, and that it gives the same module again."""

from pathlib import Path

import numpy as np
import pytest

from amct_opt.configuration.record import LayerRecord, Record, as_written, read_record, record_text
from amct_opt.dialects import nn
from amct_opt.dialects.nn.base import integer
from amct_opt.ir.text import parse_module
from amct_opt.pipelines.options import build
from amct_opt.pipelines.passes import make_pass
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.targets import target_named
from amct_opt.targets.record import RecordTarget, record_of

from ..values import parsed

NET = """
func.func @main(%x: tensor<?x2x4x4xf32> {nn.name = "x"}) -> (tensor<?x2x4x4xf32> {nn.name = "y"}) {
  %w = nn.constant dense<[[[[1.27]], [[-0.64]]], [[[1.28]], [[-2.56]]]]> : tensor<2x2x1x1xf32>
  %v = nn.constant dense<1.0e-4> : tensor<2x2x1x1xf32>
  %c = nn.constant dense<[0.5, 5000.0]> : tensor<2xf32>
  %1 = nn.conv %x, %w from <onnx, "Conv", "conv1"> : (tensor<?x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<?x2x4x4xf32>
  %2 = nn.conv_transpose %1, %v, %c from <onnx, "ConvTranspose", "deconv"> :
    (tensor<?x2x4x4xf32>, tensor<2x2x1x1xf32>, tensor<2xf32>) -> tensor<?x2x4x4xf32>
  %y = nn.average_pool %2 kernel [1, 1] from <onnx, "AveragePool", "pool"> : (tensor<?x2x4x4xf32>) -> tensor<?x2x4x4xf32>
  func.return %y : tensor<?x2x4x4xf32>
}
"""


def quantized(options: str):
    module, session = parsed(NET)
    make_pass("quantize", options).apply(session, module)
    return module, session


@pytest.mark.parametrize(
    "options",
    ["", "bits=16", "weight-bits=4", "weight-bits=6", "weight-bits=7", "channel-wise=false activation-offset=false"],
)
def test_the_record_gives_the_same_integers(tmp_path: Path, options: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where a bias has widened the scale of a weight that is nearly zero."""
    module, session = quantized(f"seed=3 {options}")
    assert build(target_named("record"), "", "-t record").write(module, tmp_path / "r.txt", session) == [
        tmp_path / "r.txt"
    ]
    capsys.readouterr()
    again, _ = quantized(f"record={tmp_path}/r.txt")
    assert not capsys.readouterr().err
    for kind in (nn.QuantizeOp, nn.DequantizeOp):
        mine, others = ([op.qparams for op in m.walk() if isinstance(op, kind)] for m in (module, again))
        assert mine == others
    for mine, other in zip(constants(module), constants(again), strict=True):
        np.testing.assert_array_equal(mine, other)


def constants(module) -> list[np.ndarray]:
    return [op.array for op in module.walk() if isinstance(op, nn.ConstantOp)]


@pytest.mark.parametrize(("flavour", "marked"), [("pytorch", False), ("onnx", True)])
def test_few_bits_have_a_name_in_records_of_pytorch(tmp_path: Path, flavour: str, marked: bool) -> None:
    module, session = quantized("weight-bits=6")
    RecordTarget(flavour).write(module, tmp_path / "r.txt", session)
    text = (tmp_path / "r.txt").read_text()
    assert 'wts_type: "INT6"' in text
    assert ("#" in text) == marked


@pytest.mark.parametrize("stated", [None, 6, 7])
def test_few_bits_are_those_that_the_module_states(stated: int | None) -> None:
    """Integers that are small by chance have 8 bits."""
    module, session = quantized("seed=3 weight-bits=6")
    for back in [op for op in module.walk() if isinstance(op, nn.DequantizeOp) and op.bits is not None]:
        back.bits = None if stated is None else integer(stated)
    assert record_of(module, session).layers["conv1"].wts_type == f"INT{stated or 8}"


def test_what_is_written(tmp_path: Path) -> None:
    module, session = quantized("bits=16 weight-bits=4")
    RecordTarget().write(module, tmp_path / "r.txt", session)
    record = read_record(tmp_path / "r.txt")
    assert list(record.layers) == ["conv1", "deconv", "pool"]
    conv, pool = record.layers["conv1"], record.layers["pool"]
    assert (conv.act_type, conv.wts_type, conv.offset_w) == ("INT16", "INT4", (0, 0))
    assert conv.scale_w == pytest.approx((1.27 / 7, 2.56 / 8))
    assert (pool.scale_w, pool.offset_w, pool.wts_type) == (
        (1.0,),
        (0,),
        None,
    )  # AMCT writes 1 for layers without weight


def test_flavours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module, session = quantized("bits=16")
    RecordTarget("onnx").write(module, tmp_path / "onnx.txt", session)
    assert "note" not in capsys.readouterr().err
    RecordTarget("caffe").write(module, tmp_path / "caffe.txt", session)
    note = "note: the record marks act_type as amct-opt's own: AMCT's record for caffe has no such field\n"
    assert capsys.readouterr().err == note
    onnx = read_record(tmp_path / "onnx.txt").layers
    assert read_record(tmp_path / "caffe.txt").layers == {k: as_written(v, "caffe") for k, v in onnx.items()}
    with pytest.raises(CompileError, match="flavour 'keras' is not one of pytorch, onnx, tensorflow, caffe"):
        RecordTarget("keras").write(module, tmp_path / "r.txt", session)


LEFT_OUT = """
func.func @main(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %q = nn.quantize %x by PARAMS : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xTYPE>
  %d = nn.dequantize %q by PARAMS : (tensor<1x2x4x4xTYPE>) -> tensor<1x2x4x4xf32>
  %y = LAYER
  func.return %y : tensor<1x2x4x4xf32>
}
"""
CONV = 'nn.conv %d, %w from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>'
POOL = 'nn.average_pool %d kernel [1, 1] from <onnx, "AveragePool", "p"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>'
REASONS = {
    "its input is quantized, its weight is not": ("<i8, scale = 0.5>", "i8", CONV),
    "its input has more than one scale": ("<i8, scale = [0.5, 0.25], axis = 1>", "i8", POOL),
    "its integers are ui8": ("<ui8, scale = 0.5, zero_point = 128>", "ui8", POOL),
}


@pytest.mark.parametrize("reason", REASONS)
def test_what_is_left_out(reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    params, kind, layer = REASONS[reason]
    module, session = parsed(LEFT_OUT.replace("PARAMS", params).replace("TYPE", kind).replace("LAYER", layer))
    assert not record_of(module, session).layers
    assert [(r.kind, r.reason) for r in session.remarks] == [("missed", reason)]
    assert "the record is empty" in capsys.readouterr().err


def test_results_that_nothing_recorded_reads() -> None:
    """Profile ppq quantizes results too; a record has the inputs of layers."""
    module, session = parsed(NET, profile="ppq")
    make_pass("quantize", "seed=3").apply(session, module)
    assert list(record_of(module, session).layers) == ["conv1", "deconv", "pool"]
    (remark,) = (r for r in session.remarks if r.rule == "recorded")
    assert "its result is quantized" in remark.reason


def test_a_layer_of_several_operations_with_different_parameters(capsys: pytest.CaptureFixture[str]) -> None:
    """Caffe's Power is several operations; profile ppq quantizes the inputs of each."""
    text = """
    func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
      %c = nn.constant dense<0.5> : tensor<f32>
      %q = nn.quantize %x by <i8, scale = 0.5> : (tensor<4xf32>) -> tensor<4xi8>
      %d = nn.dequantize %q by <i8, scale = 0.5> : (tensor<4xi8>) -> tensor<4xf32>
      %y = nn.mul %d, %c from <caffe, "Power", "power"> : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
      %r = nn.quantize %y by <i8, scale = 0.25> : (tensor<4xf32>) -> tensor<4xi8>
      %e = nn.dequantize %r by <i8, scale = 0.25> : (tensor<4xi8>) -> tensor<4xf32>
      %z = nn.add %e, %c from <caffe, "Power", "power"> : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
      func.return %z : tensor<4xf32>
    }
    """
    session = new_session()
    session.profile = "ppq"
    assert not record_of(parse_module(session, text), session).layers
    assert [r.reason for r in session.remarks] == [
        "its operations have different parameters, and a record has one entry for a layer"
    ]
    assert "the record is empty" in capsys.readouterr().err


RECORD = Record(
    {
        "c": LayerRecord(
            scale_d=0.01855491661,
            offset_d=-14,
            scale_w=(0.000678961, 1.0),
            offset_w=(0, 0),
            tensor_balance_factor=(3.7708113, 0.1),
            skip_fusion=True,
            op_data_type="FLOAT32",
            act_type="INT8",
            wts_type="INT8",
            fakequant_precision_mode="FORCE_FP16_QUANT",
        )
    }
)
WEIGHTS = ["scale_w: 0.000678961", "scale_w: 1.0", "offset_w: 0", "offset_w: 0"]
FACTORS = ["tensor_balance_factor: 3.7708113", "tensor_balance_factor: 0.1"]
TYPES = ['act_type: "INT8"', "op_data_type: 'FLOAT32'"]
FIELDS = {
    "pytorch": ["scale_d: 0.018554917", "offset_d: -14", *WEIGHTS, *FACTORS, TYPES[0], 'wts_type: "INT8"'],
    "onnx": [
        "scale_d: 0.01855491661",
        "offset_d: -14",
        *TYPES,
        *WEIGHTS,
        *FACTORS,
        "skip_fusion: true",
        'wts_type: "INT8"',
    ],
}
"""As AMCT's programs write them: order, digits and quotes."""


@pytest.mark.parametrize("flavour", FIELDS)
def test_fields_are_in_the_order_and_digits_of_amct(flavour: str) -> None:
    written = Record({name: as_written(layer, flavour) for name, layer in RECORD.layers.items()})
    lines = [line.strip() for line in record_text(written, flavour).splitlines()]
    assert lines[:3] == ["record {", 'key: "c"', "value {"]
    assert lines[3 : 3 + len(FIELDS[flavour])] == FIELDS[flavour]
    assert any("fakequant" in line for line in lines) is (flavour == "onnx")
