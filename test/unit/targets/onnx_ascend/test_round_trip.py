"""What is read back from a deployable file computes, bit for bit, what the module computes that it was written from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from xdsl.dialects.builtin import f16

from amct_opt.dialects import nn
from amct_opt.ir.functions import input_names, main_function
from amct_opt.ir.text import parse_module
from amct_opt.ir.verification import verify
from amct_opt.lowering.ascend import LowerToAscendPass
from amct_opt.lowering.ascend.fuse_requant import FuseRequantPass
from amct_opt.pipelines.passes import run_passes
from amct_opt.session.universe import new_session

from ..nets import EXAMPLES, Net, digits, int8, quantized, real, residual_network, scales, separable_network


def int32(count: int) -> Any:
    return np.random.default_rng(2).integers(-(2**18), 2**18, count).astype(np.int32)


CONVOLUTIONS: dict[str, tuple[Any, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "plain": (nn.ConvOp, (2, 3, 7, 6), (4, 3, 3, 2), {"pads": [1, 0, 2, 1], "strides": [2, 1], "zero_point": -5}),
    "dilated": (nn.ConvOp, (1, 3, 9, 9), (4, 3, 3, 3), {"pads": [2, 2, 2, 2], "dilations": [2, 2], "zero_point": 9}),
    "grouped": (nn.ConvOp, (1, 6, 5, 5), (4, 3, 3, 3), {"pads": [1, 1, 1, 1], "groups": 2, "zero_point": -128}),
    "depthwise": (nn.ConvOp, (1, 4, 5, 5), (8, 1, 3, 3), {"pads": [1, 1, 1, 1], "groups": 4, "zero_point": 127}),
    "one axis": (nn.ConvOp, (2, 3, 9), (4, 3, 3), {"pads": [1, 1], "zero_point": -7}),
    "three axes": (nn.ConvOp, (1, 2, 4, 5, 6), (4, 2, 2, 3, 3), {"pads": [1, 1, 1, 0, 1, 1], "strides": [1, 2, 1]}),
    "transposed": (
        nn.ConvTransposeOp,
        (1, 3, 4, 5),
        (3, 4, 3, 3),
        {"pads": [1, 0, 1, 1], "strides": [2, 2], "output_padding": [1, 0], "zero_point": -11, "axis": 1},
    ),
    "one axis transposed": (
        nn.ConvTransposeOp,
        (2, 3, 5),
        (3, 4, 3),
        {"pads": [1, 0], "strides": [2], "output_padding": [1], "zero_point": -11, "axis": 1},
    ),
    "int16": (
        nn.ConvOp,
        (2, 6, 7, 6),
        (4, 3, 3, 2),
        {"pads": [1, 0, 2, 1], "groups": 2, "zero_point": -32768, "bits": 16},
    ),
    "int16 one axis": (nn.ConvOp, (2, 3, 9), (4, 3, 3), {"pads": [1, 1], "zero_point": 1234, "bits": 16}),
    "int16 transposed": (
        nn.ConvTransposeOp,
        (1, 3, 4, 5),
        (3, 4, 3, 3),
        {"strides": [2, 2], "zero_point": -300, "axis": 1, "bits": 16},
    ),
    "channels last": (nn.ConvOp, (1, 7, 6, 3), (4, 3, 3, 3), {"layout": "nhwc", "pads": [1, 1, 1, 1], "zero_point": 3}),
}


@pytest.mark.parametrize("per_channel", [True, False], ids=["per channel", "per tensor"])
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolutions(case: str, per_channel: bool, deploy: Any) -> None:
    kind, shape, weight, properties = CONVOLUTIONS[case]
    net, out = Net(*shape), 8 if case == "depthwise" else 4
    given_scales = scales(out) if per_channel else 0.01
    y = net.layer(kind, net.x, int8(*weight), scales=given_scales, bias=int32(out), **properties)
    model = deploy.assert_equal(net.module(y), {"x": real(*shape)})
    integer = next(n for n in model.graph.node if n.name == "conv")
    assert integer.op_type == ("ConvTranspose" if kind is nn.ConvTransposeOp else "Conv")
    (quant,) = (n for n in model.graph.node if n.op_type == "AscendQuant")
    written = {a.name: onnx.helper.get_attribute_value(a) for a in quant.attribute}["dst_type"]
    assert written == (b"INT16" if "bits" in properties else b"INT8")
    assert next(tuple(i.dims) for i in model.graph.initializer if i.name == "conv.weight") == weight
    types = {i.name: i.data_type for i in model.graph.initializer}
    assert (types["conv.weight"], types["conv.bias"]) == (onnx.TensorProto.INT8, onnx.TensorProto.INT32)
    assert types["conv.dequant.param"] == onnx.TensorProto.UINT64


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_convolution_geometry(data: Any, deploy: Any) -> None:
    draw = data.draw
    groups, per_group, outputs = draw(st.sampled_from([1, 1, 2, 3])), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    kernel, strides, dilations = ([draw(st.integers(1, 3)) for _ in range(2)] for _ in range(3))
    pads = [draw(st.integers(0, 2)) for _ in range(4)]
    sizes = [d * (k - 1) + 1 + draw(st.integers(0, 4)) for k, d in zip(kernel, dilations, strict=True)]
    shape = (2, groups * per_group, *sizes)
    net = Net(*shape)
    y = net.layer(
        nn.ConvOp,
        net.x,
        int8(groups * outputs, per_group, *kernel),
        zero_point=draw(st.integers(-128, 127)),
        bias=int32(groups * outputs) if draw(st.booleans()) else None,
        strides=strides,
        dilations=dilations,
        pads=pads,
        groups=groups,
    )
    deploy.assert_equal(net.module(y), {"x": real(*shape)})


@pytest.mark.parametrize("transposed", [False, True], ids=["", "transB"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_gemm(transposed: bool, bias: bool, deploy: Any) -> None:
    """Weights are stored [K, N], as AMCT saves them."""
    net = Net(3, 7)
    weight = int8(5, 7) if transposed else int8(7, 5)
    added = int32(5) if bias else None
    properties = {"transpose_b": transposed, "name": "fc", "op_type": "Gemm", "zero_point": -9}
    model = deploy.assert_equal(
        net.module(net.layer(nn.MatMulOp, net.x, weight, bias=added, **properties)), {"x": real(3, 7)}
    )
    node = next(n for n in model.graph.node if n.name == "fc")
    assert (node.op_type, len(node.input), list(node.attribute)) == ("Gemm", 3 if bias else 2, [])
    stored = next(i for i in model.graph.initializer if i.name == "fc.weight")
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(stored), weight.T if transposed else weight)


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize("rank", [2, 3, 4])
@pytest.mark.parametrize("per_channel", [True, False], ids=["per channel", "per tensor"])
def test_matmul(rank: int, per_channel: bool, bits: int, deploy: Any) -> None:
    """The int32 bias is added before AscendDequant, whose vector of scales means the last axis."""
    shape = (2, 3, 4, 6)[-rank:]
    net = Net(*shape)
    y = net.layer(
        nn.MatMulOp,
        net.x,
        int8(6, 5),
        scales=scales(5) if per_channel else 0.01,
        axis=1,
        bias=int32(5),
        zero_point=17,
        bits=bits,
        name="mm",
        op_type="MatMul",
    )
    model = deploy.assert_equal(net.module(y), {"x": real(*shape)})
    assert [n.op_type for n in model.graph.node] == ["AscendQuant", "MatMul", "Add", "AscendDequant"]


@pytest.mark.parametrize("count_include_pad", [False, True])
@pytest.mark.parametrize("kernel", [(2, 2), (3, 3), (7, 5)])
def test_average_pool(kernel: tuple[int, int], count_include_pad: bool, deploy: Any) -> None:
    """The file averages: its scale is the activation's, not that of the sums."""
    net = Net(1, 3, 14, 15)
    pads = [1, 1, 1, 1] if count_include_pad else [0, 0, 0, 0]
    x = net.quantized(net.x, 0.0371, -128)
    y = net.add(
        nn.AveragePoolOp,
        x,
        kernel=kernel,
        pads=pads,
        count_include_pad=count_include_pad,
        layer="pool",
        op_type="AveragePool",
    )
    model = deploy.assert_equal(net.module(y), {"x": real(1, 3, 14, 15)})
    (parameter,) = model.graph.initializer
    np.testing.assert_array_equal(
        onnx.numpy_helper.to_array(parameter), np.array([0.0371], np.float32).view(np.uint32).astype(np.uint64)
    )


