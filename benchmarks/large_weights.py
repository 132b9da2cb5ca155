"""A model of 300 million parameters: import, fuse, quantize only the weights, to int8, export; whole processes.

    python benchmarks/large_weights.py [MILLIONS [ROUNDS]]

The weights, seeded noise, are external data (`large_model.py`); half of them are folded with a factor per channel on the way.
`copy` reads the same bytes and writes them to another file: the least that a tool can do. Peak memory is to be at most 1.4 times
the float weights, wall clock at most 4 times that of the copy; ratios are round by round, `median (least-most)`.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from functools import partial
from pathlib import Path

import large_model
import process
from environments import CACHE

from amct_opt.support.tables import print_table

WEIGHT_ONLY = ("--fuse-all", "--quantize=weight-only=true")
PIPELINES = {
    "-t onnx": (*WEIGHT_ONLY, "-t", "onnx", "-o", "out.onnx"),
    "-o .mlir": (*WEIGHT_ONLY, "-o", "out.mlir"),
    "-t onnx-ascend": (*WEIGHT_ONLY, "--lower-to-ascend", "-t", "onnx-ascend", "-o", "out.onnx"),
    "-t onnx, weights stay float": ("--fuse-all", "-t", "onnx", "-o", "out.onnx"),
}
_COPY = "import shutil, sys; shutil.copyfile(sys.argv[1], sys.argv[2])"


def main(millions: int = 300, rounds: int = 3) -> None:
    CACHE.mkdir(exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix="large-", dir=CACHE))
    try:
        _compare(folder, millions, rounds)
    finally:
        shutil.rmtree(folder)


def _compare(folder: Path, millions: int, rounds: int) -> None:
    model = folder / "model.onnx"
    size = large_model.write(model, millions)
    copy = [sys.executable, "-c", _COPY, f"{model}.data", str(folder / "copy")]
    commands = [copy, *([*_tool(model), *_placed(folder, options)] for options in PIPELINES.values())]
    process.run(copy)
    costs = process.in_turn(rounds, *(partial(process.run, command) for command in commands))
    rows = [
        (
            name,
            process.spread([c.wall for c in each]).text(),
            process.spread([c.cpu for c in each]).text(),
            process.ratios([c.wall for c in each], [c.wall for c in costs[0]]).text(),
            process.spread([c.peak for c in each]).text(1e6, 0),
            process.spread([c.peak / size for c in each]).text(),
        )
        for name, each in zip(("copy", *PIPELINES), costs, strict=True)
    ]
    headers = ("", "wall s", "cpu s", "wall / copy", "peak MB", "peak / weights")
    print_table(f"{size / 4e6:.0f} million parameters, {size / 1e6:.0f} MB", headers, rows)


def _tool(model: Path) -> list[str]:
    return [sys.executable, "-m", "amct_opt.tools.amct_opt", str(model)]


def _placed(folder: Path, options: tuple[str, ...]) -> list[str]:
    return [str(folder / o) if o.startswith("out.") else o for o in options]


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
