"""What stands in a deployable file: names, attributes, types, versions; and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from amct_opt.dialects import ascend, nn
from amct_opt.formats.onnx import file
from amct_opt.ir.text import parse_module
from amct_opt.lowering.ascend import LowerToAscendPass
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.targets.onnx_ascend import OnnxAscendTarget

from ..nets import Net, i8


def convolution(**properties: Any) -> ModuleOp:
    net = Net(1, 3, 5, 5)
    weight = np.arange(4 * 3 * 3 * 3, dtype=np.int8).reshape(4, 3, 3, 3)
    bias = np.arange(4, dtype=np.int32)
    y = net.layer(nn.ConvOp, net.x, weight, scales=[0.1, 0.2, 0.3, 0.4], bias=bias, zero_point=-3, **properties)
    return net.module(y)


def attributes(node: onnx.NodeProto) -> dict[str, Any]:
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def test_names_and_attributes(deploy: Any) -> None:
    """AscendQuant has the reciprocal of the record's scale, AscendDequant the product of both scales, packed."""
    model = deploy.write(convolution())
    quant, conv, dequant = model.graph.node
    assert [n.name for n in model.graph.node] == ["conv.quant", "conv", "conv.dequant"]
    assert [n.op_type for n in model.graph.node] == ["AscendQuant", "Conv", "AscendDequant"]
    assert {n.domain for n in model.graph.node} == {""}
    assert attributes(quant) == {"scale": float(np.float32(1) / np.float32(0.03)), "offset": -3.0, "dst_type": b"INT8"}
    assert list(conv.input) == [quant.output[0], "conv.weight", "conv.bias"]
    assert list(dequant.input) == [conv.output[0], "conv.dequant.param"]
    assert attributes(dequant) == {"dtype": 0}
    stored = {i.name: onnx.numpy_helper.to_array(i) for i in model.graph.initializer}
    assert {k: v.dtype.name for k, v in stored.items()} == {
        "conv.weight": "int8",
        "conv.bias": "int32",
        "conv.dequant.param": "uint64",
    }
    scales = np.float32(0.03) * np.array([0.1, 0.2, 0.3, 0.4], np.float32)
    np.testing.assert_array_equal(stored["conv.dequant.param"], scales.view(np.uint32).astype(np.uint64))


@pytest.mark.parametrize("opset", [11, 12, 13, 14, 15, 16, 17])
def test_versions(opset: int, deploy: Any) -> None:
    model = deploy.write(convolution(), opset=opset)
    assert [(o.domain, o.version) for o in model.opset_import] == [("", opset)]
    assert model.producer_name == "amct-opt"


@pytest.mark.parametrize("opset", [10, 18])
def test_other_opsets(opset: int) -> None:
    with pytest.raises(CompileError, match=f"target onnx-ascend does not write opset {opset}") as caught:
        OnnxAscendTarget(opset=opset)
    assert caught.value.hint == "opsets are 11 to 17"


def test_the_module_stays_as_it_is(deploy: Any) -> None:
    module = convolution()
    before = str(module)
    deploy.write(module)
    assert str(module) == before


def test_a_lowered_module_gives_the_same_file(deploy: Any) -> None:
    module = convolution()
    first = deploy.write(module).SerializeToString()
    LowerToAscendPass().apply(new_session(), module)
    assert deploy.write(module).SerializeToString() == first


def test_what_was_read_is_written_again(deploy: Any) -> None:
    """Reading and writing once more changes nothing but names of values and the metadata."""
    first = deploy.write(convolution())
    second = deploy.write(deploy.read())
    assert [n.name for n in second.graph.node] == [n.name for n in first.graph.node]
    assert [attributes(n) for n in second.graph.node] == [attributes(n) for n in first.graph.node]
    initializers = [{i.name: i for i in m.graph.initializer} for m in (first, second)]
    assert initializers[0] == initializers[1]


def parsed(text: str) -> ModuleOp:
    return parse_module(new_session(), text, "net.mlir")


ANTI_QUANT = """
func.func @main(%x: tensor<1x2x4x4xf32> {nn.name = "x"}) -> (tensor<1x2x4x4xf32> {nn.name = "y"}) {
  %q = ascend.AscendQuant %x scale 20.0 offset -7.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  %f = ascend.AscendAntiQuant %q scale 0.05 offset 7.0 : (tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xf32>
  %y = ascend.Relu %f from <onnx, "Relu", "act"> : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}"""


