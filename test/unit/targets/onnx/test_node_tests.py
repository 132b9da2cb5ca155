"""The node tests of the onnx package through import and export: the written file gives the published results.

Whatever the importer takes is written to the default and the newest opset. Refusals are located errors (tested one by one
elsewhere); a file that is written must be right. Tolerance: that of ONNX's own backend tests, rtol 1e-3 (their expected values
are float32 from numpy, in other orders and formulas).
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from amct_opt import frontends
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.targets.onnx import OnnxTarget

from ...frameworks import ReferenceEvaluator

Array = np.ndarray[Any, np.dtype[Any]]

FOLDER = Path(onnx.__file__).parent / "backend/test/data" / "node"

WITHOUT_ORACLE = (
    "test_adam_multiple",  # onnxruntime lacks the training domain, onnx.reference gets it wrong
    "test_bernoulli",  # random numbers
    "test_image_decoder",  # needs Pillow
)


def cases() -> Iterator[Path]:
    for folder in sorted(FOLDER.glob("*/")):
        if not folder.name.startswith(WITHOUT_ORACLE) and (folder / "test_data_set_0").exists():
            yield folder


def arrays(folder: Path, kind: str, names: list[str]) -> dict[str, Array] | None:
    """The published tensors of a case; None where one is not a tensor."""
    try:
        files = [onnx.load_tensor(folder / "test_data_set_0" / f"{kind}_{i}.pb") for i in range(len(names))]
        return {name: numpy_helper.to_array(t) for name, t in zip(names, files, strict=True)}
    except (OSError, TypeError, ValueError):
        return None


@pytest.mark.slow
@pytest.mark.parametrize("opset", [17, 21])
@pytest.mark.filterwarnings("ignore")  # of onnx.reference, on numbers that overflow
def test_node_tests(opset: int, export: Any) -> None:
    written, wrong = 0, list[str]()
    for folder in cases():
        try:
            session = new_session()
            module = frontends.read(folder / "model.onnx", session)
            OnnxTarget(opset=opset).write(module, export.path, session)
        except CompileError:
            continue
        graph = onnx.load(folder / "model.onnx").graph
        inputs = arrays(folder, "input", [i.name for i in graph.input])
        expected = arrays(folder, "output", [o.name for o in graph.output])
        if inputs is None or expected is None:
            continue
        written += 1
        if not (runs_right(export, inputs, expected) or in_reference(export.path, folder, inputs, expected)):
            wrong.append(folder.name)
    assert wrong == []
    assert written > 1000


def runs_right(export: Any, inputs: dict[str, Array], expected: dict[str, Array]) -> bool:
    try:
        return equal(export.run(inputs), expected)
    except Exception:  # onnxruntime lacks many kernels for rare types
        return False


def in_reference(path: Path, folder: Path, inputs: dict[str, Array], expected: dict[str, Array]) -> bool:
    """Whether the reference gets the case's numbers from a file, or those that it gets from the case's own model: its casts of
    numbers beyond the range of 4 bits depend on the processor.
    """
    found, own = (ReferenceEvaluator(str(each)) for each in (path, folder / "model.onnx"))
    results: Any = found.run(None, inputs)
    return equal(results, expected) or equal(results, dict(zip(expected, own.run(None, inputs), strict=True)))  # type: ignore[arg-type]


def equal(results: list[Array], expected: dict[str, Array]) -> bool:
    return all(
        a.shape == b.shape
        and a.dtype == b.dtype
        and np.allclose(a.astype(np.float64), b.astype(np.float64), rtol=1e-3, atol=1e-5, equal_nan=True)
        for a, b in zip(results, expected.values(), strict=True)
    )
