"""Trained networks in onnxruntime on processors that qemu emulates: how many integers are not those of the interpreter.

    python benchmarks/processors.py [NAME ...]

The networks are those of the zoo (`zoo.py`, which makes their data), as `amct quantize --profile qdq` writes them. Each
value that QuantizeLinear makes is compared, for two samples that calibrated nothing. `test/processors` has the emulation.
"""

from __future__ import annotations

import os
import runpy
import sys
import tempfile
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import environments
import numpy as np
import process
import zoo
from tables import Table, update

from amct_opt.support.diagnostics import CompileError

ROOT = Path(__file__).resolve().parents[1]
SAMPLES = 2
"""Emulation takes a hundred times as long."""


emulation = SimpleNamespace(**runpy.run_path(str(ROOT / "test" / "processors" / "__main__.py")))
PROCESSORS = tuple(emulation.PROCESSORS)
TABLE = Table(
    ROOT / "docs" / "measured" / "exactness.md", "processors", "processors", ("network", "integers", *PROCESSORS)
)


def quantized(name: str, python: Path) -> Path:
    """The folder of a network that is quantized, with a few samples that are held out. Raises process.FailedError."""
    task = zoo.prepared(name, python, 100, Path(os.environ.get("AMCT_ZOO", "")))
    variant = zoo.ours(task, "qdq")
    if variant.file is None:
        raise process.FailedError(variant.error)
    first, *others = islice(task.rows("held_out"), 1 if task.runs else SAMPLES)
    samples: dict[str, Any] = {
        key: np.concatenate([array, *(each[key] for each in others)]) if others else array
        for key, array in first.items()
    }
    np.savez(variant.file.parent / "samples.npz", **samples)
    return variant.file.parent


def main(*names: str) -> None:
    python = environments.environment("zoo", environments.ZOO)
    emulation.installed()
    for name in names or zoo.NAMES:
        if name.startswith(zoo.GIVEN) and not os.environ.get("AMCT_ZOO"):
            print(f"{name} is left out: AMCT_ZOO names no folder\n", flush=True)
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                emulation.prepared(quantized(name, python), Path(folder) / name)
            except (process.FailedError, CompileError, ValueError) as e:
                print(f"{name}: {e}", flush=True)
                continue
            found = [emulation.found_on(command, Path(folder)) for command in emulation.PROCESSORS.values()]
        count = next((str(each[name][1]) for each in found if isinstance(each, dict)), "-")
        cells = [str(each[name][0]) if isinstance(each, dict) else "-" for each in found]
        print(name, count, *cells, flush=True)
        update(TABLE, [(name, count, *cells)], [(each,) for each in zoo.NAMES])


if __name__ == "__main__":
    main(*sys.argv[1:])
