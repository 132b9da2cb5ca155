"""What deployable TensorFlow files cannot hold ends in one located line; what they hold otherwise than `ascend`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from amct_opt.dialects import ascend, nn
from amct_opt.dialects.ascend import OPERATIONS
from amct_opt.ir.text import parse_module
from amct_opt.ir.verification import verify
from amct_opt.session.universe import new_session
from amct_opt.support.diagnostics import CompileError
from amct_opt.targets.tf_ascend import CONVERTERS

from ..nets import Net

QUANT = "%q = ascend.AscendQuant %x {options} : (tensor<1x4x6x4xf32>) -> tensor<1x4x6x4x{element}>"
INT8 = QUANT.format(options="scale 20.0 offset -9.0", element="i8")
DEQUANT = "%y = ascend.AscendDequant %a, %s {options} : (tensor<{shape}xi32>, tensor<1xf32>) -> tensor<{shape}xf32>"
POOL = "%a = ascend.AvgPoolV2 %q {options} offset_x -9 : (tensor<1x4x6x4xi8>) -> tensor<{shape}xi32>"


def module(*lines: str, result: str) -> Any:
    body = "\n".join(["%s = nn.constant dense<0.01> : tensor<1xf32>", *lines])
    text = f"""func.func @main(%x: tensor<1x4x6x4xf32> {{nn.name = "x"}}) -> (tensor<{result}> {{nn.name = "y"}}) {{
    {body}
    func.return %y : tensor<{result}>
    }}"""
    parsed = parse_module(new_session(), text, "net.mlir")
    verify(parsed)
    return parsed


def pool(options: str, shape: str, dequant: str = "") -> Any:
    lines = INT8, POOL.format(options=options, shape=shape), DEQUANT.format(options=dequant, shape=shape)
    return module(*lines, result=f"{shape}xf32")


def integers(options: str, element: str = "i8") -> Any:
    quant = QUANT.format(options=options, element=element).replace("%q", "%y")
    return module(quant, result=f"1x4x6x4x{element}")


VALID = 'ksize [1, 2, 2, 1] strides [1, 2, 2, 1] data_format "NHWC"'
CASES: dict[str, tuple[Any, str]] = {
    "rounding": (lambda: integers('scale 20.0 offset 0.0 round_mode "Floor"'), "round_mode or sqrt_mode"),
    "square root": (lambda: integers("scale 20.0 offset 0.0 sqrt_mode true"), "round_mode or sqrt_mode"),
    "int4": (lambda: integers("scale 20.0 offset 0.0 dst_type 29", "i4"), "integers of 4 bits or less"),
    "int16": (lambda: integers("scale 20.0 offset -32768.0 dst_type 6", "i16"), "gives i16, these files hold int8"),
    "square root of scales": (lambda: pool(VALID, "1x2x3x4", "sqrt_mode true"), "sqrt_mode, which"),
    "channels second": (
        lambda: pool("ksize [1, 1, 2, 2] strides [1, 1, 2, 2]", "1x4x3x2"),
        "is in NCHW, these files have channels last",
    ),
    "normalized channels second": (
        lambda: module("%y = ascend.LRN %x : tensor<1x4x6x4xf32>", result="1x4x6x4xf32"),
        "has its channels on axis 1, these files have them last",
    ),
    "integers as numbers": (
        lambda: module(
            INT8, "%y = ascend.Cast %q dst_type 3 : (tensor<1x4x6x4xi8>) -> tensor<1x4x6x4xi32>", result="1x4x6x4xi32"
        ),
        "takes the integers of AscendQuant as numbers",
    ),
    "rounds up": (
        lambda: pool('ksize [1, 1, 3, 1] strides [1, 1, 2, 1] ceil_mode true data_format "NHWC"', "1x4x3x4"),
        "rounds sizes up, which TensorFlow's AvgPool does not",
    ),
    "padding that does not count": (
        lambda: pool('ksize [1, 1, 2, 1] strides [1, 1, 7, 1] pads [0, 0, 1, 0] data_format "NHWC"', "1x4x1x4"),
        "pads otherwise than SAME",
    ),
    "float layer of Caffe": (
        lambda: module(
            "%w = nn.constant dense<1.0> : tensor<5x96xf32>",
            "%y = ascend.FullyConnection %x, %w num_output 5 : (tensor<1x4x6x4xf32>, tensor<5x96xf32>) -> tensor<1x5xf32>",
            result="1x5xf32",
        ),
        "is FullyConnection, which these files do not have",
    ),
    "layer of Caffe on several axes": (
        lambda: module(
            INT8,
            "%w = nn.constant dense<1> : tensor<5x96xi8>",
            "%a = ascend.FullyConnection %q, %w num_output 5 offset_x -9"
            " : (tensor<1x4x6x4xi8>, tensor<5x96xi8>) -> tensor<1x5xi32>",
            DEQUANT.format(options="", shape="1x5"),
            result="1x5xf32",
        ),
        "is FullyConnection, which these files do not have",
    ),
    "new operators": (
        lambda: module(
            "%o = nn.constant dense<0.0> : tensor<1xf32>",
            "%y = ascend.AscendQuantV2 %x, %s, %o : (tensor<1x4x6x4xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x4x6x4xi8>",
            result="1x4x6x4xi8",
        ),
        "has no form in TensorFlow",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_located(case: str, deploy_tf: Any) -> None:
    make, message = CASES[case]
    with pytest.raises(CompileError, match=message) as caught:
        deploy_tf.write(make())
    assert caught.value.where.startswith("net.mlir:")
    assert not deploy_tf.path.exists()


def test_relu_of_a_dequantization(deploy_tf: Any) -> None:
    """TensorFlow's AscendDequant has no relu_flag: the same numbers come of a Relu after it."""
    x = np.random.default_rng(0).normal(size=(1, 4, 6, 4)).astype(np.float32)
    nodes = deploy_tf.assert_equal(pool(VALID, "1x2x3x4", "relu_flag true"), {"x": x})
    assert [n.op for n in nodes.values()][-2:] == ["AscendDequant", "Relu"]


