"""Relu6 before AscendQuant is Relu exactly when AscendQuant saturates at 6: 6,000 pairs of scale and offset, in plain numpy.

Half of the pairs lie within 2 ulp of the scale at which `rint(6 * scale + offset)` reaches the largest integer.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType, TensorType, f32
from xdsl.ir import Block

from amct_opt.dialects import ascend, nn
from amct_opt.dialects.nn.shapes import tensor_of
from amct_opt.ir.functions import main_function
from amct_opt.lowering.ascend.fuse_requant.relu6 import saturates_at_6, without_relu6
from amct_opt.session.universe import new_session

i8 = IntegerType(8)
Array = np.ndarray[Any, np.dtype[Any]]

PAIRS = 3_000
BEYOND = np.array([6, np.nextafter(np.float32(6), np.float32(7)), 6.03, 6.5, 7, 11, 100, 1e6, 3e38, np.inf], np.float32)
"""Reals from 6 on; below 6 both activations are one."""


def _pairs() -> tuple[Array, Array]:
    """Scales and offsets of AscendQuant."""
    rng = np.random.default_rng(6)
    offsets = rng.integers(-128, 128, 2 * PAIRS)
    scales = np.exp(rng.uniform(np.log(1e-2), np.log(1e3), 2 * PAIRS)).astype(np.float32)
    # 6 * scale + offset = 126.5 up to rounding, where the result turns from 126 (ties to even) to 127
    boundary = ((126.5 - offsets[PAIRS:]) / 6).astype(np.float32)
    steps = rng.integers(-2, 3, PAIRS)
    scales[PAIRS:] = (boundary.view(np.int32) + steps.astype(np.int32)).view(np.float32)
    positive = scales > 0  # at offset 127 the boundary is negative
    return scales[positive], offsets[positive]


def _quantized(x: Array, scale: np.float32, offset: int) -> Array:
    """AscendQuant, written apart: product, sum and integer each round to float32."""
    with np.errstate(over="ignore"):
        product = (x.astype(np.float64) * np.float64(scale)).astype(np.float32)
        total = (product.astype(np.float64) + offset).astype(np.float32)
    return np.minimum(np.maximum(np.rint(total), -128), 127).astype(np.int64)


def test_the_rule_is_exact() -> None:
    scales, offsets = _pairs()
    assert len(scales) >= 5_000
    x = Block(arg_types=[TensorType(f32, [1, 4])]).args[0]
    same = np.empty(len(scales), bool)
    said = np.empty(len(scales), bool)
    for i, (scale, offset) in enumerate(zip(scales, offsets, strict=True)):
        at_relu, at_relu6 = (_quantized(v, scale, int(offset)) for v in (BEYOND, np.minimum(BEYOND, np.float32(6))))
        same[i] = np.array_equal(at_relu, at_relu6)
        op = ascend.AscendQuantOp.make(x, scale=scale, offset=int(offset))
        said[i] = saturates_at_6(op)
        op.drop_all_references()
    np.testing.assert_array_equal(said, same)
    near = slice(np.count_nonzero(scales[:PAIRS] > 0), None)
    assert 0.2 < same[near].mean() < 0.8, "the pairs stand on both sides of the boundary"


def test_quantize_is_asked_as_the_ascend_quant_that_it_becomes() -> None:
    """`nn.quantize` has the scale itself, whose float32 reciprocal AscendQuant multiplies with."""
    scales, offsets = _pairs()
    x = Block(arg_types=[TensorType(f32, [1, 4])]).args[0]
    for reciprocal, offset in zip(scales[-2000:], offsets[-2000:], strict=True):
        scale = np.float32(1) / reciprocal
        quantize = nn.QuantizeOp.make(x, qparams=nn.QParamsAttr.of(i8, scale, int(offset)))
        quant = ascend.AscendQuantOp.make(x, scale=np.float32(1) / scale, offset=int(offset))
        assert saturates_at_6(quantize) == saturates_at_6(quant)
        for op in (quantize, quant):
            op.drop_all_references()


POOLS = {
    "padded": "%p = nn.max_pool %r kernel [3, 3] strides [2, 2] pads [1, 1, 2, 2] : (T) -> tensor<2x3x4x4xf32>",
    "padding alone": "%p = nn.max_pool %r kernel [1, 1] pads [1, 1, 1, 1] : (T) -> tensor<2x3x8x8xf32>",
    "global": "%p = nn.global_max_pool %r : (T) -> tensor<2x3x1x1xf32>",
    "chain": """%w = nn.max_pool %r kernel [2, 2] : (T) -> tensor<2x3x5x5xf32>
               %p = nn.max_pool %w kernel [2, 2] : (tensor<2x3x5x5xf32>) -> tensor<2x3x4x4xf32>""",
}


@pytest.mark.parametrize("pools", POOLS.values(), ids=list(POOLS))
@pytest.mark.parametrize("zero_point", [-128, 0, 126])
def test_relu6_is_relu_before_max_pools_exactly(pools: str, zero_point: int, equivalence: Any) -> None:
    """Numbers on both sides of 0 and 6; 6 is just past the boundary of the largest integer."""
    pooled = pools.replace("T", "tensor<2x3x6x6xf32>")
    result = pooled.rpartition("-> ")[2]
    params = f"<i8, scale = {6 / (127 - zero_point - 0.25)}, zero_point = {zero_point}>"
    module = equivalence.parse(f"""
        func.func @main(%x: tensor<2x3x6x6xf32> {{nn.name = "x"}}) -> ({result} {{nn.name = "y"}}) {{
          %r = nn.relu6 %x : tensor<2x3x6x6xf32>
          {pooled}
          %q = nn.quantize %p by {params} : ({result}) -> {result.replace("f32", "i8")}
          %y = nn.dequantize %q by {params} : ({result.replace("f32", "i8")}) -> {result}
          func.return %y : {result}
        }}""")
    replaced = without_relu6(module, new_session())
    assert not [op for op in replaced.walk() if isinstance(op, nn.Relu6Op)]
    x = np.random.default_rng(6).normal(scale=6, size=tensor_of(main_function(module).args[0]).get_shape())
    equivalence.assert_equivalent(module, replaced, {"x": x.astype(np.float32)})
