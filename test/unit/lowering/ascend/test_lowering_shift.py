"""Sums that are shifted right, by plain integers: `clip(floor(sum / 2^N))`, times the scale and 2^N."""

import numpy as np
import pytest
from xdsl.dialects.builtin import i32

from amct_opt.dialects import ascend, nn
from amct_opt.runtime.executor import run

SCALES = np.array([0.013, 0.5, 0.0071], np.float32)
SHIFTS = [1, 9, 16]
X = np.random.default_rng(0).integers(-128, 128, (2, 6, 7, 9)).astype(np.int8)
W = np.random.default_rng(1).integers(-127, 128, (3, 6, 2, 3)).astype(np.int8)
B = np.array([70_000, -2_000_000, 5], np.int32)
ZERO_POINT = -5


def sums() -> np.ndarray:
    """The integer convolution, position by position. [2, 3, 6, 7]"""
    x = X.astype(np.int64) - ZERO_POINT
    y = np.zeros((2, 3, 6, 7), np.int64)
    for i in range(6):
        for j in range(7):
            window = x[:, None, :, i : i + 2, j : j + 3]
            y[:, :, i, j] = (window * W.astype(np.int64)[None]).sum(axis=(2, 3, 4))
    return y + B[:, None, None]


def shifted(y: np.ndarray, scale: np.ndarray, shifts: np.ndarray) -> np.ndarray:
    """Floor division of Python's kind, the bounds of int16, exact powers of two."""
    return np.clip(y // 2**shifts, -(2**15), 2**15 - 1).astype(np.float32) * (scale * (2**shifts).astype(np.float32))


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
@pytest.mark.parametrize("shifts", [SHIFTS, [9]])
def test_convolution(layout, shifts, net, real_numbers, equivalence):
    first = X if layout == "nchw" else np.moveaxis(X, 1, -1).copy()
    n = net(*first.shape)
    x = n.quantized(n.x, 1.0, ZERO_POINT)
    weight, bias = n.parameter(W, SCALES, axis=0), n.parameter(B, SCALES, axis=0)
    y = n.add(nn.ConvOp.make(x, weight, bias, layout=layout))
    params = nn.QParamsAttr.of(i32, SCALES, axis=1 if layout == "nchw" else 3)
    before = n.module(n.add(nn.ShiftAccumulatorOp.make(y, qparams=params, shifts=shifts)))
    after = equivalence.after(before, "lower-to-ascend", "legalize-ascend")
    assert len([op for op in after.walk() if isinstance(op, ascend.AscendDequantOp)]) == 1
    wanted = shifted(sums(), SCALES[:, None, None], np.array(shifts)[:, None, None])
    wanted = wanted if layout == "nchw" else np.moveaxis(wanted, 1, -1)
    (actual,) = run(after, {"arg0": real_numbers(first, 1.0, ZERO_POINT)}).values()
    np.testing.assert_array_equal(actual, wanted)
    assert (np.abs(wanted / SCALES[:, None, None] if layout == "nchw" else wanted / SCALES) >= 2**15).any()
    equivalence.assert_equivalent(before, after, {"arg0": real_numbers(first, 1.0, ZERO_POINT)})


@pytest.mark.parametrize("rank", [2, 3])
def test_one_shift_of_a_product(rank, net, real_numbers, equivalence):
    rng = np.random.default_rng(2)
    q, w = rng.integers(-128, 128, (2, 4, 40)[-rank:]).astype(np.int8), rng.integers(-127, 128, (40, 3)).astype(np.int8)
    n = net(*q.shape)
    product = n.add(nn.MatMulOp.make(n.quantized(n.x, 0.5, 3), n.parameter(w, SCALES, axis=1)))
    scales = np.float32(0.5) * SCALES
    params = nn.QParamsAttr.of(i32, scales, axis=rank - 1)
    before = n.module(n.add(nn.ShiftAccumulatorOp.make(product, qparams=params, shifts=[4])))
    after = equivalence.after(before, "lower-to-ascend", "legalize-ascend")
    wanted = shifted((q.astype(np.int64) - 3) @ w.astype(np.int64), scales, np.array([4]))
    (actual,) = run(after, {"arg0": real_numbers(q, 0.5, 3)}).values()
    np.testing.assert_array_equal(actual, wanted)


def test_one_spatial_axis(net, equivalence):
    rng = np.random.default_rng(3)
    n = net(2, 4, 11)
    weight = n.parameter(rng.integers(-127, 128, (3, 4, 3)).astype(np.int8), SCALES, axis=0)
    y = n.add(nn.ConvOp.make(n.quantized(n.x, 0.02, 7), weight))
    params = nn.QParamsAttr.of(i32, np.float32(0.02) * SCALES, axis=1)
    before = n.module(n.add(nn.ShiftAccumulatorOp.make(y, qparams=params, shifts=[3, 1, 2])))
    after = equivalence.after(before, "lower-to-ascend", "legalize-ascend")
    equivalence.assert_equivalent(before, after)
