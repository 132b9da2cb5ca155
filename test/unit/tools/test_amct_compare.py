"""`amct compare`: figures that can be worked out by hand, per output and per layer."""

from __future__ import annotations

import json

import numpy as np
import pytest

X = np.array([[1, 0], [0, 1]], np.float32)
"""relu(X @ [[1, 2], [3, c]]) = [[1, 2], [3, c]]: with c = 4 against 5, one of four elements is 1 off."""

POWER = 1 + 4 + 9 + 16


def test_outputs(amct_tool, files):
    arguments = (files.module("a.mlir"), files.module("b.mlir", corner=5.0), "--data", files.npz(x=X), "--json")
    result = amct_tool("compare", *arguments)
    (row,) = json.loads(result.out)["outputs"].values()
    assert row["sqnr"] == pytest.approx(10 * np.log10(POWER / 1))
    assert row["cosine"] == pytest.approx((1 + 4 + 9 + 20) / np.sqrt(POWER * (POWER + 9)))
    assert (row["largest"], row["differing"], row["count"]) == (1.0, 1, 4)


def test_equal_modules(amct_tool, files):
    arguments = (files.module("a.mlir"), files.module("b.mlir"), "--data", files.npz(x=X))
    row = json.loads(amct_tool("compare", *arguments, "--json").out)["outputs"]["y"]
    assert row == {"sqnr": None, "cosine": pytest.approx(1), "largest": 0, "differing": 0, "count": 4}
    table = amct_tool("compare", *arguments)
    assert table.status == 0
    assert "0 of 4" in table.out


@pytest.mark.parametrize("command", ["compare", "bisect"])
def test_the_first_samples(amct_tool, files, command):
    """The second column of inputs, which only the last sample has, is where the two differ."""
    data = files.npz(x=np.array([[1, 0], [2, 0], [3, 0], [0, 1]], np.float32))
    run = (
        command,
        files.module("a.mlir"),
        files.module("b.mlir", corner=5.0),
        "--data",
        data,
        "--json",
        "--num-samples",
    )
    three, four = (json.loads(amct_tool(*run, count).out) for count in ("3", "4"))
    if command == "compare":
        assert [each["outputs"]["y"]["differing"] for each in (three, four)] == [0, 1]
    else:
        assert [each["first"] for each in (three, four)] == [None, "fc"]


def test_several_runs_are_taken_together(amct_tool, files):
    """One sample at a time gives the same figures as all at once."""
    a, b, inputs = files.module("a.mlir"), files.module("b.mlir", corner=5.0), files.npz(x=X)
    whole = amct_tool("compare", a, b, "--data", inputs, "--json")
    parts = amct_tool("compare", a, b, "--data", inputs, "--json", "--batch", "1")
    assert json.loads(whole.out) == json.loads(parts.out)


def test_layers_by_name(amct_tool, files):
    """-X makes every product negative: the layers before the relu differ, after it they are all zero."""
    arguments = (files.module("a.mlir"), files.module("b.mlir", corner=5.0), "--data", files.npz(x=-X))
    layers = json.loads(amct_tool("compare", *arguments, "--layers", "--json").out)["layers"]
    assert list(layers) == ["fc", "relu"]
    assert (layers["fc"]["differing"], layers["relu"]["differing"]) == (1, 0)


CONV = """
func.func @main(%x: tensor<1x1x2x2xf32> {nn.name = "x"}) -> (tensor<1x1x2x2xf32> {nn.name = "y"}) {
  %w = nn.constant dense<3.0> : tensor<1x1x1x1xf32>
  %c = nn.conv %x, %w from <onnx, "Conv", "conv"> : (tensor<1x1x2x2xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x2x2xf32>
"""
SCALED = """
  %two = nn.constant dense<2.0> : tensor<1xf32>
  %d = nn.mul %c, %two from <onnx, "Mul", "scale"> : (tensor<1x1x2x2xf32>, tensor<1xf32>) -> tensor<1x1x2x2xf32>
"""
END = """
  %r = nn.relu VALUE from <onnx, "Relu", "relu"> : tensor<1x1x2x2xf32>
  func.return %r : tensor<1x1x2x2xf32>
}
"""


