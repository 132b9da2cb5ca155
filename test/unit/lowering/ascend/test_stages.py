"""One operation at a time, on the same input, the stages of a quantized model are at most one step apart; where, and why.

* AscendQuant multiplies by `float32(1 / scale)` and adds the offset before it rounds; `nn.quantize` divides, and adds it after.
  Both are off the exact quotient by some roundings of float32, so that they part only next to a tie, and on it where the offset
  is odd.
* AscendRequant multiplies the accumulator once and adds the offset after; AscendDequant and AscendQuant multiply twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from amct_opt.ir.functions import input_names, main_function
from amct_opt.lowering.ascend import LowerToAscendPass
from amct_opt.lowering.ascend.fuse_requant import FuseRequantPass
from amct_opt.pipelines.passes import run_passes
from amct_opt.runtime.executor import run

from ...values import parsed

Array = np.ndarray[Any, np.dtype[Any]]

SCALES = (0.02, 1 / 3, 0.0078125, 1.7)
OFFSETS = (-128, -3, 0, 5, 127)
NEAR = 2.0**-20
"""How far from a tie, as a part of the number, a few roundings of float32 (2^-24 each) can matter."""


def near_tie(exact: Array) -> Array:
    """Whether `exact`, in float64, is as near to the middle of two integers as rounding in float32 can matter."""
    return np.abs(exact - np.floor(exact) - 0.5) <= NEAR * (np.abs(exact) + 256)


def executed(text: str, passes: list[Any], x: Array) -> Array:
    module, session = parsed(text)
    run_passes(module, passes, session)
    (name,) = input_names(main_function(module))
    (y,) = run(module, {name: x}).values()
    return y


def apart(one: Array, other: Array, exact: ArrayLike) -> int:
    """How many elements differ. Holds that they do by one step, and only next to ties of the exact numbers."""
    steps = np.abs(one.astype(np.int64) - other.astype(np.int64))
    assert steps.max() <= 1
    assert near_tie(np.asarray(exact)[steps > 0]).all()
    return int(np.count_nonzero(steps))


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("scale", SCALES)
def test_quantize_and_ascend_quant(scale: float, offset: int) -> None:
    """Random numbers, and every tie in reach with its neighbours."""
    step = np.float32(scale)
    ties = ((np.arange(-260, 260) + 0.5) * np.float64(step)).astype(np.float32)
    around = [ties, np.nextafter(ties, np.float32(np.inf)), np.nextafter(ties, np.float32(-np.inf))]
    x = np.concatenate([*around, np.random.default_rng(0).normal(size=50_000).astype(np.float32) * step * 60])
    params = f"<i8, scale = {float(step)!r}, zero_point = {offset}>"
    text = f"""
      func.func @main(%x: tensor<{x.size}xf32>) -> tensor<{x.size}xf32> {{
        %q = nn.quantize %x by {params} : (tensor<{x.size}xf32>) -> tensor<{x.size}xi8>
        %y = nn.dequantize %q by {params} : (tensor<{x.size}xi8>) -> tensor<{x.size}xf32>
        func.return %y : tensor<{x.size}xf32>
      }}"""
    in_nn, in_ascend = (executed(text, passes, x) for passes in ([], [LowerToAscendPass()]))
    differing = apart(np.rint(in_nn / step), np.rint(in_ascend / step), x.astype(np.float64) / np.float64(step))
    assert differing < 1600, "only the ties and their neighbours"


@pytest.mark.parametrize("offset", OFFSETS)
@pytest.mark.parametrize("relu", [False, True])
def test_two_steps_and_requant(offset: int, relu: bool) -> None:
    """All accumulators from -60,000 to 60,000, at several scales of the channels."""
    scales, reciprocal = np.array([0.0021, 0.0005, 1 / 768, 0.00731], np.float32), np.float32(1 / 0.37)
    accumulators = np.broadcast_to(np.arange(-60_000, 60_001, dtype=np.int32)[:, None], (120_001, 4)).copy()
    listed = ", ".join(repr(float(s)) for s in scales)
    rows = "120001x4"
    activation, read = (f"%a = ascend.Relu %y : tensor<{rows}xf32>", "%a") if relu else ("", "%y")
    text = f"""
      func.func @main(%acc: tensor<{rows}xi32>) -> tensor<{rows}xi8> {{
        %s = nn.constant dense<[{listed}]> : tensor<4xf32>
        %y = ascend.AscendDequant %acc, %s : (tensor<{rows}xi32>, tensor<4xf32>) -> tensor<{rows}xf32>
        {activation}
        %q = ascend.AscendQuant {read} scale {float(reciprocal)!r} offset {float(offset)}
          : (tensor<{rows}xf32>) -> tensor<{rows}xi8>
        func.return %q : tensor<{rows}xi8>
      }}"""
    two_steps, one_step = (executed(text, passes, accumulators) for passes in ([], [FuseRequantPass()]))
    exact = accumulators * scales.astype(np.float64) * np.float64(reciprocal)
    differing = apart(two_steps, one_step, np.maximum(exact, 0) if relu else exact)
    assert differing > 0 or offset in (-128, 127), "rounding orders differ"


def test_a_layer_in_reals_and_in_integers() -> None:
    """A convolution from int8 to int8: reals in float32 between quantize and dequantize, and integers."""
    rng = np.random.default_rng(0)
    x = rng.integers(-128, 128, (1, 8, 16, 16)).astype(np.float32) * np.float32(0.05)
    weight = rng.integers(-127, 128, (6, 8, 3, 3))
    text = f"""
      func.func @main(%x: tensor<1x8x16x16xf32>) -> tensor<1x6x14x14xf32> {{
        %w = nn.constant dense<{weight.tolist()}> : tensor<6x8x3x3xi8>
        %wd = nn.dequantize %w by <i8, scale = [0.01, 0.013, 0.02, 0.007, 0.011, 0.03], axis = 0>
          : (tensor<6x8x3x3xi8>) -> tensor<6x8x3x3xf32>
        %q = nn.quantize %x by <i8, scale = 0.05, zero_point = 3> : (tensor<1x8x16x16xf32>) -> tensor<1x8x16x16xi8>
        %d = nn.dequantize %q by <i8, scale = 0.05, zero_point = 3> : (tensor<1x8x16x16xi8>) -> tensor<1x8x16x16xf32>
        %y = nn.conv %d, %wd : (tensor<1x8x16x16xf32>, tensor<6x8x3x3xf32>) -> tensor<1x6x14x14xf32>
        %r = nn.quantize %y by <i8, scale = 1.1, zero_point = -7> : (tensor<1x6x14x14xf32>) -> tensor<1x6x14x14xi8>
        %e = nn.dequantize %r by <i8, scale = 1.1, zero_point = -7> : (tensor<1x6x14x14xi8>) -> tensor<1x6x14x14xf32>
        func.return %e : tensor<1x6x14x14xf32>
      }}"""
    in_nn, in_ascend = (executed(text, passes, x) for passes in ([], [LowerToAscendPass()]))
    in_one_step = executed(text, [LowerToAscendPass(), FuseRequantPass()], x)
    steps = [np.rint(y / np.float32(1.1)) for y in (in_nn, in_ascend, in_one_step)]
    assert np.abs(steps[0] - steps[1]).max() <= 1
    assert np.abs(steps[1] - steps[2]).max() <= 1
    assert len(np.unique(steps[1])) > 100
