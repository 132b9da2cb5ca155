"""`amct support`: every layer once, with the verdict that quantization comes to, for models of every framework."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"


def supported(amct_tool, *arguments):
    result = amct_tool("support", *arguments, "--json")
    assert (result.status, result.err) == (0, "")
    told = json.loads(result.out)
    layers = {layer.pop("name"): layer for layer in told["layers"]}
    assert len(layers) == len(told["layers"]) == told["counts"]["layers"]
    return layers, told["counts"]


def test_names_the_rule_and_the_operators(amct_tool):
    layers, counts = supported(amct_tool, DIGITS)
    ascend = {"ascend": ["MatMulV2"], "ascend_of_type": ["MatMulV2"]}
    assert layers["fc1"] == {"type": "Gemm", "quantizable": "fully", "rule": "", "reason": "", **ascend}
    assert (layers["add1"]["quantizable"], layers["add1"]["rule"]) == ("tensor only", "tensor-only")
    assert (layers["mean1"]["quantizable"], layers["mean1"]["rule"]) == ("no", "global-pooling-false")
    assert (layers["relu1"]["rule"], layers["relu1"]["reason"]) == (
        "not-in-table",
        "AMCT does not quantize Relu layers",
    )
    alone = {"ascend": [], "ascend_of_type": ["BNInfer"]}
    folded = {"type": "BatchNormalization", "quantizable": "no", "rule": "folded", **alone}
    assert layers["bn1"] == {**folded, "reason": "fusion folds it into another layer"}
    assert counts == {"fully": 7, "tensor only": 1, "no": 12, "layers": 20}


def test_says_what_quantize_does(amct_tool, tmp_path):
    """The layers that `amct quantize` quantizes are those listed as fully quantizable."""
    layers, _ = supported(amct_tool, DIGITS)
    assert amct_tool("quantize", DIGITS, "-o", tmp_path / "out").status == 0
    summary = json.loads((tmp_path / "out" / "summary.json").read_text("utf-8"))
    quantized = {row["layer"] for row in summary["layers"]["quantized"]}
    assert quantized == {name for name, layer in layers.items() if layer["quantizable"] == "fully"}
    for row in summary["layers"]["left_in_float"]:
        assert layers[row["layer"]]["rule"] == row["rule"]


def test_judges_layers_as_the_rules_fuse_them(amct_tool, files):
    """By AMCT's rules a factor per channel stays, and has an operator of its own; otherwise it is folded."""
    model = files.text("net.mlir", FACTOR)
    for rules, found in (("extended", ("folded", [], ["Mul"])), ("tf1.15", ("not-in-table", ["Mul"], []))):
        layer = supported(amct_tool, model, "--rules", rules)[0]["factor"]
        assert (layer["rule"], layer["ascend"], layer["ascend_of_type"]) == found


FACTOR = """
func.func @main(%x: tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32> {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %k = nn.constant dense<[2.0, 3.0]> : tensor<2xf32>
  %c = nn.conv %x, %w layout nhwc from <tensorflow, "Conv2D", "conv">
     : (tensor<1x4x4x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x4x4x2xf32>
  %y = nn.mul %c, %k from <tensorflow, "Mul", "factor"> : (tensor<1x4x4x2xf32>, tensor<2xf32>) -> tensor<1x4x4x2xf32>
  func.return %y : tensor<1x4x4x2xf32>
}
"""


def test_prints_a_table_and_counts(amct_tool, files):
    result = amct_tool("support", files.module())
    lines = [line.split() for line in result.out.splitlines()]
    assert ["fc", "MatMul", "BatchMatMulV2", "fully"] in lines
    assert ["relu", "Relu", "Relu", "no", "not-in-table", "AMCT", "does", "not", "quantize", "Relu", "layers"] in lines
    assert ["layers", "2"] in lines


CAFFE = """
input: "data" input_shape { dim: 1 dim: 2 dim: 4 dim: 4 }
layer { name: "pool" type: "Pooling" bottom: "data" top: "pool" pooling_param { pool: AVE kernel_size: 2 stride: 2 } }
layer { name: "max" type: "Pooling" bottom: "data" top: "max" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "whole" type: "Pooling" bottom: "pool" top: "whole" pooling_param { pool: AVE global_pooling: true } }
layer { name: "sum" type: "Eltwise" bottom: "pool" bottom: "max" top: "sum" }
layer { name: "product" type: "Eltwise" bottom: "sum" bottom: "max" top: "product" eltwise_param { operation: PROD } }
"""


def test_reads_caffe(amct_tool, files):
    layers, _ = supported(amct_tool, files.text("net.prototxt", CAFFE))
    assert {name: (layer["quantizable"], layer["rule"]) for name, layer in layers.items()} == {
        "pool": ("fully", ""),
        "max": ("tensor only", "tensor-only"),
        "whole": ("no", "global-pooling-false"),
        "sum": ("tensor only", "tensor-only"),
        "product": ("no", "operation-sum"),
    }


