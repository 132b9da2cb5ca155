"""Small modules around one operation, and running the files that are written from them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel
from xdsl.dialects.builtin import ModuleOp

from amct_opt.ir.text import parse_module
from amct_opt.ir.verification import verify
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.targets.onnx import OnnxTarget

from ..frameworks import ReferenceEvaluator
from .deployments import deploy as deploy, deploy_tf as deploy_tf
from .operations import module_of

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass
class Export:
    """A module written to `folder/model.onnx`."""

    folder: Path
    session: Session = field(default_factory=new_session)

    @property
    def path(self) -> Path:
        return self.folder / "model.onnx"

    def write(self, module: ModuleOp | str, **options: Any) -> onnx.ModelProto:
        """The file of a module, or of module text, read back."""
        if isinstance(module, str):
            module = self.parse(module)
        OnnxTarget(**options).write(module, self.path, self.session)
        model = onnx.load(self.path)
        onnx.checker.check_model(model, full_check=True)
        names = [n.name for n in model.graph.node]
        assert len(set(names)) == len(names), "two nodes of one name"
        unused = {i.name for i in model.graph.initializer} - {v for n in model.graph.node for v in n.input}
        assert not unused, "initializers that nothing reads"
        return model

    def parse(self, text: str) -> ModuleOp:
        module = parse_module(self.session, text, "net.mlir")
        verify(module)
        return module

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        return run_file(self.path, feeds)


def run_file(path: Path, feeds: Mapping[str, Array]) -> list[Array]:
    """The outputs of a file in onnxruntime without optimizations; in onnx.reference for element types that it lacks."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    except NoKernel:
        with np.errstate(all="ignore"):
            return [np.asarray(each) for each in ReferenceEvaluator(onnx.load(path)).run(None, dict(feeds))]
    return [np.asarray(each) for each in session.run(None, dict(feeds))]


@pytest.fixture(scope="session")
def run_graph() -> Callable[[Path, Mapping[str, Array], Sequence[str]], list[Array]]:
    """`run_graph(path, inputs, outputs)`: what TensorFlow, with all of its optimizations, computes with a frozen graph."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    def run(path: Path, inputs: Mapping[str, Array], outputs: Sequence[str]) -> list[Array]:
        graph = tf.compat.v1.GraphDef.FromString(path.read_bytes())
        with tf.Graph().as_default() as imported, tf.compat.v1.Session(graph=imported) as session:
            tf.graph_util.import_graph_def(graph, name="")
            return session.run([f"{name}:0" for name in outputs], {f"{name}:0": x for name, x in inputs.items()})

    return run


@pytest.fixture
def export(tmp_path: Path) -> Export:
    return Export(tmp_path)


@pytest.fixture(scope="session")
def build_module() -> Callable[..., ModuleOp]:
    return module_of
