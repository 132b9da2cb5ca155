"""What ONNX, or the chosen opset, cannot hold is one located error, and no file appears or changes."""

from __future__ import annotations

from typing import Any

import pytest

from amct_opt.diagnostics import CompileError
from amct_opt.targets.onnx import OnnxTarget
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

CASES: dict[str, tuple[str, int, str, str]] = {
    # name: module, opset, part of the message, part of the hint
    "type that a later opset takes": (
        unary("nn.quantize %x by <i16, scale = 0.5> : (tensor<4xf32>) -> tensor<4xi16>", "tensor<4xi16>"),
        17,
        "'nn.quantize' op becomes ONNX QuantizeLinear, which in opset 17 takes no int16",
        "opset=21",
    ),
    "type that no opset takes": (
        unary("nn.erf %x : tensor<4xi1>", "tensor<4xi1>", "tensor<4xi1>"),
        17,
        "takes no bool as 'input'",
        "",
    ),
    "types that may not be mixed": (
        """
func.func @main(%x: tensor<1x2x2xf16> {nn.name = "x"}) -> (tensor<1x2x2xf16> {nn.name = "y"}) {
  %c = nn.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %0 = nn.batch_norm %x, %c, %c, %c, %c
    : (tensor<1x2x2xf16>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x2xf16>
  func.return %0 : tensor<1x2x2xf16>
}""",
        13,
        "takes 'scale' of float16 only, not of float",
        "opset=15",
    ),
    "mode of a later opset": (
        unary("nn.pad %x pads [5, 1] mode wrap : (tensor<4xf32>) -> tensor<10xf32>", "tensor<10xf32>"),
        18,
        "needs Pad with mode wrap of axis 0, whose size is unknown or less than the pad",
        "opset=19",
    ),
    "clip bound that the type cannot hold": (
        unary("nn.clip %x min 0.5 : tensor<4xi32>", I32, I32),
        17,
        "has the min 0.5, which int32 cannot hold",
        "",
    ),
    "pad value out of range": (
        unary("nn.pad %x pads [1, 0] value 300.0 : (tensor<4xi8>) -> tensor<5xi8>", "tensor<5xi8>", I8),
        17,
        "has the value 300",
        "",
    ),
    "zero point of int32": (
        unary("nn.dequantize %x by <i32, scale = 0.5, zero_point = 3> : (tensor<4xi32>) -> tensor<4xf32>", operand=I32),
        17,
        "has a zero point, which DequantizeLinear does not take with int32",
        "",
    ),
    "opaque node of another framework": (
        unary('nn.opaque %x framework "tensorflow" op_type "Roll" : (tensor<4xf32>) -> tensor<4xf32>'),
        17,
        "holds tensorflow's Roll",
        "--outputs leaves it out",
    ),
    "opaque node that later opsets changed": (
        opaque("GridSample", 16),
        20,
        "holds GridSample of opset 16, which opset 20 defines otherwise",
        "opset=19",
    ),
    "opaque node that uses what a later opset added": (
        opaque("GRU", 14, "attrs {layout = 1 : i64} "),
        13,
        "holds GRU of opset 14, which opset 13 defines otherwise",
        "opset=14",
    ),
    "opaque node whose default is another computation": (
        opaque("Hardmax", 11),
        17,
        "holds Hardmax of opset 11, which opset 17 defines otherwise",
        "version_converter",
    ),
    "opaque node of a type that a later opset takes": (
        unary(
            'nn.opaque %x framework "onnx" op_type "IsInf" version 20 : (tensor<4xf16>) -> tensor<4xi1>',
            "tensor<4xi1>",
            "tensor<4xf16>",
        ),
        17,
        "becomes ONNX IsInf, which in opset 17 takes no float16 as 'X'",
        "opset=20",
    ),
    "opaque node that the opset does not have yet": (
        opaque("DFT", 17),
        13,
        "holds DFT, which opset 13 does not have",
        "opset=17",
    ),
    "opaque node that no written opset has": (opaque("Upsample", 9), 17, "holds Upsample", "version_converter"),
    "opaque nodes of one domain in two versions": (
        """
func.func @main(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) {
  %0 = nn.opaque %x framework "onnx" op_type "A" domain "d" version 1 : (tensor<4xf32>) -> tensor<4xf32>
  %1 = nn.opaque %0 framework "onnx" op_type "A" domain "d" version 2 : (tensor<4xf32>) -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}""",
        17,
        "is of version 2 of domain d, another node of version 1",
        "",
    ),
    "weight that is not there": (
        """
func.func @main(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) {
  %w = nn.constant #nn.external<"missing", tensor<4xf32>>
  %0 = nn.add %x, %w : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}""",
        17,
        "net.safetensors",
        "",
    ),
    "output that is a weight that is not there": (
        """
func.func @main(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) {
  %w = nn.constant #nn.external<"missing", tensor<4xf32>>
  func.return %w : tensor<4xf32>
}""",
        17,
        "'nn.constant' op",
        "",
    ),
    "scale that is not there": (
        unary('nn.quantize %x by <i8, scale = "missing", axis = 0> : (tensor<4xf32>) -> tensor<4xi8>', "tensor<4xi8>"),
        17,
        "'nn.quantize' op cannot be written",
        "",
    ),
    "operation of the ascend dialect": (
        unary("ascend.Sigmoid %x : (tensor<4xf32>) -> tensor<4xf32>"),
        17,
        "'ascend.Sigmoid' op has no form in ONNX",
        "--lower-to-ascend",
    ),
    "two inputs of one name": (
        """
func.func @main(%x: tensor<4xf32> {nn.name = "x"}, %y: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) {
  %0 = nn.add %x, %y : tensor<4xf32>
  func.return %0 : tensor<4xf32>
}""",
        17,
        "two inputs are called 'x'",
        "",
    ),
    "output named like an input": (
        unary("nn.neg %x : tensor<4xf32>").replace('"y"', '"x"'),
        17,
        "are both called 'x'",
        "",
    ),
    "empty name": (
        unary("nn.neg %x : tensor<4xf32>").replace('"y"', '""'),
        17,
        "one of the outputs has an empty name",
        "",
    ),
    "opaque node that does not fit its schema": (
        opaque("Celu", 12, "attrs {nonsense = 1 : i64} "),
        17,
        "Unrecognized attribute: nonsense",
        "",
    ),
    "operation of another dialect": (
        """
func.func @main(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xf32> {nn.name = "y"}) {
  %0 = "tensor.cast"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}""",
        17,
        "has no form in ONNX",
        "-t mlir",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_error(name: str, export: Any) -> None:
    text, opset, message, hint = CASES[name]
    export.path.write_bytes(b"what was there before")
    with pytest.raises(CompileError) as caught:
        export.write(text, opset=opset)
    assert message in str(caught.value)
    assert hint in caught.value.hint
    assert bool(hint) == bool(caught.value.hint)
    assert caught.value.where.startswith(("net.mlir:", str(export.path)))
    assert [p.name for p in export.folder.iterdir()] == ["model.onnx"]
    assert export.path.read_bytes() == b"what was there before"


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
