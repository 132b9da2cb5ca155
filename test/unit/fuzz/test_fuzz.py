"""A few seeds of the fuzzer, which `make test-all` runs many of, and how it reports one that fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import fuzz
import numpy as np
import onnx
import pytest
from fuzz import campaign, checks
from fuzz.campaign import check_seed
from fuzz.choices import choices
from xdsl.ir import Operation

from amct_opt.dialects import nn
from amct_opt.runtime.kernels import bare_kernel_for


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of oracles
@pytest.mark.parametrize("seed", range(18))
def test_a_random_file(seed: int, tmp_path: Path) -> None:
    result = check_seed(seed, tmp_path)
    assert result.failure is None, result.failure
    assert "run" in result.passed


def test_a_wrong_number_fails_with_the_command_that_shows_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(self: Any, *_: Any) -> dict[str, Any]:
        return {name: array + 1 for name, array in self.case.expected.items()}

    monkeypatch.setattr(checks._Check, "run", wrong)
    monkeypatch.setattr(checks._Check, "_spread", lambda *_: {})
    failure = check_seed(5, tmp_path).failure
    assert failure is not None
    assert (failure.stage, failure.command) == ("run", "python test/fuzz --seed 5 --graphs 1 --format caffe --out out")
    assert " is off by " in failure.text


def test_integers_that_depend_on_the_order_of_operations_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def first(module: Any) -> list[str]:
        return [op.name for op in module.walk() if isinstance(op, nn.NNOp)][:8]

    seed = next(seed for seed in range(6, 60) if "variants" in choices(seed).checks)
    monkeypatch.setattr(checks, "numbers", first)
    failure = check_seed(seed, tmp_path).failure
    assert failure is not None
    assert failure.text.startswith("variants reordered: integers or parameters differ")


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "format_"), [(5, "onnx"), (0, "caffe")])
def test_what_fails_is_made_smaller(seed: int, format_: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(op: Operation) -> Any:
        run: Any = bare_kernel_for(op)
        return (lambda *x: run(*x) * np.float32(1.01)) if isinstance(op, nn.ConvOp) and run is not None else run

    monkeypatch.setattr("amct_opt.runtime.plan.bare_kernel_for", wrong)
    failure = check_seed(seed, tmp_path, format_, tmp_path / "out" / "small").failure
    assert failure is not None
    assert "\n  1 of " in failure.text
    nodes = onnx.load(tmp_path / "out" / "small.onnx").graph.node
    assert [node.op_type for node in nodes if node.op_type != "Constant"] == ["Conv"]
    assert "nn.conv" in (tmp_path / "out" / "small.mlir").read_text()


@pytest.mark.slow
def test_an_interrupt_ends_it_with_the_counts(tmp_path: Path) -> None:
    folder = Path(fuzz.__file__).parent
    command = [sys.executable, str(folder), "--forever", "--format", "onnx"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    options: dict[str, Any] = {"start_new_session": True, "stdout": subprocess.PIPE, "text": True, "env": environment}
    with subprocess.Popen(command, preexec_fn=_by_default, **options) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("seeds from ")
        time.sleep(2)
        os.killpg(process.pid, signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert " graphs (" in output
    assert "Traceback" not in output
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]  # a library may leave a file


def _by_default() -> None:
    """What a shell starts in the background ignores Ctrl-C, and so do the processes that it starts."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_counts(tmp_path: Path) -> None:
    counts = campaign.Counts()
    for seed in (0, 1):
        campaign._count(counts, check_seed(seed, tmp_path))
    assert (counts.graphs, counts.formats["onnx"], counts.passed["import"]) == (2, 2, 2)
    assert counts.line().startswith("2 graphs (2 onnx), ")
