"""MLPerf Tiny's four tasks as its closed division judges them: MODELS DATASETS, the folders `benchmark/training` of
github.com/mlcommons/tiny and `datasets` of github.com/eembc/energyrunner, whose README says how their files are made.

A task without files in DATASETS is left out, and said to be. The networks are the reference's in float, quantized by
`amct_opt.quantize` without options and run by onnxruntime; the peer is the reference's own int8 network in TensorFlow Lite.
Every tenth file calibrates and is not judged: the reference calibrates on training data, which is not among them.
"""

from __future__ import annotations

import csv
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
import tensorflow as tf
from tables import Table, update

import amct_opt

Array = np.ndarray[Any, np.dtype[Any]]
PROFILES = ("ascend", "qdq")
TENTH = 10
TABLE = Table(
    Path(__file__).parents[1] / "docs" / "measured" / "accuracy.md",
    "MLPerf Tiny",
    "mlperf_tiny",
    ("task", "target", "judged", "float", *(f"ours, {p}" for p in PROFILES), "the reference's int8"),
)


def top1(answers: list[Array], labels: Array) -> float:
    """Percent of files whose largest output is the label's."""
    return 100 * float(np.mean([answer.mean(0).argmax() for answer in answers] == labels))


def auc(distances: list[Array], labels: Array) -> float:
    """Area under the ROC curve of a file's mean distance from what the autoencoder makes of it: 1 is an anomaly."""
    means = np.array([each.mean() for each in distances])
    normal, odd = means[labels == 0], means[labels == 1][:, None]
    return float(((odd > normal) + (odd == normal) / 2).mean())


class Task(NamedTuple):
    """A network, its peer, its data and its target, of the rules' table of quality."""

    model: str
    peer: str
    target: float
    read: Callable[[Path, tuple[float, int]], Array]
    """The rows of a file, for a network that takes this scale and zero point in integers."""
    judge: Callable[[list[Array], Array], float] = top1


TASKS: Mapping[str, Task] = {
    "kws01": Task(
        "keyword_spotting/trained_models/kws_ref_model",
        "keyword_spotting/trained_models/kws_ref_model.tflite",
        90,
        lambda file, grid: ((np.fromfile(file, np.int8).astype(np.float32) - grid[1]) * grid[0]).reshape(1, 49, 10, 1),
    ),
    "ic01": Task(
        "image_classification/trained_models/pretrainedResnet.h5",
        "image_classification/trained_models/pretrainedResnet_quant.tflite",
        85,
        lambda file, _: np.fromfile(file, np.uint8).reshape(1, 32, 32, 3).astype(np.float32),
    ),
    "vww01": Task(
        "visual_wake_words/trained_models/vww_96.h5",
        "visual_wake_words/trained_models/vww_96_int8.tflite",
        80,
        lambda file, _: np.fromfile(file, np.uint8).reshape(1, 96, 96, 3).astype(np.float32) / 255,
    ),
    "ad01": Task(
        "anomaly_detection/trained_models/ad01.h5",
        "anomaly_detection/trained_models/ad01_int8.tflite",
        0.85,
        lambda file, _: np.lib.stride_tricks.sliding_window_view(np.fromfile(file, np.float32), 640)[::128],
        auc,
    ),
}
Run = Callable[[Array], Array]


def reference(file: Path) -> tuple[Run, tuple[float, int]]:
    """The int8 network, which quantizes its input by its own scale and zero point, given beside it."""
    interpreter = tf.lite.Interpreter(str(file))
    interpreter.allocate_tensors()
    (given,), (made,) = interpreter.get_input_details(), interpreter.get_output_details()
    scale, zero_point = given["quantization"]

    def run(rows: Array) -> Array:
        answers: list[Array] = []
        for row in np.clip(np.rint(rows / scale) + zero_point, -128, 127).astype(given["dtype"]):
            interpreter.set_tensor(given["index"], row.reshape(given["shape"]))
            interpreter.invoke()
            answers.append(interpreter.get_tensor(made["index"]).astype(np.float32).reshape(-1))
        own, zero = made["quantization"]
        return (np.stack(answers) - zero) * own

    return run, (scale, zero_point)


def in_onnxruntime(file: Path) -> Run:
    session = onnxruntime.InferenceSession(file)
    (given,) = session.get_inputs()
    return lambda rows: np.concatenate(
        [np.asarray(session.run(None, {given.name: row[None]})[0]).reshape(1, -1) for row in rows]
    )


def measured(name: str, models: Path, datasets: Path) -> list[str] | None:
    """The row of a task; None if no file of its data is there."""
    task = TASKS[name]
    with (datasets / name / "y_labels.csv").open(newline="") as stream:
        listed = {row[0].strip(): int(row[2]) for row in csv.reader(stream)}
    files = [file for each in listed if (file := datasets / name / each).exists()]
    if not files:
        return None
    peer, grid = reference(models / task.peer)
    rows = [task.read(file, grid) for file in files]
    calibration = np.concatenate(rows[::TENTH])
    judging = [i for i in range(len(files)) if i % TENTH]
    labels = np.array([listed[files[i].name] for i in judging])

    def judged(run: Run) -> str:
        answers = [run(rows[i]) for i in judging]
        if task.judge is auc:
            answers = [np.square(mine - rows[i]) for i, mine in zip(judging, answers, strict=True)]
        return f"{task.judge(answers, labels):.3g}"

    with tempfile.TemporaryDirectory() as folder:
        module, session = amct_opt.load(models / task.model)
        amct_opt.run_pipeline(module, ["canonicalize", "fuse-all"], session)
        amct_opt.save(module, file := Path(folder, "float.onnx"), session, "onnx")
        results = [judged(in_onnxruntime(file))]
        for profile in PROFILES:
            amct_opt.quantize(models / task.model, data=calibration, profile=profile).save(Path(folder, profile))
            results.append(judged(in_onnxruntime(next(Path(folder, profile).glob("*_qdq.onnx")))))
    count = f"{len(labels)} of {len(listed)} files"
    return [name, f"{'AUC' if task.judge is auc else 'top-1'} {task.target}", count, *results, judged(peer)]


def main(models: str, datasets: str, *names: str) -> None:
    for name in names or TASKS:
        if (row := measured(name, Path(models), Path(datasets))) is None:
            print(f"{name} is left out: none of the files of its y_labels.csv is there", flush=True)
            continue
        print(" | ".join(row), flush=True)
        update(TABLE, [row], [(each,) for each in TASKS])


if __name__ == "__main__":
    main(*sys.argv[1:])
