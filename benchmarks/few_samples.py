"""What the defaults make of one to eight samples, next to the plainest way: ranges that cover everything, and nothing else.

    python benchmarks/few_samples.py [DRAWS [NETWORK ...]]

Networks and data are those of `zoo.py`. Each draw takes other samples of those that calibrate. Both files are made of the same
ones, in profile qdq, and measured in onnxruntime on 100 samples that are held out. `gain` is the mean over draws of what the
default has more, in dB of the worst output, and `worst` the least of them.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import environments
import numpy as np
import onnxruntime
import zoo
from tables import Table, update

import amct_opt
from amct_opt.runtime.metrics import Parts
from amct_opt.session.universe import new_session

Array = np.ndarray[Any, np.dtype[Any]]

NETWORKS = "digits", "resnet20", "tiny-kws", "tiny-resnet8", "ocr-classifier"
COUNTS = 1, 2, 4, 8
DRAWS, MEASURED = 20, 100
PLAIN: Mapping[str, Any] = {
    "observer": "minmax",
    "round_weights": "nearest",
    "correct_bias": False,
    "equalize": False,
    "effort": 0,
}
TABLE = Table(zoo.PAGE, "few samples", "few_samples", ("network", "samples", "draws", "plain", "gain", "worst"), keys=2)


def outputs(file: Path, task: zoo.Task) -> list[dict[str, Array]]:
    """What onnxruntime computes of the samples that measure."""
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    names, given = [each.name for each in session.get_outputs()], [each.name for each in session.get_inputs()]
    rows = (dict(zip(given, row.values(), strict=True)) for row in islice(task.rows("held_out"), MEASURED))
    return [dict(zip(names, map(np.asarray, session.run(names, row)), strict=True)) for row in rows]


def sqnr(task: zoo.Task, data: Mapping[str, Array], reference: list[dict[str, Array]], **options: Any) -> float:
    """The SQNR of the worst output of a file."""
    session = new_session()
    session.profile, session.prints = "qdq", ()
    with tempfile.TemporaryDirectory() as folder:
        np.savez(Path(folder) / "data.npz", allow_pickle=False, **data)
        made = amct_opt.quantize_file(task.model, folder, Path(folder) / "data.npz", session=session, **options)
        found = Parts()
        for expected, own in zip(reference, outputs(made.files["onnx"], task), strict=True):
            found.add(expected, dict(zip(expected, own.values(), strict=True)))
    return found.worst[1]


def rows(task: zoo.Task, draws: int) -> list[tuple[str, ...]]:
    """The network's lines, one for each number of samples."""
    arrays, reference = dict(np.load(task.folder / "calibration.npz")), outputs(zoo.float_file(task), task)
    count, found = len(next(iter(arrays.values()))), []
    for samples in COUNTS:
        drawn = [np.random.default_rng(draw).choice(count, samples, replace=False) for draw in range(draws)]
        pairs = [
            [
                sqnr(task, {name: rows[own] for name, rows in arrays.items()}, reference, **given)
                for given in (PLAIN, {})
            ]
            for own in drawn
        ]
        plain, default = np.array(pairs).T
        gains = default - plain
        found.append(
            (task.name, str(samples), str(draws), f"{plain.mean():.1f}", f"{gains.mean():+.2f}", f"{gains.min():+.2f}")
        )
        print(" | ".join(found[-1]), flush=True)
    return found


def main(draws: str = str(DRAWS), *names: str) -> None:
    python, given = environments.environment("zoo", environments.ZOO), os.environ.get("AMCT_ZOO", "")
    for name in names or NETWORKS:
        if name.startswith(zoo.GIVEN) and not given:
            print(f"{name} is left out: AMCT_ZOO names no folder\n", flush=True)
            continue
        measured = rows(zoo.prepared(name, python, MEASURED, Path(given)), int(draws))
        update(TABLE, measured, [(each, str(samples)) for each in NETWORKS for samples in COUNTS])


if __name__ == "__main__":
    main(*sys.argv[1:])
