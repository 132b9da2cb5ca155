"""Kernels of chips: what a chip has no kernel for is refused before it is quantized, and takes the form that has one after."""

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import f32

from amct_opt.dialects import ascend, nn
from amct_opt.lowering.ascend import trial_lowering
from amct_opt.lowering.ascend.chips import Operator, kernels, library
from amct_opt.lowering.ascend.chips.kernels import chips_without, take_kernels
from amct_opt.lowering.ascend.profiles import ASCEND
from amct_opt.rewriting import Refusal
from amct_opt.runtime.executor import run
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.transforms.quantization.profiles import QDQ, profile_of

DIGITS = Path(__file__).parents[4] / "examples/digits"
DATA = DIGITS / "calib.npz"


def session_for(chip):
    session = new_session()
    session.chip = chip
    session.prints = ()
    return session


def dequant(net):
    n = net(2, 4)
    scales = n.constant(np.array([0.1], np.float32))
    sums = n.constant(np.array([[70000, -3, 7, 1], [0, 12345, -99999, 2]], np.int32))
    op = ascend.AscendDequantOp.make(sums, scales)
    n.add(op)
    return n.module(n.add(ascend.AddOp.make(n.x, op.y))), op


def test_float16_of_the_chip_is_numpys(net):
    module, _ = dequant(net)
    before = run(module, {"arg0": np.zeros((2, 4), np.float32)})["result0"]
    assert take_kernels(module, session_for("910b"), "test") == []
    names = [op.name.removeprefix("ascend.") for op in module.walk() if isinstance(op, ascend.AscendOp)]
    assert names == ["AscendDequant", "Cast", "Add"]
    after = run(module, {"arg0": np.zeros((2, 4), np.float32)})["result0"]
    np.testing.assert_array_equal(after, before.astype(np.float16).astype(np.float32))
    assert (after != before).any()


@pytest.mark.parametrize("chip", [None, "310p", "950"])
def test_what_is_not_known_is_not_changed(net, chip):
    module, op = dequant(net)
    take_kernels(module, session_for(chip), "test")
    assert op.y.type.element_type == f32


def test_chips_without_int16():
    assert chips_without("AscendQuant", "i16") == ["910b", "950"]
    assert chips_without("AscendQuant", "i8") == []


def test_what_a_library_lacks_is_refused(net):
    """An operator that is null, one without the row, and one that is not listed, of which nothing is known."""
    n = net(2, 4)
    op = ascend.SqrtOp.make(n.x)
    n.add(op)
    assert str(kernels.kernel_of(op, "910b")) == "Sqrt f32 -> f32"
    wide = n.constant(np.zeros((2, 4), np.float64))
    double = ascend.SqrtOp.make(wide)
    rows = "bf16 -> bf16; f16 -> f16; f32 -> f32"
    refusal = kernels.kernel_of(double, "910b")
    assert isinstance(refusal, Refusal)
    assert sorted(refusal.reason.partition("rows: ")[2].split("; ")) == rows.split("; ")
    assert library("910b")["StridedSliceV2"] is None
    assert str(kernels.kernel_of(op, "950")) == "Sqrt f32 -> f32 (rows not known)"


def test_a_layer_without_a_kernel_stays_float(monkeypatch, net):
    """The library of a chip whose average pools take float16 only."""
    only = {"AvgPoolV2": Operator(("x",), ("y",), {}, (("f16", "f16"),))}
    monkeypatch.setattr(kernels, "library", lambda chip: only)
    trial_lowering._tried_by_types.cache_clear()
    n = net(1, 2, 4, 4)
    pool = nn.AveragePoolOp.make(n.x, kernel=[2, 2], strides=[2, 2])
    n.add(pool)
    try:
        refusal = trial_lowering.on("310").integer_refusal(pool)
        assert refusal is not None
        assert refusal == ("chip-kernel", "chip 310 has no AvgPoolV2 of i8 -> i32; rows: f16 -> f16")
        assert trial_lowering.integer_refusal(pool) is None
    finally:
        trial_lowering._tried_by_types.cache_clear()


def test_a_profile_is_of_a_chip():
    session = session_for("910b")
    assert profile_of(session).chip == "910b"
    assert profile_of(session_for(None)) is ASCEND
    session.profile = QDQ.name
    with pytest.raises(CompileError, match="profile qdq is for no chip"):
        profile_of(session)


