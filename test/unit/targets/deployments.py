"""Writing a module as a deployable file, and running what is read back next to the module that it was written from.

`deploy` does so for ONNX, `deploy_tf` for TensorFlow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt import frontends
from amct_opt.formats.tensorflow.schema import GraphDef
from amct_opt.ir.verification import verify
from amct_opt.lowering.ascend import LowerToAscendPass
from amct_opt.runtime.executor import Executable
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.targets.onnx_ascend import OnnxAscendTarget
from amct_opt.targets.tf_ascend import TfAscendTarget

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass
class Deployment:
    """A module written to `folder/deploy.onnx`."""

    folder: Path
    session: Session = field(default_factory=new_session)

    @property
    def path(self) -> Path:
        return self.folder / "deploy.onnx"

    def write(self, module: ModuleOp, **options: Any) -> Any:
        """The file, read back."""
        OnnxAscendTarget(**options).write(module, self.path, self.session)
        model = onnx.load(self.path)
        names = [n.name for n in model.graph.node]
        assert len(set(names)) == len(names), "two nodes of one name"
        unused = {i.name for i in model.graph.initializer} - {v for n in model.graph.node for v in n.input}
        assert not unused, "initializers that nothing reads"
        return model

    def read(self) -> ModuleOp:
        module = frontends.read(self.path, new_session())
        verify(module)
        return module

    def assert_equal(self, module: ModuleOp, inputs: Mapping[str, Array], **options: Any) -> Any:
        """0 bits of difference between the lowered module and the file that is written of it. Returns what `write` returns."""
        written = self.write(module, **options)
        assert_equal(module, self.read(), inputs)
        return written


class TfDeployment(Deployment):
    """A module written to `folder/deploy.pb`, whatever the names."""

    @property
    def path(self) -> Path:
        return self.folder / "deploy.pb"

    def write(self, module: ModuleOp, **options: Any) -> Any:
        """The nodes of the file, in their order, by name."""
        TfAscendTarget(**options).write(module, self.path, self.session)
        nodes = GraphDef.FromString(self.path.read_bytes()).node
        named = {n.name: n for n in nodes}
        assert len(named) == len(nodes), "two nodes of one name"
        read = {i.partition(":")[0] for n in nodes for i in n.input}
        assert not {n.name for n in nodes if n.op == "Const"} - read, "constants that nothing reads"
        return named


def assert_equal(module: ModuleOp, read: ModuleOp, inputs: Mapping[str, Array]) -> None:
    lowered = module.clone()
    LowerToAscendPass().apply(new_session(), lowered)
    expected, actual = Executable(lowered).run(inputs), Executable(read).run(inputs)
    assert list(expected) == list(actual)
    for name, array in expected.items():
        assert array.dtype == actual[name].dtype
        assert array.tobytes() == actual[name].tobytes(), name


@pytest.fixture
def deploy(tmp_path: Path) -> Deployment:
    return Deployment(tmp_path)


@pytest.fixture
def deploy_tf(tmp_path: Path) -> TfDeployment:
    return TfDeployment(tmp_path)
