"""What is read back from a deployable TensorFlow file computes, bit for bit, what the module computes that it was made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from xdsl.dialects.builtin import f16

from amct_opt.dialects import ascend, nn
from amct_opt.dialects.nn.shapes import DYNAMIC
from amct_opt.ir.functions import input_names, main_function
from amct_opt.session.universe import new_session

from ..nets import EXAMPLES, Net, digits, int8, quantized, real, residual_network, scales


def int32(count: int) -> Any:
    """Beyond what float32 counts, as a bias may be."""
    return np.random.default_rng(2).integers(-(2**27), 2**27, count).astype(np.int32) | 1


def array(node: Any) -> Any:
    tensor = node.attr["value"].tensor
    dtype = {3: np.int32, 6: np.int8, 23: np.uint64}[tensor.dtype]
    return np.frombuffer(tensor.tensor_content, dtype).reshape([d.size for d in tensor.tensor_shape.dim])


def op_types(nodes: Any) -> list[str]:
    return [n.op for n in nodes.values() if n.op not in ("Const", "Placeholder", "Identity")]


SAME = {"auto_pad": "same_upper"}
CONVOLUTIONS: dict[str, tuple[Any, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "plain": (nn.ConvOp, (2, 7, 6, 3), (4, 3, 3, 2), {"pads": [1, 0, 2, 1], "strides": [2, 1], "zero_point": -5}),
    "same": (nn.ConvOp, (2, 7, 6, 3), (4, 3, 3, 2), {**SAME, "strides": [2, 1], "zero_point": -5}),
    "dilated": (nn.ConvOp, (1, 9, 9, 3), (4, 3, 3, 3), {"pads": [2, 2, 2, 2], "dilations": [2, 2], "zero_point": 9}),
    "grouped": (nn.ConvOp, (1, 5, 5, 6), (4, 3, 3, 3), {"pads": [1, 1, 1, 1], "groups": 2, "zero_point": -128}),
    "depthwise": (
        nn.ConvOp,
        (1, 5, 5, 4),
        (8, 1, 3, 3),
        {"pads": [1, 1, 0, 1], "groups": 4, "zero_point": 127, "op_type": "DepthwiseConv2dNative"},
    ),
    "one axis": (nn.ConvOp, (2, 9, 3), (4, 3, 3), {"pads": [1, 1], "zero_point": -7}),
    "three axes": (nn.ConvOp, (1, 4, 5, 6, 2), (4, 2, 2, 3, 3), {"pads": [1, 1, 1, 0, 1, 1], "strides": [1, 2, 1]}),
    "transposed": (
        nn.ConvTransposeOp,
        (1, 4, 5, 3),
        (3, 4, 3, 3),
        {"pads": [1, 0, 1, 1], "strides": [2, 2], "output_padding": [1, 0], "zero_point": -11, "axis": 1},
    ),
    "transposed, same": (
        nn.ConvTransposeOp,
        (1, 4, 5, 3),
        (3, 4, 3, 3),
        {"pads": [0, 0, 1, 1], "strides": [2, 2], "zero_point": -11, "axis": 1},
    ),
    "transposed, symmetric": (nn.ConvTransposeOp, (1, 4, 5, 3), (3, 4, 3, 3), {"strides": [2, 2], "axis": 1}),
}
PADDING = {
    "same": "SAME",
    "plain": "EXPLICIT",
    "transposed": "EXPLICIT",
    "transposed, same": "SAME",
    "three axes": "VALID",
}


@pytest.mark.parametrize("per_channel", [True, False], ids=["per channel", "per tensor"])
@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolutions(case: str, per_channel: bool, deploy_tf: Any) -> None:
    kind, shape, weight, properties = CONVOLUTIONS[case]
    op_type = properties.get("op_type", "Conv2DBackpropInput" if kind is nn.ConvTransposeOp else "Conv2D")
    net, out = tf_net(*shape), 8 if case == "depthwise" else 4
    given_scales = scales(out) if per_channel else 0.01
    given_properties = {**properties, "op_type": op_type, "layout": "nhwc"}
    y = net.layer(kind, net.x, int8(*weight), scales=given_scales, bias=int32(out), **given_properties)
    nodes = deploy_tf.assert_equal(net.module(y), {"x": real(*shape)})
    assert nodes["conv"].op == ("Conv3D" if case == "three axes" else op_type)
    assert nodes["conv"].attr["padding"].s.decode() == PADDING.get(case, nodes["conv"].attr["padding"].s.decode())
    assert array(nodes["conv.weight"]).dtype == np.int8
    assert array(nodes["conv.dequant.param"]).dtype == np.uint64
    assert nodes["conv.weight_quant"].input[0] == "conv.weight"
    assert not array(nodes[nodes["conv.weight_quant"].input[1]]).any()


def tf_net(*shape: int, **options: Any) -> Net:
    return Net(*shape, framework="tensorflow", **options)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_transposed_geometry(data: Any, deploy_tf: Any) -> None:
    """The shape of the result is all that TensorFlow has of what is cut off and added."""
    draw = data.draw
    strides, kernel = [draw(st.integers(1, 3)) for _ in range(2)], [draw(st.integers(1, 4)) for _ in range(2)]
    sizes = [draw(st.integers(1, 4)) for _ in range(2)]
    full = [s * (n - 1) + k for s, n, k in zip(strides, sizes, kernel, strict=True)]
    pads = [draw(st.integers(0, min(2, (f - 1) // 2))) for f in (*full, *full)]
    extra = [draw(st.integers(0, s - 1)) for s in strides]
    net = tf_net(2, *sizes, 3)
    y = net.layer(
        nn.ConvTransposeOp,
        net.x,
        int8(3, 2, *kernel),
        zero_point=draw(st.integers(-128, 127)),
        axis=1,
        strides=strides,
        pads=pads,
        output_padding=extra,
        layout="nhwc",
        op_type="Conv2DBackpropInput",
    )
    deploy_tf.assert_equal(net.module(y), {"x": real(2, *sizes, 3)})


@pytest.mark.parametrize("sizes", [(4, 5), (DYNAMIC, DYNAMIC)], ids=["batch", "batch and space"])
@pytest.mark.parametrize("case", ["transposed, same", "plain"])
def test_unknown_sizes(case: str, sizes: tuple[int, int], deploy_tf: Any) -> None:
    """The shape of a transposed convolution's result is computed in the graph, and followed when it is read."""
    kind, _, weight, properties = CONVOLUTIONS[case]
    net = tf_net(DYNAMIC, *sizes, 3)
    op_type = "Conv2DBackpropInput" if kind is nn.ConvTransposeOp else "Conv2D"
    y = net.layer(kind, net.x, int8(*weight), bias=int32(4), layout="nhwc", op_type=op_type, **properties)
    deploy_tf.assert_equal(net.module(y), {"x": real(2, 4, 5, 3)})