def test_anti_quant(deploy: Any) -> None:
    """In the file the offset is the zero point, in the IR it is negated."""
    x = np.random.default_rng(0).normal(size=(1, 2, 4, 4)).astype(np.float32)
    model = deploy.assert_equal(parsed(ANTI_QUANT), {"x": x})
    quant, anti, relu = model.graph.node
    assert (anti.op_type, anti.name, relu.name) == ("AscendAntiQuant", "act.antiquant", "act")
    assert attributes(quant)["offset"] == attributes(anti)["offset"] == -7.0
    (read,) = (op for op in deploy.read().walk() if isinstance(op, ascend.AscendAntiQuantOp))
    assert read.offset.value.data == 7.0


RELU = """
func.func @main(%x: tensor<2x3xf32> {nn.name = "x"}) -> (tensor<2x2xf32> {nn.name = "y"}) {
  %w = nn.constant dense<[[1, -2], [3, -4], [5, -6]]> : tensor<3x2xi8>
  %s = nn.constant dense<[0.5, 0.25]> : tensor<2xf32>
  %q = ascend.AscendQuant %x scale 20.0 offset 0.0 : (tensor<2x3xf32>) -> tensor<2x3xi8>
  %a = ascend.MatMulV2 %q, %w from <onnx, "Gemm", "fc"> : (tensor<2x3xi8>, tensor<3x2xi8>) -> tensor<2x2xi32>
  %y = ascend.AscendDequant %a, %s relu_flag true : (tensor<2x2xi32>, tensor<2xf32>) -> tensor<2x2xf32>
  func.return %y : tensor<2x2xf32>
}"""


def test_relu_flag(deploy: Any) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    model = deploy.assert_equal(parsed(RELU), {"x": x})
    dequant = model.graph.node[-1]
    assert dequant.name == "fc.dequant"
    assert attributes(dequant) == {"dtype": 0, "relu_flag": 1}


def test_precision_mode(deploy: Any) -> None:
    """FORCE_FP16_QUANT is an attribute of both operators; by default there is none, as in AMCT's files."""
    mode = 'fakequant_precision_mode "FORCE_FP16_QUANT"'
    text = RELU.replace("offset 0.0", f"offset -3.0 {mode}").replace("relu_flag true", f"shift_n [0, 2] {mode}")
    x = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    model = deploy.assert_equal(parsed(text.replace("%q, %w", "%q, %w offset_x -3")), {"x": x})
    quant, _, dequant = model.graph.node
    assert {attributes(n)["fakequant_precision_mode"] for n in (quant, dequant)} == {b"FORCE_FP16_QUANT"}
    read = [op for op in deploy.read().walk() if isinstance(op, ascend.AscendQuantOp | ascend.AscendDequantOp)]
    assert [op.fakequant_precision_mode.data for op in read] == ["FORCE_FP16_QUANT"] * 2


REQUANT = """
func.func @main(%x: tensor<2x3xf32> {nn.name = "x"}) -> (tensor<2x2xf32> {nn.name = "y"}) {
  %w = nn.constant dense<[[1, -2], [3, -4], [5, -6]]> : tensor<3x2xi8>
  %v = nn.constant dense<[[1, -2], [3, -4]]> : tensor<2x2xi8>
  %s = nn.constant dense<[0.5, 0.25]> : tensor<2xf32>
  %r = nn.constant dense<[0.01, 0.2]> : tensor<2xf32>
  %q = ascend.AscendQuant %x scale 20.0 offset 0.0 : (tensor<2x3xf32>) -> tensor<2x3xi8>
  %a = ascend.MatMulV2 %q, %w from <onnx, "Gemm", "fc1"> : (tensor<2x3xi8>, tensor<3x2xi8>) -> tensor<2x2xi32>
  %p = ascend.AscendRequant %a, %r offset -5.0 relu_flag true : (tensor<2x2xi32>, tensor<2xf32>) -> tensor<2x2xi8>
  %b = ascend.MatMulV2 %p, %v offset_x -5 from <onnx, "Gemm", "fc2"> : (tensor<2x2xi8>, tensor<2x2xi8>) -> tensor<2x2xi32>
  %y = ascend.AscendDequant %b, %s shift_n [3, 4] : (tensor<2x2xi32>, tensor<2xf32>) -> tensor<2x2xf32>
  func.return %y : tensor<2x2xf32>
}"""