def test_two_layers_on_one_value(deploy: Any) -> None:
    """Equal quantizations of one tensor become one AscendQuant, called after the first layer; others stay apart."""
    net = Net(1, 3, 5, 5)
    a = net.layer(nn.ConvOp, net.x, int8(4, 3, 1, 1), name="a")
    b = net.layer(nn.ConvOp, net.x, int8(4, 3, 1, 1, seed=9), name="b")
    c = net.layer(nn.ConvOp, net.x, int8(4, 3, 1, 1, seed=8), name="c", zero_point=1)
    model = deploy.assert_equal(net.module(a, b, c), {"x": real(1, 3, 5, 5)})
    quants = {n.name: n.output[0] for n in model.graph.node if n.op_type == "AscendQuant"}
    assert list(quants) == ["a.quant", "c.quant"]
    inputs = {n.name: n.input[0] for n in model.graph.node if n.op_type == "Conv"}
    assert inputs == {"a": quants["a.quant"], "b": quants["a.quant"], "c": quants["c.quant"]}


def test_pad_before_pool(deploy: Any) -> None:
    """AscendQuant stands before the Pad `pool_pad`, which adds the zero point then; after a Pad of another name."""
    for name, order in (("pool_pad", ["AscendQuant", "Pad"]), ("other", ["Pad", "AscendQuant"])):
        net = Net(1, 3, 5, 5)
        padded = net.add(nn.PadOp, net.x, pads=[0, 0, 1, 1, 0, 0, 1, 1], layer=name, op_type="Pad")
        x = net.quantized(padded, 0.05, -77)
        y = net.add(nn.AveragePoolOp, x, kernel=[3, 3], strides=[2, 2], layer="pool", op_type="AveragePool")
        model = deploy.assert_equal(net.module(y), {"x": real(1, 3, 5, 5)})
        assert [n.op_type for n in model.graph.node] == [*order, "AveragePool", "AscendDequant"]