def test_same_padding_behind_sizes_that_are_lost(deploy_tf: Any) -> None:
    """A grouped transposed convolution of any batch is an operator that is carried, whose sizes are not known when it is read:
    with a stride of 1 they do not matter.
    """
    net = tf_net(DYNAMIC, 4, 5, 3)
    weight = net.constant(real(3, 1, 2, 2), "w")
    x = net.add(nn.ConvTransposeOp, net.x, weight, groups=3, layout="nhwc", layer="up", op_type="ConvTranspose")
    y = net.layer(nn.ConvOp, x, int8(4, 3, 3, 3), pads=[1, 1, 1, 1], layout="nhwc", op_type="Conv2D")
    nodes = deploy_tf.assert_equal(net.module(y), {"x": real(2, 4, 5, 3)})
    assert nodes["conv"].attr["padding"].s == b"SAME"


@pytest.mark.parametrize("case", ["plain", "grouped", "transposed, same"])
def test_unknown_channels(case: str, deploy_tf: Any) -> None:
    """TensorFlow finds at run time how many groups there are; files say so."""
    kind, shape, weight, properties = CONVOLUTIONS[case]
    net = tf_net(*[DYNAMIC] * 4)
    op_type = "Conv2DBackpropInput" if kind is nn.ConvTransposeOp else "Conv2D"
    y = net.layer(kind, net.x, int8(*weight), layout="nhwc", op_type=op_type, **properties)
    deploy_tf.assert_equal(net.module(y), {"x": real(*shape)})


@pytest.mark.parametrize("transposed", [False, True], ids=["", "transpose_b"])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no bias"])
def test_matmul(transposed: bool, bias: bool, deploy_tf: Any) -> None:
    """Weights are stored [K, N]. The bias is added as int32, after a Cast, before AscendDequant."""
    net = tf_net(3, 7)
    weight = int8(5, 7) if transposed else int8(7, 5)
    added = int32(5) if bias else None
    properties = {"transpose_b": transposed, "name": "fc", "op_type": "MatMul", "zero_point": -9}
    module = net.module(net.layer(nn.MatMulOp, net.x, weight, bias=added, **properties))
    nodes = deploy_tf.assert_equal(module, {"x": real(3, 7)})
    assert "transpose_b" not in nodes["fc"].attr
    np.testing.assert_array_equal(array(nodes["fc.weight"]), weight.T if transposed else weight)
    between = ["Cast", "BiasAdd"] if bias else []
    assert op_types(nodes) == ["AscendQuant", "AscendWeightQuant", "MatMul", *between, "AscendDequant"]
    if bias:
        np.testing.assert_array_equal(array(nodes["fc.bias"]), added)


