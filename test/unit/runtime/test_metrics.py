import numpy as np
import pytest

from amct_opt.runtime.metrics import cosine, difference, sqnr


def test_equal_arrays() -> None:
    a = np.array([1.0, -2.0])
    d = difference(a, a.copy())
    assert (d.sqnr, d.cosine, d.largest, d.differing, d.count) == (float("inf"), 1.0, 0.0, 0, 2)


def test_by_hand() -> None:
    # signal 100, noise 1: 20 dB
    assert sqnr(np.array([10.0, 0.0]), np.array([10.0, 1.0])) == pytest.approx(20.0)
    assert cosine(np.array([1.0, 0.0]), np.array([1.0, 1.0])) == pytest.approx(np.sqrt(0.5))


def test_silence() -> None:
    zero, one = np.zeros(2), np.ones(2)
    assert sqnr(zero, one) == float("-inf")
    assert (cosine(zero, one), cosine(zero, zero)) == (0.0, 1.0)


def test_integers_do_not_wrap() -> None:
    assert difference(np.array([-128], np.int8), np.array([127], np.int8)).largest == 255


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match="differ"):
        difference(np.zeros((2, 1)), np.zeros(2))
