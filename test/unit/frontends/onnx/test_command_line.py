"""`amct-opt model.onnx`: what is printed, and what a user sees of mistakes."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import ModelProto, helper

from amct_opt.dialects import nn
from amct_opt.frontends.onnx import read
from amct_opt.ir.text import module_text, parse_module
from amct_opt.session.universe import new_session
from amct_opt.tools import amct_opt

Build = Callable[..., ModelProto]
LIGHT = Path(onnx.__file__).parent / "backend/test/data/light"


@pytest.fixture
def model(build: Build, save: Callable[[ModelProto], Path]) -> Path:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"], "fc"),
        helper.make_node("TopK", ["h", "k"], ["y", "i"], "top"),
    ]
    weights = {"w": np.eye(3, dtype=np.float32), "k": np.array([2], np.int64)}
    return save(build(nodes, [("x", ["batch", 3])], ["y"], weights))


def test_prints_the_module(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert amct_opt.run([str(model)]) == 0
    out, err = capsys.readouterr()
    assert (
        '%fc = nn.matmul %x, %w from <onnx, "MatMul", "fc"> : (tensor<?x3xf32>, tensor<3x3xf32>) -> tensor<?x3xf32>'
        in out
    )
    assert err.startswith("1 missed remark")


def test_text_reads_back(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert amct_opt.run([str(model)]) == 0
    text = capsys.readouterr().out
    assert module_text(parse_module(new_session(), text)) == text


def test_remarks(model: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "out.mlir"
    assert (
        amct_opt.run([str(model), "--remarks=all", "-o", str(out), "--remarks-output", str(tmp_path / "r.yaml")]) == 0
    )
    assert capsys.readouterr().err.splitlines() == [
        f"{model}: node 'top': remark: [import missed native] \"top\": carried as opaque: nn has no equivalent of TopK",
        f'{model}: remark: [import analysis summary] "main": '
        "2 nodes: 1 mapped to nn, 1 carried as opaque (1 TopK), 0 folded, 0 removed, 0 unused",
    ]
    assert "kind: analysis" in (tmp_path / "r.yaml").read_text()


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda p: None, "error: cannot be read: No such file or directory"),
        (lambda p: p.mkdir(), "error: is a folder, but not a SavedModel"),
        (lambda p: p.write_text("hello"), "error: is not an ONNX model"),
    ],
    ids=["missing", "directory", "text"],
)
def test_mistakes(
    make: Callable[[Path], object], line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "net.onnx"
    make(path)
    assert amct_opt.run([str(path), "-o", str(tmp_path / "out.mlir")]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines()[0] == f"{path}: {line}"
    assert "Traceback" not in err
    assert not (tmp_path / "out.mlir").exists()


def test_does_not_overwrite_the_model(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Weights are mapped from the model's file: writing there would destroy what is being read."""
    before = model.read_bytes()
    assert amct_opt.run([str(model), "-t", "onnx", "-o", str(model)]) == 1
    assert "would overwrite a file that was read" in capsys.readouterr().err
    assert model.read_bytes() == before


def test_resnet(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The topology as it comes with the onnx package: all parameters are made by nodes, and folded."""
    shutil.copy(LIGHT / "light_resnet50.onnx", tmp_path / "resnet50.onnx")
    assert amct_opt.run([str(tmp_path / "resnet50.onnx"), "--remarks=all", "-o", str(tmp_path / "r.mlir")]) == 0
    assert (
        "415 nodes: 176 mapped to nn, 0 carried as opaque, 239 folded, 0 removed, 0 unused" in capsys.readouterr().err
    )
    text = (tmp_path / "r.mlir").read_text()
    assert text.count(" = nn.conv ") == 53
    assert text.count(" = nn.batch_norm ") == 53
    assert '%n173 = nn.reshape %n172 to [1, 2048] from <onnx, "Reshape", "n173">' in text
    assert '%n175 = nn.softmax %n174 from <onnx, "Softmax", "n175"> : tensor<1x1000xf32>' in text


@pytest.mark.slow
@pytest.mark.parametrize("path", sorted(LIGHT.glob("*.onnx")), ids=lambda p: p.stem)
def test_light_models_map_completely(path: Path) -> None:
    session = new_session()
    module = read(path, session)
    assert not [op for op in module.walk() if isinstance(op, nn.OpaqueOp)]
    assert [r.kind for r in session.remarks] == ["analysis"]
