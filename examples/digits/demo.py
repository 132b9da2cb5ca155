"""Quantize the digits network, lower it to integers, and count how many held-out images each stage gets right.

python examples/digits/demo.py [OUTDIR]
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import yaml

from amct_opt.data.inputs import load_runs, run_all
from amct_opt.ir.functions import main_function
from amct_opt.runtime.executor import Executable
from amct_opt.support.tables import print_table
from amct_opt.tools import amct
from amct_opt.tools.shared import load_module

HERE = Path(__file__).resolve().parent
OUT = HERE.parents[1] / "out" / "digits"

STAGES = {
    "float": "digits.onnx",
    "fake-quantized (nn)": "digits_nn.mlir",
    "integer (ascend)": "digits_ascend.mlir",
}
"""What is run, by what it is called; the first next to this script, the others made."""


def correct(model: Path, images: Path, labels: Path) -> tuple[int, int]:
    """How many images the model gets right, and of how many."""
    module, _ = load_module(model)
    logits = run_all(Executable(module), load_runs(images, main_function(module)))["logits"]
    expected = np.load(labels)
    return int((logits.argmax(1) == expected).sum()), len(expected)


def top1(out: Path) -> list[tuple[str, int, int]]:
    """Stage, images right, and images in all."""
    rows: list[tuple[str, int, int]] = []
    for stage, name in STAGES.items():
        model = HERE / name if stage == "float" else out / name
        rows.append((stage, *correct(model, HERE / "heldout.npz", HERE / "heldout_labels.npy")))
    return rows


def shown(path: Path) -> str:
    """A path as short as it can be from here."""
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def main(out: Path) -> int:
    arguments = ["quantize", shown(HERE / "digits.onnx"), "--data", shown(HERE / "calib.npz")]
    arguments += ["--profile", "ascend", "--also", "nn,ascend", "-o", shown(out)]
    print(f"$ amct {' '.join(arguments)}\n")
    if (status := amct.run(arguments)) != 0:
        return status
    print("remarks")
    for row in yaml.safe_load_all((out / "remarks.yaml").read_text("utf-8")):
        print(f'  [{row["pass"]} {row["kind"]} {row["rule"]}] "{row["layer"]}": {row["reason"]}')
    print()
    rows = [(stage, f"{right / count:.2%}", f"{right} of {count}") for stage, right, count in top1(out)]
    print_table("top-1 on held-out images", ("stage", "top-1", "right"), rows)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]).resolve() if len(sys.argv) > 1 else OUT))
