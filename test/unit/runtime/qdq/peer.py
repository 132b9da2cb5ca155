"""A module in integers here, and its QDQ file in onnxruntime, graph optimizations on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from xdsl.dialects.builtin import ModuleOp

from amct_opt.runtime.executor import Executable
from amct_opt.runtime.integer_plan import in_integers
from amct_opt.runtime.program import Rewrite
from amct_opt.session.universe import new_session
from amct_opt.targets.onnx import OnnxTarget

from ...exact import exact_file

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Both:
    ours: list[Array]
    theirs: list[Array]
    kernels: Counter[str]
    """What onnxruntime's optimized graph consists of."""

    @property
    def differing(self) -> int:
        return sum(int((a != b).sum()) for a, b in zip(self.ours, self.theirs, strict=True))

    def steps(self, scale: float) -> float:
        """The largest difference, in steps of the results' scale."""
        return max(float(np.abs(a - b).max()) / scale for a, b in zip(self.ours, self.theirs, strict=True))


def both(
    module: ModuleOp,
    arrays: Sequence[Array],
    folder: Path,
    rewrite: Rewrite | None = in_integers,
    opset: int | None = None,
) -> Both:
    """Outputs of both, for inputs in order."""
    executable = Executable(module, rewrite=rewrite)
    ours = executable.run(dict(zip(executable.inputs, arrays, strict=True)))
    theirs, kernels = in_onnxruntime(written(module, folder, opset), arrays, folder)
    return Both(list(ours.values()), theirs, kernels)


def written(module: ModuleOp, folder: Path, opset: int | None = None) -> Path:
    """The file of profile qdq."""
    session = new_session()
    session.profile = "qdq"
    OnnxTarget(opset).write(module, folder / "qdq.onnx", session)
    return folder / "qdq.onnx"


def in_onnxruntime(path: Path, arrays: Sequence[Array], folder: Path) -> tuple[list[Array], Counter[str]]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # it says that an optimized file is for this machine
    options.optimized_model_filepath = str(folder / "optimized.onnx")
    session = onnxruntime.InferenceSession(str(exact_file(path)), options, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    results = [np.asarray(each) for each in session.run(None, dict(zip(names, arrays, strict=True)))]
    graph = onnx.load(folder / "optimized.onnx", load_external_data=False).graph
    return results, Counter(node.op_type for node in graph.node)
