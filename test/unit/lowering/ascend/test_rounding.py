"""The rounding order of AscendQuant, AscendDequant and AscendAntiQuant, by numbers that can be checked by hand."""

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, f16, f32, i32
from xdsl.ir import Block

from amct_opt.dialects import ascend
from amct_opt.dialects.ascend.base import i8

from ...values import kernel_of


def run(kind, types, arrays, **properties):
    block = Block(arg_types=[TensorType(t, a.shape) for t, a in zip(types, arrays, strict=True)])
    return kernel_of(kind.make(*block.args, **properties))(*arrays)


def quant(*values, dtype: Any = np.float32, **properties):
    x = np.array(values, dtype)
    return run(ascend.AscendQuantOp, [f32 if dtype == np.float32 else f16], [x], **properties).tolist()


def dequant(values, scales, **properties):
    arrays = [np.array(values, np.int32), np.array(scales, np.float32)]
    return run(ascend.AscendDequantOp, [i32, f32], arrays, **properties)


def test_the_offset_is_added_before_rounding():
    """2.5 + 1 = 3.5 rounds to 4, the even one; `nn` rounds 2.5 to 2 first and adds 1."""
    assert quant(2.5, 1.5, -2.5, scale=1.0, offset=1.0) == [4, 2, -2]
    assert quant(2.5, 1.5, -2.5, scale=1.0, offset=0.0) == [2, 2, -2]


def test_the_product_is_rounded_before_the_offset_is_added():
    """(1 + 2^-23)^2 = 1 + 2^-22 + 2^-46 rounds to 1 + 2^-22. Less 0.5 + 2^-22 that is 0.5, a tie, which goes to 0."""
    x = np.float32(1 + 2.0**-23)
    product = np.float32(x) * np.float32(x)
    assert product == 1 + 2.0**-22
    # with an exact product the sum would be 0.5 + 2^-46, which goes to 1
    offset = np.float32(-0.5 - 2.0**-22)
    assert float(x) * float(x) + float(offset) > 0.5
    assert quant(x, scale=float(x), offset=float(offset)) == [0]


def test_saturation():
    assert quant(1e30, -1e30, 127.4, 127.6, -128.6, np.inf, scale=1.0, offset=0.0) == [127, -128, 127, 127, -128, 127]
    assert quant(100.0, -100.0, scale=1.0, offset=0.0, dst_type=29) == [7, -8]


@pytest.mark.parametrize(
    ("mode", "expected"), [("Round", [2, -2, 2]), ("Floor", [1, -2, 2]), ("Ceil", [2, -1, 3]), ("Trunc", [1, -1, 2])]
)
def test_round_modes(mode, expected):
    assert quant(1.5, -1.5, 2.5, scale=1.0, offset=0.0, round_mode=mode) == expected


def test_sqrt_mode_multiplies_twice():
    assert quant(3.0, scale=2.0, offset=1.0, sqrt_mode=True) == [13]
    assert dequant([[3]], [2.0], sqrt_mode=True).tolist() == [[12.0]]


def test_float16_is_computed_in_float32():
    """2048 * 0.03 = 61.44; in float16, whose step there is 2^-5, the offset 0.06 would be lost."""
    assert quant(2048.0, dtype=np.float16, scale=0.03, offset=0.06) == [62]


def test_the_accumulator_is_rounded_to_float32_first():
    """2^24 + 1 is a tie and goes to 2^24; times 3 that is 50331648, where the exact product 50331651 would round to 50331652."""
    result = dequant([[2**24 + 1]], [3.0])
    assert result.dtype == np.float32
    assert result.item() == 50331648.0
    assert np.float32((2**24 + 1) * 3) == 50331652.0


def test_dequant_by_channel():
    x = np.arange(8).reshape(1, 2, 2, 2)
    assert dequant(x, [0.5, 2.0]).ravel().tolist() == [0.0, 0.5, 1.0, 1.5, 8.0, 10.0, 12.0, 14.0]
    assert dequant(x, [[[[0.5, 2.0]]]]).ravel().tolist() == [0.0, 2.0, 1.0, 6.0, 2.0, 10.0, 3.0, 14.0]
    assert dequant(x.reshape(4, 2), [0.5, 2.0]).ravel().tolist() == [0.0, 2.0, 1.0, 6.0, 2.0, 10.0, 3.0, 14.0]


def test_relu_and_float16_come_last():
    assert dequant([[-4, 4]], [0.5], relu_flag=True).tolist() == [[0.0, 2.0]]
    assert dequant([[-4, 4]], [-0.5], relu_flag=True).tolist() == [[2.0, 0.0]]
    half = dequant([[2049]], [1.0], dtype=1)
    assert half.dtype == np.float16
    assert half.item() == 2048.0


def test_antiquant_adds_the_offset():
    """The offset of AscendAntiQuant is the negated zero point: (q - 3) * 0.5."""
    x = np.array([-128, 3, 127], np.int8)
    assert run(ascend.AscendAntiQuantOp, [i8], [x], scale=0.5, offset=-3.0).tolist() == [-65.5, 0.0, 62.0]
    half = run(ascend.AscendAntiQuantOp, [i8], [x], scale=2.0, offset=-3.0, sqrt_mode=True, dtype=1)
    assert half.dtype == np.float16
    assert half.tolist() == [-524.0, 0.0, 496.0]
