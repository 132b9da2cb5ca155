"""Chains fused by name: both examples of Horizon's page on fusion, and what the function refuses."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from xdsl.dialects.builtin import ModuleOp

from amct_opt import frontends, fuse_modules
from amct_opt.dialects import nn
from amct_opt.ir.functions import main_function
from amct_opt.ir.layer_names import module_path
from amct_opt.ir.verification import verify
from amct_opt.runtime.executor import run
from amct_opt.session import Session
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError

from ...scripts import script

DATA = Path(__file__).parent / "data"


def read(name: str, session: Session | None = None) -> ModuleOp:
    return frontends.read(DATA / name, session or new_session())


def kinds(module: ModuleOp) -> list[str]:
    """What computes in the graph, regions by their kind."""
    ops = [op for op in main_function(module).body.block.ops if not isinstance(op, nn.ConstantOp)]
    return [op.kind.data if isinstance(op, nn.FusedOp) else op.name for op in ops[:-1]]


def assert_as_in_onnxruntime(module: ModuleOp, name: str) -> None:
    """Two products and a norm per element, folded: some units of the last place of numbers below 16."""
    verify(module)
    runner = onnxruntime.InferenceSession(str(DATA / name), providers=["CPUExecutionProvider"])
    (value,) = runner.get_inputs()
    x = np.random.default_rng(0).normal(size=value.shape).astype(np.float32)
    (expected,) = map(np.asarray, runner.run(None, {"x": x}))
    np.testing.assert_allclose(run(module, {"x": x})["y"], expected, rtol=0, atol=16 * 8 * 2**-24)


def test_example_1_by_index_in_a_sequential_model() -> None:
    module = read("sequential.onnx")
    fuse_modules(module, [["1", "2"]])
    assert kinds(module) == ["nn.conv"]
    assert_as_in_onnxruntime(module, "sequential.onnx")


def test_example_2_by_name() -> None:
    session = new_session()
    module = read("module.onnx", session)
    fuse_modules(module, [["conv", "bn", "relu"]], session)
    assert kinds(module) == ["ConvReLU2d"]
    assert sum(isinstance(op, nn.ConstantOp) for op in module.walk()) == 2, "weight and bias"
    assert_as_in_onnxruntime(module, "module.onnx")
    applied = [(r.layer, r.reason) for r in session.remarks if r.pass_name == "fuse-modules"]
    assert applied == [
        ("/bn/BatchNormalization", "fused into /conv/Conv"),
        ("/relu/Relu", "fused into ConvReLU2d /conv/Conv"),
    ]


def test_only_what_is_named() -> None:
    module = read("module.onnx")
    fuse_modules(module, [["conv", "bn"]])
    assert kinds(module) == ["nn.conv", "nn.relu"]
    assert_as_in_onnxruntime(module, "module.onnx")


def test_what_is_one_operation_already_stays() -> None:
    """As in Horizon's plugin, which warns."""
    session = new_session()
    module = read("module.onnx", session)
    fuse_modules(module, [["conv", "bn", "relu"]], session)
    fuse_modules(module, [["conv", "relu"]], session)
    assert kinds(module) == ["ConvReLU2d"]
    assert session.remarks[-1].rule == "already-fused"


def test_batch_norm_in_training_mode() -> None:
    module = read("module_train.onnx")
    with pytest.raises(CompileError, match="at bn: it is a batch norm in training mode") as error:
        fuse_modules(module, [["conv", "bn", "relu"]])
    assert error.value.where == f"{DATA / 'module_train.onnx'}: node '/bn/BatchNormalization'"
    assert "model.eval()" in error.value.hint


def test_links_that_do_not_meet() -> None:
    with pytest.raises(CompileError, match="at relu: it does not take the result of conv"):
        fuse_modules(read("module.onnx"), [["conv", "relu"]])
    with pytest.raises(CompileError, match="no layer or module is called 'conv1'") as error:
        fuse_modules(read("module.onnx"), [["conv1", "bn"]])
    assert error.value.hint == "did you mean conv?"
    with pytest.raises(CompileError, match="names no layers"):
        fuse_modules(read("module.onnx"), [])


@pytest.mark.parametrize(
    ("layer", "path"),
    [
        ("/layer1/conv1/Conv", "layer1.conv1"),
        ("/layer1/layer1.0/conv1/Conv", "layer1.0.conv1"),  # a child of a Sequential inside a module
        ("/features/features.0/features.0.1/Conv", "features.0.1"),
        ("/features/features.1/conv/conv.0/conv.0.0/Conv", "features.1.conv.0.0"),  # a Sequential inside of that child
        ("/1/Conv", "1"),
        ("/conv/Conv_1", "conv"),
        ("layer1/conv1/Conv2D", "layer1.conv1"),  # TensorFlow
        ("conv1", ""),
        ("/Relu", ""),
    ],
)
def test_module_path(layer: str, path: str) -> None:
    assert module_path(layer) == path


def test_committed_models_are_what_the_script_makes() -> None:
    for file, build in script("test/unit/transforms/fusion/data/fuse_modules").MODELS.items():
        assert onnx.load(DATA / file) == build()
