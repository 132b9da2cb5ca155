"""`amct run --fp16`: where the interpreter rounds to float16, checked by hand and next to a float16 module."""

import numpy as np

from amct_opt.runtime.executor import Executable
from amct_opt.runtime.half import in_half, to_half

LAYER = """
func.func @main(%x: tensor<1x2xf32> {nn.name = "x"}) -> (tensor<1x2xi8>, tensor<1x1xf32>, tensor<1x1xf32>) {
  %w = nn.constant dense<127> : tensor<2x1xi8>
  %s = nn.constant dense<0.1> : tensor<1xf32>
  %one = nn.constant dense<0.3> : tensor<1x1xf32>
  %q = ascend.AscendQuant %x scale 1.0 offset 0.0 : (tensor<1x2xf32>) -> tensor<1x2xi8>
  %acc = ascend.MatMulV2 %q, %w : (tensor<1x2xi8>, tensor<2x1xi8>) -> tensor<1x1xi32>
  %y = ascend.AscendDequant %acc, %s : (tensor<1x1xi32>, tensor<1xf32>) -> tensor<1x1xf32>
  %z = ascend.Add %y, %one : tensor<1x1xf32>
  func.return %q, %y, %z : tensor<1x2xi8>, tensor<1x1xf32>, tensor<1x1xf32>
}"""


def run(module, *arrays):
    executable = Executable(module, rewrite=in_half)
    return list(executable.run(dict(zip(executable.inputs, arrays, strict=True))).values())


def test_a_layer(equivalence):
    """2.5004 is 2.5 in float16, a tie; 12.7 * 2 = 25.4 (254 * 0.1) becomes 25.40625; its sum with 0.3 too, rounded again."""
    q, y, z = run(equivalence.parse(LAYER), np.array([[2.5004, 0]], np.float32))
    assert q.tolist() == [[2, 0]]
    assert (y.dtype, y.item()) == (np.float32, 25.40625)
    assert float(np.float16(25.40625)) == y.item()
    assert z.item() == float(np.float16(np.float32(25.40625) + np.float32(np.float16(0.3))))


def test_the_scale_stays_float32(equivalence):
    """250 * 127 * 0.1 = 3175 is a tie between 3174 and 3176, the even one; a scale of float16, below 0.1, would give 3174."""
    _, y, _ = run(equivalence.parse(LAYER), np.array([[123, 127]], np.float32))
    assert y.item() == 3176
    assert np.float16(250 * 127 * np.float32(np.float16(0.1))) == 3174


def test_overflow_is_infinite():
    assert to_half(np.array([65504, 65519, -65520], np.float32)).tolist() == [65504, 65504, -np.inf]


ELEMENTWISE = """
func.func @main(%x: tensor<4x64xTYPE> {nn.name = "x"}, %h: tensor<4x64xTYPE> {nn.name = "h"}) -> tensor<4x64xTYPE> {
  %a = ascend.Mul %x, %h : tensor<4x64xTYPE>
  %b = ascend.Sub %a, %x : tensor<4x64xTYPE>
  %c = ascend.Relu %b : tensor<4x64xTYPE>
  %d = ascend.Add %c, %h : tensor<4x64xTYPE>
  func.return %d : tensor<4x64xTYPE>
}"""


def test_arithmetic_is_that_of_a_float16_module(equivalence):
    """A product or sum of two float16 numbers in float32, rounded, is the float16 product or sum."""
    rng = np.random.default_rng(0)
    x, h = (rng.normal(size=(4, 64)).astype(np.float32) for _ in range(2))
    (mode,) = run(equivalence.parse(ELEMENTWISE.replace("TYPE", "f32")), x, h)
    (half,) = run(equivalence.parse(ELEMENTWISE.replace("TYPE", "f16")), x.astype(np.float16), h.astype(np.float16))
    np.testing.assert_array_equal(mode, half.astype(np.float32))
