"""Searches of `amct tune` on trained networks, with every trial, and whether a search that was killed goes on.

    python benchmarks/tune.py [NETWORK ...]

Data are those of `zoo.py`: some samples calibrate, others choose, further ones judge the file that was found, in onnxruntime.
Each search is killed with SIGKILL when its second trial is on disk, and started again. Its first trials must then be those of the
killed run, with their seconds. The OCR recognizer is judged by lines that are read without an error (a function, as `--evaluator`
takes it). ResNet-20 needs the folder that AMCT_ZOO names. Searches are kept under `.bench/tune`, and begin anew when they are
deleted. Rows of other searches stay on the page as they are.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import environments
import numpy as np
import zoo
from tables import Table, update

PAGE = zoo.HERE.parent / "docs" / "measured" / "recovery.md"
FOLDER = environments.CACHE / "tune"
TRIALS = Table(
    PAGE,
    "searches",
    "tune",
    ("network", "goal", "samples", "trial", "in float", "other widths", "kB", "chosen by", "", "judged"),
    keys=2,
)
LIMIT = 3600
"""Seconds of a search at most."""


class Search(NamedTuple):
    """A goal, the other options, and how many samples calibrate, choose and judge."""

    network: str
    goal: Sequence[str]
    options: Sequence[str]
    samples: tuple[int, int, int]
    scored: str = ""
    """`labels` or `lines`; SQNR otherwise."""


SEARCHES = (
    Search("digits", ("--sqnr=30",), ("--weight-bits=4",), (128, 200, 197)),
    Search("ocr-recognizer", ("--drop=0.5",), ("--profile=qdq",), (16, 60, 240), "lines"),
    Search("ocr-recognizer", ("--drop=2",), ("--weight-bits=4",), (16, 60, 240), "lines"),
    Search("resnet20", ("--drop=0.5", "--budget=bytes=150k"), (), (200, 500, 1500), "labels"),
    Search(
        "resnet20",
        ("--drop=0.5", "--budget=bytes=150k"),
        ("--profile=qdq", "--rank-by=kl"),
        (200, 500, 1500),
        "labels",
    ),
    Search("resnet20", ("--sqnr=22",), ("--weight-bits=3",), (200, 500, 1500)),
)

_LINES = """import json
import sys

sys.path.insert(0, {scripts!r})
import zoo_scores


def exact_lines(model):
    task = json.load(open({task!r}))
    outputs = (line for batch in model.batches() for line in next(iter(model.run(batch).values())))
    return sum(100 * zoo_scores.text([line[None]], label, [], task["facts"])[0] for line, label in zip(
        outputs, task["labels"])) / {count}
"""


def rows(search: Search, folder: Path) -> Iterator[tuple[str, ...]]:
    """A line for each trial. Raises RuntimeError if a search that was killed does not go on."""
    task, goal = _prepared(search, folder)
    out = folder / "out"
    command = [
        sys.executable,
        "-m",
        "amct_opt.tools.amct",
        "tune",
        str(task.model),
        "-o",
        str(out),
        *goal,
        *search.options,
    ]
    command += ["--data", str(folder / "calibration.npz"), "--test", str(folder / "chosen.npz")]
    killed = _killed(command, out / "tune.json")
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    trials = _trials(out / "tune.json")
    if trials[: len(killed)] != killed:
        raise RuntimeError(f"{search.network}: the search began anew: {done.stderr[-300:]}")
    found = zoo.Variant(next(out.glob("*_qdq.onnx")))
    reference = zoo.measure(task, task.model, [found])
    best = [each for each in trials if each["better"]][-1]
    head = *_key(search), " / ".join(map(str, search.samples))
    for trial in trials:
        recipe = " ".join(f"{name}={value}" for name, value in trial["changes"].items() if name not in _WIDTHS)
        floats = _floats(trial)
        other = {text.rpartition(":")[0] for name in _WIDTHS[1:] for text in trial["changes"].get(name, ())}
        result = "reached" if trial["reached"] else "missed" if trial["kept"] else "over budget"
        judged = f"{found.share}, {found.sqnr} dB; float {reference.share}" if trial is best else ""
        cells = recipe or "as given", str(len(floats)), str(len(other)), f"{trial['costs']['bytes'] / 1000:,.1f}"
        yield *head, *cells, f"{trial['quality']:.2f}", result + ", best" * (trial is best), judged


_WIDTHS = "skip_layers", "layer_weight_bits", "layer_bits"


def _floats(trial: Mapping[str, Any]) -> Sequence[str]:
    return trial["changes"].get("skip_layers", ())


def _trials(log: Path) -> list[dict[str, Any]]:
    return json.loads(log.read_text())["trials"] if log.exists() else []


def _killed(command: Sequence[str], log: Path) -> list[dict[str, Any]]:
    """The trials on disk after the command was killed: two, or those of an earlier run that was stopped."""
    if trials := _trials(log):
        return trials
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + LIMIT
    while process.poll() is None and len(_trials(log)) < 2 and time.monotonic() < end:
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    return _trials(log)


def _prepared(search: Search, folder: Path) -> tuple[zoo.Task, Sequence[str]]:
    """The network with the samples that judge, and the options of the goal."""
    python = environments.environment("zoo", environments.ZOO)
    calibration, choosing, judging = search.samples
    task = zoo.prepared(search.network, python, choosing + judging, Path(os.environ.get("AMCT_ZOO", "")))
    measured = np.load(task.folder / "held_out.npz")
    for name, source, part in (
        ("calibration", np.load(task.folder / "calibration.npz"), slice(calibration)),
        ("chosen", measured, slice(choosing)),
        ("held_out", measured, slice(choosing, choosing + judging)),
    ):
        np.savez(folder / f"{name}.npz", **{key: array[part] for key, array in source.items()})
    goal = list(search.goal)
    if search.scored == "labels":
        np.save(folder / "labels.npy", task.labels[:choosing])
        goal += ["--labels", str(folder / "labels.npy")]
    if search.scored == "lines":
        script = folder / "lines.py"
        given = {"scripts": str(zoo.HERE), "task": str(task.folder / "task.json"), "count": choosing}
        script.write_text(_LINES.format(**given))
        goal += ["--evaluator", f"{script}:exact_lines"]
    return replace(task, folder=folder, labels=task.labels[choosing:]), goal


def main(*names: str) -> None:
    for number, search in enumerate(SEARCHES):
        if names and search.network not in names:
            continue
        if search.network.startswith(zoo.GIVEN) and not os.environ.get("AMCT_ZOO"):
            print(f"{search.network} is left out: AMCT_ZOO names no folder\n", flush=True)
            continue
        folder = FOLDER / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        made = list(rows(search, folder))
        print("\n".join(" | ".join(row) for row in made) + "\n", flush=True)
        update(TRIALS, made, map(_key, SEARCHES))


def _key(search: Search) -> tuple[str, str]:
    """The network and the goal, as on the page."""
    return search.network, f"`{' '.join((*search.goal, *search.options))}`"


if __name__ == "__main__":
    main(*sys.argv[1:])
