"""Resize against onnx.reference, in every mode; nearest against onnxruntime, which computes positions in float32."""

from __future__ import annotations

import numpy as np
import pytest

from amct_opt.dialects import nn

COORDINATES = ["half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners", "asymmetric"]
TARGETS = [
    {"sizes": (1, 2, 7, 3)},
    {"sizes": (1, 3, 4, 9)},
    {"scales": (1.0, 1.0, 0.6, 2.5)},
    {"scales": (1.0, 1.5, 2.0, 0.5)},
]


def expected(reference, x, target, **attributes):
    if "sizes" in target:
        return reference("Resize", x, None, None, np.array(target["sizes"], np.int64), **attributes)
    return reference("Resize", x, None, np.array(target["scales"], np.float32), **attributes)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize("nearest", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_nearest(run, reference, rng, target, coordinates, nearest) -> None:
    x = rng.normal(size=(1, 2, 4, 6)).astype(np.float32)
    y = run(nn.ResizeOp, x, coordinates=coordinates, nearest=nearest, dynamic="scales" in target, **target)
    aligned = coordinates == "align_corners" and "scales" in target  # onnxruntime takes the size after rounding
    keys = {"coordinate_transformation_mode": coordinates, "nearest_mode": nearest, "mode": "nearest"}
    keys["engine"] = "onnx.reference" if aligned else "onnxruntime"
    np.testing.assert_array_equal(y, expected(reference, x, target, **keys))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("coordinates", COORDINATES)
@pytest.mark.parametrize(("mode", "outside"), [("linear", False), ("cubic", False), ("cubic", True)])
def test_interpolation(run, reference, rng, target, coordinates, mode, outside) -> None:
    x = rng.normal(size=(1, 2, 4, 6)).astype(np.float32)
    properties = {"coordinates": coordinates, "mode": mode, "exclude_outside": outside, "cubic_coeff": -0.5}
    y = run(nn.ResizeOp, x, **properties, **target)
    keys = {"coordinate_transformation_mode": coordinates, "mode": mode, "cubic_coeff_a": -0.5}
    # at most 3 axes of 4 products in float32 of values below 4; the reference is float64 inside
    np.testing.assert_allclose(
        y, expected(reference, x, target, exclude_outside=int(outside), **keys), rtol=2e-6, atol=4e-6
    )


def test_cubic_weights_of_steps(run, rng) -> None:
    """At half the size positions lie at 0.5, which is a step of 2 and none of 3, where 0.5 * 3 rounds to 2."""
    x = rng.normal(size=(1, 1, 1, 16))
    keys = {"mode": "cubic", "sizes": (1, 1, 1, 8)}
    exact, two, three = (run(nn.ResizeOp, x, cubic_steps=steps, **keys)[0, 0, 0, 1:-1] for steps in (None, 2, 3))
    np.testing.assert_array_equal(two, exact)
    t, a = 2 / 3, -0.75
    near = [(a + 2) * d**3 - (a + 3) * d**2 + 1 for d in (t, 1 - t)]
    far = [a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a for d in (1 + t, 2 - t)]
    line = x[0, 0, 0]
    expected = [line[2 * i - 1 : 2 * i + 3] @ [far[0], near[0], near[1], far[1]] for i in range(1, 7)]
    np.testing.assert_allclose(three, expected, rtol=1e-12, atol=1e-12)


def test_linear_weights_outside_make_no_difference(run, rng) -> None:
    """What is left of the two weights is 1 when one is excluded: the same as repeating the edge."""
    x = rng.normal(size=(1, 2, 4, 6)).astype(np.float32)
    keys = {"mode": "linear", "sizes": (1, 2, 9, 3)}
    np.testing.assert_array_equal(run(nn.ResizeOp, x, exclude_outside=True, **keys), run(nn.ResizeOp, x, **keys))


@pytest.mark.parametrize("shape", [(5,), (1, 2, 3, 4, 5)])
def test_other_ranks(run, reference, rng, shape) -> None:
    x = rng.normal(size=shape).astype(np.float32)
    target = {"sizes": tuple(s if i < len(shape) - 3 else s + 2 for i, s in enumerate(shape))}
    y = run(nn.ResizeOp, x, mode="linear", **target)
    np.testing.assert_allclose(y, expected(reference, x, target, mode="linear"), rtol=2e-6, atol=4e-6)


def test_integers_are_rounded_and_saturated(run, reference) -> None:
    x = np.array([[0, 255, 0, 255, 255, 3]], np.uint8)
    target = {"sizes": (1, 13)}
    y = run(nn.ResizeOp, x, mode="cubic", **target)
    np.testing.assert_array_equal(y, expected(reference, x, target, mode="cubic"))
    assert y.min() == 0  # cubic weights overshoot
    assert y.max() == 255


def test_nearest_of_integers_keeps_all_bits(run) -> None:
    x = np.array([[2**62 + 1, -(2**62) - 3]], np.int64)
    assert run(nn.ResizeOp, x, sizes=(1, 4)).tolist() == [[x[0, 0], x[0, 0], x[0, 1], x[0, 1]]]
