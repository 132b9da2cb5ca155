"""What recovery costs on a large network: processor time, wall clock and peak memory of whole processes, and what it wins.

    python benchmarks/recovery_cost.py

ResNet-50 of `models.py`, with seeded weights: 100 images calibrate, 10 others measure. Each row is `amct quantize --no-report`
with profile `ascend` and its options, run once. Files run in onnxruntime with its default options. `times` is processor time over
that of the first row.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import models
import numpy as np
import process
import zoo
from tables import Table, update

NETWORK = "resnet50"
COSTS = Table(
    zoo.HERE.parent / "docs" / "measured" / "recovery.md",
    "cost of recovery",
    "recovery_cost",
    ("options", "SQNR dB", "processor s", "times", "wall s", "peak MB"),
)
OPTIONS = (
    "--observer minmax",
    "--observer minmax --round-weights mismatch",
    "--observer minmax --round-weights mismatch --correct-bias",
)


def rows(folder: Path) -> Iterator[Sequence[str]]:
    images = np.load(models.samples(NETWORK))
    for part, rows in (("calibration", images[: models.CALIBRATION]), ("held_out", images[models.CALIBRATION :])):
        np.savez(folder / f"{part}.npz", data=rows)
    task = zoo.Task(NETWORK, folder, models.network(NETWORK), "distance", [], {})
    first = 0.0
    for i, options in enumerate(OPTIONS):
        out = folder / str(i)
        command = [
            sys.executable,
            "-m",
            "amct_opt.tools.amct",
            "quantize",
            str(task.model),
            "--no-report",
            "-o",
            str(out),
        ]
        data = ["--profile=ascend", "--data", str(folder / "calibration.npz")]
        cost = process.run([*command, *data, *options.split()])
        found, first = zoo.Variant(next(out.glob("*_qdq.onnx"))), first or cost.cpu
        zoo.measure(task, task.model, [found])
        figures = f"{cost.cpu:.0f}", f"{cost.cpu / first:.1f}", f"{cost.wall:.0f}", f"{cost.peak / 1e6:,.0f}"
        yield f"`{options}`", found.sqnr, *figures


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for row in rows(Path(folder)):
            print(" | ".join(row), flush=True)
            update(COSTS, [row], [(f"`{options}`",) for options in OPTIONS])


if __name__ == "__main__":
    main()
