"""Functions, comparisons and logic: lowered they compute what numpy does, and so does the deployable file."""

import numpy as np
import pytest

from amct_opt import frontends
from amct_opt.runtime.executor import run
from amct_opt.session.universe import new_session
from amct_opt.targets.onnx_ascend import OnnxAscendTarget
from amct_opt.targets.tf_ascend import TfAscendTarget

X = "tensor<3x4xf32>"
NUMBERS = np.array([[0.5, 1.5, 2.5, 1e-3], [1, 2, 3, 1], [7.25, 0.75, 3.5, 4.5]], np.float32)
ROW = np.array([0.5, 2.0, 3.0, 1e-3], np.float32)

FUNCTIONS = {
    "log": ("Log", np.log),
    "sin": ("Sin", np.sin),
    "cos": ("Cos", np.cos),
    "floor": ("Floor", np.floor),
    "ceil": ("Ceil", np.ceil),
    "round": ("Rint", np.rint),
    "softsign": ("Softsign", lambda x: x / (1 + np.abs(x))),
}
COMPARISONS = {
    "eq": ("Equal", np.equal),
    "ne": ("NotEqual", np.not_equal),
    "lt": ("Less", np.less),
    "le": ("LessEqual", np.less_equal),
    "gt": ("Greater", np.greater),
    "ge": ("GreaterEqual", np.greater_equal),
}
LOGIC = {"and": ("LogicalAnd", np.logical_and), "or": ("LogicalOr", np.logical_or)}


def check(equivalence, folder, text, operators, inputs, wanted, tolerance=0.0):
    """The lowered module has these operators, and computes this; so does what is read back from its file."""
    lowered = equivalence.after(equivalence.parse(text), "lower-to-ascend", "legalize-ascend")
    assert [op.name for op in lowered.walk() if op.name.startswith("ascend.")] == [f"ascend.{o}" for o in operators]
    OnnxAscendTarget().write(lowered, folder / "y.onnx", new_session())
    for module in (lowered, frontends.read(folder / "y.onnx", new_session())):
        (y,) = run(module, inputs).values()
        assert y.dtype == wanted.dtype
        np.testing.assert_allclose(y, wanted, rtol=tolerance, atol=0)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name, equivalence, tmp_path):
    operator, function = FUNCTIONS[name]
    text = f"func.func @main(%x: {X}) -> {X} {{\n%y = nn.{name} %x : {X}\nfunc.return %y : {X}\n}}"
    wanted = function(NUMBERS.astype(np.float64)).astype(np.float32)
    check(equivalence, tmp_path, text, [operator], {"x": NUMBERS}, wanted, 2e-7)


@pytest.mark.parametrize("name", COMPARISONS)
def test_comparisons(name, equivalence, tmp_path):
    operator, compare = COMPARISONS[name]
    truths = "tensor<3x4xi1>"
    text = f"""
    func.func @main(%x: {X}, %r: tensor<4xf32>) -> {truths} {{
      %y = nn.compare %x, %r predicate {name} : ({X}, tensor<4xf32>) -> {truths}
      func.return %y : {truths}
    }}"""
    check(equivalence, tmp_path, text, [operator], {"x": NUMBERS, "r": ROW}, compare(NUMBERS, ROW))


@pytest.mark.parametrize("name", LOGIC)
def test_logic(name, equivalence, tmp_path):
    operator, combine = LOGIC[name]
    text = f"""
    func.func @main(%a: tensor<4xi1>, %b: tensor<4xi1>) -> tensor<4xi1> {{
      %n = nn.not %a : tensor<4xi1>
      %y = nn.{name} %n, %b : tensor<4xi1>
      func.return %y : tensor<4xi1>
    }}"""
    a, b = np.array([False, False, True, True]), np.array([False, True, False, True])
    check(equivalence, tmp_path, text, ["LogicalNot", operator], {"a": a, "b": b}, combine(~a, b))


def test_smallest(equivalence, tmp_path):
    text = f"""
    func.func @main(%x: {X}) -> tensor<3x1xi64> {{
      %y = nn.arg_min %x axis -1 keepdims : ({X}) -> tensor<3x1xi64>
      func.return %y : tensor<3x1xi64>
    }}"""
    x = np.array([[3, 1, 1, 2], [0, 0, 0, 0], [4, 3, 2, -1]], np.float32)
    wanted = np.array([[1], [0], [3]])
    check(equivalence, tmp_path, text, ["ArgMin", "Unsqueeze"], {"x": x}, wanted)


@pytest.mark.parametrize("axis", [1, 2])
def test_tables_for_batches(axis, equivalence, tmp_path):
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    result = "tensor<2x5x4xf32>" if axis == 1 else "tensor<2x3x5xf32>"
    text = f"""
    func.func @main(%x: tensor<2x3x4xf32>, %i: tensor<2x5xi64>) -> {result} {{
      %y = nn.gather %x, %i axis {axis} batch_dims 1 : (tensor<2x3x4xf32>, tensor<2x5xi64>) -> {result}
      func.return %y : {result}
    }}"""
    indices = np.array([[0, 1, -1, 2, 0], [2, 2, 1, 0, -3]])
    wanted = np.stack([np.take(x[b], indices[b], axis=axis - 1) for b in range(2)])
    inputs = {"x": x, "i": indices}
    check(equivalence, tmp_path, text, ["GatherV2"], inputs, wanted)
    TfAscendTarget().write(
        equivalence.after(equivalence.parse(text), "lower-to-ascend"), tmp_path / "y.pb", new_session()
    )
    (y,) = run(frontends.read(tmp_path / "y.pb", new_session()), inputs).values()
    np.testing.assert_array_equal(y, wanted)
