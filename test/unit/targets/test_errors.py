"""What a format, or the chosen opset of ONNX, cannot hold is one located error, and no file appears or changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amct_opt.ir.text import parse_module
from amct_opt.ir.verification import verify
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.targets import Target
from amct_opt.targets.onnx import OnnxTarget
from amct_opt.targets.tensorflow import TfFakequantTarget
from amct_opt.tools.amct_opt import run


def unary(line: str, result: str = "tensor<4xf32>", operand: str = "tensor<4xf32>") -> str:
    return f"""
func.func @main(%x: {operand} {{nn.name = "x"}}) -> ({result} {{nn.name = "y"}}) {{
  %0 = {line}
  func.return %0 : {result}
}}"""


def opaque(op_type: str, version: int, rest: str = "") -> str:
    return unary(
        f'nn.opaque %x framework "onnx" op_type "{op_type}" version {version} {rest}: (tensor<4xf32>) -> tensor<4xf32>'
    )


I8, I32 = "tensor<4xi8>", "tensor<4xi32>"
IMAGE, OPEN = "tensor<1x2x4x4xf32>", "tensor<1x2x?x?xf32>"

BOTH: dict[str, tuple[str, str, str]] = {
    # module, part of the message, part of the hint, of both formats
    "clip bound that the type cannot hold": (
        unary("nn.clip %x min 0.5 : tensor<4xi32>", I32, I32),
        "has the min 0.5, which int32 cannot hold",
        "",
    ),
    "weight that is not there": (
        """
func.func @main(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) {
  %w = nn.constant #nn.external<"missing", tensor<4xf32>>
  %0 = nn.add %x, %w : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}""",
        "net.safetensors",
        "",
    ),
    "scale that is not there": (
        unary('nn.quantize %x by <i8, scale = "missing", axis = 0> : (tensor<4xf32>) -> tensor<4xi8>', "tensor<4xi8>"),
        "'nn.quantize' op cannot be written",
        "",
    ),
    "operation of the ascend dialect": (
        unary("ascend.Sigmoid %x : (tensor<4xf32>) -> tensor<4xf32>"),
        "'ascend.Sigmoid' op has no form in {format}",
        "--lower-to-ascend",
    ),
    "operation of another dialect": (
        unary('"tensor.cast"(%x) : (tensor<4xf32>) -> tensor<4xf32>'),
        "has no form in {format}",
        "-t mlir",
    ),
    "output named like an input": (unary("nn.neg %x : tensor<4xf32>").replace('"y"', '"x"'), "are both called 'x'", ""),
    "empty name": (unary("nn.neg %x : tensor<4xf32>").replace('"y"', '""'), "one of the outputs has an empty name", ""),
}

ONNX: dict[str, tuple[int, str, str, str]] = {
    # opset, module, part of the message, part of the hint
    "type that a later opset takes": (
        17,
        unary("nn.quantize %x by <i16, scale = 0.5> : (tensor<4xf32>) -> tensor<4xi16>", "tensor<4xi16>"),
        "'nn.quantize' op becomes ONNX QuantizeLinear, which in opset 17 takes no int16",
        "opset=21",
    ),
    "type that no opset takes": (
        17,
        unary("nn.erf %x : tensor<4xi1>", "tensor<4xi1>", "tensor<4xi1>"),
        "takes no bool as 'input'",
        "",
    ),
    "types that may not be mixed": (
        13,
        """
