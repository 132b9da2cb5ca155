"""Modules that IREE runs: the interpreter's values, by command and in Python."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from amct_linalg import iree
from amct_linalg.iree import IreeModule
from onnx import helper

import amct_opt
from amct_opt.dialects.nn import QuantizeOp
from amct_opt.runtime.executor import run

DIGITS = Path(__file__).parents[3] / "examples" / "digits"


@pytest.fixture
def integers(tmp_path: Path) -> Path:
    """The digits network in `ascend`."""
    module, session = amct_opt.load(DIGITS / "digits.onnx")
    data = f'"{DIGITS / "calib.npz"}"'
    amct_opt.run_pipeline(module, f"fuse-all,quantize{{data={data}}},lower-to-ascend,fuse-requant", session)
    amct_opt.save(module, tmp_path / "m.mlir", session=session)
    return tmp_path / "m.mlir"


@pytest.mark.slow
def test_outputs_are_equal_to_the_bit(
    integers: Path, amct_tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The network ends in AscendDequant: no float sum is in between. The code is compiled once."""
    pytest.importorskip("iree.runtime")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    given = (integers, "--data", DIGITS / "heldout.npz", "--batch", 50)
    for engine in ("numpy", "iree", "iree"):
        assert amct_tool("run", *given, "--engine", engine, "-o", tmp_path / f"{engine}.npz").status == 0
    assert len(list((tmp_path / "cache").rglob("*.vmfb"))) == 1
    expected, found = (np.load(tmp_path / f"{engine}.npz")["logits"] for engine in ("numpy", "iree"))
    np.testing.assert_array_equal(found, expected)

    compared = amct_tool("compare", integers, integers, *given[1:], "--engine", "iree", "--layers", "--json")
    layers = json.loads(compared.out)["layers"]
    apart = {name for name, each in layers.items() if each["differing"]}
    assert len(layers) > 8
    assert apart <= {"mean1", "flatten1"}, "means of floats add up in another order; the rest is integers"

    labels = ("--labels", DIGITS / "heldout_labels.npy")
    result = amct_tool("evaluate", integers, "--data", DIGITS / "heldout.npz", *labels, "--engine", "iree")
    assert result.status == 0
    assert "iree" in result.out


def test_without_iree_there_is_one_line(
    integers: Path, amct_tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "iree.runtime", None)
    result = amct_tool(
        "run", integers, "--data", DIGITS / "heldout.npz", "--engine", "iree", "-o", tmp_path / "out.npz"
    )
    assert result.status == 1
    assert result.err == "error: IREE is not installed\n  hint: pip install 'amct-opt[iree]'\n"


@pytest.mark.slow
def test_what_has_no_form_is_located(amct_tool, tmp_path: Path) -> None:
    pytest.importorskip("iree.runtime")
    (tmp_path / "m.mlir").write_text(
        """func.func @main(%a: tensor<?x3xf32>, %b: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %y = nn.add %a, %b : tensor<?x3xf32>
  func.return %y : tensor<?x3xf32>
}
"""
    )
    np.savez(tmp_path / "x.npz", a=np.zeros((2, 3), np.float32), b=np.zeros((2, 3), np.float32))
    given = ("--data", tmp_path / "x.npz", "--engine", "iree", "-o", tmp_path / "out.npz")
    result = amct_tool("run", tmp_path / "m.mlir", *given)
    assert result.status == 1
    assert result.err.startswith(f"{tmp_path / 'm.mlir'}:2:3: error: 'nn.add' op has no form in linalg\n")
    assert not (tmp_path / "out.npz").exists()


@pytest.mark.parametrize(
    ("option", "reason"),
    [
        ("--iree-hal-target-backends=abacus", "target backend 'abacus' not registered"),
        ("--iree-abacus", "iree-compile: Unknown command line argument '--iree-abacus'."),
    ],
)
def test_the_reason_of_iree_is_shown(
    integers: Path, amct_tool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str, reason: str
) -> None:
    pytest.importorskip("iree.runtime")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(iree, "COMPILE_OPTIONS", [option])
    given = ("--data", DIGITS / "heldout.npz", "--engine", "iree", "-o", tmp_path / "out.npz")
    result = amct_tool("run", integers, *given)
    assert result.status == 1
    message, hint = result.err.splitlines()
    assert message.startswith(f"error: IREE does not compile the module: {reason}")
    assert "--infer-shapes=input_shape" in hint, "the batch is unknown"


