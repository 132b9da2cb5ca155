"""Small modules around one operation, and running the files that are written from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator
from onnxruntime.capi.onnxruntime_pybind11_state import NotImplemented as NoKernel
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from compiler.diagnostics import verify
from compiler.dialects.nn.shapes import DYNAMIC
from compiler.dtypes import element_type
from compiler.functions import value_attributes
from compiler.session import Session
from compiler.targets.onnx import OnnxTarget
from compiler.text import parse_module
from compiler.universe import new_session

Array = np.ndarray[Any, np.dtype[Any]]
Build = Callable[..., Any]


def module_of(build: Build, arrays: Sequence[Array], dynamic: bool = False) -> ModuleOp:
    """`@main` with inputs x0, x1, ... like `arrays` (all sizes unknown if `dynamic`), its body and results from `build`.

    Operations that `build` makes on the way are found through operands, so it may nest calls.
    """
    shapes = [[DYNAMIC] * a.ndim if dynamic else a.shape for a in arrays]
    types = [TensorType(element_type(a.dtype), s) for a, s in zip(arrays, shapes, strict=True)]
    block = Block(arg_types=types)
    made = build(*block.args)
    results = [r for v in (made if isinstance(made, tuple) else (made,)) for r in _values(v)]
    for value in results:
        _place(value, block)
    block.add_op(ReturnOp(*results))
    names = [f"x{i}" for i in range(len(arrays))], [f"y{i}" for i in range(len(results))]
    attributes = [ArrayAttr([value_attributes(n) for n in group]) for group in names]
    function = FuncOp("main", (types, [r.type for r in results]), Region(block))
    function.arg_attrs, function.res_attrs = attributes
    module = ModuleOp([function])
    verify(module)
    return module


def _values(made: Operation | SSAValue) -> Sequence[SSAValue]:
    return made.results if isinstance(made, Operation) else (made,)


def _place(value: SSAValue, block: Block) -> None:
    """Put the operation behind a value into the block, after those it depends on."""
    op = value.owner
    if not isinstance(op, Operation) or op.parent is not None:
        return
    for operand in op.operands:
        _place(operand, block)
    block.add_op(op)


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
            return ReferenceEvaluator(onnx.load(path)).run(None, dict(feeds))  # type: ignore[return-value]
    return session.run(None, dict(feeds))


@pytest.fixture
def export(tmp_path: Path) -> Export:
    return Export(tmp_path)


@pytest.fixture(scope="session")
def build_module() -> Callable[..., ModuleOp]:
    return module_of