def test_weights_with_offsets(deploy_tf: Any) -> None:
    parsed = module(
        INT8,
        "%w = nn.constant dense<[[1, 2], [3, 4], [5, -6], [7, 8]]> : tensor<4x2xi8>",
        "%o = nn.constant dense<[3, -4]> : tensor<2xi8>",
        "%v = ascend.AscendWeightQuant %w, %o : (tensor<4x2xi8>, tensor<2xi8>) -> tensor<4x2xi8>",
        "%a = ascend.BatchMatMulV2 %q, %v offset_x -9 : (tensor<1x4x6x4xi8>, tensor<4x2xi8>) -> tensor<1x4x6x2xi32>",
        DEQUANT.format(options="", shape="1x4x6x2"),
        result="1x4x6x2xf32",
    )
    x = np.random.default_rng(0).normal(size=(1, 4, 6, 4)).astype(np.float32)
    nodes = deploy_tf.assert_equal(parsed, {"x": x})
    assert sum(n.op == "AscendWeightQuant" for n in nodes.values()) == 1


def test_shifts_are_packed(deploy_tf: Any) -> None:
    parsed = pool(VALID, "1x2x3x4", "shift_n [3]")
    x = np.random.default_rng(0).normal(size=(1, 4, 6, 4)).astype(np.float32)
    nodes = deploy_tf.assert_equal(parsed, {"x": x})
    (param,) = (n for n in nodes.values() if n.name.endswith(".dequant.param"))
    (bits,) = np.frombuffer(param.attr["value"].tensor.tensor_content, np.uint64)
    assert int(bits) >> 32 == 3


def test_precision_mode(deploy_tf: Any) -> None:
    """The mode is an attribute that TensorFlow ignores, and is read back."""
    mode = 'fakequant_precision_mode "FORCE_FP16_QUANT"'
    parsed = pool(VALID, "1x2x3x4", mode)
    nodes = deploy_tf.assert_equal(parsed, {"x": np.random.default_rng(0).normal(size=(1, 4, 6, 4)).astype(np.float32)})
    (dequant,) = (n for n in nodes.values() if n.op == "AscendDequant")
    assert dequant.attr["_fakequant_precision_mode"].s == b"FORCE_FP16_QUANT"


def test_float_models_say_so(deploy_tf: Any, capfd: Any) -> None:
    net = Net(2, 3)
    deploy_tf.write(net.module(net.add(nn.ReluOp, net.x)))
    assert "no layer computes in integers" in capfd.readouterr().err


def test_an_output_called_as_its_layer(deploy_tf: Any) -> None:
    """The name of an output is that of the last node of its layer."""
    net = Net(3, 7, framework="tensorflow")
    y = net.layer(nn.MatMulOp, net.x, np.ones((7, 5), np.int8), name="result0", op_type="MatMul")
    nodes = deploy_tf.write(net.module(y))
    assert nodes["result0"].op == "AscendDequant"


def test_converters_are_of_known_operations() -> None:
    assert set(CONVERTERS) <= set(OPERATIONS)
    assert ascend.AscendRequantS16Op not in CONVERTERS
