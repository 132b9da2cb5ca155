"""`amct run --integers` and `amct compare --integers`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

QUANTIZED = """
func.func @main(%x: tensor<?x2xf32> {nn.name = "x"}) -> (tensor<?x1xf32> {nn.name = "y"}) {
  %q = nn.quantize %x by <i8, scale = 1.0, zero_point = 3> : (tensor<?x2xf32>) -> tensor<?x2xi8>
  %d = nn.dequantize %q by <i8, scale = 1.0, zero_point = 3> : (tensor<?x2xi8>) -> tensor<?x2xf32>
  %i = nn.constant dense<[[1], [-2]]> : tensor<2x1xi8>
  %w = nn.dequantize %i by <i8, scale = 1.0> : (tensor<2x1xi8>) -> tensor<2x1xf32>
  %m = nn.matmul %d, %w : (tensor<?x2xf32>, tensor<2x1xf32>) -> tensor<?x1xf32>
  %qy = nn.quantize %m by <i8, scale = 14.0> : (tensor<?x1xf32>) -> tensor<?x1xi8>
  %y = nn.dequantize %qy by <i8, scale = 14.0> : (tensor<?x1xi8>) -> tensor<?x1xf32>
  func.return %y : tensor<?x1xf32>
}"""
"""Sums are multiplied by 1 / 14, rounded to float32, where floats are divided by 14: 343 = 24.5 * 14 is not a tie any more."""

FLOAT = """
func.func @main(%x: tensor<?x2xf32> {nn.name = "x"}) -> (tensor<?x2xf32> {nn.name = "y"}) {
  %y = nn.relu %x : tensor<?x2xf32>
  func.return %y : tensor<?x2xf32>
}"""


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "q.mlir").write_text(QUANTIZED)
    (tmp_path / "f.mlir").write_text(FLOAT)
    np.savez(
        tmp_path / "x.npz",
        x=np.stack(np.meshgrid(np.arange(-131, 125), [-129, 0, 120]), -1).reshape(-1, 2).astype("f4"),
    )
    return tmp_path


def test_run(amct_tool, files: Path) -> None:
    result = amct_tool("run", files / "q.mlir", "--integers", "--data", files / "x.npz", "-o", files / "y.npz")
    assert result.status == 0
    with np.load(files / "x.npz") as inputs, np.load(files / "y.npz") as outputs:
        x, y = inputs["x"], outputs["y"]
    sums = (x @ np.array([[1], [-2]], np.float32)).astype(np.int64)
    factor = np.float32(1) / np.float32(14)
    expected = np.clip(np.rint(sums.astype(np.float32) * factor), -128, 127).astype(np.float32) * np.float32(14)
    np.testing.assert_array_equal(y, expected)


def test_compare(amct_tool, files: Path) -> None:
    """Floats and integers of one module are a step apart at most."""
    command = ["compare", files / "q.mlir", files / "q.mlir", "--data", files / "x.npz"]
    plain, integers = amct_tool(*command), amct_tool(*command, "--integers")
    assert plain.status == integers.status == 0
    assert " 0 of 768" in plain.out
    assert " 0 of 768" not in integers.out
    assert " of 768" in integers.out
    assert " 14 " in integers.out, "the largest difference"


@pytest.mark.parametrize("command", ["run", "compare"])
def test_a_float_module_is_refused(command: str, amct_tool, files: Path) -> None:
    more = ["-o", files / "y.npz"] if command == "run" else [files / "f.mlir"]
    result = amct_tool(command, files / "f.mlir", *more, "--integers", "--data", files / "x.npz")
    assert result.status == 1
    assert "no operation of this module takes and gives integers" in result.err
    assert "--profile=qdq --fuse-all --quantize" in result.err
    assert not (files / "y.npz").exists()


@pytest.mark.parametrize(("command", "other"), [("run", "--fp16"), ("compare", "--layers")])
def test_not_together(command: str, other: str, amct_tool, files: Path) -> None:
    """Values of layers are what integer kernels never compute."""
    result = amct_tool(command, files / "q.mlir", "--integers", other, "--data", files / "x.npz")
    assert result.status == 2
    assert "not allowed with argument --integers" in result.err
