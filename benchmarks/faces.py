"""Face detectors with weights of 8 and 4 bits: how many of the float network's boxes are found.

    python benchmarks/faces.py FOLDER [NETWORK ...]

FOLDER is a clone of github.com/Linzaer/Ultra-Light-Fast-Generic-Face-Detector-1MB (MIT), with its networks and photographs. Crops
of half of the photographs calibrate, crops of the others are measured, in onnxruntime. A box of the float network (score above
0.7, of those that overlap by 0.3 the best) is found if one of the quantized network overlaps it by at least 0.5. Boxes
that only the quantized network has are `more`. The file for Caffe is run in float as `amct-opt -t onnx` writes it.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from math import ceil
from pathlib import Path
from typing import Any

import detection
import numpy as np
import onnxruntime
import process
import zoo
import zoo_scores
from PIL import Image
from tables import Table, update

Array = np.ndarray[Any, np.dtype[Any]]

NETWORKS = {
    "slim-320": "models/onnx/version-slim-320.onnx",
    "RFB-320": "models/onnx/version-RFB-320.onnx",
    "slim-320, Caffe": "caffe/model/Slim-320/slim-320.prototxt",
    "RFB-320, Caffe": "caffe/model/RFB-320/RFB-320.prototxt",
}
CALIBRATION, CHOOSING, MEASURED = 64, 40, 200
WIDTH, HEIGHT = 320, 240
_NARROW = ("--weight-bits=4", "--round-weights=mismatch")
COMMANDS: Sequence[Sequence[str]] = (
    ("quantize",),
    ("quantize", "--weight-bits=4"),
    ("quantize", *_NARROW),
    ("tune", *_NARROW, "--drop=1.5"),
)
"""What the tool `amct` is asked for; `tune` is judged by the boxes that are found on further crops of the calibrating half."""
TABLE = Table(
    zoo.HERE.parent / "docs" / "measured" / "recovery.md",
    "face detectors",
    "faces",
    ("network", "profile", "command", "found", "more", "SQNR dB", "weights, kB"),
    keys=3,
)


def crops(photographs: Sequence[Path], seed: int, count: int) -> Array:
    """Parts of photographs in turn, some mirrored, float32 [count, 3, HEIGHT, WIDTH] from -1 to 1."""
    rng, found = np.random.default_rng(seed), list[Array]()
    opened = [Image.open(each).convert("RGB") for each in photographs]
    for i in range(count):
        photograph, share = opened[i % len(opened)], 1.0 if i < len(opened) else rng.uniform(0.4, 1)
        width, height = (int(share * length) for length in photograph.size)
        left, top = (int(rng.integers(a - b + 1)) for a, b in zip(photograph.size, (width, height), strict=True))
        crop = photograph.crop((left, top, left + width, top + height)).resize((WIDTH, HEIGHT))
        array = np.asarray(crop, np.float32)[:, :: -1 if rng.random() < 0.5 else 1]
        found.append((array - 127) / 128)
    return np.stack(found).transpose(0, 3, 1, 2)


def boxes_of(scores: Array, boxes: Array) -> Array:
    """The boxes [n, 4] of faces in one image, the best first."""
    sure = scores[:, 1] > 0.7
    ranked = boxes[sure][np.argsort(-scores[sure, 1], kind="stable")]
    kept: list[int] = []
    rival = detection.overlaps(ranked, ranked) > 0.3
    for i in range(len(ranked)):
        if not rival[i, kept].any():
            kept.append(i)
    return ranked[kept]


def decoded(offsets: Array) -> Array:
    """Boxes [anchors, 4] of offsets from anchors, which the files for Caffe give; the ONNX files decode themselves."""
    anchors = list[tuple[float, ...]]()
    for stride, sizes in zip((8, 16, 32, 64), ((10, 16, 24), (32, 48), (64, 96), (128, 192, 256)), strict=True):
        across, down = ceil(WIDTH / stride), ceil(HEIGHT / stride)
        for row, column, size in product(range(down), range(across), sizes):
            anchors.append(((column + 0.5) / across, (row + 0.5) / down, size / WIDTH, size / HEIGHT))
    at, sides = np.split(np.clip(anchors, 0, 1), 2, axis=1)
    middle, half = at + 0.1 * offsets[:, :2] * sides, np.exp(0.2 * offsets[:, 2:]) * sides / 2
    return np.concatenate([middle - half, middle + half], axis=1)


def run(file: Path, images: Array, decode: Callable[[Array], Array]) -> list[tuple[Array, Array]]:
    """Scores [anchors, 2] and boxes [anchors, 4] of each image."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # it would warn of each weight that is an input of the graph as well
    session = onnxruntime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    found = list[tuple[Array, Array]]()
    for image in images:
        outputs = [np.asarray(each)[0] for each in session.run(None, {session.get_inputs()[0].name: image[None]})]
        scores, boxes = sorted(outputs, key=lambda each: each.shape[-1])
        found.append((scores, decode(boxes)))
    return found