def test_a_folded_layer_is_compared_where_it_ends(amct_tool, files):
    """conv then a factor of 2 in one module, the factor folded into the weight in the other: no difference anywhere."""
    a = files.text("a.mlir", CONV + SCALED + END.replace("VALUE", "%d"))
    b = files.text("b.mlir", CONV.replace("3.0", "6.0") + END.replace("VALUE", "%c"))
    inputs = files.npz(x=np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2))
    for first, second in ((a, b), (b, a)):
        data = json.loads(amct_tool("compare", first, second, "--data", inputs, "--layers", "--json").out)
        assert {name: d["differing"] for name, d in data["layers"].items()} == {"conv": 0, "relu": 0}
        assert data["not_compared"] == {"scale": "merged into the layer before it"}


def test_layers_that_only_one_has_are_named(amct_tool, files):
    a = files.module("a.mlir")
    b = files.text("b.mlir", a.read_text().replace('"relu"', '"other"'))
    data = json.loads(amct_tool("compare", a, b, "--data", files.npz(x=X), "--layers", "--json").out)
    assert data["not_compared"] == {"relu": "is in the first only", "other": "is in the second only"}


def test_a_layer_that_is_written_as_several_nodes(amct_tool, files):
    """The last of its operations is the node with the highest number."""
    a = files.module("a.mlir")
    lines = a.read_text().replace('"relu"', '"fc"')
    b = files.text("b.mlir", a.read_text().replace('"relu"', '"fc_1"'))
    data = json.loads(
        amct_tool("compare", files.text("c.mlir", lines), b, "--data", files.npz(x=X), "--layers", "--json").out
    )
    assert (list(data["layers"]), data["layers"]["fc"]["largest"], data["not_compared"]) == (["fc"], 0, {})


def test_no_common_output(amct_tool, files):
    a = files.module("a.mlir")
    b = files.text("b.mlir", a.read_text().replace('"y"', '"z"'))
    result = amct_tool("compare", a, b, "--data", files.npz(x=X))
    assert (result.status, result.out) == (1, "")
    assert "error: the two have no output name in common" in result.err
    assert "hint: they are y and z" in result.err


@pytest.mark.parametrize("command", ["compare", "bisect"])
def test_the_second_takes_inputs_of_the_first(amct_tool, files, command):
    """By name, or by order if no name is the same; one that the first does not have is an error before any data is read."""
    one = files.module("one.mlir")
    extra = one.read_text().replace("%x: tensor", "%z: tensor<?x2xf32>, %x: tensor")
    two = files.text("two.mlir", extra.replace("%z: tensor<?x2xf32>", '%z: tensor<?x2xf32> {nn.name = "z"}'))
    other = files.text("other.mlir", one.read_text().replace('nn.name = "x"', 'nn.name = "q"'))
    both = files.npz("both.npz", x=X, z=X)
    result = amct_tool(command, one, two, "--data", both)
    assert (result.status, result.out) == (1, "")
    assert f"{two}: error: the second takes input z, which the first does not have" in result.err
    found = amct_tool(command, two, one, "--data", both, "--json")
    assert json.loads(found.out)["not_compared"] == {"z": "is an input of the first only"}
    assert amct_tool(command, one, other, "--data", files.npz(x=X)).status == 0


def test_names_are_printed_whole_and_without_markup(amct_tool, files):
    name = "[bold]" + "long/" * 60
    a = files.text("a.mlir", files.module().read_text().replace('"fc"', f'"{name}"'))
    result = amct_tool("compare", a, a, "--data", files.npz(x=X), "--layers")
    assert name in result.out