@pytest.mark.parametrize("op", ["nn.abs %q", "nn.neg %q", "nn.max %q, %q", "nn.min %q, %q"])
def test_functions_of_integers(op: str, deploy: Any) -> None:
    """Operators that ONNX defines for int8 compute with the integers themselves."""
    types = "(tensor<2x8xi8>, tensor<2x8xi8>) -> tensor<2x8xi8>" if "," in op else "tensor<2x8xi8>"
    text = f"""func.func @main(%x: tensor<2x8xf32> {{nn.name = "x"}}) -> (tensor<2x8xf32> {{nn.name = "y"}}) {{
      %q = nn.quantize %x by <i8, scale = 0.05> given user : (tensor<2x8xf32>) -> tensor<2x8xi8>
      %a = {op} : {types}
      %y = nn.dequantize %a by <i8, scale = 0.05> : (tensor<2x8xi8>) -> tensor<2x8xf32>
      func.return %y : tensor<2x8xf32> }}"""
    model = deploy.assert_equal(parse_module(new_session(), text), {"x": real(2, 8)})
    assert "AscendQuant" in [n.op_type for n in model.graph.node]


def test_half_precision(deploy: Any) -> None:
    """Activations in float16: AscendDequant gives them, by its dtype."""
    net = Net(1, 3, 5, 5, element=f16)
    y = net.layer(nn.ConvOp, net.x, int8(4, 3, 3, 3), scales=scales(4), bias=int32(4))
    model = deploy.assert_equal(net.module(y), {"x": real(1, 3, 5, 5).astype(np.float16)})
    dequant = next(n for n in model.graph.node if n.op_type == "AscendDequant")
    assert {a.name: a.i for a in dequant.attribute} == {"dtype": 1}


@pytest.mark.parametrize("opset", [11, 12, 13, 17])
def test_residual_network(opset: int, deploy: Any, tmp_path: Path, capfd: Any) -> None:
    path = tmp_path / "residual.onnx"
    onnx.save(residual_network(), path)
    model = deploy.assert_equal(quantized(path), {"x": real(2, 3, 16, 16)}, opset=opset)
    names = [n.name for n in model.graph.node if n.op_type in ("Conv", "Gemm", "AveragePool")]
    assert sorted(names) == ["conv0", "conv1", "conv2", "fc", "pool", "short"]
    assert model.opset_import[0].version == opset
    assert "warning" in capfd.readouterr().err  # of the synthetic inputs that calibrate


@pytest.mark.parametrize("opset", [13, 14])
def test_separable_network(opset: int, deploy: Any, tmp_path: Path, capfd: Any) -> None:
    """HardSwish came with opset 14, and is written as its definition before, of the same bits."""
    path = tmp_path / "separable.onnx"
    onnx.save(separable_network(), path)
    model = deploy.assert_equal(quantized(path), {"x": real(2, 3, 12, 12)}, opset=opset)
    types = [n.op_type for n in model.graph.node]
    assert types.count("AscendDequant") == types.count("Conv") == 5
    assert ("HardSwish" in types) == (opset >= 14)
    assert "warning" in capfd.readouterr().err


