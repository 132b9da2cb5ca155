"""ONNX's own tests, through the importer and the interpreter; what they show goes to docs/conformance.md.

    AMCT_UPDATE=1 python -m pytest test/unit/frontends/onnx/test_conformance.py

writes sections of that page; without the variable, a test fails when a committed section is stale. The cases come with the
onnx package: those of single nodes as files up to 1.22, generated since.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, numpy_helper, version_converter

from amct_opt import quantize
from amct_opt.dialects import nn
from amct_opt.frontends.onnx import read
from amct_opt.pipelines.passes import make_pass, run_passes
from amct_opt.runtime.executor import run
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError

Arrays = list[np.ndarray]


@dataclass(frozen=True)
class Case:
    """A model, and what reads its inputs and expected outputs: without data if some of them are not tensors."""

    name: str
    model: ModelProto
    data: Callable[[], Sequence[tuple[Arrays, Arrays]]]

    @property
    def op_type(self) -> str:
        return self.model.graph.node[0].op_type


DATA = Path(onnx.__file__).parent / "backend/test/data"


def _on_disk(suite: str) -> Iterator[Case]:
    for folder in sorted((DATA / suite).iterdir()):
        model = onnx.load(folder / "model.onnx")
        yield Case(folder.name, model, partial(_data_sets, folder, model))


def fed(model: ModelProto) -> list[onnx.ValueInfoProto]:
    """The inputs that data is for: early versions list the initializers among them."""
    held = {t.name for t in model.graph.initializer}
    return [v for v in model.graph.input if v.name not in held]


def _data_sets(folder: Path, model: ModelProto) -> list[tuple[Arrays, Arrays]]:
    return [_data_set(each, model) for each in sorted(folder.glob("test_data_set_*"))]


def _data_set(folder: Path, model: ModelProto) -> tuple[Arrays, Arrays]:
    inputs = [_tensor(folder / f"input_{i}.pb", v) for i, v in enumerate(fed(model))]
    outputs = [_tensor(folder / f"output_{i}.pb", v) for i, v in enumerate(model.graph.output)]
    return inputs, outputs


def _tensor(path: Path, value: onnx.ValueInfoProto) -> np.ndarray:
    if not value.type.HasField("tensor_type"):
        return np.zeros(0, object)
    return numpy_helper.to_array(onnx.load_tensor(path))


def _generated() -> Iterator[Case]:
    from onnx.backend.test.loader import load_node_model_tests  # pyright: ignore[reportAttributeAccessIssue]  # onnx 1.23 and later

    for case in load_node_model_tests():
        data = [([*map(np.asarray, i)], [*map(np.asarray, o)]) for i, o in case.data_sets]
        yield Case(case.name, case.model, data.copy)


@cache
def cases() -> dict[str, list[Case]]:
    """The single-node cases by operator."""
    stored = (DATA / "node").is_dir()
    found: dict[str, list[Case]] = {}
    for case in _on_disk("node") if stored else _generated():
        if len(case.model.graph.node) == 1:
            found.setdefault(case.op_type, []).append(case)
    return dict(sorted(found.items()))


NOT_COMPARED = {
    "Adam": "onnx.reference, the only one to run it, gives other numbers",
    "Bernoulli": "draws random numbers",
    "ImageDecoder": "onnx.reference needs the package Pillow",
}
"""Operators that are carried, and whose cases cannot be run."""

_OTHERWISE = "onnxruntime, which runs what is carried, computes otherwise"
_COARSER = "onnxruntime, which runs what is carried, rounds its float32 sums more coarsely"
_SLOPES = "onnx.version_converter keeps slopes [C] of PRelu-6, which PRelu-7 aligns with the last axis"
DIFFERENT = {
    **{f"test_PReLU_{n}d_multiparam": _SLOPES for n in (1, 2, 3)},
    "test_training_dropout": "draws random numbers",
    "test_maxunpool_export_with_output_shape": _OTHERWISE,
    "test_qlinearmatmul_2D_int8": _OTHERWISE,
    "test_qlinearmatmul_3D_int8": _OTHERWISE,
    "test_resize_downsample_scales_cubic_align_corners": _OTHERWISE,
    "test_resize_downsample_scales_linear_align_corners": _OTHERWISE,
    "test_gradient_of_": "neither onnxruntime nor onnx.reference has the operator Gradient",
    "test_dft": _COARSER,
    "test_stft": _COARSER,
}
"""Cases, by how their names begin, whose published numbers are not those of the engine that runs them."""


@dataclass
class Tally:
    """How the cases of one operator went."""

    cases: int = 0
    native: int = 0
    first: int = 0
    opaque: int = 0
    failed: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)


def tally(op_type: str, folder: Path) -> Tally:
    result = Tally(len(cases()[op_type]))
    if op_type in NOT_COMPARED:
        result.refused[f"not compared: {NOT_COMPARED[op_type]}"] = result.cases
        return result
    for case in cases()[op_type]:
        _count(case, result, folder)
    return result


def _count(case: Case, result: Tally, folder: Path) -> None:
    if reason := next((r for prefix, r in DIFFERENT.items() if case.name.startswith(prefix)), None):
        result.refused[f"not compared: {reason}"] += 1
        return
    forms = [_outcome(case, model, folder) for model in forms_of(case)]
    if failed := [f for f in forms if f.startswith("failed")]:
        result.failed.append(f"{case.name} {failed[0]}")
    elif "native" in forms[:2]:
        result.native += 1
    elif "native" in forms:
        result.first += 1
    elif "opaque" in forms:
        result.opaque += 1
    else:
        result.refused[forms[-1]] += 1


def forms_of(case: Case) -> list[ModelProto]:
    """The forms that differ: one input leaves one form less, and so does one output."""
    forms = [case.model, with_parameters(case) if len(fed(case.model)) > 1 else case.model]
    if len(case.model.graph.output) > 1:
        return [*forms, with_first_output(forms[1])]
    return forms if forms[1] is not case.model else forms[:1]


def with_parameters(case: Case) -> ModelProto:
    """The model with every input but the first one given as an initializer, as exporters write parameters."""
    model = ModelProto()
    model.CopyFrom(case.model)
    inputs, _ = case.data()[0]
    for value, array in list(zip(fed(model), inputs, strict=True))[1:]:
        if array.dtype != object:
            model.graph.initializer.append(numpy_helper.from_array(array, value.name))
    return model


def with_first_output(model: ModelProto) -> ModelProto:
    """The model without its other outputs, which inference seldom asks for (indices, masks, statistics)."""
    first = ModelProto()
    first.CopyFrom(model)
    del first.graph.output[1:]
    return first


def _outcome(case: Case, model: ModelProto, folder: Path) -> str:
    """`native`, `opaque`, `failed: ...`, or why the case is refused."""
    path = folder / f"{case.name}.onnx"
    path.write_bytes(model.SerializeToString())
    try:
        module = read(path, new_session())
    except CompileError as e:
        return e.message
    given = {i.name for i in model.graph.initializer}
    for inputs, outputs in case.data():
        feeds = {v.name: a for v, a in zip(fed(case.model), inputs, strict=True) if v.name not in given}
        try:
            results = run(module, feeds)
        except CompileError as e:
            return f"failed: {e}"
        for value, wanted in zip(model.graph.output, outputs, strict=False):
            if (difference := differs(wanted, results[value.name])) is not None:
                return f"failed: {value.name} {difference}"
    return "opaque" if any(isinstance(op, nn.OpaqueOp) for op in module.walk()) else "native"


def with_constants(case: Case) -> ModelProto:
    """The model with every input as an initializer, next to an output that keeps it from being empty."""
    model = with_parameters(case)
    inputs, _ = case.data()[0]
    if model.graph.input and inputs[0].dtype != object:
        model.graph.initializer.append(numpy_helper.from_array(inputs[0], model.graph.input[0].name))
    return model


OTHERWISE_IN_ONNXRUNTIME = {f"test_resize_downsample_scales_{mode}_align_corners" for mode in ("cubic", "linear")}
"""Cases that are carried where they run on inputs: onnxruntime aligns corners by whole sizes, ONNX by sizes before rounding."""


@pytest.mark.parametrize("op_type", list(cases()))
def test_first_cases(op_type: str, folder: Path) -> None:
    """Two of each operator, next to the published results, and folded; the slow tests take all of them."""
    for case in cases()[op_type][:2]:
        if op_type not in NOT_COMPARED and not case.name.startswith(tuple(DIFFERENT)):
            assert not _outcome(case, case.model, folder).startswith("failed"), case.name
        assert_folds(case, folder)


@pytest.mark.slow
def test_constants_give_what_inputs_give(folder: Path) -> None:
    for of_operator in cases().values():
        for case in of_operator:
            assert_folds(case, folder)


def assert_folds(case: Case, folder: Path) -> None:
    """A node, once on inputs and once folded at import: equal types, shapes and integers, floats up to sums of them."""
    if case.name in OTHERWISE_IN_ONNXRUNTIME or not case.data():
        return
    if (at_run := _results(case.model, case, folder)) is None:
        return
    folded = _results(with_constants(case), case, folder)
    assert folded is not None, case.name
    for name, array in at_run.items():
        finite = array[np.isfinite(array)] if array.dtype.kind == "f" else np.zeros(0)
        atol = 1e-6 * float(np.abs(finite).max(initial=1))
        assert differs(array, folded[name], 1e-5, atol) is None, case.name


def _results(model: ModelProto, case: Case, folder: Path) -> dict[str, np.ndarray] | None:
    """What the model gives for the first data of a case; None where it is refused, or random."""
    path = folder / f"{case.name}.onnx"
    path.write_bytes(model.SerializeToString())
    given = {i.name for i in model.graph.initializer}
    feeds = {v.name: a for v, a in zip(fed(case.model), case.data()[0][0], strict=True) if v.name not in given}
    try:
        module = read(path, new_session())
        if any(isinstance(op, nn.OpaqueOp) and op.is_random for op in module.walk()):
            return None
        return run(module, feeds)
    except CompileError:
        return None


def differs(wanted: np.ndarray, found: np.ndarray, rtol: float = 1e-3, atol: float = 1e-7) -> str | None:
    """Held against tolerances, those of ONNX's own runner where none are given; integers must be equal."""
    if wanted.shape != found.shape or wanted.dtype != found.dtype:
        return f"is {found.dtype}{list(found.shape)}, wanted {wanted.dtype}{list(wanted.shape)}"
    if wanted.dtype.kind in "iub":
        return None if np.array_equal(wanted, found) else "differs"
    a, b = wanted.astype(np.float64), found.astype(np.float64)
    return None if np.allclose(a, b, rtol=rtol, atol=atol, equal_nan=True) else f"differs by {np.abs(a - b).max()}"


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cases")