def test_requant_and_shifts(deploy: Any) -> None:
    """The offset of AscendRequant, the zero point of what follows, and the shifts of AscendDequant come back."""
    x = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    model = deploy.assert_equal(parsed(REQUANT), {"x": x})
    requant = model.graph.node[2]
    assert (requant.op_type, requant.name, attributes(requant)) == ("AscendRequant", "fc1.requant", {"relu_flag": 1})
    stored = {i.name: onnx.numpy_helper.to_array(i) for i in model.graph.initializer}
    bits = np.array([0.01, 0.2], np.float32).view(np.uint32).tolist()
    assert stored["fc1.requant.param"].tolist() == [b | (-5 & 0x1FF) << 37 for b in bits]
    assert [int(p) >> 32 for p in stored["fc2.dequant.param"]] == [3, 4]


def one_axis(net: Net) -> list[SSAValue]:
    """Conv1d, ConvTranspose1d and a Conv1d in float, one after the other; the first two read one quantized value."""
    weight = np.arange(36, dtype=np.int8)
    window: Any = {"pads": [2, 1], "strides": [2], "zero_point": -7}
    a = net.layer(
        nn.ConvOp, net.x, weight.reshape(4, 3, 3), scales=[0.1, 0.2, 0.3, 0.4], name="a", dilations=[2], **window
    )
    b = net.layer(nn.ConvTransposeOp, net.x, weight.reshape(3, 4, 3), name="b", output_padding=[1], **window)
    weight = net.constant(np.ones((2, 4, 3), np.float32), "c.weight")
    return [a, b, net.add(nn.ConvOp, a, weight, layer="c", op_type="Conv")]


def structure(module: ModuleOp) -> list[Any]:
    """The `ascend` operations with their properties and types, but not where they come from."""
    return [
        (
            op.name,
            {k: v for k, v in op.properties.items() if k != "origin"},
            [v.type for v in (*op.operands, *op.results)],
        )
        for op in module.walk()
        if isinstance(op, ascend.AscendOp)
    ]


def test_convolutions_of_one_axis(deploy: Any) -> None:
    """They are written as such, with weights of three axes, as in AMCT's files; what is read is what was lowered."""
    net = Net(2, 3, 9)
    module = net.module(*one_axis(net))
    model = deploy.assert_equal(module, {"x": np.random.default_rng(0).normal(size=(2, 3, 9)).astype(np.float32)})
    nodes = {n.name: n for n in model.graph.node}
    assert list(nodes) == ["a.quant", "a", "a.dequant", "b", "b.dequant", "c"]
    geometry = {"kernel_shape": [3], "pads": [2, 1], "strides": [2], "group": 1}
    assert (nodes["a"].op_type, attributes(nodes["a"])) == ("Conv", {**geometry, "dilations": [2]})
    transposed = {**geometry, "dilations": [1], "output_padding": [1]}
    assert (nodes["b"].op_type, attributes(nodes["b"])) == ("ConvTranspose", transposed)
    shapes = {i.name: list(i.dims) for i in model.graph.initializer}
    assert [shapes[f"{layer}.weight"] for layer in "abc"] == [[4, 3, 3], [3, 4, 3], [2, 4, 3]]
    assert (shapes["a.dequant.param"], shapes["b.dequant.param"]) == ([4], [1])
    assert {len(v.type.tensor_type.shape.dim) for v in model.graph.value_info} == {3}
    lowered, read = module.clone(), deploy.read()
    for each in (lowered, read):
        LowerToAscendPass().apply(new_session(), each)
    assert structure(read) == structure(lowered)


