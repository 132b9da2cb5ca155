"""The example of an engine: Ray gives the score that one process gives."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import amct_opt

EXAMPLES = Path(__file__).parents[3] / "examples"
DIGITS = EXAMPLES / "digits"


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed")
def test_on_ray() -> None:
    command = [sys.executable, str(EXAMPLES / "cluster" / "on_ray.py")]
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}
    printed = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
    labels = str(DIGITS / "heldout_labels.npy")
    top1 = amct_opt.evaluate(DIGITS / "digits.onnx", DIGITS / "heldout.npz", labels).models[0].top1
    assert top1 is not None
    assert f"top-1 {top1.percent:.2f} % of 397 samples" in printed