@pytest.mark.slow
def test_node_cases_and_document(folder: Path, conformance: Any) -> None:
    tallies = {op_type: tally(op_type, folder) for op_type in cases()}
    assert {op_type: t.failed for op_type, t in tallies.items() if t.failed} == {}
    conformance.hold("ONNX", document(tallies), f"onnx {onnx.__version__},")


def document(tallies: dict[str, Tally]) -> list[str]:
    """The section on ONNX, below its heading."""
    cases, native, first, opaque = (
        sum(getattr(t, name) for t in tallies.values()) for name in ("cases", "native", "first", "opaque")
    )
    refused = sum(t.refused.total() for t in tallies.values())
    rows = [
        f"| {op_type} | {t.cases} | {t.native or ''} | {t.first or ''} | {t.opaque or ''} | {_reasons(t)} |"
        for op_type, t in tallies.items()
    ]
    return [
        f"The single-node cases that come with onnx {onnx.__version__}, through the importer and the interpreter. Written by",
        "",
        "    AMCT_UPDATE=1 python -m pytest test/unit/frontends/onnx/test_conformance.py",
        "",
        "and checked by the same test. Every case that is not in the last column passes: types and shapes equal, integers",
        "equal, floats within rtol 1e-3 and atol 1e-7, the tolerances of ONNX's own runner.",
        "",
        "Each case is imported in up to three forms: as written; with every input but the first as an initializer, as",
        "exporters write parameters; and the latter with only the first output. All forms that import must pass.",
        "",
        "* **nn**: runs on operations of `nn` in one of the first two forms.",
        "* **nn, first output**: does so when only the first output is asked for; otherwise carried.",
        "* **carried**: `nn.opaque`, run by onnxruntime, else by `onnx.reference`, exported unchanged, never quantized.",
        "* **not claimed**: refused with a located error that says why, or not comparable.",
        "",
        f"In all: {cases} cases of {len(tallies)} operators, {native} on nn, {first} more for their first output, "
        f"{opaque} carried, {refused} not claimed.",
        "",
        "| operator | cases | nn | nn, first output | carried | not claimed |",
        "|---|---|---|---|---|---|",
        *rows,
    ]


