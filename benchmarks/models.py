"""The models and images of the benchmarks, made from seeds and kept under `.bench/`."""

from __future__ import annotations

import sys
from importlib.util import module_from_spec, spec_from_file_location
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from environments import CACHE

EXAMPLES = Path(__file__).resolve().parents[1] / "examples" / "models"
CALIBRATION, SAMPLES = 100, 110
"""The first hundred calibrate, ten are held out."""
CHUNK = 10
OPSET = 13
"""The oldest that every peer takes, and that has scales per channel."""


def example(name: str) -> Any:
    """A module of examples/models."""
    sys.path.insert(0, str(EXAMPLES))
    spec = spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def network(name: str) -> Path:
    """`resnet50`, `mobilenet`: an image of 3x224x224 to logits, batch norms as they are; `transformer`: an encoder of two layers.

    The input is called `data`.
    """
    path = CACHE / "models" / f"{name}.onnx"
    if not path.exists():
        _in_a_process(_write_network, name, path)
    return path


def samples(name: str) -> Path:
    """What a network is shown, float32: `[110, 3, 224, 224]` images, or `[110, 16, 64]` for the transformer."""
    write = _write_tokens if name == "transformer" else _write_images
    path = CACHE / "models" / f"{write.__name__.removeprefix('_write_')}.npy"
    if not path.exists():
        _in_a_process(write, path)
    return path


def _in_a_process(action: Any, *arguments: object) -> None:
    """So that the one that measures stays small."""
    CACHE.joinpath("models").mkdir(parents=True, exist_ok=True)
    process = get_context("spawn").Process(target=action, args=arguments)
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"{action.__name__} failed")


def _write_network(name: str, path: Path) -> None:
    import onnx
    from onnx import version_converter

    light = example("light")
    model = light.build(name) if name in light.NAMES else example(name).build()
    if name != "transformer":
        model = light.without_softmax(model)
    (given,) = [i for i in model.graph.input if i.name not in {t.name for t in model.graph.initializer}]
    for node in model.graph.node:
        node.input[:] = ["data" if n == given.name else n for n in node.input]
    given.name = "data"
    older = model.opset_import[0].version < OPSET
    onnx.save(version_converter.convert_version(model, OPSET) if older else model, path)


def _write_images(path: Path) -> None:
    unfinished = path.with_suffix(".tmp.npy")
    rows = np.lib.format.open_memmap(unfinished, "w+", np.float32, (SAMPLES, 3, 224, 224))
    for start in range(0, SAMPLES, CHUNK):
        rows[start : start + CHUNK] = example("light").images(CHUNK, start)
    unfinished.replace(path)


def _write_tokens(path: Path) -> None:
    np.save(path, np.random.default_rng(0).standard_normal((SAMPLES, 16, 64), np.float32))
