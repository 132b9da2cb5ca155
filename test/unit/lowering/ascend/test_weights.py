"""Quantized weights and scales per channel, by scalar arithmetic and by numpy in float64."""

import ml_dtypes
import numpy as np
import pytest
from xdsl.dialects.builtin import TensorType, bf16, f16, f32
from xdsl.ir import Block

from amct_opt.dialects import ascend
from amct_opt.dialects.ascend.base import i4, i8

from ...values import kernel_of

TYPES = {"int8": i8, "int4": i4, "float16": f16, "bfloat16": bf16, "float32": f32}


def run(kind, *arrays, **properties):
    block = Block(arg_types=[TensorType(TYPES[a.dtype.name], a.shape) for a in arrays])
    return kernel_of(kind.make(*block.args, **properties))(*arrays)


def test_weights_without_their_offsets():
    w, o = np.array([[5, -100], [7, 0]], np.int8), np.array([[-3], [7]], np.int8)
    assert run(ascend.AscendWeightQuantOp, w, o).tolist() == [[8, -97], [0, -7]]
    assert run(ascend.AscendWeightQuantOp, w[1:], o[1:], dst_type=29).astype(int).tolist() == [[0, -7]]
    with pytest.raises(ValueError, match="weights from -7 to 8 without their offsets do not fit into i4"):
        run(ascend.AscendWeightQuantOp, w[:, :1] - np.array([[0], [7]], np.int8), o, dst_type=29)
    with pytest.raises(ValueError, match="do not fit into i8"):
        run(ascend.AscendWeightQuantOp, np.array([127], np.int8), np.array([-1], np.int8))


@pytest.mark.parametrize(
    ("mode", "rounding"), [("round", np.rint), ("floor", np.floor), ("ceil", np.ceil), ("trunc", np.trunc)]
)
def test_quantization_by_channel(mode, rounding):
    x = np.array([[2.5, -2.5, 1e9], [1.25, 0.3, -1e9]], np.float32)
    scale, offset = np.array([1.0, 3.0], np.float32), np.array([1.0, -4.0], np.float32)
    y = run(ascend.AscendQuantV2Op, x, scale, offset, axis=0, round_mode=mode)
    assert y.tolist() == np.clip(rounding(x * scale[:, None] + offset[:, None]), -128, 127).tolist()
    assert run(ascend.AscendQuantV2Op, x, scale[:1], sqrt_mode=True).tolist() == [[2, -2, 127], [1, 0, -128]]


@pytest.mark.parametrize(("dst_type", "dtype"), [(1, np.float16), (27, ml_dtypes.bfloat16)])
def test_reals_by_channel(dst_type, dtype):
    x = np.array([[-128, 3, 127]], np.int8)
    scale, offset = np.array([0.1, 0.2, 1.5], np.float32), np.array([1, -3, 0], np.float32)
    y = run(ascend.AscendAntiQuantV2Op, x, scale, offset, dst_type=dst_type)
    assert y.dtype == dtype
    assert y.tolist() == ((np.float32(x) + offset) * scale).astype(dtype).tolist()
    squared = run(ascend.AscendAntiQuantV2Op, x, scale, dst_type=dst_type, sqrt_mode=True)
    assert squared.tolist() == (np.float32(x) * scale * scale).astype(dtype).tolist()


@pytest.mark.parametrize("group", [0, 3])
@pytest.mark.parametrize("transposed", [False, True])
def test_product_with_a_quantized_weight(group, transposed):
    """Small integers and powers of two: every step is exact, so that float64 gives the same numbers."""
    rng = np.random.default_rng(0)
    x, w = rng.integers(-4, 5, (3, 8)).astype(np.float16), rng.integers(-8, 8, (8, 5)).astype(np.int8)
    rows = (3, 5) if group else (5,)
    scale = np.exp2(rng.integers(-2, 2, rows)).astype(np.float16)
    offset, bias = rng.integers(-3, 4, rows).astype(np.float16), rng.integers(-9, 9, 5).astype(np.float32)
    by_row = [np.repeat(a, 3, axis=0)[:8] if group else a for a in (scale, offset)]
    real = (w.astype(float) + by_row[1].astype(float)) * by_row[0].astype(float)
    flags = {"transpose_x": transposed, "transpose_weight": transposed, "antiquant_group_size": group}
    operands = (x.T.copy(), w.T.copy()) if transposed else (x, w)
    y = run(ascend.WeightQuantBatchMatmulV2Op, *operands, scale, offset, bias, **flags)
    assert y.dtype == np.float16
    np.testing.assert_array_equal(y.astype(float), x.astype(float) @ real + bias)
    np.testing.assert_array_equal(
        run(ascend.WeightQuantBatchMatmulV2Op, *operands, scale, offset, **flags).astype(float), x.astype(float) @ real
    )


def test_the_weight_is_rounded_to_the_type_of_x():
    """(100 + 0) * 0.1 in float16 is 10, as float16(0.1) is 0.09998: 9.998 rounds to 10."""
    y = run(
        ascend.WeightQuantBatchMatmulV2Op,
        np.array([[64]], np.float16),
        np.array([[100]], np.int8),
        np.array([0.1], np.float16),
        np.array([0], np.float16),
    )
    assert y.item() == np.float16(np.float32(np.float16(np.float32(np.float16(0.1)) * 100)) * 64)
