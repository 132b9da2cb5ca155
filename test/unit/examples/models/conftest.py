"""The example models, built once per test module, and what runs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

from ...scripts import script

Array = np.ndarray[Any, np.dtype[Any]]

EXAMPLES = Path(__file__).parents[4] / "examples" / "models"
FAST = ("shufflenet", "transformer")
SLOW = ("squeezenet", "mobilenet", "resnet50", "densenet121", "bvlc_alexnet")


light = script("examples/models/light")


@dataclass(frozen=True)
class Model:
    """A model file whose one output is the logits, and its data."""

    name: str
    path: Path
    input: str

    @property
    def is_small(self) -> bool:
        return self.name in FAST

    def data(self, count: int, seed: int) -> Array:
        if self.name == "transformer":
            return np.random.default_rng(seed).normal(size=(count, 16, 64)).astype(np.float32)
        return light.images(count, seed)

    def inputs(self, seed: int) -> dict[str, Array]:
        return {self.input: self.data(1, seed)}


def _built(name: str) -> onnx.ModelProto:
    match name:
        case "transformer":
            return onnx.load(EXAMPLES / "transformer.onnx")
        case "mobilenet":
            return script("examples/models/mobilenet").build()
        case _:
            return light.build(name)


@pytest.fixture(scope="module", params=[*FAST, *(pytest.param(n, marks=pytest.mark.slow) for n in SLOW)])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    name = request.param
    path = tmp_path_factory.mktemp(name) / f"{name}.onnx"
    full = _built(name)
    onnx.save(light.without_softmax(full), path)
    yield Model(name, path, full.graph.input[0].name)
    path.unlink()


def onnxruntime_run(path: Path, inputs: dict[str, Array], *, optimized: bool = True) -> list[Array]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    if not optimized:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return [np.asarray(each) for each in session.run(None, inputs)]


@pytest.fixture(scope="session", name="onnxruntime_run")
def onnxruntime_run_fixture() -> Callable[..., list[Array]]:
    return onnxruntime_run
