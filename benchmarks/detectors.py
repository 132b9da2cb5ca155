"""Detectors as ultralytics exports them, quantized by ours and by peers: what onnxruntime and OpenVINO take, and how fast.

    python benchmarks/detectors.py [NETWORK ...]

The weights are those that ultralytics starts from, because trained ones need a download. Such networks show what computes in
integers and how long it takes; what a detector loses in mAP, `detection.py` measures on a trained one. 32 patches of two
photographs calibrate. The exporter and each peer have environments of their own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import detection
import environments
import onnx
import process
import zoo
from tables import Table, update

NETWORKS = ("yolov8n", "yolo11n", "yolo26n", "rtdetr-resnet50")
SIDE, CALIBRATION = 320, 32
ENGINES = ("onnxruntime", "openvino")
OURS = {
    "ours, qdq": ("--profile=qdq",),
    "ours, openvino": ("--profile=openvino",),
    "ours, openvino, symmetric": ("--profile=openvino", "--no-activation-offset"),
}
"""Options of `amct quantize`."""
PEERS = {"quantize_static": "quantize_static", "NNCF": "nncf"}
ULTRALYTICS = (("--no-deps", "torchvision"), ("torch", "ultralytics", "onnx", "scikit-learn"))
FOLDER = environments.CACHE / "detectors"
TABLE = Table(
    zoo.PAGE,
    "exported detectors",
    "detectors",
    (
        *("network", "file", "convolutions in integers, onnxruntime"),
        *(f"time in {engine}, of float" for engine in ENGINES),
        *("kB", "cpu s"),
    ),
)
EXPORT = """
import shutil, sys
import numpy as np, torch
from sklearn.datasets import load_sample_images
from ultralytics import RTDETR, YOLO

name, side, count, out = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
torch.manual_seed(0)
rng, photographs = np.random.default_rng(0), load_sample_images().images
ends = [rng.integers(0, np.array(photographs[i % 2].shape[:2]) - side) for i in range(count)]
patches = [photographs[i % 2][y : y + side, x : x + side] for i, (y, x) in enumerate(ends)]
np.savez(f"{out}/calibration.npz", images=np.stack(patches).transpose(0, 3, 1, 2).astype(np.float32) / 255)
model = (RTDETR if name.startswith("rtdetr") else YOLO)(f"{name}.yaml")
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
        process.run([str(python), "-c", EXPORT, name, str(SIDE), str(CALIBRATION), str(folder)], settings)
    return model


def ours(model: Path, called: str) -> zoo.Variant:
    """One of our files."""
    out, data = model.with_name(called), model.with_name("calibration.npz")
    command = [sys.executable, "-m", "amct_opt.tools.amct", "quantize", str(model), *OURS[called]]
    try:
        cost = process.run([*command, "--data", str(data), "-o", str(out)])
    except process.FailedError as e:
        return zoo.Variant(error=zoo.last_line(e))
    return zoo.Variant(out / "model_qdq.onnx", cpu=cost.cpu)


def times(model: Path, files: Mapping[str, Path], engine: str) -> dict[str, str]:
    """The median time of each file over that of the float model; all of them run in turns."""
    command = [sys.executable, "-m", "amct_opt.tools.amct", "benchmark", str(model), *map(str, files.values())]
    data = str(model.with_name("calibration.npz"))
    try:
        found = process.run([*command, "--engine", engine, "--data", data, "--json"]).output
    except process.FailedError as e:
        return dict.fromkeys(files, zoo.last_line(e))
    first, *others = (each["median_ms"] for each in json.loads(found)["models"])
    return {name: f"{each / first:.2f}" for name, each in zip(files, others, strict=True)}


def rows(name: str) -> list[tuple[str, ...]]:
    """A line for each file of a network."""
    model = exported(name)
    data = model.with_name("calibration.npz")
    makes = {called: partial(ours, model, called) for called in OURS}
    for called, peer in PEERS.items():
        makes[called] = partial(zoo.by_script, peer, model, data, model.with_name(f"{peer}.onnx"))
    made = {called: make() for called, make in makes.items()}
    total = sum(node.op_type == "Conv" for node in onnx.load(model).graph.node)
    files = {called: each.file for called, each in made.items() if each.file is not None}
    ratios = [times(model, files, engine) for engine in ENGINES]
    found: list[tuple[str, ...]] = []
    for called, each in made.items():
        if each.file is None:
            print(f"{name}, {called}: {each.error}\n", flush=True)
            found.append((name, called, *"-" * (len(TABLE.headers) - 2)))
            continue
        size = f"{each.file.stat().st_size / 1000:.0f}"
        convolutions = f"{detection.integers(each.file)} of {total}"
        found.append((name, called, convolutions, *(ratio[called] for ratio in ratios), size, f"{each.cpu:.0f}"))
    return found


def main(*names: str) -> None:
    for name in names or NETWORKS:
        lines = rows(name)
        print(*(" | ".join(line) for line in lines), sep="\n", flush=True)
        update(TABLE, lines, [(each,) for each in NETWORKS])


if __name__ == "__main__":
    main(*sys.argv[1:])