@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("transposed", [False, True], ids=["", "transpose_b"])
def test_inner_product_of_caffe(rank: int, transposed: bool, deploy_tf: Any) -> None:
    """FullyConnection, which TensorFlow does not have, is a product of matrices."""
    shape = (2, 3, 7)[-rank:]
    net = Net(*shape, framework="caffe")
    properties = {"transpose_b": transposed, "name": "fc", "op_type": "InnerProduct", "zero_point": -9}
    weight = int8(5, 7) if transposed else int8(7, 5)
    y = net.layer(nn.MatMulOp, net.x, weight, bias=int32(5), **properties)
    nodes = deploy_tf.assert_equal(net.module(y), {"x": real(*shape)})
    assert nodes["fc"].op == ("MatMul" if rank == 2 else "BatchMatMulV2")


@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("per_channel", [True, False], ids=["per channel", "per tensor"])
def test_batched_matmul(rank: int, per_channel: bool, deploy_tf: Any) -> None:
    shape = (2, 3, 4, 6)[-rank:]
    net = tf_net(*shape)
    properties = {"axis": 1, "bias": int32(5), "zero_point": 17, "name": "mm", "op_type": "BatchMatMulV2"}
    y = net.layer(nn.MatMulOp, net.x, int8(6, 5), scales=scales(5) if per_channel else 0.01, **properties)
    nodes = deploy_tf.assert_equal(net.module(y), {"x": real(*shape)})
    assert nodes["mm"].op == "BatchMatMulV2"


@pytest.mark.parametrize("kernel", [(2, 2), (3, 3), (7, 5)])
def test_average_pool(kernel: tuple[int, int], deploy_tf: Any) -> None:
    """AscendDequant repeats the window; its scale is the activation's."""
    net = tf_net(1, 14, 15, 3)
    x = net.quantized(net.x, 0.0371, -128)
    y = net.add(nn.AveragePoolOp, x, kernel=kernel, layout="nhwc", layer="pool", op_type="AvgPool")
    nodes = deploy_tf.assert_equal(net.module(y), {"x": real(1, 14, 15, 3)})
    assert nodes["pool"].op == "AvgPool"
    assert list(nodes["pool.dequant"].attr["ksize"].list.i) == list(kernel)
    assert array(nodes["pool.dequant.param"]).astype(np.uint32).view(np.float32) == np.float32(0.0371)


