"""The divergence of a classifier's outputs, against its definition."""

from __future__ import annotations

from math import exp, log

import numpy as np
import pytest

from amct_opt.runtime.metrics import Divergences
from amct_opt.support.diagnostics import CompileError


def softmax(row: np.ndarray) -> list[float]:
    exps = [exp(float(x) - float(row.max())) for x in row]
    return [x / sum(exps) for x in exps]


def outputs(*arrays: np.ndarray) -> list[dict[str, np.ndarray]]:
    """The output of a network, and of another one."""
    return [{"y": each} for each in arrays]


def divergence(p: list[float], q: list[float]) -> float:
    return sum(a * log(a / b) for a, b in zip(p, q, strict=True))


@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 1, 1), (2, 3, 5)])
def test_logits(shape: tuple[int, ...], rng: np.random.Generator) -> None:
    total, expected = Divergences(), []
    for _ in range(3):
        a, b = (rng.normal(size=shape).astype(np.float32) * 3 for _ in range(2))
        total.add(*outputs(a, b))
        expected += [
            divergence(softmax(p), softmax(q)) for p, q in zip(a.reshape(-1, 5), b.reshape(-1, 5), strict=True)
        ]
    assert total.noise == pytest.approx(np.mean(expected), rel=1e-9)


def test_probabilities_are_taken_as_they_are(rng: np.random.Generator) -> None:
    a, b = (np.array([softmax(row) for row in rng.normal(size=(6, 4))]) for _ in range(2))
    total = Divergences()
    total.add(*outputs(a, b))
    assert total.noise == pytest.approx(
        np.mean([divergence(list(p), list(q)) for p, q in zip(a, b, strict=True)]), rel=1e-6
    )
    total = Divergences()
    total.add(*outputs(np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]])))  # integers make small probabilities 0
    assert 5 < total.noise < 15


def test_large_logits_stay_finite() -> None:
    total = Divergences()
    total.add(*outputs(np.array([[1e4, 0.0]], np.float32), np.array([[0.0, 1e4]], np.float32)))
    assert total.noise == pytest.approx(1e4)
    total = Divergences()
    total.add(*outputs(np.array([[5.0, -1e30]]), np.array([[7.0, -1e30]])))
    assert total.noise == 0


@pytest.mark.parametrize("array", [np.zeros(4), np.zeros((4, 1)), np.zeros((1, 3, 8, 8)), np.zeros((2, 3), np.int64)])
def test_what_does_not_classify(array: np.ndarray) -> None:
    with pytest.raises(CompileError, match=r"not floats \[samples, classes\]"):
        Divergences().add(*outputs(array, array))
