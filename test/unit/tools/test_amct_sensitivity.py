"""`amct sensitivity`: the command."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
MODEL, DATA = DIGITS / "digits.onnx", DIGITS / "calib.npz"


def test_command(amct_tool, tmp_path: Path) -> None:
    result = amct_tool("sensitivity", MODEL, "--data", DATA, "--samples", "4", "--profile", "ascend", "--json")
    assert (result.status, result.err) == (0, "")
    found = json.loads(result.out)
    assert (found["samples"], found["held_back"], len(found["layers"])) == (4, True, 7)
    worst = found["layers"][0]
    assert worst["gain"] == pytest.approx(worst["spared"] - found["quantized"])
    assert found["measure"] == "sqnr"
    assert found["spread"][0] <= found["quantized"] <= found["spread"][1]
    assert worst["spread"][0] <= worst["alone"] <= worst["spread"][1]
    result = amct_tool("sensitivity", MODEL, "--data", DATA, "--samples", "4", "--measure", "kl")
    assert "alone nats" in result.out
    result = amct_tool("sensitivity", MODEL, "--data", DATA, "--config", tmp_path / "none.cfg")
    assert result.status == 1
    assert "none.cfg" in result.err


def test_a_network_without_layers(amct_tool, tmp_path: Path) -> None:
    (tmp_path / "relu.mlir").write_text(
        "func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {\n"
        "  %y = nn.relu %x : tensor<1x2xf32>\n  func.return %y : tensor<1x2xf32>\n}\n"
    )
    np.savez(tmp_path / "x.npz", x=np.ones((9, 2), np.float32))
    result = amct_tool("sensitivity", tmp_path / "relu.mlir", "--data", tmp_path / "x.npz")
    assert result.status == 1
    assert "relu.mlir: error: quantizes no layer\n  hint: amct support says why" in result.err
