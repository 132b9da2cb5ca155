"""Whole models in float: import, interpreter and export against onnxruntime on the original file.

Tolerance: every layer of these models has outputs of unit variance (`examples/models/light.py`). A float32 sum of K products is
off by about sqrt(K) * 2^-24 of that, at most 1e-5 for K = 9216 (alexnet's largest); through the 60 to 120 layers of the deepest
ones such errors add like random numbers, to no more than 1e-4. Logits have a standard deviation of 2.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from amct_opt import frontends
from amct_opt.runtime.executor import run
from amct_opt.session.universe import new_session
from amct_opt.tools import amct_opt

TOLERANCE = 2e-4
"""Absolute, on logits: 1e-4 of their standard deviation."""


def test_interpreter_equals_onnxruntime(model: Any, onnxruntime_run: Any) -> None:
    inputs = model.inputs(seed=1)
    (actual,) = run(frontends.read(model.path, new_session()), inputs).values()
    (expected,) = onnxruntime_run(model.path, inputs)
    assert 0.5 < expected.std() < 8, "the model's logits say nothing"
    np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE)


def test_export_equals_original(model: Any, onnxruntime_run: Any, tmp_path: Path) -> None:
    """The large models to the newest opset only: their operations are those of the small ones."""
    out, inputs = tmp_path / "out.onnx", model.inputs(seed=2)
    (expected,) = onnxruntime_run(model.path, inputs)
    for opset in (13, 17, 21) if model.is_small else (21,):
        assert amct_opt.run([str(model.path), "-t", f"onnx{{opset={opset}}}", "-o", str(out)]) == 0
        written = onnx.load(out)
        assert written.graph.input == onnx.load(model.path).graph.input
        assert [(o.domain, o.version) for o in written.opset_import] == [("", opset)]
        (actual,) = onnxruntime_run(out, inputs)
        assert actual.shape == expected.shape
        np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE)


def test_fused_export_equals_original(model: Any, onnxruntime_run: Any, tmp_path: Path) -> None:
    """Every fusion, then a file: folds round each weight once more, which is within the same tolerance."""
    out = tmp_path / "out.onnx"
    assert amct_opt.run([str(model.path), "--canonicalize", "--fuse-all", "-t", "onnx", "-o", str(out)]) == 0
    inputs = model.inputs(seed=4)
    (actual,), (expected,) = onnxruntime_run(out, inputs), onnxruntime_run(model.path, inputs)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("model", ["transformer"], indirect=True)
def test_dynamic_sizes_stay_dynamic(model: Any, onnxruntime_run: Any, tmp_path: Path) -> None:
    """Batch and sequence keep their names and take any size."""
    out = tmp_path / "out.onnx"
    assert amct_opt.run([str(model.path), "--canonicalize", "-t", "onnx", "-o", str(out)]) == 0
    dims = onnx.load(out).graph.input[0].type.tensor_type.shape.dim
    assert [d.dim_param or d.dim_value for d in dims] == ["batch", "sequence", 64]
    for batch, sequence in ((1, 1), (3, 7)):
        inputs = {model.input: np.random.default_rng(0).normal(size=(batch, sequence, 64)).astype(np.float32)}
        (actual,), (expected,) = onnxruntime_run(out, inputs), onnxruntime_run(model.path, inputs)
        assert actual.shape == (batch, 10)
        np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE)