def test_requantized(deploy: Any) -> None:
    """After --fuse-requant, which also takes the average pool of this network."""
    module, inputs = digits()
    run_passes(module, [LowerToAscendPass(), FuseRequantPass()], new_session())
    model = deploy.assert_equal(module, inputs)
    names = [n.name for n in model.graph.node if n.op_type == "AscendRequant"]
    assert names == ["conv2.requant", "pool1.requant", "depthwise1.requant"]


def test_digits(deploy: Any) -> None:
    deploy.assert_equal(*digits())


@pytest.mark.parametrize("opset", [13, 17])
def test_transformer(opset: int, deploy: Any, capfd: Any) -> None:
    module = quantized(EXAMPLES / "models" / "transformer.onnx")
    (name,) = input_names(main_function(module))
    model = deploy.assert_equal(module, {name: real(1, 16, 64)}, opset=opset)
    assert sum(n.op_type == "AscendDequant" for n in model.graph.node) == 13
    assert "warning" in capfd.readouterr().err


INTEGER = """
func.func @main(%x: tensor<1x4x6x6xf32> {{nn.name = "x"}}) -> (tensor<{shape}xf32> {{nn.name = "y"}}) {{
  %w = nn.constant #nn.external<"w", tensor<{weight}xi8>, "0x{data}">
  %s = nn.constant dense<0.01> : tensor<1xf32>
  %q = ascend.AscendQuant %x scale 20.0 offset -9.0 : (tensor<1x4x6x6xf32>) -> tensor<1x4x6x6xi8>
  %a = {op} from <caffe, "Layer", "layer"> : ({types}) -> tensor<{shape}xi32>
  %y = ascend.AscendDequant %a, %s : (tensor<{shape}xi32>, tensor<1xf32>) -> tensor<{shape}xf32>
  func.return %y : tensor<{shape}xf32>
}}"""

CAFFE: dict[str, tuple[str, str, str, str]] = {
    # operation, shape of the weight, of the result, the operator that is written
    "fully connected": ("ascend.FullyConnection %q, %w num_output 5 offset_x -9", "5x144", "1x5", "Gemm"),
    "transposed": ("ascend.FullyConnection %q, %w num_output 5 transpose true offset_x -9", "144x5", "1x5", "Gemm"),
    "axis 2": ("ascend.FullyConnection %q, %w num_output 5 axis 2 offset_x -9", "5x36", "1x4x5", "MatMul"),
    "deconvolution": (
        "ascend.Deconvolution %q, %w strides [2, 2] pads [1, 1, 1, 1] groups 2 offset_x -9",
        "4x3x3x3",
        "1x6x11x11",
        "ConvTranspose",
    ),
    "pooling": (
        "ascend.Pooling %q mode 1 window [3, 3] stride [1, 1] ceil_mode 1 offset_x -9",
        "",
        "1x4x4x4",
        "AveragePool",
    ),
    "global pooling": ("ascend.Pooling %q mode 1 global_pooling true offset_x -9", "", "1x4x1x1", "GlobalAveragePool"),
    "same": (
        'ascend.AvgPool %q ksize [1, 1, 2, 2] strides [1, 1, 2, 2] padding "SAME" data_format "NCHW" offset_x -9',
        "",
        "1x4x3x3",
        "AveragePool",
    ),
}


@pytest.mark.parametrize("case", CAFFE)
def test_operations_of_other_frameworks(case: str, deploy: Any) -> None:
    op, weight, shape, op_type = CAFFE[case]
    array = int8(*map(int, weight.split("x"))) if weight else int8(1)
    types = "tensor<1x4x6x6xi8>" + (f", tensor<{weight}xi8>" if weight else "")
    text = INTEGER.format(op=op, weight=weight or "1", data=array.tobytes().hex().upper(), types=types, shape=shape)
    module = parse_module(new_session(), text, "net.mlir")
    verify(module)
    model = deploy.assert_equal(module, {"x": real(1, 4, 6, 6)})
    assert next(n for n in model.graph.node if n.name == "layer").op_type == op_type


@pytest.mark.parametrize("case", ["plain", "transposed", "grouped"])
def test_layers_on_constant_data(case: str, deploy: Any, deploy_tf: Any) -> None:
    """AscendQuant of a constant is not folded when the file is read: the layer after it needs its zero point."""
    kind, shape, weight, properties = CONVOLUTIONS[case]
    for each in (deploy, deploy_tf):
        net = Net(*shape)
        data = net.add(nn.ReluOp, net.constant(real(*shape), "data"))
        y = net.layer(kind, data, int8(*weight), scales=scales(4), bias=int32(4), **properties)
        each.assert_equal(net.module(y, net.add(nn.ReluOp, net.x)), {"x": real(*shape)})
