"""What TensorFlow cannot hold, or cannot compute on a CPU, is one located error, and no file appears or changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amct_opt.diagnostics import CompileError
from amct_opt.ir.text import parse_module
from amct_opt.ir.verification import verify
from amct_opt.targets.tensorflow import TfFakequantTarget
from amct_opt.tools.amct_opt import run
from amct_opt.universe import new_session


def unary(line: str, result: str = "tensor<4xf32>", operand: str = "tensor<4xf32>") -> str:
    return f"""
func.func @main(%x: {operand} {{nn.name = "x"}}) -> ({result} {{nn.name = "y"}}) {{
  %0 = {line}
  func.return %0 : {result}
}}"""


IMAGE, OPEN = "tensor<1x2x4x4xf32>", "tensor<1x2x?x?xf32>"

CASES: dict[str, tuple[str, str, str]] = {
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
        "computes with 4-bit integers",
        "",
    ),
    "clip bound that the type cannot hold": (
        unary("nn.clip %x min 0.5 : tensor<4xi32>", "tensor<4xi32>", "tensor<4xi32>"),
        "has the min 0.5, which int32 cannot hold",
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
        "'ascend.Sigmoid' op has no form in TensorFlow",
        "--lower-to-ascend",
    ),
    "operation of another dialect": (
        unary('"tensor.cast"(%x) : (tensor<4xf32>) -> tensor<4xf32>'),
        "has no form in TensorFlow",
        "-t mlir",
    ),
    "output named like an input": (
        unary("nn.neg %x : tensor<4xf32>").replace('"y"', '"x"'),
        "are both called 'x'",
        "",
    ),
    "empty name": (unary("nn.neg %x : tensor<4xf32>").replace('"y"', '""'), "one of the outputs has an empty name", ""),
}


@pytest.mark.parametrize("name", CASES)
def test_error(name: str, tmp_path: Path) -> None:
    text, message, hint = CASES[name]
    session, path = new_session(), tmp_path / "model.pb"
    path.write_bytes(b"what was there before")
    module = parse_module(session, text, "net.mlir")
    verify(module)
    with pytest.raises(CompileError) as caught:
        TfFakequantTarget().write(module, path, session)
    assert message in str(caught.value)
    assert hint in caught.value.hint
    assert bool(hint) == bool(caught.value.hint)
    assert caught.value.where.startswith("net.mlir:")
    assert [p.name for p in tmp_path.iterdir()] == ["model.pb"]
    assert path.read_bytes() == b"what was there before"


def test_unknown_nodes() -> None:
    with pytest.raises(CompileError, match="does not write nodes 'qdq'") as caught:
        TfFakequantTarget(nodes="qdq")
    assert caught.value.hint == "nodes are plain or fakequant"


def test_command_line(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """`-t 'tf-fakequant{nodes=fakequant}'` reaches the target."""
    source, out = tmp_path / "net.mlir", tmp_path / "net.pb"
    source.write_text(unary("nn.neg %x : tensor<4xf32>"))
    assert run([str(source), "-t", "tf-fakequant{nodes=fakequant}", "-o", str(out)]) == 0
    assert run([str(source), "-t", "tf-fakequant{nodes=qdq}", "-o", str(out)]) == 1
    assert "nodes are plain or fakequant" in capsys.readouterr().err