func.func @main(%x: tensor<1x2x2xf16> {nn.name = "x"}) -> (tensor<1x2x2xf16> {nn.name = "y"}) {
  %c = nn.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %0 = nn.batch_norm %x, %c, %c, %c, %c
    : (tensor<1x2x2xf16>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x2xf16>
  func.return %0 : tensor<1x2x2xf16>
}""",
        "takes 'scale' of float16 only, not of float",
        "opset=15",
    ),
    "mode of a later opset": (
        18,
        unary("nn.pad %x pads [5, 1] mode wrap : (tensor<4xf32>) -> tensor<10xf32>", "tensor<10xf32>"),
        "needs Pad with mode wrap of axis 0, whose size is unknown or less than the pad",
        "opset=19",
    ),
    "pad value out of range": (
        17,
        unary("nn.pad %x pads [1, 0] value 300.0 : (tensor<4xi8>) -> tensor<5xi8>", "tensor<5xi8>", I8),
        "has the value 300",
        "",
    ),
    "zero point of int32": (
        17,
        unary("nn.dequantize %x by <i32, scale = 0.5, zero_point = 3> : (tensor<4xi32>) -> tensor<4xf32>", operand=I32),
        "has a zero point, which DequantizeLinear does not take with int32",
        "",
    ),
    "opaque node of another framework": (
        17,
        unary('nn.opaque %x framework "tensorflow" op_type "Roll" : (tensor<4xf32>) -> tensor<4xf32>'),
        "holds tensorflow's Roll",
        "--outputs leaves it out",
    ),
    "opaque node that later opsets changed": (
        20,
        opaque("GridSample", 16),
        "holds GridSample of opset 16, which opset 20 defines otherwise",
        "opset=19",
    ),
    "opaque node that uses what a later opset added": (
        13,
        opaque("GRU", 14, "attrs {layout = 1 : i64} "),
        "holds GRU of opset 14, which opset 13 defines otherwise",
        "opset=14",
    ),
    "opaque node whose default is another computation": (
        17,
        opaque("Hardmax", 11),
        "holds Hardmax of opset 11, which opset 17 defines otherwise",
        "version_converter",
    ),
    "opaque node of a type that a later opset takes": (
        17,
        unary(
            'nn.opaque %x framework "onnx" op_type "IsInf" version 20 : (tensor<4xf16>) -> tensor<4xi1>',
            "tensor<4xi1>",
            "tensor<4xf16>",
        ),
        "becomes ONNX IsInf, which in opset 17 takes no float16 as 'X'",
        "opset=20",
    ),
    "opaque node that the opset does not have yet": (
        13,
        opaque("DFT", 17),
        "holds DFT, which opset 13 does not have",
        "opset=17",
    ),
    "opaque node that no written opset has": (17, opaque("Upsample", 9), "holds Upsample", "version_converter"),
    "opaque nodes of one domain in two versions": (
        17,
        """
func.func @main(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) {
  %0 = nn.opaque %x framework "onnx" op_type "A" domain "d" version 1 : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.opaque %0 framework "onnx" op_type "A" domain "d" version 2 : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}""",
        "is of version 2 of domain d, another node of version 1",
        "",
    ),
    "output that is a weight that is not there": (
        17,
        """
func.func @main(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) {
  %w = nn.constant #nn.external<"missing", tensor<4xf32>>
  func.return %w : tensor<4xf32>
}""",
        "'nn.constant' op",
        "",
    ),
    "two inputs of one name": (
        17,
        """
func.func @main(%x: tensor<4xf32> {nn.name = "x"}, %y: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) {
  %0 = nn.add %x, %y : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}""",
        "two inputs are called 'x'",
        "",
    ),
    "opaque node that does not fit its schema": (
        17,
        opaque("Celu", 12, "attrs {nonsense = 1 : i64} "),
        "Unrecognized attribute: nonsense",
        "",
    ),
}

TENSORFLOW: dict[str, tuple[str, str, str]] = {
    # module, part of the message, part of the hint
    "type that no kernel has": (
        unary("nn.erf %x : tensor<4xi32>", "tensor<4xi32>", "tensor<4xi32>"),
        "'nn.erf' op becomes TensorFlow's Erf, which does not compute int32",
        "",
    ),
    "logical operator of numbers": (
        unary("nn.relu %x : tensor<4xi1>", "tensor<4xi1>", "tensor<4xi1>"),
        "becomes TensorFlow's Relu, which does not compute bool",
        "",
    ),
    "arithmetic in 4 bits": (
        unary("nn.add %x, %x : tensor<4xi4>", "tensor<4xi4>", "tensor<4xi4>"),
        "computes with integers of 4 bits or less",
        "",
    ),
    "four spatial axes": (
        """
func.func @main(%x: tensor<1x1x2x2x2x2xf32> {nn.name = "x"}) -> (tensor<1x1x2x2x2x2xf32> {nn.name = "y"}) {
  %w = nn.constant dense<1.0> : tensor<1x1x1x1x1x1xf32>
  %0 = nn.conv %x, %w : (tensor<1x1x2x2x2x2xf32>, tensor<1x1x1x1x1x1xf32>) -> tensor<1x1x2x2x2x2xf32>
  func.return %0 : tensor<1x1x2x2x2x2xf32>
}""",
        "has 4 spatial axes",
        "",
    ),
    "output_shape for sizes that are not known": (
        f"""
func.func @main(%x: {OPEN} {{nn.name = "x"}}) -> (tensor<1x1x9x9xf32> {{nn.name = "y"}}) {{
  %w = nn.constant dense<1.0> : tensor<2x1x2x2xf32>
  %0 = nn.conv_transpose %x, %w strides [2, 2] output_shape [9, 9] : ({OPEN}, tensor<2x1x2x2xf32>) -> tensor<1x1x9x9xf32>
  func.return %0 : tensor<1x1x9x9xf32>
}}""",
        "needs its input's size for output_shape",
        "--infer-shapes",
    ),
    "edge around sizes that are not known": (
        unary(f"nn.pad %x pads [0, 0, 1, 0, 0, 0, 0, 0] mode edge : {OPEN}", OPEN, OPEN),
        "pads an axis of unknown size in mode edge",
        "--infer-shapes",
    ),
    "counting padding of sizes that are not known": (
        unary(
            "nn.average_pool %x kernel [2, 2] strides [3, 3] pads [1, 1, 1, 1] ceil_mode count_include_pad : " + OPEN,
            OPEN,
            OPEN,
        ),
        "counts padding",
        "--infer-shapes",
    ),
    "resize of sizes that are not known": (
        unary(f"nn.resize %x scales [1.0, 1.0, 1.5, 1.5] : {OPEN}", OPEN, OPEN),
        "needs its input's size",
        "--infer-shapes",
    ),
    "opaque node of another framework": (
        unary('nn.opaque %x framework "onnx" op_type "Celu" : (tensor<4xf32>) -> tensor<4xf32>'),
        "holds onnx's Celu, which only onnx files can",
        "",
    ),
}

CASES: dict[str, tuple[Target, str, str, str]] = {
    **{
        f"ONNX, {name}": (OnnxTarget(opset=opset), text, message, hint)
        for name, (opset, text, message, hint) in ONNX.items()
    },
    **{f"TensorFlow, {name}": (TfFakequantTarget(), *case) for name, case in TENSORFLOW.items()},
    **{
        f"{written}, {name}": (target, text, message.format(format=written), hint)
        for name, (text, message, hint) in BOTH.items()
        for written, target in (("ONNX", OnnxTarget(opset=17)), ("TensorFlow", TfFakequantTarget()))
    },
}


@pytest.mark.parametrize("name", CASES)
def test_error(name: str, tmp_path: Path) -> None:
    target, text, message, hint = CASES[name]
    session, path = new_session(), tmp_path / f"model{target.ending}"
    path.write_bytes(b"what was there before")
    module = parse_module(session, text, "net.mlir")
    verify(module)
    with pytest.raises(CompileError) as caught:
        target.write(module, path, session)
    assert message in str(caught.value)
    assert hint in caught.value.hint
    assert bool(hint) == bool(caught.value.hint)
    assert caught.value.where.startswith(("net.mlir:", str(path)))
    assert [p.name for p in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == b"what was there before"


@pytest.mark.parametrize("opset", [0, 12, 27])
def test_opset_out_of_range(opset: int) -> None:
    with pytest.raises(CompileError, match="does not write opset") as caught:
        OnnxTarget(opset=opset)
    assert "13 to 26" in caught.value.hint


def test_command_line(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """`-t 'onnx{opset=13}'` reaches the target; an error is one located line, a hint and status 1."""
    source, out = tmp_path / "net.mlir", tmp_path / "net.onnx"
    source.write_text(unary("nn.pad %x pads [5, 1] mode wrap : (tensor<4xf32>) -> tensor<10xf32>", "tensor<10xf32>"))
    assert run([str(source), "-t", "onnx{opset=13}", "-o", str(out)]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == (
        f"{source}:3:3: error: 'nn.pad' op needs Pad with mode wrap of axis 0, whose size is unknown "
        "or less than the pad, which opset 13 does not have"
    )
    assert lines[1].strip() == "hint: write a newer opset: -t 'onnx{opset=19}'"
    assert not out.exists()
    assert run([str(source), "-t", "onnx{opset=19}", "-o", str(out)]) == 0
    assert out.exists()


def test_unknown_nodes() -> None:
    with pytest.raises(CompileError, match="does not write nodes 'qdq'") as caught:
        TfFakequantTarget(nodes="qdq")
    assert caught.value.hint == "nodes are plain or fakequant"


def test_command_line_of_tensorflow(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """`-t 'tf-fakequant{nodes=fakequant}'` reaches the target."""
    source, out = tmp_path / "net.mlir", tmp_path / "net.pb"
    source.write_text(unary("nn.neg %x : tensor<4xf32>"))
    assert run([str(source), "-t", "tf-fakequant{nodes=fakequant}", "-o", str(out)]) == 0
    assert run([str(source), "-t", "tf-fakequant{nodes=qdq}", "-o", str(out)]) == 1
    assert "nodes are plain or fakequant" in capsys.readouterr().err
