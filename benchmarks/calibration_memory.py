"""How much memory calibration takes, and that it does not grow with the data: ResNet-50, images of 3x224x224 from a file.

    python benchmarks/calibration_memory.py [OBSERVER ...]

Each observer calibrates 50 and 200 images, `ifmr{exact=true}`, which reads them three times, 5 and 20; each time in a process
of its own: `amct-opt --fuse-bn --insert-observers=observer=... --calibrate=data=...`. `peak` is the most memory that the process
had, reading and writing the model included; `calibration` the most that it had from the beginning of calibration to its end, the
mapped part of the file of images included. The goal: below 1.5 GiB, and at most 5 % more for four times the images. Linux only.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import models
import numpy as np
import onnx

from amct_opt.observers import OBSERVERS
from amct_opt.support.tables import print_table

EXACT = "ifmr{exact=true}"
COUNTS = {EXACT: (5, 20)}
USUAL_COUNTS = 50, 200
INPUT = "data"
CHUNK = 10
LIMIT = 1.5 * 2**30
GROWTH = 1.05

_COLUMNS = ("images", "seconds", "peak MB", "calibration MB")
HEADERS = ("observer", *_COLUMNS, *_COLUMNS, "grows", "")

# ru_maxrss of a program holds what its parent had when it forked; VmHWM begins anew, and also when 5 is written to clear_refs.
CHILD = """
import sys, time
from pathlib import Path
from amct_opt.tools import amct_opt
from amct_opt.transforms.quantization.calibrate import CalibratePass

def most():
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])

apply = CalibratePass.apply
def watched(self, ctx, op):
    global before
    before = most()
    Path("/proc/self/clear_refs").write_text("5")
    apply(self, ctx, op)
    print(most())
CalibratePass.apply = watched
start = time.perf_counter()
failed = amct_opt.run(sys.argv[1:])
print(max(before, most()), time.perf_counter() - start)
sys.exit(failed)
"""


class Measurement(NamedTuple):
    """Of a process that calibrates: seconds, and bytes at most."""

    seconds: float
    peak: int
    calibration: int


def write_model(path: Path) -> None:
    """ResNet-50 with seeded weights. Its input gets a name that a file can have."""
    model = models.example("light").build("resnet50")
    (given,) = model.graph.input
    for node in model.graph.node:
        node.input[:] = [INPUT if name == given.name else name for name in node.input]
    given.name = INPUT
    onnx.save(model, path)


def write_images(path: Path, count: int) -> None:
    """`[count, 3, 224, 224]` float32, written piece by piece."""
    images = np.lib.format.open_memmap(path, "w+", np.float32, (count, 3, 224, 224))
    for start in range(0, count, CHUNK):
        images[start : start + CHUNK] = models.example("light").images(min(CHUNK, count - start), start)


def measure(model: Path, data: Path, observer: str, count: int) -> Measurement:
    arguments = [str(model), "--fuse-bn", f"--insert-observers=observer={observer}"]
    arguments += [f"--calibrate=data={data} samples={count}", "-o", "/dev/null"]
    done = subprocess.run([sys.executable, "-c", CHILD, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    calibration, peak, seconds = done.stdout.split()
    return Measurement(float(seconds), int(peak), int(calibration))


def row(model: Path, data: Path, observer: str) -> tuple[str, ...]:
    counts = COUNTS.get(observer, USUAL_COUNTS)
    few, many = (measure(model, data, observer, count) for count in counts)
    cells = [
        cell
        for count, m in zip(counts, (few, many), strict=True)
        for cell in (str(count), f"{m.seconds:.0f}", f"{m.peak / 1e6:.0f}", f"{m.calibration / 1e6:.0f}")
    ]
    growth = many.calibration / few.calibration
    return (observer, *cells, f"{growth:.2f}", "" if many.peak < LIMIT and growth <= GROWTH else "too much")


def main(observers: list[str]) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        model, data = Path(temporary) / "resnet50.onnx", Path(temporary) / "data"
        data.mkdir()
        # a process of its own for what is large, so that this one stays small
        process = get_context("spawn").Process(target=write_model, args=(model,))
        process.start()
        process.join()
        write_images(data / f"{INPUT}.npy", max(USUAL_COUNTS))
        rows = [row(model, data, observer) for observer in observers or [*OBSERVERS, EXACT]]
    print_table("memory of calibration, ResNet-50", HEADERS, rows)


if __name__ == "__main__":
    main(sys.argv[1:])