Outputs = Sequence[tuple[Array, Array]]
"""Scores and boxes of each image."""


def _counted(reference: Outputs, other: Outputs) -> tuple[int, int, int]:
    """The boxes of the reference that are found, all boxes of the reference, and the boxes that only the other has."""
    found = total = more = 0
    for ours, theirs in zip(reference, other, strict=True):
        a, b = boxes_of(*ours), boxes_of(*theirs)
        met = detection.overlaps(a, b) >= 0.5
        found, total, more = found + int(met.any(1).sum()), total + len(a), more + int((~met.any(0)).sum())
    return found, total, more


def found(reference: Outputs, other: Outputs) -> float:
    """The share of boxes that are found, in percent."""
    right, total, _ = _counted(reference, other)
    return 100 * right / total


def compared(reference: Outputs, other: Outputs) -> tuple[str, str, str]:
    """The percentage of boxes that are found, with its confidence interval, that of further boxes, and the smaller SQNR in dB."""
    right, total, more = _counted(reference, other)
    low, high = zoo_scores.wilson(right, total)
    pairs = [[np.stack([each[i] for each in side]) for side in (reference, other)] for i in (0, 1)]
    sqnr = min(10 * np.log10(np.square(a).sum() / np.square(a - b).sum()) for a, b in pairs)
    return f"{100 * right / total:.1f} ({low:.1f}-{high:.1f})", f"{100 * more / total:.1f}", f"{sqnr:.1f}"


_FOUND = """import sys

import numpy as np

sys.path.insert(0, {scripts!r})
import faces


def found(model):
    known = np.load({reference!r})
    reference = list(zip(known["scores"], known["boxes"]))
    outputs = [model.run(batch) for batch in model.batches()]
    return faces.found(reference, [(each["scores"][0], faces.{decode}(each["boxes"][0])) for each in outputs])
"""


def as_they_are(boxes: Array) -> Array:
    return boxes


def rows(name: str, source: Path, folder: Path, profiles: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """The network's rows, one for each of `COMMANDS` in each profile. Raises process.FailedError."""
    photographs = sorted(source.joinpath("imgs").glob("*.jpg"))
    images = crops(photographs[1::2], 2, MEASURED)
    model, data = source / NETWORKS[name], folder / "calibration.npz"
    np.savez(data, allow_pickle=False, input=crops(photographs[::2], 1, CALIBRATION))
    before, decode, weights = model, as_they_are, ()
    if model.suffix != ".onnx":
        before, decode = folder / "float.onnx", decoded
        weights = (f"--weights={model.with_suffix('.caffemodel')}",)
        _run("amct_opt", str(model), *weights, "-t", "onnx", "-o", str(before))
    reference = run(before, images, decode)
    choosing = crops(photographs[::2], 3, CHOOSING)
    np.savez(folder / "choosing.npz", allow_pickle=False, input=choosing)
    scores, boxes = map(np.stack, zip(*run(before, choosing, decode), strict=True))
    np.savez(folder / "reference.npz", allow_pickle=False, scores=scores, boxes=boxes)
    facts = {"scripts": str(zoo.HERE), "reference": str(folder / "reference.npz"), "decode": decode.__name__}
    (folder / "found.py").write_text(_FOUND.format(**facts))
    goal = f"--evaluator={folder / 'found.py'}:found", f"--test={folder / 'choosing.npz'}"
    for number, (profile, (command, *options)) in enumerate(product(profiles, COMMANDS)):
        out = folder / str(number)
        given = str(model), *weights, f"--profile={profile}", *options, "--data", str(data), "-o", str(out)
        _run("amct", command, *given, *(goal if command == "tune" else ()))
        stored = json.loads((out / "summary.json").read_text())["bytes"]["integer_weights"]
        cells = compared(reference, run(next(out.glob("*_qdq.onnx")), images, decode))
        yield name, profile, f"`amct {' '.join((command, *options))}`", *cells, f"{stored / 1000:.0f}"


def _run(tool: str, *arguments: str) -> None:
    process.run([sys.executable, "-m", f"amct_opt.tools.{tool}", *arguments])


def main(folder: str, *names: str) -> None:
    order = [
        (name, profile, f"`amct {' '.join(each)}`")
        for name in NETWORKS
        for profile in zoo.PROFILES
        for each in COMMANDS
    ]
    for name in names or NETWORKS:
        with tempfile.TemporaryDirectory() as made:
            for row in rows(name, Path(folder), Path(made), zoo.PROFILES):
                print(" | ".join(row), flush=True)
                update(TABLE, [row], order)


if __name__ == "__main__":
    main(*sys.argv[1:])
