"""Scores of models: the ranks of labels, over any cut of the samples into runs, and metrics of Python functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import amct_opt
from amct_opt.data.given import samples_from
from amct_opt.flows.evaluation import Labels, Metric, Ranking, ranks
from amct_opt.runtime.executor import Executable

IDENTITY = """
func.func @main(%x: tensor<{batch}x5xf32> {{nn.name = "x"}}) -> (tensor<{batch}x5xf32> {{nn.name = "y"}}) {{
  func.return %x : tensor<{batch}x5xf32>
}}
"""
SCORES = np.array(
    [[5, 4, 3, 2, 1], [1, 1, 1, 1, 1], [0, 99, 0, -99, 9], [-1, -2, -3, -4, -5], [3, 9, 3, 9, 3]], np.float32
)
CLASSES = np.array([0, 3, 4, 2, 3])
RANKS = [0, 3, 1, 2, 1]
"""Of equal values the first ranks first."""


def judged(batch: int | str, scores: Any = SCORES, classes: np.ndarray = CLASSES) -> list[int]:
    return ranking(batch, scores, classes).ranks.tolist()


def ranking(batch: int | str, scores: Any, classes: np.ndarray) -> Ranking:
    module, session = amct_opt.parse(IDENTITY.format(batch=batch))
    samples = samples_from(scores, module)
    return ranks(Executable(module), samples, Labels(classes).of(samples), session)


@pytest.mark.parametrize("batch", ["?", 1, 2, 3])
def test_ranks_do_not_depend_on_runs(batch: int | str) -> None:
    """The last of three runs of two is filled up with a sample that was judged before."""
    assert judged(batch) == RANKS


def test_runs_of_a_function_have_several_rows() -> None:
    assert judged("?", [SCORES[:2], SCORES[2:]]) == RANKS
    assert judged("?", [SCORES[i : i + 1] for i in range(5)]) == RANKS
    with pytest.raises(amct_opt.CompileError, match="4 labels for 5 rows of the first output"):
        judged("?", [SCORES[:2], SCORES[2:]], CLASSES[:4])


def test_ranks_are_those_of_a_stable_sort() -> None:
    rng = np.random.default_rng(0)
    scores, classes = rng.integers(0, 4, (200, 5)).astype(np.float32), rng.integers(0, 5, 200)
    order = np.argsort(-scores, axis=1, kind="stable").tolist()
    found = ranking("?", scores, classes)
    assert found.ranks.tolist() == [row.index(label) for row, label in zip(order, classes, strict=True)]
    assert found.classes == 5
    assert found.top(1).percent == 100 * np.mean(scores.argmax(1) == classes)
    assert found.top(5).percent == 100


def test_nan_is_never_right() -> None:
    """As an output: data with NaN is refused before it runs."""

    class Broken:
        def run(self, inputs):
            return {"y": np.where(inputs["x"] == 5, np.nan, inputs["x"])}

    module, session = amct_opt.parse(IDENTITY.format(batch="?"))
    samples = samples_from(np.abs(SCORES[[0, 4]]), module)
    assert ranks(Broken(), samples, Labels(np.array([1, 1])), session).ranks.tolist() == [5, 0]


def test_what_does_not_classify() -> None:
    for classes, message in (
        (np.array([0, 1, 2, 5, 0]), "labels: error: sample 3 has label 5, but output 'y' has 5 classes"),
        (np.array([0, 1, 2, -1, 0]), "sample 3 has label -1"),
        (np.zeros(5), r"labels must be integers, one per sample, not float64 \[5\]"),
        (np.zeros(3, int), "labels must be 5 integers, one per sample, not 3"),
    ):
        with pytest.raises(amct_opt.CompileError, match=message):
            judged("?", classes=classes)

    class Boxes:
        def run(self, inputs):
            return {"y": np.zeros((5, 3, 4), np.float32)}

    module, session = amct_opt.parse(IDENTITY.format(batch="?"))
    with pytest.raises(amct_opt.CompileError, match=r"output 'y' has shape \[5, 3, 4\], not \[samples, classes\]"):
        ranks(Boxes(), samples_from(SCORES, module), Labels(CLASSES), session)


def test_labels_of_the_samples_that_measure() -> None:
    module, _ = amct_opt.parse(IDENTITY.format(batch="?"))
    held = samples_from(np.abs(SCORES), module).tail(2)
    assert Labels(CLASSES).of(held).classes.tolist() == [2, 3]
    assert Labels(CLASSES[3:]).of(held).classes.tolist() == [2, 3]
    with pytest.raises(amct_opt.CompileError, match="labels must be 5 integers, one per sample, or 2 for the samples"):
        Labels(CLASSES[:4]).of(held)


def test_a_function_measures(tmp_path: Path) -> None:
    """It runs the model on its own data, or on the data that was given next to it."""
    file = tmp_path / "metric.py"
    file.write_text("""
import numpy as np
def mean(model):
    return np.mean([model.run(batch)["y"].mean() for batch in model.batches()])
def own(model):
    return model.run({"x": np.ones((1, 5), np.float32)})["y"].sum()
def text(model):
    return "good"
def fails(model):
    return 1 / 0
""")
    module = amct_opt.parse(IDENTITY.format(batch=1)).module
    samples = samples_from(np.arange(10, dtype=np.float32).reshape(2, 5), module)
    assert Metric.of(f"{file}:mean").measure(module, samples) == 4.5
    assert Metric.of(f"{file}:own").measure(module, samples) == 5
    for name, message in (
        ("text", "metric.py: error: 'text' returns str, not a number"),
        ("fails", "metric.py:10: error: ZeroDivisionError: division by zero"),
        ("none", "metric.py: error: defines no function 'none'"),
    ):
        with pytest.raises(amct_opt.CompileError, match=message):
            Metric.of(f"{file}:{name}").measure(module, samples)