TRANSPOSED = """
func.func @main(%x: tensor<1x2x4x4xf32>, %v: tensor<1x2x4x4x4xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x4x4x4xf32>) {{
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %k = nn.constant dense<1.0> : tensor<2x2x1x1x1xf32>
  %y = nn.conv_transpose %x, %w dilations [2, 2] from <{0}, "up", {{dilations = array<i64: 2, 2>}}>
       : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %z = nn.conv_transpose %v, %k from <{0}, "deep">
       : (tensor<1x2x4x4x4xf32>, tensor<2x2x1x1x1xf32>) -> tensor<1x2x4x4x4xf32>
  func.return %y, %z : tensor<1x2x4x4xf32>, tensor<1x2x4x4x4xf32>
}}
"""


@pytest.mark.parametrize(
    ("source", "operator"),
    [
        ('onnx, "ConvTranspose"', "Conv2DTranspose"),
        ('caffe, "Deconvolution"', "Deconvolution"),
        ('tensorflow, "Conv2DBackpropInput"', "Conv2DBackpropInput"),
    ],
)
def test_a_refused_transposed_convolution_names_the_operator(amct_tool, files, source, operator):
    """That of AMCT's table, in brackets where it does not compute the layer."""
    path = files.text("net.mlir", TRANSPOSED.format(source))
    layers, _ = supported(amct_tool, path)
    assert (layers["up"]["quantizable"], layers["up"]["rule"]) == ("no", "dilation-1")
    assert {name: each["ascend_of_type"] for name, each in layers.items()} == {"up": [operator], "deep": [operator]}
    lines = [line.split() for line in amct_tool("support", path).out.splitlines()]
    printed = {line[0]: line[2] for line in lines if line[:1] in (["up"], ["deep"])}
    assert printed == {name: operator if each["ascend"] else f"({operator})" for name, each in layers.items()}
    assert printed["deep"] == f"({operator})"


def test_reads_tensorflow(amct_tool, tmp_path):
    tf = pytest.importorskip("tensorflow")
    with tf.Graph().as_default() as graph:
        x = tf.compat.v1.placeholder(tf.float32, [None, 2], "x")
        fixed = tf.linalg.matmul(x, tf.ones([2, 3]), name="fixed")
        turned = tf.linalg.matmul(fixed, tf.ones([4, 3]), transpose_b=True, name="turned")
        tf.linalg.matmul(turned, turned, transpose_b=True, name="computed")
    path = tmp_path / "graph.pb"
    path.write_bytes(graph.as_graph_def().SerializeToString())
    layers, _ = supported(amct_tool, path)
    rules = {name: layer["rule"] for name, layer in layers.items() if layer["type"] == "MatMul"}
    assert rules == {"fixed": "", "turned": "transpose-false", "computed": "transpose-false"}


def test_layers_that_came_quantized(amct_tool, tmp_path):
    assert amct_tool("quantize", DIGITS, "-o", tmp_path).status == 0
    layers, counts = supported(amct_tool, tmp_path / "digits_qdq.onnx")
    assert {(layer["quantizable"], layer["reason"]) for layer in layers.values() if layer["type"] == "Conv"} == {
        ("fully", "it is already quantized in the model")
    }
    assert counts["fully"] == 7


def test_a_profile_without_amcts_table_speaks_for_itself(amct_tool):
    layers, _ = supported(amct_tool, DIGITS.parents[1] / "models" / "transformer.onnx", "--profile", "qdq")
    softmax = next(layer for layer in layers.values() if layer["type"] == "Softmax")
    assert (softmax["rule"], softmax["reason"]) == ("not-in-profile", "profile qdq does not quantize Softmax layers")


@pytest.mark.slow
@pytest.mark.parametrize("profile", ["qdq", "ppq"])
def test_profiles_of_values_judge_what_fusion_leaves(amct_tool, tmp_path, profile):
    """The layers that `amct quantize` leaves in float are those that cannot be quantized, but for what is folded."""
    model = DIGITS.parents[1] / "models" / "transformer.onnx"
    layers, _ = supported(amct_tool, model, "--profile", profile)
    assert amct_tool("quantize", model, "-o", tmp_path, "--profile", profile).status == 0
    summary = json.loads((tmp_path / "summary.json").read_text("utf-8"))
    left = {row["layer"]: row["rule"] for row in summary["layers"]["left_in_float"]}
    rules = {name: layer["rule"] for name, layer in layers.items() if layer["quantizable"] == "no"}
    assert {name: rule for name, rule in rules.items() if rule != "folded"} == left
    assert rules["layer0.attention.query.bias_add"] == "folded"


LONE_ADD = """
input: "a" input_shape { dim: 1 dim: 2 dim: 4 dim: 4 }
input: "b" input_shape { dim: 1 dim: 2 dim: 4 dim: 4 }
layer { name: "sum" type: "Eltwise" bottom: "a" bottom: "b" top: "sum" }
"""


def test_an_addition_alone_stays_float(amct_tool, files):
    layers, _ = supported(amct_tool, files.text("net.prototxt", LONE_ADD), "--profile", "qdq")
    assert (layers["sum"]["quantizable"], layers["sum"]["rule"]) == ("no", "between")


def test_mistakes(amct_tool, files):
    result = amct_tool("support", files.module(), "--profile", "mine")
    assert (result.status, result.out) == (1, "")
    assert "no profile is called 'mine'" in result.err
