"""ONNX's own node tests, through the importer and the interpreter; what they show goes to docs/conformance.md.

    AMCT_UPDATE=1 python -m pytest test/unit/frontends/onnx/test_conformance.py

writes that file; without the variable, a test fails when the committed file is stale. The cases come with the onnx package:
as files up to 1.22, generated since.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import onnx
import onnx.backend.test
import pytest
from onnx import ModelProto, numpy_helper

from compiler.diagnostics import CompileError
from compiler.dialects import nn
from compiler.frontends.onnx import read
from compiler.runtime.executor import run
from compiler.universe import new_session

DOCUMENT = Path(__file__).parents[4] / "docs" / "conformance.md"
Arrays = list[np.ndarray]


@dataclass(frozen=True)
class Case:
    """One node, with the inputs it is given and the outputs it must produce; no data where these are no tensors."""

    name: str
    model: ModelProto
    data: tuple[tuple[Arrays, Arrays], ...]

    @property
    def op_type(self) -> str:
        return self.model.graph.node[0].op_type


def _on_disk() -> Iterator[Case]:
    root = Path(onnx.backend.test.__file__).parent / "data" / "node"
    for folder in sorted(root.iterdir()):
        model = onnx.load(folder / "model.onnx")
        if len(model.graph.node) == 1:
            yield Case(folder.name, model, tuple(_data_set(s, model) for s in sorted(folder.glob("test_data_set_*"))))


def _data_set(folder: Path, model: ModelProto) -> tuple[Arrays, Arrays]:
    inputs = [_tensor(folder / f"input_{i}.pb", v) for i, v in enumerate(model.graph.input)]
    outputs = [_tensor(folder / f"output_{i}.pb", v) for i, v in enumerate(model.graph.output)]
    return inputs, outputs


def _tensor(path: Path, value: onnx.ValueInfoProto) -> np.ndarray:
    if not value.type.HasField("tensor_type"):
        return np.zeros(0, object)
    return numpy_helper.to_array(onnx.load_tensor(path))


def _generated() -> Iterator[Case]:
    from onnx.backend.test.loader import load_node_model_tests  # onnx 1.23 and later

    for case in load_node_model_tests():
        if len(case.model.graph.node) == 1:
            data = tuple(([*map(np.asarray, i)], [*map(np.asarray, o)]) for i, o in case.data_sets)
            yield Case(case.name, case.model, data)


@cache
def cases() -> dict[str, list[Case]]:
    """The single-node cases by operator."""
    stored = (Path(onnx.backend.test.__file__).parent / "data" / "node").is_dir()
    found: dict[str, list[Case]] = {}
    for case in _on_disk() if stored else _generated():
        found.setdefault(case.op_type, []).append(case)
    return dict(sorted(found.items()))


@dataclass
class Tally:
    """How the cases of one operator went."""

    cases: int = 0
    native: int = 0
    opaque: int = 0
    failed: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)


RANDOM = frozenset({"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"})

NOT_COMPARED = {
    "training_dropout": "draws random numbers",
}


@cache
def tally(op_type: str, folder: Path) -> Tally:
    result = Tally()
    for case in cases()[op_type]:
        result.cases += 1
        outcomes = [_outcome(case, variant, folder) for variant in (case.model, with_parameters(case))]
        if any(o.startswith("failed") for o in outcomes):
            result.failed.append(f"{case.name}: {', '.join(outcomes)}")
        elif "native" in outcomes:
            result.native += 1
        elif "opaque" in outcomes:
            result.opaque += 1
        else:
            result.refused[outcomes[-1]] += 1
    return result


def with_parameters(case: Case) -> ModelProto:
    """The model with every input but the first one given as an initializer, as exporters write parameters."""
    model = ModelProto()
    model.CopyFrom(case.model)
    inputs, _ = case.data[0]
    for value, array in list(zip(model.graph.input, inputs, strict=True))[1:]:
        if array.dtype != object:
            model.graph.initializer.append(numpy_helper.from_array(array, value.name))
    return model


def _outcome(case: Case, model: ModelProto, folder: Path) -> str:
    """`native`, `opaque`, `failed: ...`, or why the case is refused."""
    path = folder / f"{case.name}.onnx"
    path.write_bytes(model.SerializeToString())
    try:
        module = read(path, new_session())
    except CompileError as e:
        return e.message
    given = {i.name for i in model.graph.initializer}
    for inputs, outputs in case.data:
        feeds = {v.name: a for v, a in zip(case.model.graph.input, inputs, strict=True) if v.name not in given}
        try:
            results = run(module, feeds)
        except CompileError as e:
            return f"failed: {e}"
        for value, wanted in zip(case.model.graph.output, outputs, strict=True):
            if (difference := differs(wanted, results[value.name])) is not None:
                return f"failed: {value.name} {difference}"
    return "opaque" if any(isinstance(op, nn.OpaqueOp) for op in module.walk()) else "native"


def differs(wanted: np.ndarray, found: np.ndarray) -> str | None:
    """Held against the tolerances that ONNX's own runner has (rtol 1e-3, atol 1e-7); integers must be equal."""
    if wanted.shape != found.shape or wanted.dtype != found.dtype:
        return f"is {found.dtype}{list(found.shape)}, wanted {wanted.dtype}{list(wanted.shape)}"
    if wanted.dtype.kind in "iub":
        return None if np.array_equal(wanted, found) else "differs"
    a, b = wanted.astype(np.float64), found.astype(np.float64)
    return None if np.allclose(a, b, rtol=1e-3, atol=1e-7, equal_nan=True) else f"differs by {np.abs(a - b).max()}"


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cases")


@pytest.mark.parametrize("op_type", list(cases()))
def test_node_cases(op_type: str, folder: Path) -> None:
    assert tally(op_type, folder).failed == []
