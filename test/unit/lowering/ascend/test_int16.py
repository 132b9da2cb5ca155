"""Activations of 16 bits: int16 by int8 accumulates exactly in int32, and what Ascend IR has no row for keeps 8 bits."""

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerType

from amct_opt.dialects import nn
from amct_opt.runtime.executor import run
from amct_opt.support.diagnostics import CompileError

i16 = IntegerType(16)
SCALE = np.float32(2.0**-10)
ZERO_POINTS = (-32768, 1234)


def integers(rng, dtype, *shape):
    ends = np.iinfo(dtype)
    return rng.integers(ends.min, ends.max + 1, shape).astype(dtype)


def layer(net, x, kind, weight, zero_point, *, axis=0, bias=None, scales: Any = 0.01, **properties):
    n = net(*x.shape)
    scales = np.asarray(scales, np.float32)
    held = n.parameter(weight, scales, axis if scales.ndim else None)
    operands = [n.quantized(n.x, SCALE, zero_point, i16), held]
    if bias is not None:
        operands.append(n.parameter(bias, SCALE * scales, 0 if scales.ndim else None))
    return n.module(n.add(kind.make(*operands, **properties)))


@pytest.mark.parametrize("zero_point", ZERO_POINTS)
@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_convolutions(net, exact, real_numbers, layout, zero_point):
    """Sums beyond 2^24, which float32 could not hold."""
    rng = np.random.default_rng(0)
    x, bias = integers(rng, np.int16, 2, 12, 5, 6), integers(rng, np.int32, 4) // 64
    x = np.ascontiguousarray(np.moveaxis(x, 1, -1)) if layout == "nhwc" else x
    geometry = {"pads": [1, 0, 1, 1], "strides": [2, 1], "groups": 2, "layout": layout}
    weight, scales = integers(rng, np.int8, 4, 6, 3, 3), rng.uniform(0.001, 0.1, 4)
    module = layer(net, x, nn.ConvOp, weight, zero_point, bias=bias, scales=scales, **geometry)
    values = exact.assert_equal(exact.lowered(module), real_numbers(x, SCALE, zero_point))
    sums = next(a for v, a in values.items() if v.owner.name == "ascend.Conv2D")
    assert np.abs(sums.astype(np.int64)).max() > 1 << 24


@pytest.mark.parametrize("zero_point", ZERO_POINTS)
def test_transposed_convolutions(net, exact, real_numbers, zero_point):
    rng = np.random.default_rng(1)
    x, weight = integers(rng, np.int16, 1, 3, 4, 5), integers(rng, np.int8, 3, 2, 3, 3)
    module = layer(net, x, nn.ConvTransposeOp, weight, zero_point, axis=1, strides=[2, 2], pads=[1, 1, 0, 1])
    exact.of(module, real_numbers(x, SCALE, zero_point))


@pytest.mark.parametrize("zero_point", ZERO_POINTS)
@pytest.mark.parametrize("rank", [2, 3])
def test_products(net, exact, real_numbers, rank, zero_point):
    rng = np.random.default_rng(2)
    x, weight = integers(rng, np.int16, *(2, 3, 100)[-rank:]), integers(rng, np.int8, 100, 5)
    module = layer(net, x, nn.MatMulOp, weight, zero_point, bias=integers(rng, np.int32, 5) // 64)
    exact.of(module, real_numbers(x, SCALE, zero_point))


def test_sums_beyond_int32_are_an_error(net, exact, real_numbers):
    """At the zero point -32768 the largest product is 65535 * 127: 258 of them fit, 259 do not."""
    for depth in (258, 259):
        x, weight = np.full((1, depth), 32767, np.int16), np.full((depth, 1), 127, np.int8)
        lowered = exact.lowered(layer(net, x, nn.MatMulOp, weight, -32768))
        if depth == 258:
            exact.assert_equal(lowered, real_numbers(x, SCALE, -32768))
            continue
        with pytest.raises(CompileError, match="accumulators from 2155642755 to 2155642755 do not fit into int32"):
            run(lowered, {"arg0": real_numbers(x, SCALE, -32768)})
