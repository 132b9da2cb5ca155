"""Scales, zero points and integers, against AMCT's published vectors and by hand."""

import numpy as np
import pytest

from amct_opt.runtime.affine import LEAST_SCALE, affine, are_normal, asymmetric_params, rounded, symmetric_scales
from amct_opt.transforms.quantization.numbers.parameters import (
    activation_params,
    bias_fits,
    quantized,
    quantized_bias,
    widened,
)

# AMCT's ARQ on this matrix: the values and the expected integers are the reference's own
WEIGHT = np.array([[-1, 0.25, 0.5, 0.9], [0.1, -0.2, 0.3, -0.05]], np.float32)


def test_arq_per_tensor() -> None:
    scale = symmetric_scales(WEIGHT, 8)
    assert scale == np.float32(0.0078125)
    assert quantized(WEIGHT, scale, 8).tolist() == [[-128, 32, 64, 115], [13, -26, 38, -6]]


def test_arq_per_channel() -> None:
    scales = symmetric_scales(WEIGHT, 8, axis=0)
    np.testing.assert_allclose(scales, [0.0078125, 0.3 / 127], rtol=1e-7)
    assert quantized(WEIGHT, scales, 8, axis=0)[1].tolist() == [42, -85, 127, -21]


def test_equal_sides_use_the_positive_one() -> None:
    assert symmetric_scales(np.array([-1.27, 1.27]), 8) == np.float32(0.01)


def test_an_empty_range_has_scale_one() -> None:
    assert symmetric_scales(np.zeros((2, 3)), 8, axis=0).tolist() == [1.0, 1.0]
    assert activation_params(0.0, 0.0, 8, symmetric=False).data.scale == (1.0,)


@pytest.mark.parametrize("bits", [4, 8, 16])
@pytest.mark.parametrize("largest", [1e-3, 1e-7, 1e-12, 1e-30, 1e-37, 1e-40])
def test_no_range_is_too_small_for_its_scale(largest: float, bits: int) -> None:
    """Every number is within half a step, and no step is less than it takes or than the least normal number."""
    values = np.linspace(-0.7, 1, 50) * largest
    least = max(LEAST_SCALE, 1.7 * largest / (2**bits - 1))
    scales, points = asymmetric_params(values, bits)
    each = [affine(-0.7 * largest, largest, bits, symmetric=symmetric) for symmetric in (False, True)]
    for scale, point in (*each, (float(symmetric_scales(values, bits)), 0), (float(scales), int(points))):
        assert LEAST_SCALE <= scale <= 1.3 * least
        assert np.abs(rounded(values, scale, point, bits) - values).max() <= 1.001 * scale / 2


@pytest.mark.parametrize(
    ("low", "high", "scale", "zero_point"),
    [
        (0.0, 255.0, 1.0, -128),
        (-128.0, 127.0, 1.0, 0),
        (-255.0, 0.0, 1.0, 127),
        (1.0, 255.0, 1.0, -128),  # widened to hold 0
        (-255.0, -1.0, 1.0, 127),
        (-2.5, 3.75, 6.25 / 255, -26),  # -128 + 2.5 / 0.0245098 = -26
    ],
)
def test_asymmetric_activation(low: float, high: float, scale: float, zero_point: int) -> None:
    params = activation_params(low, high, 8, symmetric=False).data
    assert params.scale == (float(np.float32(scale)),)
    assert params.zero_point == (zero_point,)


def test_symmetric_activation_keeps_the_larger_side() -> None:
    assert activation_params(-1.0, 1.27, 8, symmetric=True).data.scale == (float(np.float32(0.01)),)
    params = activation_params(-1.28, 1.0, 8, symmetric=True).data
    assert params.scale == (float(np.float32(0.01)),)
    assert params.zero_point == (0,)


def test_halves_go_to_even_and_values_saturate() -> None:
    values = np.array([0.5, 1.5, 2.5, -0.5, 300, -300], np.float32)
    assert quantized(values, np.array(1, np.float32), 8).tolist() == [0, 2, 2, 0, 127, -128]


def test_bias_vector() -> None:
    # AMCT's vector: b = [.5, -1.25] at scale_d .02 and scale_w [.01, .005]
    scales = np.array([0.01, 0.005], np.float32) * np.float32(0.02)
    assert quantized_bias(np.array([0.5, -1.25]), scales).tolist() == [2500, -12500]


@pytest.mark.parametrize(
    ("steps", "fits"),
    [
        (2**31 - 1, True),
        (2**31 - 0.5, False),  # rounds to 2^31
        (-(2**31), True),
        (-(2**31) - 0.25, True),
        (-(2**31) - 0.75, False),
        (float("inf"), False),
    ],
)
def test_the_ends_of_int32(steps: float, fits: bool) -> None:
    bias, scale = np.array([0, steps], np.float64), np.array(1, np.float32)
    assert bias_fits(bias, scale) == fits
    if fits:
        assert quantized_bias(bias, scale).tolist() == [0, round(steps)]
    assert not bias_fits(np.zeros(1), np.array(0, np.float32)), "a scale that is lost is not a scale"


@pytest.mark.parametrize("bias", [1e4, -1e4, 3e38])
def test_widened_scales_let_any_bias_fit(bias: float) -> None:
    scales = widened(np.array([1e-6, 0.01], np.float32), np.array([bias, 0], np.float32), 0.5)
    assert scales[1] == np.float32(0.01)
    integers = quantized_bias(np.array([bias, 0], np.float64), scales * np.float32(0.5))
    assert abs(int(integers[0])) == pytest.approx(2**30, rel=1e-6)


@pytest.mark.parametrize("input_scale", [LEAST_SCALE, 3.7e-25, 0.013, 1.0, 5.1e7])
def test_widened_scales_have_sums_of_normal_scales(input_scale: float) -> None:
    scales = np.array([LEAST_SCALE, 2.3e-30, 0.01], np.float32)
    found = widened(scales, None, input_scale)
    assert are_normal(found * np.float32(input_scale))
    kept = scales * np.float64(input_scale) >= LEAST_SCALE
    assert (found[kept] == scales[kept]).all()
