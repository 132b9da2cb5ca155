"""What is on disk after `amct quantize` is killed, runs next to itself, is interrupted, or fails: the files of one run, whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ..scripts import script

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")]


@pytest.fixture(scope="module")
def crashes() -> Any:
    return script("benchmarks/crashes")


@pytest.fixture(scope="module")
def runs(crashes: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Two runs of a small network."""
    folder, rng = tmp_path_factory.mktemp("runs"), np.random.default_rng(0)
    weight = numpy_helper.from_array(rng.normal(0, 0.3, (8, 3, 3, 3)).astype(np.float32), "w")
    ends = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", *sizes])
        for name, sizes in (("x", (3, 8, 8)), ("y", (8, 6, 6)))
    ]
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"], name="conv")], "net", ends[:1], ends[1:], [weight]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, str(folder / "net.onnx"))
    np.savez(folder / "x.npz", x=rng.normal(size=(10, 3, 8, 8)).astype(np.float32))
    return crashes.Runs.of(folder / "net.onnx", folder / "x.npz", folder)


@pytest.mark.parametrize(
    ("campaign", "number"),
    [
        ("kills", 30),
        ("pairs", 10),
        ("interrupts", 8),
        ("shortages", 20),
        ("failing_writes", 40),
        pytest.param("full_disks", 10, marks=pytest.mark.skipif(os.geteuid() != 0, reason="only root can make disks")),
    ],
)
def test_nothing_is_mixed_or_half(campaign: str, number: int, crashes: Any, runs: Any, tmp_path: Path) -> None:
    counts = getattr(crashes, campaign)(runs, tmp_path, number)
    assert counts.runs >= number
    assert (counts.torn, counts.left) == ([], [])
    assert campaign != "kills" or counts.killed > number / 2
