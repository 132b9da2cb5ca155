"""A search that is killed again and again ends with the files of one that is not."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path

import onnx
import pytest

DIGITS = Path(__file__).parents[4] / "examples" / "digits"
KILLS = 10


def started(folder: Path) -> subprocess.Popen[bytes]:
    times = "from amct_opt.flows import latency; latency.SECONDS = 0"  # they differ
    code = f"import sys; from amct_opt.tools.amct import main; {times}; sys.exit(main())"
    options = "--sqnr", "34", "--budget", "bytes=20k,MACs=20k", "-o", str(folder)
    model, data = str(DIGITS / "digits.onnx"), str(DIGITS / "calib.npz")
    command = [sys.executable, "-c", code, "tune", model, "--data", data, *options]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def results(folder: Path) -> dict[str, object]:
    """The files by name, without the seconds that trials took."""
    found: dict[str, object] = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "tune.json"}
    search = json.loads((folder / "tune.json").read_text())
    return {**found, "tune.json": {**search, "trials": [{**t, "seconds": 0} for t in search["trials"]]}}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0])
def test_killed_at_any_time(tmp_path: Path, seed: int) -> None:
    """At every moment the folder has the trials so far and a model that is complete; nothing unfinished stays after."""
    start = time.monotonic()
    status = started(tmp_path / "whole").wait()
    seconds, folder, rng, killed = time.monotonic() - start, tmp_path / "killed", random.Random(seed), 0
    while killed < KILLS:
        process = started(folder)
        try:
            assert process.wait(rng.uniform(0.05, 0.35) * seconds) == status
            break
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            killed += 1
        if (folder / "tune.json").exists():
            json.loads((folder / "tune.json").read_text())
        if (folder / "tune.onnx").exists():
            onnx.checker.check_model(folder / "tune.onnx")
    assert killed >= 3
    assert started(folder).wait() == status
    assert results(folder) == results(tmp_path / "whole")
