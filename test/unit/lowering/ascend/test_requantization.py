"""From accumulators to integers: numbers that can be checked by hand, then every element by scalar arithmetic."""

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, f32, i32
from xdsl.ir import Block

from amct_opt.dialects import ascend, nn
from amct_opt.dialects.ascend.base import i8, i16

from ...values import kernel_of

TYPES = {np.dtype(np.int8): i8, np.dtype(np.int16): i16, np.dtype(np.int32): i32, np.dtype(np.float32): f32}


def run(kind, *arrays, **properties):
    block = Block(arg_types=[TensorType(TYPES[a.dtype], a.shape) for a in arrays])
    return kernel_of(kind.make(*block.args, **properties))(*arrays)


def requant(values, scales, **properties):
    return run(ascend.AscendRequantOp, np.array(values, np.int32), np.float32(scales), **properties)


def clip(value, bits):
    return max(-(2 ** (bits - 1)), min(2 ** (bits - 1) - 1, value))


def test_the_offset_is_added_behind_the_rounding():
    """2.5 rounds to 2, the even one, and becomes 3; AscendQuant rounds 3.5 to 4."""
    assert requant([[5, 3, -5]], [0.5], offset=1.0).tolist() == [[3, 3, -1]]


def test_relu_comes_before_the_offset():
    assert requant([[-5, 4]], [1.0], offset=-3.0, relu_flag=True).tolist() == [[-3, 1]]


def test_requant_saturates():
    assert requant([[2**31 - 1, -(2**31), 127, 128, -129]], [1.0]).tolist() == [[127, -128, 127, 127, -128]]
    assert requant([[2**31 - 1, -(2**31)]], [1.0], offset=-128.0).tolist() == [[127, -128]]


def test_the_accumulator_is_rounded_to_float32():
    """2^24 + 1 is a tie and goes to 2^24, which 2^-19 makes 32 instead of 32.000002."""
    assert requant([[2**24 + 1, 2**24 + 3]], [2.0**-18 * 1.5]).tolist() == [[96, 96]]


@pytest.mark.parametrize("relu", [False, True])
def test_requant_by_scalar_arithmetic(relu):
    rng = np.random.default_rng(0)
    x = rng.integers(-(2**30), 2**30, (2, 3, 5, 4), dtype=np.int32)
    x[0, :, :2] >>= 20
    scales = np.array([3e-4, 0.25, 1.1e-7], np.float32)
    y = requant(x, scales, offset=7.0, relu_flag=relu)
    assert y.dtype == np.int8
    for index in np.ndindex(x.shape):
        product = float(np.float32(np.float32(x[index]) * scales[index[1]]))
        expected = clip(round(max(product, 0.0) if relu else product) + 7, 8)
        assert y[index] == expected


def test_dequant_s16():
    x, scales = np.array([[5, 3], [-7, 2**31 - 1]], np.int32), np.array([0.5, 2.0], np.float32)
    bias = np.array([-10, 100], np.int16)
    assert run(ascend.AscendDequantS16Op, x, scales).tolist() == [[2, 6], [-4, 32767]]
    assert run(ascend.AscendDequantS16Op, x, scales, bias).tolist() == [[-8, 106], [-14, 32767]]
    assert run(ascend.AscendDequantS16Op, x, scales, bias, relu_flag=True).tolist() == [[0, 106], [0, 32767]]
    least = np.full((1, 2), -(2**31), np.int32)
    assert run(ascend.AscendDequantS16Op, least, scales, np.full(2, 32767, np.int16)).tolist() == [[-32768, -32768]]


def test_requant_s16():
    x, other = np.array([[5, 30000, -30000]], np.int16), np.array([[-6, 30000, -30000]], np.int16)
    scale = np.array([0.5], np.float32)
    y0, y1 = run(ascend.AscendRequantS16Op, x, scale)
    assert (y0.dtype, y1.dtype) == (np.int8, np.int16)
    assert (y0.tolist(), y1.tolist()) == ([[2, 127, -128]], x.tolist())
    y0, y1 = run(ascend.AscendRequantS16Op, x, scale, other)
    assert (y0.tolist(), y1.tolist()) == ([[0, 127, -128]], [[-1, 32767, -32768]])
    y0, y1 = run(ascend.AscendRequantS16Op, x, scale, other, relu_flag=True, dual_output=True)
    assert (y0.tolist(), y1.tolist()) == ([[0, 127, 0]], [[0, 32767, 0]])


@pytest.mark.parametrize("shifts", [(3,), (1, 16)])
def test_shifted_accumulators(shifts):
    """floor, not towards zero; 16 bits are left; then the scale with its power of two."""
    x = np.array([[100000, -70000], [-5, -5], [2**31 - 1, -(2**31)], [1234, 65535]], np.int32)
    scales = np.array([0.3, 1.7e-4], np.float32)
    y = run(ascend.AscendDequantOp, x, scales, shift_n=shifts)
    for (i, c), value in np.ndenumerate(x):
        n = shifts[c % len(shifts)]
        assert y[i, c] == np.float32(clip(int(value) // 2**n, 16)) * np.float32(scales[c] * 2.0**n)


def test_shifting_is_that_of_nn():
    """Where the reals are those of accumulators, AscendDequant gives what nn.shift_accumulator leaves of them."""
    x = np.random.default_rng(1).integers(-(2**22), 2**22, (50, 3), dtype=np.int32)
    scales, shifts = np.array([2.0**-7, 2.0**-12, 0.5], np.float32), (2, 9, 5)
    params = nn.QParamsAttr.of(i32, scales, axis=1)
    block = Block(arg_types=[TensorType(f32, x.shape)])
    kept = kernel_of(nn.ShiftAccumulatorOp.make(*block.args, qparams=params, shifts=shifts))
    reals = run(ascend.AscendDequantOp, x, scales)
    np.testing.assert_array_equal(run(ascend.AscendDequantOp, x, scales, shift_n=shifts), kept(reals))