@pytest.mark.slow
def test_damaged_code_is_compiled_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("iree.runtime")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    text = """func.func @main(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = nn.neg %x : tensor<3xf32>
  func.return %y : tensor<3xf32>
}
"""
    (tmp_path / "m.mlir").write_text(text)
    module, session = amct_opt.load(tmp_path / "m.mlir")
    for _ in range(2):
        (found,) = IreeModule(module, session).run({"x": np.arange(3, dtype=np.float32)}).values()
        np.testing.assert_array_equal(found, [0, -1, -2])
        (code,) = tmp_path.rglob("*.vmfb")
        whole = code.read_bytes()
        code.write_bytes(whole[: len(whole) // 2])


@pytest.mark.slow
def test_calibration_by_native_code(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Sums of floats have another order, and nothing else differs; observed values may be inside fused regions."""
    pytest.importorskip("iree.runtime")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    found: list[list[float]] = []
    for backend in ("numpy", "iree"):
        module, session = amct_opt.load(DIGITS / "digits.onnx")
        amct_opt.quantize(module, session, data=DIGITS / "calib.npz", engine=backend)
        quantized = [op for op in module.walk() if isinstance(op, QuantizeOp)]
        found.append([scale for op in quantized for scale in op.qparams.data.scales().ravel()])
    assert len(found[0]) > 3
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)


def test_integers_of_nn_are_the_interpreters(integers: Path, amct_tool) -> None:
    given = ("--data", DIGITS / "heldout.npz", "--integers", "--engine", "iree")
    result = amct_tool("compare", integers, integers, *given)
    assert result.status == 2
    assert "--integers: only the interpreter runs it" in result.err


def test_names_that_json_escapes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """IREE compares the names of weights as they are written, escapes included."""
    pytest.importorskip("iree.runtime")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    names = ["é", "%C3%A9", "日本", 'a"b', "a\\b", "a\nb", "a b"]
    weights = [helper.make_tensor(name, 1, [20], np.arange(20) + i) for i, name in enumerate(names)]
    steps = [helper.make_node("Sub", ["x" if i == 0 else f"y{i - 1}", n], [f"y{i}"]) for i, n in enumerate(names)]
    x, y = ([helper.make_tensor_value_info(n, 1, [20])] for n in ("x", f"y{len(names) - 1}"))
    model = helper.make_model(
        helper.make_graph(steps, "g", x, y, weights), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    onnx.save(model, tmp_path / "m.onnx")
    module, session = amct_opt.load(tmp_path / "m.onnx")
    (found,) = IreeModule(module, session).run({"x": np.zeros(20, np.float32)}).values()
    np.testing.assert_array_equal(found, [-7 * i - 21 for i in range(20)])


def test_single_windows_that_cover_a_part(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """IREE drops loops of one step, and refused what then reads only a part of an axis."""
    pytest.importorskip("iree.runtime")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "m.mlir").write_text(
        """func.func @main(%x: tensor<1x4x4x4xf32>, %w: tensor<4x4x2x2xf32>, %v: tensor<4x1x2x2xf32>)
    -> (tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>) {
  %a = nn.conv %x, %w strides [3, 3] : (tensor<1x4x4x4xf32>, tensor<4x4x2x2xf32>) -> tensor<1x4x1x1xf32>
  %b = nn.conv %x, %v strides [3, 3] groups 4 : (tensor<1x4x4x4xf32>, tensor<4x1x2x2xf32>) -> tensor<1x4x1x1xf32>
  %c = nn.max_pool %x strides [3, 3] kernel [2, 2] : (tensor<1x4x4x4xf32>) -> tensor<1x4x1x1xf32>
  %d = nn.average_pool %x strides [3, 3] kernel [2, 2] : (tensor<1x4x4x4xf32>) -> tensor<1x4x1x1xf32>
  func.return %a, %b, %c, %d : tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>, tensor<1x4x1x1xf32>
}
"""
    )
    module, session = amct_opt.load(tmp_path / "m.mlir")
    random = np.random.default_rng(0)
    shapes = [(1, 4, 4, 4), (4, 4, 2, 2), (4, 1, 2, 2)]
    inputs = {name: random.normal(size=shape).astype(np.float32) for name, shape in zip("xwv", shapes, strict=True)}
    found, expected = IreeModule(module, session).run(inputs), run(module, inputs)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, atol=1e-5)
