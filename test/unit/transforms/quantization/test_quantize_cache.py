"""`--quantize-cache`: step by step, a decoder with a cache of integers computes what it computes with a cache of floats."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import pytest

from amct_opt.ir.text import parse_module
from amct_opt.pipelines.passes import make_pass
from amct_opt.runtime.executor import run
from amct_opt.session.universe import new_session
from amct_opt.targets.onnx import OnnxTarget

from ...values import parsed

ATTENTION = """
func.func @main(
    %q: tensor<1x?x8xf32> {nn.name = "q"},
    %past: tensor<1x?x8xf32> {nn.name = "past"},
    %new: tensor<1x?x8xf32> {nn.name = "new"}
) -> (tensor<1x?x?xf32> {nn.name = "y"}, tensor<1x?x8xf32> {nn.name = "present"}) {
  %j = nn.concat %past, %new axis 1 : (tensor<1x?x8xf32>, tensor<1x?x8xf32>) -> tensor<1x?x8xf32>
  %t = nn.transpose %j perm [0, 2, 1] : (tensor<1x?x8xf32>) -> tensor<1x8x?xf32>
  %i = nn.quantize %t by <i8, scale = 0.02, zero_point = 5> : (tensor<1x8x?xf32>) -> tensor<1x8x?xi8>
  %r = nn.dequantize %i by <i8, scale = 0.02, zero_point = 5> : (tensor<1x8x?xi8>) -> tensor<1x8x?xf32>
  %y = nn.matmul %q, %r : (tensor<1x?x8xf32>, tensor<1x8x?xf32>) -> tensor<1x?x?xf32>
  func.return %y, %j : tensor<1x?x?xf32>, tensor<1x?x8xf32>
}
"""
Step = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]


def decode(step: Step, past: np.ndarray) -> list[np.ndarray]:
    """The results of some steps; values go far beyond the range of the integers."""
    rng = np.random.default_rng(3)
    found: list[np.ndarray] = []
    for _ in range(6):
        q, new = (rng.normal(size=(1, 1, 8)).astype(np.float32) * 2 for _ in range(2))
        outputs = step({"q": q, "past": past, "new": new})
        past = outputs["present"]
        found.append(outputs["y"])
    return found


def test_a_module_without_a_cache_gets_a_warning() -> None:
    module, session = parsed(ATTENTION.replace("func.return %y, %j", "func.return %y, %new"))
    make_pass("quantize-cache").apply(session, module)
    assert session.warnings == [
        "--quantize-cache: no cache holds integers; no output is an input of floats with new values joined to it"
    ]


def test_a_cache_that_stays_float_is_warned_of() -> None:
    session = new_session()
    text = ATTENTION.replace("%q, %r", "%q, %t")
    make_pass("quantize-cache").apply(session, parse_module(session, text))
    (warning,) = session.warnings
    assert warning.startswith("--quantize-cache: no cache holds integers; ")
    assert "'nn.matmul'" in warning
    assert "reads its values as floats" in warning


SCALED = ATTENTION.replace(
    "  %i = nn.quantize %t",
    """  %c = nn.constant dense<0.42044820> : tensor<f32>
  %m = nn.mul %t, %c : (tensor<1x8x?xf32>, tensor<f32>) -> tensor<1x8x?xf32>
  %i = nn.quantize %m""",
)
"""Keys are multiplied by a number, as torch exports attention."""


FOUR_BITS = ATTENTION.replace("<i8, scale = 0.02", "<i4, scale = 0.3").replace("xi8>", "xi4>")
"""The cache is int8 all the same: numpy has no integers of 4 bits."""


@pytest.mark.parametrize("text", [ATTENTION, SCALED, FOUR_BITS], ids=["keys", "multiplied keys", "keys of 4 bits"])
def test_each_step_is_equal_to_the_bit(text: str, tmp_path: Path) -> None:
    session = new_session()
    floats, integers = parse_module(session, text), parse_module(session, text)
    make_pass("quantize-cache").apply(session, integers)
    empty = np.empty((1, 0, 8))
    expected = decode(lambda x: run(floats, x), empty.astype(np.float32))
    assert len({each.shape for each in expected}) == 6
    for one, two in zip(expected, decode(lambda x: run(integers, x), empty.astype(np.int8)), strict=True):
        np.testing.assert_array_equal(one, two)
    OnnxTarget().write(integers, tmp_path / "m.onnx", session)
    file = onnxruntime.InferenceSession(tmp_path / "m.onnx")
    names = [each.name for each in file.get_outputs()]
    assert [each.type for each in file.get_inputs()] == ["tensor(float)", "tensor(int8)", "tensor(float)"]
    told = decode(lambda x: dict(zip(names, map(np.asarray, file.run(names, x)), strict=True)), empty.astype(np.int8))
    for one, two in zip(expected, told, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-5, atol=1e-5)
