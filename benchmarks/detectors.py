"""Detectors as ultralytics exports them, quantized by ours and by peers: what onnxruntime and OpenVINO take, and how fast.

    python benchmarks/detectors.py [NETWORK ...]

The weights are seeded, because trained ones need a download; batch norms have the statistics of the patches, so that values
reach all layers. 32 patches of two photographs calibrate, 8 others are measured. Such networks show what computes in integers
and how long it takes. What a detector loses in mAP, `detection.py` measures on a trained one. The exporter and each peer have
environments of their own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import detection
import environments
import numpy as np
import onnx
import process
import zoo
from tables import Table, update

NETWORKS = ("yolov8n", "yolo11n", "yolo26n", "rtdetr-resnet50")
SIDE, CLASSES, CALIBRATION, MEASURED = 320, 80, 32, 8
ENGINES = ("onnxruntime", "openvino")
PEERS = {"quantize_static": "quantize_static", "NNCF": "nncf"}
ULTRALYTICS = (("--no-deps", "torchvision"), ("torch", "ultralytics", "onnx", "scikit-learn"))
FOLDER = environments.CACHE / "detectors"
TABLE = Table(
    zoo.PAGE,
    "exported detectors",
    "detectors",
    (
        *("network", "file", "convolutions in integers", "SQNR dB"),
        *(f"time in {engine}, of float" for engine in ENGINES),
        *("kB", "cpu s"),
    ),
)
EXPORT = """
import shutil, sys
import numpy as np, torch
from sklearn.datasets import load_sample_images
from ultralytics import RTDETR, YOLO

name, side, counts, out = sys.argv[1], int(sys.argv[2]), [int(n) for n in sys.argv[3].split(",")], sys.argv[4]
torch.manual_seed(0)
rng, photographs = np.random.default_rng(0), load_sample_images().images
for part, count in zip(("calibration", "held_out"), counts):
    ends = [rng.integers(0, np.array(photographs[i % 2].shape[:2]) - side) for i in range(count)]
    patches = [photographs[i % 2][y : y + side, x : x + side] for i, (y, x) in enumerate(ends)]
    images = np.stack(patches).transpose(0, 3, 1, 2).astype(np.float32) / 255
    np.savez(f"{out}/{part}.npz", images=images)
    if part == "calibration":
        batch = torch.from_numpy(images[:8])
model = (RTDETR if name.startswith("rtdetr") else YOLO)(f"{name}.yaml")
norms = [m for m in model.model.modules() if isinstance(m, torch.nn.BatchNorm2d)]
model.model.eval()
model.model.model[-1].end2end = False  # the best 300 boxes in order compare with no others
for norm in norms:
    norm.train()
    norm.momentum = None
with torch.no_grad():
    model.model(batch)
model.model.eval()
shutil.move(model.export(format="onnx", imgsz=side, opset=17, simplify=False), f"{out}/model.onnx")
"""
"""Run by the interpreter of the exporter's environment."""


def exported(name: str) -> Path:
    """The network as an ONNX file, with its patches next to it. Raises process.FailedError."""
    folder = FOLDER / name
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / "model.onnx"
    if not model.exists():
        python = environments.environment("ultralytics", ULTRALYTICS)
        settings = {"YOLO_CONFIG_DIR": str(FOLDER), "YOLO_OFFLINE": "true"}
        counts = f"{CALIBRATION},{MEASURED}"
        process.run([str(python), "-c", EXPORT, name, str(SIDE), counts, str(folder)], settings)
    return model


def ours(model: Path) -> zoo.Variant:
    """The file of `amct quantize --profile qdq`."""
    out, data = model.with_name("ours"), model.with_name("calibration.npz")
    command = [sys.executable, "-m", "amct_opt.tools.amct", "quantize", str(model), "--profile=qdq"]
    try:
        cost = process.run([*command, "--data", str(data), "-o", str(out)])
    except process.FailedError as e:
        return zoo.Variant(error=zoo.last_line(e))
    return zoo.Variant(out / "model_qdq.onnx", cpu=cost.cpu)


def times(model: Path, files: Sequence[Path], engine: str) -> list[str]:
    """The median time of each file over that of the float model; all of them run in turns."""
    command = [sys.executable, "-m", "amct_opt.tools.amct", "benchmark", str(model), *map(str, files)]
    data = str(model.with_name("held_out.npz"))
    try:
        found = process.run([*command, "--engine", engine, "--data", data, "--json"]).output
    except process.FailedError as e:
        return [zoo.last_line(e)] * len(files)
    first, *others = (each["median_ms"] for each in json.loads(found)["models"])
    return [f"{each / first:.2f}" for each in others]


def outputs(file: Path, images: detection.Array) -> detection.Array:
    """The first output in onnxruntime: `[MEASURED, 4 + 80, boxes]`, boxes before scores."""
    found = detection.run(file, images, at_a_time=1)
    return np.moveaxis(found, found.shape.index(4 + CLASSES), 1)


def rows(name: str) -> list[tuple[str, ...]]:
    """A line for each file of a network."""
    model = exported(name)
    data = model.with_name("calibration.npz")
    makes = {"ours": partial(ours, model)}
    for called, peer in PEERS.items():
        makes[called] = partial(zoo.by_script, peer, model, data, model.with_name(f"{peer}.onnx"))
    made = {called: make() for called, make in makes.items()}
    images = np.load(model.with_name("held_out.npz"))["images"]
    reference = outputs(model, images)
    total = sum(node.op_type == "Conv" for node in onnx.load(model).graph.node)
    files = {called: each.file for called, each in made.items() if each.file is not None}
    ratios = [times(model, [*files.values()], engine) for engine in ENGINES]
    measured = dict(zip(files, zip(*ratios, strict=True), strict=True))
    found: list[tuple[str, ...]] = []
    for called, each in made.items():
        if each.file is None:
            print(f"{name}, {called}: {each.error}\n", flush=True)
            found.append((name, called, *"-" * (len(TABLE.headers) - 2)))
            continue
        noise = f"{detection.sqnr(reference, outputs(each.file, images)):.1f}"
        size = f"{each.file.stat().st_size / 1000:.0f}"
        convolutions = f"{detection.integers(each.file)} of {total}"
        found.append((name, called, convolutions, noise, *measured[called], size, f"{each.cpu:.0f}"))
    return found


def main(*names: str) -> None:
    for name in names or NETWORKS:
        lines = rows(name)
        print(*(" | ".join(line) for line in lines), sep="\n", flush=True)
        update(TABLE, lines, [(each,) for each in NETWORKS])


if __name__ == "__main__":
    main(*sys.argv[1:])