def test_average_pool_with_padding_that_counts(deploy_tf: Any) -> None:
    """Zeros are added to the integers less their zero point, which it is that is read."""
    net = tf_net(1, 6, 6, 3)
    x = net.quantized(net.x, 0.0371, -77)
    window = {"kernel": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": True, "layout": "nhwc"}
    y = net.add(nn.AveragePoolOp, x, **window, layer="pool", op_type="AveragePool")
    nodes = deploy_tf.assert_equal(net.module(y), {"x": real(1, 6, 6, 3)})
    assert op_types(nodes) == ["AscendQuant", "PadV2", "AvgPool", "AscendDequant"]
    (padded,) = (op for op in deploy_tf.read().walk() if isinstance(op, nn.PadOp))
    assert padded.value.value.data == -77


def test_two_layers_on_one_value(deploy_tf: Any) -> None:
    """Equal quantizations of one tensor are one AscendQuant, and a weight that is shared is stored once."""
    net = tf_net(1, 5, 5, 3)
    options: dict[str, Any] = {"layout": "nhwc", "op_type": "Conv2D"}
    a = net.layer(nn.ConvOp, net.x, int8(4, 3, 1, 1), name="a", **options)
    b = net.layer(nn.ConvOp, net.x, int8(4, 3, 1, 1, seed=9), name="b", **options)
    c = net.layer(nn.ConvOp, net.x, int8(4, 3, 1, 1, seed=8), name="c", zero_point=1, **options)
    nodes = deploy_tf.assert_equal(net.module(a, b, c), {"x": real(1, 5, 5, 3)})
    assert [n.name for n in nodes.values() if n.op == "AscendQuant"] == ["a.quant", "c.quant"]
    assert [nodes[name].input[0] for name in "abc"] == ["a.quant", "a.quant", "c.quant"]


def test_read_in_float(deploy_tf: Any) -> None:
    """AscendAntiQuant has Ascend IR's offset, the negated zero point."""
    net = tf_net(1, 4, 4, 3)
    x = net.quantized(net.x, 0.05, -9)
    y = net.add(nn.SigmoidOp, x, layer="gate", op_type="Sigmoid")
    nodes = deploy_tf.assert_equal(net.module(y), {"x": real(1, 4, 4, 3)})
    assert op_types(nodes) == ["AscendQuant", "AscendAntiQuant", "Sigmoid"]
    (anti,) = (n for n in nodes.values() if n.op == "AscendAntiQuant")
    assert anti.attr["offset"].f == 9


def test_half_precision(deploy_tf: Any) -> None:
    net = tf_net(1, 5, 5, 3, element=f16)
    y = net.layer(nn.ConvOp, net.x, int8(4, 3, 3, 3), scales=scales(4), bias=int32(4), layout="nhwc", op_type="Conv2D")
    nodes = deploy_tf.assert_equal(net.module(y), {"x": real(1, 5, 5, 3).astype(np.float16)})
    assert {nodes[n].attr["T"].type for n in ("conv.quant", "conv", "conv.dequant")} == {19}  # DT_HALF


def test_names_and_attributes(deploy_tf: Any) -> None:
    """What Huawei's adapter registers, no more."""
    net = tf_net(1, 5, 5, 3)
    y = net.layer(nn.ConvOp, net.x, int8(4, 3, 3, 3), bias=int32(4), zero_point=-3, layout="nhwc", op_type="Conv2D")
    nodes = deploy_tf.assert_equal(net.module(y), {"x": real(1, 5, 5, 3)})
    attributes = {name: set(n.attr) for name, n in nodes.items() if n.op.startswith("Ascend")}
    assert attributes == {
        "conv.quant": {"T", "scale", "offset", "dst_type", "quant_bits"},
        "conv.weight_quant": {"T", "dst_type"},
        "conv.dequant": {"T", "ksize", "data_format"},
    }
    quant = nodes["conv.quant"].attr
    assert (quant["scale"].f, quant["offset"].f) == (np.float32(1) / np.float32(0.03), -3)
    assert (quant["dst_type"].s, quant["quant_bits"].i) == (b"INT8", 8)


def test_residual_network_of_onnx(deploy_tf: Any, tmp_path: Path, capfd: Any) -> None:
    """Channels second become channels last, but for inputs and outputs."""
    path = tmp_path / "residual.onnx"
    onnx.save(residual_network(), path)
    nodes = deploy_tf.assert_equal(quantized(path), {"x": real(2, 3, 16, 16)})
    layers = {n.name for n in nodes.values() if n.op in ("Conv2D", "MatMul", "AvgPool")}
    assert layers == {"conv0", "conv1", "conv2", "fc", "pool", "short"}
    assert "warning" in capfd.readouterr().err  # of the synthetic inputs that calibrate


def test_digits(deploy_tf: Any) -> None:
    deploy_tf.assert_equal(*digits())


def test_transformer(deploy_tf: Any, capfd: Any) -> None:
    module = quantized(EXAMPLES / "models" / "transformer.onnx")
    (name,) = input_names(main_function(module))
    nodes = deploy_tf.assert_equal(module, {name: real(1, 16, 64)})
    assert sum(n.op == "AscendDequant" for n in nodes.values()) == 13
    assert "warning" in capfd.readouterr().err


def test_lowered_already(deploy_tf: Any) -> None:
    """A module in `ascend` is written as it is where its channels are last."""
    from amct_opt.lowering.ascend import LowerToAscendPass

    net = tf_net(1, 5, 5, 3)
    y = net.layer(nn.ConvOp, net.x, int8(4, 3, 3, 3), layout="nhwc", op_type="Conv2D")
    y = net.add(nn.ReluOp, y, layer="relu", op_type="Relu")
    module = net.module(net.add(nn.ConcatOp, [y, y], axis=3, layer="both", op_type="ConcatV2"))
    LowerToAscendPass().apply(new_session(), module)
    assert any(isinstance(op, ascend.ReluOp) for op in module.walk())
    nodes = deploy_tf.assert_equal(module, {"x": real(1, 5, 5, 3)})
    assert op_types(nodes) == ["AscendQuant", "AscendWeightQuant", "Conv2D", "AscendDequant", "Relu", "ConcatV2"]
