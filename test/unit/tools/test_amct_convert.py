"""`amct convert`: factors of a record, or of training, to AMCT's files; mistakes as one line with nothing written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from amct_opt.configuration.record import as_written, read_record

DIGITS = Path(__file__).parents[3] / "examples" / "digits"
MODEL = DIGITS / "digits.onnx"
NAMES = {"fake_quant_model.onnx", "deploy_model.onnx", "record.txt", "quant.json"}


@pytest.fixture(scope="module")
def quantized(tmp_path_factory):
    """What `amct quantize` makes of the digits network: a record, a file with QuantizeLinear, the integer module."""
    from amct_opt.tools import amct

    folder = tmp_path_factory.mktemp("quantized")
    data = ["--data", str(DIGITS / "calib.npz"), "--no-correct-bias"]
    assert amct.run(["quantize", str(MODEL), *data, "--also", "ascend,record", "-o", str(folder)]) == 0
    return folder


@pytest.fixture
def outputs(amct_tool, tmp_path):
    """The logits of held-out digits by a model or module."""

    def run(model: Path):
        result = amct_tool("run", model, "--data", DIGITS / "heldout.npz", "-o", tmp_path / "y.npz")
        assert (result.status, result.err) == (0, "")
        with np.load(tmp_path / "y.npz") as data:
            return data["logits"]

    return run


def names(folder: Path) -> set[str]:
    return {f.name for f in folder.iterdir()}


def without_defaults(record):
    """The layers of a record, without the types that AMCT for ONNX states even if they are the default."""
    return {name: as_written(layer, None) for name, layer in read_record(record).layers.items()}


def test_record(quantized, amct_tool, outputs, tmp_path):
    """By its own record a model becomes what quantization made of it, bit for bit, and the record comes out again."""
    out = tmp_path / "made" / "here"
    record = quantized / "digits_record.txt"
    result = amct_tool("convert", "--model", MODEL, "--record_file", record, f"--save_path={out}/P")
    assert (result.status, result.err) == (0, "")
    assert names(out) == {f"P_{name}" for name in NAMES}
    assert all(str(out / name) in result.out for name in names(out))
    assert "7 layers" in result.out
    assert without_defaults(out / "P_record.txt") == read_record(record).layers
    np.testing.assert_array_equal(outputs(out / "P_deploy_model.onnx"), outputs(quantized / "digits_ascend.mlir"))
    listed = json.loads((out / "P_quant.json").read_text())["graph"][0]["op"]
    assert {"conv1.quant", "conv1", "conv1.dequant"} <= {op["name"] for op in listed}


FACTOR = """
func.func @main(%x: tensor<1x2x4x4xf32> {nn.name = "x"}) -> (tensor<1x2x4x4xf32> {nn.name = "y"}) {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %k = nn.constant dense<[[[[2.0]], [[3.0]]]]> : tensor<1x2x1x1xf32>
  %c = nn.conv %x, %w from <tensorflow, "Conv2D", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.mul %c, %k from <tensorflow, "Mul", "factor"> : (tensor<1x2x4x4xf32>, tensor<1x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}
"""


@pytest.mark.parametrize("rules", ["", "extended", "tf1.15"])
def test_layers_of_tensorflow_are_fused_by_amcts_rules(amct_tool, files, tmp_path, rules):
    """A factor per channel is not AMCT's; `amct quantize` folds it unless it is asked for AMCT's rules."""
    model = files.text("net.mlir", FACTOR)
    record = tmp_path / "one.txt"
    record.write_text('record { key: "conv" value { scale_d: 0.0078125 offset_d: -1 scale_w: 0.01 offset_w: 0 } }')
    given = ["--rules", rules] if rules else []
    made = amct_tool("convert", "--model", model, "--record_file", record, "--save_path", f"{tmp_path}/made/", *given)
    same = amct_tool("quantize", model, "-o", tmp_path / "out", "--profile", "qdq", *given)
    assert (made.status, same.status) == (0, 0)
    strict, wide = rules != "extended", rules != "tf1.15"
    assert ("Mul" in types(tmp_path / "made" / "fake_quant_model.onnx")) == strict
    assert ("Mul" in types(tmp_path / "out" / "net_qdq.onnx")) != wide


def types(path: Path) -> set[str]:
    return {node.op_type for node in onnx.load(path).graph.node}


def test_layers_that_the_record_does_not_list(amct_tool, tmp_path):
    record = tmp_path / "one.txt"
    record.write_text('record { key: "conv1" value { scale_d: 0.0078125 offset_d: -1 scale_w: 0.01 offset_w: 0 } }')
    result = amct_tool("convert", "--model", MODEL, "--record_file", record, "--save_path", f"{tmp_path}/out/")
    assert (result.status, result.err) == (0, "")
    assert "the record does not list it" in result.out
    assert names(tmp_path / "out") == NAMES
    model = onnx.load(tmp_path / "out" / "deploy_model.onnx")
    (quant,) = (n for n in model.graph.node if n.op_type == "AscendQuant")
    assert quant.name == "conv1.quant"
    assert {a.name: helper.get_attribute_value(a) for a in quant.attribute} == {
        "scale": 128.0,
        "offset": -1.0,
        "dst_type": b"INT8",
    }


def test_trained_factors(quantized, amct_tool, outputs, tmp_path):
    """A file with QuantizeLinear and DequantizeLinear, whose integers are there already, gives the same integers again."""
    result = amct_tool("convert", "--model", quantized / "digits_qdq.onnx", "--save_path", tmp_path / "P")
    assert (result.status, result.err) == (0, "")
    np.testing.assert_array_equal(outputs(tmp_path / "P_deploy_model.onnx"), outputs(quantized / "digits_ascend.mlir"))
    expected = read_record(quantized / "digits_record.txt").layers
    assert without_defaults(tmp_path / "P_record.txt") == expected


SCALES = {"x": 2.0**-5, "c": 2.0**-4, "w": np.array([2.0**-7, 2.0**-8, 2.0**-6, 2.0**-9], np.float32), "fc": 2.0**-7}


def trained() -> onnx.ModelProto:
    """As PyTorch exports a trained model: uint8 data, float weights quantized in the graph, float biases.

    A convolution per channel, a linear layer whose weight is transposed after its quantization, and an Add.
    """
    rng = np.random.default_rng(3)
    weights = {
        "conv.weight": rng.uniform(-0.9, 0.9, (4, 2, 3, 3)).astype(np.float32)
        * (SCALES["w"] * 127)[:, None, None, None],
        "conv.bias": rng.normal(size=4).astype(np.float32) * 0.1,
        "fc.weight": rng.uniform(-0.9, 0.9, (5, 4 * 36)).astype(np.float32) * 127 * np.float32(SCALES["fc"]),
        "fc.bias": rng.normal(size=5).astype(np.float32),
        "x.scale": np.float32(SCALES["x"]),
        "x.zero": np.uint8(117),
        "c.scale": np.float32(SCALES["c"]),
        "c.zero": np.uint8(0),
        "w.scale": SCALES["w"],
        "w.zero": np.zeros(4, np.int8),
        "fc.scale": np.float32(SCALES["fc"]),
        "fc.zero": np.int8(0),
    }

    def pair(value: str, factors: str, **attributes: Any) -> list[onnx.NodeProto]:
        names = [f"{factors}.scale", f"{factors}.zero"]
        return [
            helper.make_node("QuantizeLinear", [value, *names], [f"{value}.q"], f"{value}/Quantize", **attributes),
            helper.make_node(
                "DequantizeLinear", [f"{value}.q", *names], [f"{value}.dq"], f"{value}/Dequantize", **attributes
            ),
        ]

    nodes = [
        *pair("x", "x"),
        *pair("conv.weight", "w", axis=0),
        helper.make_node("Conv", ["x.dq", "conv.weight.dq", "conv.bias"], ["c0"], "conv"),
        helper.make_node("Relu", ["c0"], ["c"], "relu"),
        *pair("c", "c"),
        helper.make_node("Flatten", ["c.dq"], ["flat"], "flatten"),
        *pair("fc.weight", "fc"),
        helper.make_node("Transpose", ["fc.weight.dq"], ["turned"], "turn", perm=[1, 0]),
        helper.make_node("MatMul", ["flat", "turned"], ["product"], "fc"),
        helper.make_node("Add", ["fc.bias", "product"], ["y"], "fc_bias"),
    ]
    graph = helper.make_graph(
        nodes,
        "trained",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 2, 8, 8])],
        [
            helper.make_tensor_value_info("c", TensorProto.FLOAT, [2, 4, 6, 6]),
            helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 5]),
        ],
        [numpy_helper.from_array(np.asarray(a), n) for n, a in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def test_as_pytorch_exports(amct_tool, tmp_path):
    """The integer layers compute what the trained model simulates, but for the rounding of the bias to int32.

    All scales are powers of 2, so that every step but that one is exact in float32.
    """
    model, out = tmp_path / "qat.onnx", tmp_path / "out"
    onnx.save(trained(), model)
    result = amct_tool("convert", "--model", model, "--save_path", out / "P")
    assert (result.status, result.err) == (0, "")
    assert "2 layers" in result.out
    deployed = onnx.load(out / "P_deploy_model.onnx").graph
    types = [n.op_type for n in deployed.node]
    assert types.count("AscendQuant") == types.count("AscendDequant") == 2
    assert not {"QuantizeLinear", "DequantizeLinear", "Transpose"} & set(types)
    stored = {i.name: numpy_helper.to_array(i) for i in deployed.initializer}
    assert (stored["conv.weight"].dtype, stored["fc.weight"].dtype) == (np.int8, np.int8)
    assert stored["fc.weight"].shape == (144, 5)

    x = np.random.default_rng(0).uniform(-4, 4, (2, 2, 8, 8)).astype(np.float32)
    options = onnxruntime.SessionOptions()  # optimized, it would compute in integers itself
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    expected = onnxruntime.InferenceSession(str(model), options).run(["c"], {"x": x})[0]
    np.savez(tmp_path / "x.npz", x=x)
    result = amct_tool("run", out / "P_deploy_model.onnx", "--data", tmp_path / "x.npz", "-o", tmp_path / "y.npz")
    assert result.status == 0, result.err
    with np.load(tmp_path / "y.npz") as data:
        actual = data["c"]
    step = (SCALES["x"] * SCALES["w"])[None, :, None, None]
    assert (np.abs(actual - expected) <= 0.5 * step + 1e-6).all()
    assert (actual != expected).any(), "the biases are not multiples of the steps"
    record = read_record(out / "P_record.txt")
    assert (record.layers["conv"].scale_d, record.layers["conv"].offset_d) == (2.0**-5, 117 - 128)
    assert record.layers["fc"].scale_w == (2.0**-7,)


def test_scales_of_a_pair_may_be_in_the_file_twice(amct_tool, tmp_path):
    """As exporters write them that give each node its own constants, for more channels than the text has numbers for."""
    node, channels = helper.make_node, 32
    arrays = {"w": np.ones((channels, 2, 1, 1), np.float32), "s": np.float32(2.0**-5), "z": np.int8(0)}
    arrays |= {name: np.full(channels, 2.0**-7, np.float32) for name in ("s1", "s2")}
    arrays["zeros"] = np.zeros(channels, np.int8)
    nodes = [
        node("QuantizeLinear", ["x", "s", "z"], ["xq"]),
        node("DequantizeLinear", ["xq", "s", "z"], ["xd"]),
        node("QuantizeLinear", ["w", "s1", "zeros"], ["wq"], axis=0),
        node("DequantizeLinear", ["wq", "s2", "zeros"], ["wd"], axis=0),
        node("Conv", ["xd", "wd"], ["y"], "conv"),
    ]
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, c, 4, 4]) for name, c in (("x", 2), ("y", 32)))
    graph = helper.make_graph(
        nodes, "g", [x], [y], [numpy_helper.from_array(np.asarray(a), n) for n, a in arrays.items()]
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), tmp_path / "m.onnx")
    result = amct_tool("convert", "--model", tmp_path / "m.onnx", "--save_path", tmp_path / "P")
    assert (result.status, result.err) == (0, "")
    assert read_record(tmp_path / "P_record.txt").layers["conv"].scale_w == (2.0**-7,) * channels


def test_layers_that_break_a_rule(amct_tool, tmp_path):
    """They stay float, and say why; the others are converted."""
    model = trained()
    per_channel = np.full(5, SCALES["fc"], np.float32)
    for name, array in (("fc.scale", per_channel), ("fc.zero", np.zeros(5, np.int8))):
        (found,) = (i for i in model.graph.initializer if i.name == name)
        found.CopyFrom(numpy_helper.from_array(array, name))
    for node in model.graph.node:
        if node.name.startswith("fc.weight/"):
            next(a for a in node.attribute or [node.attribute.add(name="axis", type=2)] if a.name == "axis").i = 0
    path = tmp_path / "qat.onnx"
    onnx.save(model, path)
    result = amct_tool("convert", "--model", path, "--save_path", tmp_path / "P")
    assert (result.status, result.err) == (0, "")
    assert "its weight has a scale per channel, as only convolutions may" in result.out
    types = [n.op_type for n in onnx.load(tmp_path / "P_deploy_model.onnx").graph.node]
    assert types.count("AscendDequant") == 1
    assert "DequantizeLinear" not in types


def test_mistakes(quantized, amct_tool, tmp_path):
    """One line, status 1, nothing written."""
    record, other = quantized / "digits_record.txt", tmp_path / "bad.txt"
    other.write_text('record { key: "nowhere" value { scale_d: 1.0 offset_d: 0 scale_w: 1.0 offset_w: 0 } }')
    mismatch = trained()
    mismatch.graph.node[1].input[1] = "c.scale"
    onnx.save(mismatch, tmp_path / "mismatch.onnx")
    out = tmp_path / "out"
    for arguments, message in (
        (("--model", MODEL), "holds no QuantizeLinear or DequantizeLinear"),
        (("--model", MODEL, "--record_file", other), "layer 'nowhere': the model has no such layer"),
        (("--model", MODEL, "--record_file", tmp_path / "no.txt"), "no.txt"),
        (("--model", tmp_path / "no.onnx", "--record_file", record), "no.onnx"),
        (("--model", tmp_path / "mismatch.onnx"), "has a different scale or zero point than the quantize before it"),
    ):
        result = amct_tool("convert", *arguments, "--save_path", out / "P")
        assert result.status == 1
        assert message in result.err
        assert not out.exists()


def test_a_record_in_the_place_of_its_own_stays(quantized, amct_tool, tmp_path):
    record = tmp_path / "P_record.txt"
    text = (quantized / "digits_record.txt").read_text()
    record.write_text(text)
    result = amct_tool("convert", "--model", MODEL, "--record_file", record, "--save_path", tmp_path / "P")
    assert result.status == 0, result.err
    assert record.read_text() == text
    assert names(tmp_path) >= {"P_record.txt", "P_deploy_model.onnx"}
