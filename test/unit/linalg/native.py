"""Modules that IREE compiled, for tests that compare their numbers; such tests are skipped where it is not installed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from amct_linalg.iree import COMPILE_OPTIONS
from amct_linalg.target import LinalgTarget
from xdsl.dialects.builtin import ModuleOp

from amct_opt.session import Session

Array = np.ndarray[Any, np.dtype[Any]]


def compiled(module: ModuleOp, session: Session, folder: Path) -> Any:
    """The functions of a module, as attributes."""
    pytest.importorskip("iree.runtime")
    LinalgTarget().write(module, folder / "m.mlir", session)
    return compiled_text(folder / "m.mlir")


def compiled_text(text: Path) -> Any:
    """The functions of a module in text, whose parameters are next to it."""
    runtime: Any = pytest.importorskip("iree.runtime")
    compiler: Any = pytest.importorskip("iree.compiler")
    weights, code = text.with_suffix(".safetensors"), text.with_suffix(".vmfb")
    compiler.compile_file(str(text), extra_args=COMPILE_OPTIONS, output_file=str(code))
    config = runtime.Config("local-task")
    parameters = runtime.ParameterIndex()
    if weights.exists():
        parameters.load(str(weights))
    archive = runtime.create_io_parameters_module(config.vm_instance, parameters.create_provider(scope="model"))
    program = runtime.VmModule.mmap(config.vm_instance, str(code))
    return runtime.load_vm_modules(archive, program, config=config)[-1]


def called(function: Any, inputs: Sequence[Array]) -> list[Array]:
    """The results of a function. linalg has signless integers: unsigned ones are passed, and come back, as signed ones."""
    given = [a.view(f"i{a.itemsize}") if a.dtype.kind == "u" else a for a in inputs]
    results = function(*given)
    return [np.asarray(each) for each in (results if isinstance(results, list | tuple) else [results])]