def _reasons(t: Tally) -> str:
    return "; ".join(f"{n}: {reason.replace('|', '/')}" for reason, n in sorted(t.refused.items()))


# Suites of models


SUITES = ("pytorch-converted", "pytorch-operator", "simple")
OLD = " is in the form of opset 6; 7 and later are read"
LEAST_SQNR = 25.0
"""In dB, of the outputs of a quantized model."""


def suite(name: str) -> list[Case]:
    """The models of a suite; none where the onnx package has no files of it."""
    return [*_on_disk(name)] if (DATA / name).is_dir() else []


def converted(case: Case) -> Case:
    """The case in opset 7, as the error of an older operator advises."""
    return replace(case, model=version_converter.convert_version(case.model, 7))


def suite_tally(case: Case, folder: Path) -> tuple[Tally, bool]:
    """How one model went, and whether that was after its conversion to opset 7."""
    result = Tally(1)
    _count(case, result, folder)
    if not any(reason.endswith(OLD) for reason in result.refused):
        return result, False
    result = Tally(1)
    _count(converted(case), result, folder)
    return result, True


def quantized_sqnr(case: Case, profile: str, folder: Path) -> float:
    """The least SQNR of the outputs in dB, calibrated on the case itself."""
    path, session = folder / f"{case.name}.onnx", new_session()
    path.write_bytes(case.model.SerializeToString())
    session.profile, session.warn = profile, lambda message: None  # type: ignore[method-assign]
    inputs, outputs = case.data()[0]
    feeds = {v.name: a for v, a in zip(fed(case.model), inputs, strict=True)}
    module = read(path, session)
    run_passes(module, [make_pass("canonicalize"), make_pass("fuse-all")], session)
    quantize(module, session, data=[feeds])
    found = run(module, feeds)
    return min(_sqnr(w, found[v.name]) for v, w in zip(case.model.graph.output, outputs, strict=True))


