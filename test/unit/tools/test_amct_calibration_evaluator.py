"""`amct calibration --evaluator`: a Python file runs the model on its own data."""

from __future__ import annotations

from pathlib import Path

import pytest

from amct_opt.configuration.record import read_record

CLASS = """
import numpy as np

class Base:
    def calibration(self, model):
        for i in range(3):
            outputs = model.run({"x": np.full((1, 2), float(i + 1))})
            assert outputs["y"].shape == (1, 2)
            assert outputs["y"][0, 0] == 4 * (i + 1), outputs
"""


@pytest.fixture
def evaluate(amct_tool, files, tmp_path):
    """Calibrate `relu(x @ [[1, 2], [3, 4]])` with an evaluator of this text."""

    def run(text: str, *options: object):
        script = files.text("evaluator.py", text)
        model = files.module(batch=1)
        given = ("--model", model, "--save_path", tmp_path / "out" / "P", "--evaluator", script)
        return amct_tool("calibration", *given, *options)

    return run


def scale(tmp_path: Path) -> float:
    found = read_record(tmp_path / "out" / "P_record.txt").layers["fc"].scale_d
    assert found is not None
    return found


def test_the_only_class_of_the_file(evaluate, tmp_path):
    result = evaluate(CLASS, "--batch_num", 3)
    assert (result.status, result.err) == (0, "")
    assert "3 runs" in result.out
    assert scale(tmp_path) * 1.001 >= 0.7 * 3 / 255
    assert scale(tmp_path) <= 1.3 * 3 / 255 * 1.001


def test_runs_beyond_batch_num_do_not_calibrate(evaluate, tmp_path):
    assert evaluate(CLASS).status == 0
    assert scale(tmp_path) <= 1.3 * 1 / 255 * 1.001


@pytest.mark.parametrize(
    "text",
    [
        f"{CLASS}\nclass Other(Base):\n    pass\nevaluator = Other()",
        f"{CLASS}\nclass Other(Base):\n    pass\nevaluator = Other",
        f"{CLASS}\nclass Needs(Base):\n    def __init__(self, x):\n        pass\nmine = Needs(1)",
        "import numpy as np\nclass evaluator:\n    @staticmethod\n    def calibration(model):\n"
        "        (name,) = model.inputs\n        assert model.inputs == {'x': (1, 2)}\n"
        "        model.run({name: np.ones((1, 2), np.float32)})",
    ],
)
def test_how_the_evaluator_is_found(evaluate, text):
    result = evaluate(text)
    assert (result.status, result.err) == (0, "")


def test_an_imported_class_is_not_of_the_file(evaluate, tmp_path):
    (tmp_path / "amct_evaluator_base.py").write_text(
        "class Imported:\n    def calibration(self, model):\n        pass\n"
    )
    assert evaluate(f"from amct_evaluator_base import Imported\n{CLASS}").status == 0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "evaluator.py: error: defines no evaluator"),
        (f"{CLASS}\nclass Other(Base):\n    pass", "evaluator.py: error: defines 2 evaluators"),
        (f"{CLASS}\na, b = Base(), Base()", "evaluator.py: error: defines 2 evaluators"),
        ("import absent", "evaluator.py:1: error: ModuleNotFoundError: No module named 'absent'"),
        (
            "class A:\n    def calibration(self, model):\n        raise OSError('gone')",
            "evaluator.py:3: error: OSError: gone",
        ),
        (
            "class A:\n    def calibration(self, model):\n        model.run({'y': 1})",
            "evaluator.py, batch 0: error: has arrays for y; the inputs are x",
        ),
        (
            "class A:\n    def calibration(self, model):\n        model.run({'x': [[1.0]]})",
            "input 'x' has shape [1, 1]",
        ),
    ],
)
def test_mistakes(evaluate, tmp_path, text, message):
    result = evaluate(text)
    assert (result.status, result.out) == (1, "")
    assert message in result.err
    assert not (tmp_path / "out").exists()


def test_too_few_runs(evaluate):
    result = evaluate(CLASS, "--batch_num", 4)
    assert result.status == 1
    assert "evaluator.py: error: runs the model 3 times, not 4 (batch_num)" in result.err


def test_nan(evaluate):
    text = "class A:\n    def calibration(self, model):\n        model.run({'x': [[1.0, float('nan')]]})"
    assert "evaluator.py, batch 0: error: input 'x' holds NaN or Inf in sample 0, at [0, 1]" in evaluate(text).err
