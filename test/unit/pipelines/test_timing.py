"""`--timing`: phases in order, nested, each with its own peak."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from amct_opt.pipelines.timing import Timer
from amct_opt.tools import amct_opt

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits"
MEGABYTE = 1 << 20

linux = pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a peak is that since the process began")


@linux
def test_each_phase_has_its_own_peak() -> None:
    """In a process of its own: one that has done much before hands out memory that it holds already."""
    code = f"""
import numpy as np
from amct_opt.pipelines.timing import Timer
timer = Timer()
with timer.phase("outer"):
    with timer.phase("large"):
        np.ones({64 * MEGABYTE}, np.uint8)
    with timer.phase("small"):
        np.ones({1 * MEGABYTE}, np.uint8)
with timer.phase("after"):
    pass
print(*[f"{{phase.name}} {{phase.peak}}" for phase in timer.phases], sep="\\n")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    peaks = {name: int(peak) for name, peak in map(str.split, done.stdout.splitlines())}
    assert list(peaks) == ["outer", "large", "small", "after"]
    assert peaks["outer"] == peaks["large"] > peaks["small"] + 48 * MEGABYTE
    assert peaks["large"] > peaks["after"] + 48 * MEGABYTE


def test_seconds_of_a_phase_hold_those_inside_it() -> None:
    timer = Timer()
    with pytest.raises(ValueError, match="x"), timer.phase("outer"), timer.phase("inner"):
        raise ValueError("x")
    outer, inner = timer.phases
    assert outer.seconds >= inner.seconds > 0
    assert [line[:8] for line in timer.lines()] == ["phase   ", "outer   ", "  inner "]


@linux
def test_the_peak_is_not_that_of_whoever_started_the_process(tmp_path: Path) -> None:
    ballast = np.ones(600 * MEGABYTE, np.uint8)
    text = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  func.return %x : tensor<2xf32>\n}"
    (tmp_path / "x.mlir").write_text(text)
    argv = [sys.executable, "-m", "amct_opt.tools.amct_opt", str(tmp_path / "x.mlir"), "--timing"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert ballast.all()
    peaks = [int(line.split()[-1]) for line in done.stderr.splitlines()[1:]]
    assert 0 < max(peaks) < 400


def test_phases_of_calibration(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    argv = [str(DIGITS / "digits.onnx"), f"--quantize=data={DIGITS / 'calib.npz'} observer=percentile", "--timing"]
    assert amct_opt.run([*argv, "-o", str(tmp_path / "o.mlir")]) == 0
    rows = [line[:40].rstrip() for line in capsys.readouterr().err.splitlines() if line[40:].strip()]
    inner = [row for row in rows if row.startswith("  ")]
    assert inner[:5] == ["  rotate", "  equalize", "  insert-observers", "  balance-channels", "  calibrate"]
    assert any(row.startswith("    pass 1 of ") for row in inner)
    assert "    ranges" in inner
    assert [row for row in inner if row[2] != " "][-4:] == [
        "  round-weights",
        "  correct-bias",
        "  convert-observers",
        "  shift-accumulators",
    ]
    assert rows[-1] == "write"
