"""Small models, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import ModelProto, NodeProto, ValueInfoProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp

from amct_opt.frontends.onnx import read
from amct_opt.session import Session
from amct_opt.session.universe import new_session

Declaration = tuple[str, Sequence[int | str | None]]
"""A name and a float32 shape."""


def _declared(value: Declaration | ValueInfoProto) -> ValueInfoProto:
    return value if isinstance(value, ValueInfoProto) else helper.make_tensor_value_info(value[0], 1, value[1])


def build_model(
    nodes: Sequence[NodeProto],
    inputs: Sequence[Declaration | ValueInfoProto],
    outputs: Sequence[str | Declaration],
    weights: Mapping[str, np.ndarray] | None = None,
    opset: int = 17,
    **fields: Any,
) -> ModelProto:
    """A model of opset `opset`; outputs given by name only have no declared type."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [_declared(i) for i in inputs],
        [ValueInfoProto(name=o) if isinstance(o, str) else _declared(o) for o in outputs],
        [numpy_helper.from_array(a, n) for n, a in (weights or {}).items()],
    )
    imports = fields.pop("opset_imports", None) or [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=imports, ir_version=fields.pop("ir_version", 8), **fields)


@pytest.fixture
def build() -> Callable[..., ModelProto]:
    return build_model


@pytest.fixture
def save(tmp_path: Path) -> Callable[[ModelProto], Path]:
    def write(model: ModelProto) -> Path:
        path = tmp_path / "model.onnx"
        path.write_bytes(model.SerializeToString())
        return path

    return write


@pytest.fixture
def session() -> Session:
    return new_session()


@pytest.fixture
def load(save: Callable[[ModelProto], Path], session: Session) -> Callable[[ModelProto], ModuleOp]:
    """Imports a model, through a file."""
    return lambda model: read(save(model), session)