ONE_AXIS = """
func.func @main(%x: tensor<1x2x4xf32> {{nn.name = "x"}}) -> (tensor<1x1x2xf32> {{nn.name = "y"}}, {type} {{nn.name = "z"}}) {{
  %w = nn.constant dense<[[[[1, -2, 3]], [[-4, 5, 6]]]]> : tensor<1x2x1x3xi8>
  %s = nn.constant dense<0.5> : tensor<1xf32>
  %q = ascend.AscendQuant %x scale 20.0 offset 0.0 : (tensor<1x2x4xf32>) -> tensor<1x2x4xi8>
  %u = ascend.Unsqueeze %q axes [2] from <onnx, "Conv", "c"> : (tensor<1x2x4xi8>) -> tensor<1x2x1x4xi8>
  %a = ascend.Conv2D %u, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" from <onnx, "Conv", "c">
    : (tensor<1x2x1x4xi8>, tensor<1x2x1x3xi8>) -> tensor<1x1x1x2xi32>
  %d = ascend.AscendDequant %a, %s from <onnx, "Conv", "c"> : (tensor<1x1x1x2xi32>, tensor<1xf32>) -> tensor<1x1x1x2xf32>
  %y = ascend.Squeeze %d axis [2] from <onnx, "Conv", "c"> : (tensor<1x1x1x2xf32>) -> tensor<1x1x2xf32>
  func.return %y, %{value} : tensor<1x1x2xf32>, {type}
}}"""


@pytest.mark.parametrize(("value", "shape"), [("y", "1x1x2xf32"), ("d", "1x1x1x2xf32"), ("u", "1x2x1x4xi8")])
def test_added_axes_that_something_else_reads(value: str, shape: str, deploy: Any) -> None:
    """They stay: a graph output is a use."""
    x = np.random.default_rng(0).normal(size=(1, 2, 4)).astype(np.float32)
    model = deploy.assert_equal(parsed(ONE_AXIS.format(value=value, type=f"tensor<{shape}>")), {"x": x})
    types = [n.op_type for n in model.graph.node]
    assert ("Unsqueeze" in types, "Squeeze" in types) == {"y": (False, False), "d": (True, True), "u": (True, False)}[
        value
    ]


def test_requantized_convolution_of_one_axis(deploy: Any) -> None:
    text = ONE_AXIS.format(value="y", type="tensor<1x1x2xf32>").replace(
        "AscendDequant %a, %s", "AscendRequant %a, %s offset 3.0"
    )
    x = np.random.default_rng(0).normal(size=(1, 2, 4)).astype(np.float32)
    model = deploy.assert_equal(
        parsed(text.replace("1x1x2xf32", "1x1x2xi8").replace("1x1x1x2xf32", "1x1x1x2xi8")), {"x": x}
    )
    assert [n.name for n in model.graph.node][:3] == ["c.quant", "c", "c.requant"]


CHANNELS_LAST = """
func.func @main(%x: tensor<1x4x4x2xf32> {nn.name = "x"}) -> (tensor<1x4x4x1xf32> {nn.name = "y"}) {
  %w = nn.constant dense<1.0> : tensor<1x1x2x1xf32>
  %y = ascend.Conv2D %x, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NHWC"
    : (tensor<1x4x4x2xf32>, tensor<1x1x2x1xf32>) -> tensor<1x4x4x1xf32>
  func.return %y : tensor<1x4x4x1xf32>
}"""


def test_channels_last_when_lowered_already(deploy: Any) -> None:
    """A module in `nn` is converted; one that is lowered is refused, with what to do."""
    with pytest.raises(CompileError, match="is in NHWC, ONNX has channels second") as caught:
        deploy.write(parsed(CHANNELS_LAST))
    assert "net.mlir:4" in caught.value.where
    assert "--lower-to-ascend" in caught.value.hint
    assert not list(deploy.folder.iterdir())


def test_operations_without_a_form(deploy: Any) -> None:
    """Carried operators of other frameworks are refused where they stand."""
    text = """
    func.func @main(%x: tensor<2xf32> {nn.name = "x"}) -> (tensor<2xf32> {nn.name = "y"}) {
      %y = nn.opaque %x framework "tensorflow" op_type "Odd" : (tensor<2xf32>) -> tensor<2xf32>
      func.return %y : tensor<2xf32>
    }"""
    with pytest.raises(CompileError, match="holds tensorflow's Odd") as caught:
        deploy.write(parsed(text))
    assert "net.mlir:3" in caught.value.where