def _sqnr(wanted: np.ndarray, found: np.ndarray) -> float:
    if wanted.dtype.kind != "f":
        return np.inf if np.array_equal(wanted, found) else -np.inf
    a, b = wanted.astype(np.float64), found.astype(np.float64)
    if not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return -np.inf
    finite = np.isfinite(a)
    largest = np.abs(a[finite]).max(initial=0) or 1.0  # squares may overflow
    noise, signal = (float(np.square(x[finite] / largest).sum()) for x in (a - b, a))
    return 10 * np.log10(signal / noise) if noise else np.inf


@pytest.mark.slow
def test_suites_and_document(folder: Path, conformance: Any) -> None:
    """Every model gives the published results and survives quantization, or is listed."""
    rows, listed = list[str](), dict[str, list[str]]()
    for name in SUITES:
        counts: Counter[str] = Counter()
        for case in suite(name):
            result, is_converted = suite_tally(case, folder)
            assert result.failed == [], name
            counts["models"] += 1
            if result.refused:
                listed.setdefault(next(iter(result.refused)).replace("|", "/"), []).append(case.name)
                counts["not claimed"] += 1
                continue
            counts["converted"] += is_converted
            counts["carried" if result.opaque else "nn"] += 1
            for profile in ("ascend", "qdq"):
                ratio = quantized_sqnr(converted(case) if is_converted else case, profile, folder)
                assert ratio > LEAST_SQNR, (case.name, profile)
        cells = [str(counts[kind] or "") for kind in ("models", "nn", "carried", "converted", "not claimed")]
        rows.append(f"| {' | '.join([name, *cells])} |")
    conformance.hold("ONNX, suites of models", suites_document(rows, listed), f"onnx {onnx.__version__},")


def suites_document(rows: list[str], listed: dict[str, list[str]]) -> list[str]:
    """The section on suites, below its heading."""
    return [
        f"The other suites that come with onnx {onnx.__version__}, by the same test with the same tolerances. Every model",
        "that is not listed gives the published results. Quantized on its own inputs in profiles ascend and qdq, it keeps an",
        f"SQNR of {LEAST_SQNR:.0f} dB.",
        "",
        "* **converted**: of opset 6, and read after `onnx.version_converter` has converted it to 7, as the error advises.",
        "",
        "| suite | models | nn | carried | converted | not claimed |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
        "Not claimed:",
        "",
        *(f"* {reason}: {', '.join(names)}" for reason, names in sorted(listed.items())),
    ]
