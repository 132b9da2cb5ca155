"""Finished runs in folders, made once for all tests of reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from amct_opt.tools import amct

DIGITS = Path(__file__).parents[4] / "examples" / "digits"

UNFRIENDLY = "</script><b onload='x()'>&层\u2028/0"
"""A layer name that is HTML, ends scripts, and is not ASCII."""

TEXT = """
func.func @main(%x: tensor<?x2xf32> {nn.name = "x<i>"}) -> (tensor<?x2xf32> {nn.name = "y<i>"}) {
  %w = nn.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %0 = nn.matmul %x, %w from <onnx, "MatMul", "NAME"> : (tensor<?x2xf32>, tensor<2x2xf32>) -> tensor<?x2xf32>
  func.return %0 : tensor<?x2xf32>
}
"""


@pytest.fixture(scope="session")
def digits_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The digits network, quantized. Tests do not write into it."""
    out = tmp_path_factory.mktemp("digits") / "out"
    assert amct.run(["quantize", str(DIGITS / "digits.onnx"), "--data", str(DIGITS / "calib.npz"), "-o", str(out)]) == 0
    return out


@pytest.fixture(scope="session")
def unfriendly_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network whose names are HTML, quantized on synthetic inputs, into a folder with spaces."""
    folder = tmp_path_factory.mktemp("names")
    model = folder / "<b>&.mlir"
    model.write_text(TEXT.replace("NAME", UNFRIENDLY), "utf-8")
    assert amct.run(["quantize", str(model), "-o", str(folder / "an out")]) == 0
    return folder / "an out"