def test_newer_operators_name_the_opset(deploy: Any) -> None:
    """GatherND with batches came with opset 12: the hint names this target's."""
    text = """
    func.func @main(%x: tensor<2x3x4xf32> {nn.name = "x"}, %i: tensor<2x1xi64> {nn.name = "i"})
        -> (tensor<2x1x4xf32> {nn.name = "y"}) {
      %y = nn.gather %x, %i axis 1 batch_dims 1 : (tensor<2x3x4xf32>, tensor<2x1xi64>) -> tensor<2x1x4xf32>
      func.return %y : tensor<2x1x4xf32>
    }"""
    with pytest.raises(CompileError, match="GatherND with batch_dims") as caught:
        deploy.write(parsed(text), opset=11)
    assert caught.value.hint == "write a newer opset: -t 'onnx-ascend{opset=12}'"


def test_float_models_say_so(deploy: Any, capfd: Any) -> None:
    net = Net(2, 3)
    deploy.write(net.module(net.add(nn.ReluOp, net.x)))
    assert "no layer computes in integers" in capfd.readouterr().err


def test_large_arrays_beside_the_model(deploy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the limit of a file; the numbers are the same."""
    net = Net(2, 40)
    weight = np.random.default_rng(0).integers(-128, 128, (40, 64)).astype(np.int8)
    module = net.module(net.layer(nn.MatMulOp, net.x, weight, axis=1, name="fc", op_type="Gemm"))
    monkeypatch.setattr(file, "MOST_BYTES", 2000)
    x = np.random.default_rng(1).normal(size=(2, 40)).astype(np.float32)
    deploy.assert_equal(module, {"x": x})
    model = onnx.load(deploy.path, load_external_data=False)
    outside = {i.name for i in model.graph.initializer if i.data_location == TensorProto.EXTERNAL}
    assert outside == {"fc.weight"}
    target = OnnxAscendTarget()
    assert [p.name for p in target.files(deploy.path)] == ["deploy.onnx", "deploy.onnx.data"]
    assert sorted(p.name for p in deploy.folder.iterdir()) == ["deploy.onnx", "deploy.onnx.data"]


def test_weight_of_a_layer_that_stays_float(deploy: Any) -> None:
    """A dequantized constant is the float array that it stands for: ATC takes no DequantizeLinear."""
    net = Net(1, 2, 3, 3)
    weight = net.parameter(np.array([[1, 2], [3, 4], [5, 6]], np.int8).reshape(3, 2, 1, 1), 0.5, None, "w.i8")
    model = deploy.assert_equal(
        net.module(net.add(nn.ConvOp, net.x, weight, layer="conv", op_type="Conv")),
        {"x": np.ones((1, 2, 3, 3), np.float32)},
    )
    (stored,) = model.graph.initializer
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(stored).reshape(3, 2), [[0.5, 1], [1.5, 2], [2.5, 3]])


def test_weight_that_is_quantized_alone(deploy: Any, capfd: pytest.CaptureFixture[str]) -> None:
    """The weight of a product stays int8, after AscendAntiQuant."""
    net = Net(2, 3)
    integers = np.array([[1, 2], [3, 4], [5, 6]], np.int8)
    model = deploy.assert_equal(
        net.module(
            net.add(nn.MatMulOp, net.x, net.parameter(integers, 0.5, None, "w.i8"), layer="mm", op_type="MatMul")
        ),
        {"x": np.ones((2, 3), np.float32)},
    )
    (stored,) = model.graph.initializer
    assert stored.name == "w"
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(stored), integers)
    assert [n.op_type for n in model.graph.node] == ["AscendAntiQuant", "MatMul"]
    assert "no layer computes in integers: only weights are quantized" in capfd.readouterr().err


def test_quantized_output(deploy: Any) -> None:
    """A quantize that an output is of becomes AscendQuant."""
    net = Net(2, 4)
    params = nn.QParamsAttr.of(i8, 0.25, 3)
    y = net.add(nn.QuantizeOp, net.x, qparams=params)
    x = np.random.default_rng(0).normal(size=(2, 4)).astype(np.float32)
    model = deploy.assert_equal(net.module(y), {"x": x})
    assert [n.op_type for n in model.graph.node] == ["AscendQuant"]