def test_a_slice_with_constant_bounds_has_a_kernel(net):
    """The library has no StridedSliceV2, but the operator that the graph compiler makes of one, as bounds are constants."""
    n = net(2, 4)
    lists = [n.constant(np.array([value])) for value in (0, 1, 0, 1)]
    op = ascend.StridedSliceV2Op.make(n.x, *lists)
    assert str(kernels.kernel_of(op, "910b")) == "StridedSliceD f32 i64 i64 i64 i64 -> f32 (rows not known)"


def test_the_form_of_a_constant_operand(net):
    """int8 transposed convolutions are Conv2DTransposeD's, if input_size is a constant."""
    n = net(1, 3, 8, 8)
    x, weight = (n.constant(np.zeros(shape, np.int8)) for shape in ((1, 3, 8, 8), (3, 4, 2, 2)))
    size = n.constant(np.zeros(4, np.int64))
    shape = n.add(ascend.ShapeOp.make(n.x, dtype=9))
    geometry = {"strides": [1, 1, 2, 2], "pads": [0, 0, 0, 0], "data_format": "NCHW"}
    known, computed = (ascend.Conv2DTransposeOp.make(each, x, weight, **geometry) for each in (size, shape))
    assert str(kernels.kernel_of(known, "910b")) == "Conv2DTransposeD i64 i8 i8 -> i32"
    refusal = kernels.kernel_of(computed, "910b")
    assert isinstance(refusal, Refusal)
    assert refusal.reason.startswith("chip 910b has no Conv2DTranspose of i64 i8 i8 -> i32; rows: i32 f16 f16 -> f16")


WIDE = ("quantize", DIGITS / "digits.onnx", "--bits", "16", "--profile", "ascend-a2", "--data", DATA, "--effort", "0")
NO_KERNEL = "chip 910b has no AscendQuant of f32 -> i16; rows: f16 -> i8; f32 -> i8; f16 -> i4; f32 -> i4"


def test_int16_is_an_error_where_the_chip_has_none(amct_tool, tmp_path):
    result = amct_tool(*WIDE, "--chip", "910b", "-o", tmp_path / "out")
    assert result.status == 1
    assert f"digits.onnx: node 'conv1': error: bits: no layer can have an input of 16 bits; {NO_KERNEL}" in result.err
    assert not (tmp_path / "out").exists()


def test_int16_of_one_layer_is_an_error(amct_tool, tmp_path):
    result = amct_tool(*WIDE[:2], *WIDE[4:], "--layer-bits", "conv1:16", "--chip", "910b", "-o", tmp_path / "out")
    assert result.status == 1
    assert f"layer_bits gives 'conv1' 16 bits: it cannot have an input of 16 bits: {NO_KERNEL}" in result.err


def test_int16_for_any_chip_is_written_with_a_note(amct_tool, tmp_path):
    result = amct_tool(*WIDE, "-o", tmp_path / "out")
    assert result.status == 0
    assert "note: 6 AscendQuants to INT16: chips 910b, 950 have no kernel that gives it" in result.err


def test_the_file_for_a_chip_has_its_types(amct_tool, tmp_path):
    result = amct_tool(*WIDE[:2], *WIDE[4:], "--chip", "910b", "-o", tmp_path)
    assert result.status == 0
    assert result.err.count("chip 910b: the element types of these operators are not known: Conv2D, Add, MatMulV2") == 1
    nodes = onnx.load(tmp_path / "digits_deploy_model.onnx").graph.node
    dequants = [node for node in nodes if node.op_type == "AscendDequant"]
    assert {attribute.i for node in dequants for attribute in node.attribute if attribute.name == "dtype"} == {1}
    casts = {node.input[0] for node in nodes if node.op_type == "Cast"}
    assert casts == {node.output[0] for node in dequants}


def test_support_names_operators_and_types(amct_tool):
    result = amct_tool("support", DIGITS / "digits.onnx", "--chip", "910b", "--json")
    layers = {layer["name"]: layer["kernels"] for layer in json.loads(result.out)["layers"]}
    assert layers["pool1"] == ["AscendQuant f32 -> i8", "AvgPoolV2 i8 -> i32", "AscendDequant i32 ui64 -> f16"]
    assert layers["conv1"][1] == "Conv2D i8 i8 i32 -> i32 (rows not known)"
    assert layers["relu1"] == ["Relu f32 -> f32"]
    nothing = amct_tool("support", DIGITS / "digits.onnx", "--chip", "310p", "--json")
    assert "chip 310p: nothing is known about its kernels" in nothing.err
    assert all(layer["kernels"] == [] for layer in json.loads(nothing.out)["layers"])
