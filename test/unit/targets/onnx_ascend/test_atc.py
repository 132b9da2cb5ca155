"""What ATC's parser takes: registry, names, ports and attributes, on a file that a rule accepts and on one that it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import ModelProto, TensorProto, helper
from onnx.helper import make_node as node

from amct_opt.dialects import nn
from amct_opt.formats.onnx.operators import ROWS
from amct_opt.formats.onnx.schema import schema_of
from amct_opt.session import Session
from amct_opt.targets.onnx_ascend import OnnxAscendTarget
from amct_opt.targets.onnx_ascend.atc import Finding, findings, operator_of

from ...values import parsed
from ..nets import Net


def model(*nodes: Any, opset: int = 13, rank: int = 4, inputs: tuple[str, ...] = ("x",), **arrays: Any) -> ModelProto:
    """A graph of nodes from x to y."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2] * rank) for name in (*inputs, "y")]
    kept = [helper.make_tensor(name, kind, [1], [1]) for name, kind in arrays.items()]
    graph = helper.make_graph(nodes, "g", ends[:-1], ends[-1:], kept)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def found(*nodes: Any, **rest: Any) -> list[tuple[str, str, str]]:
    """Status, rule and code of what is not confirmed."""
    return [
        (each.status, each.rule, each.code) for each in findings(model(*nodes, **rest)) if each.status != "confirmed"
    ]


WINDOW: dict[str, Any] = {"kernel_shape": [2, 2], "strides": [2, 2]}
CUBE: dict[str, Any] = {"kernel_shape": [2, 2, 2]}
RULES: dict[str, tuple[Any, Any, tuple[str, str, str]]] = {
    "opset": (
        (node("HardSwish", ["x"], ["y"], "n"), 14),
        (node("Trilu", ["x"], ["y"], "n"), 13),
        ("refused", "registered", "E16002"),
    ),
    "type": (
        (node("Relu", ["x"], ["y"], "n"), 17),
        (node("DequantizeLinear", ["x", "x"], ["y"], "n"), 13),
        ("refused", "registered", "E16002"),
    ),
    "domain": (
        (node("Relu", ["x"], ["y"], "n", domain="ai.onnx"), 13),
        (node("Relu", ["x"], ["y"], "n", domain="mine"), 13),
        ("refused", "domain", "E19999"),
    ),
    "name of an input": (
        (node("Relu", ["x"], ["y"], "y"), 13),
        (node("Relu", ["x"], ["y"], "x"), 13),
        ("refused", "names", "E13009"),
    ),
    "ports": (
        (node("AscendQuant", ["x"], ["y"], "n", scale=1.0, offset=0.0), 13),
        (node("AscendQuant", ["x", "x"], ["y"], "n", scale=1.0, offset=0.0), 13),
        ("refused", "ports", "E19999"),
    ),
    "bounds of Clip": (
        (node("Clip", ["x", "", "x"], ["y"], "n"), 13),
        (node("Clip", ["x"], ["y"], "n"), 13),
        ("refused", "attributes", "E11010"),
    ),
    "window of Conv": (
        (node("Conv", ["x", "x"], ["y"], "n", **WINDOW), 13),
        (node("Conv", ["x", "x"], ["y"], "n"), 13),
        ("refused", "attributes", "E11010"),
    ),
    "auto_pad of Conv": (
        (node("Conv", ["x", "x"], ["y"], "n", auto_pad="SAME_UPPER", **WINDOW), 13),
        (node("Conv", ["x", "x"], ["y"], "n", auto_pad="SAME_UPPER", **CUBE), 13),
        ("refused", "attributes", "E11010"),
    ),
    "window of ConvTranspose": (
        (node("ConvTranspose", ["x", "x"], ["y"], "n", output_padding=[1, 1], **WINDOW), 13),
        (node("ConvTranspose", ["x", "x"], ["y"], "n", strides=[2, 2]), 13),
        ("refused", "attributes", "E11010"),
    ),
    "size of ConvTranspose": (
        (node("ConvTranspose", ["x", "x"], ["y"], "n", **WINDOW), 13),
        (node("ConvTranspose", ["x", "x"], ["y"], "n", output_shape=[4, 4], **WINDOW), 13),
        ("refused", "attributes", ""),
    ),
    "dilations of MaxPool": (
        (node("MaxPool", ["x"], ["y"], "n", dilations=[1, 1], **WINDOW), 13),
        (node("MaxPool", ["x"], ["y"], "n", dilations=[2, 2], **WINDOW), 13),
        ("refused", "attributes", ""),
    ),
    "auto_pad of MaxPool": (
        (node("MaxPool", ["x"], ["y"], "n", auto_pad="SAME_UPPER", **WINDOW), 13),
        (node("MaxPool", ["x"], ["y"], "n", auto_pad="SAME_LOWER", **WINDOW), 13),
        ("refused", "attributes", ""),
    ),
    "indices of MaxPool": (
        (node("MaxPool", ["x"], ["y"], "n", **WINDOW), 13),
        (node("MaxPool", ["x"], ["y", "i"], "n", **WINDOW), 13),
        ("refused", "attributes", "E11010"),
    ),
    "auto_pad of AveragePool": (
        (node("AveragePool", ["x"], ["y"], "n", auto_pad="SAME_UPPER", **WINDOW), 13),
        (node("AveragePool", ["x"], ["y"], "n", auto_pad="SAME_UPPER", **CUBE), 13),
        ("refused", "attributes", ""),
    ),
    "index of ArgMax": (
        (node("ArgMax", ["x"], ["y"], "n", select_last_index=0), 13),
        (node("ArgMax", ["x"], ["y"], "n", select_last_index=1), 13),
        ("refused", "attributes", "E11010"),
    ),
    "rounding of Resize": (
        (
            node(
                "Resize", ["x", "", "x"], ["y"], "n", coordinate_transformation_mode="asymmetric", nearest_mode="floor"
            ),
            13,
        ),
        (node("Resize", ["x", "", "x"], ["y"], "n", coordinate_transformation_mode="asymmetric"), 13),
        ("refused", "attributes", ""),
    ),
    "coordinates of Resize": (
        (node("Resize", ["x", "", "x"], ["y"], "n"), 13),
        (node("Resize", ["x", "", "x"], ["y"], "n", coordinate_transformation_mode="tf_crop_and_resize"), 13),
        ("refused", "attributes", ""),
    ),
    "order of Transpose": (
        (node("Transpose", ["x"], ["y"], "n", perm=[0, 1, 3, 2]), 13),
        (node("Transpose", ["x"], ["y"], "n"), 13),
        ("refused", "attributes", "E11010"),
    ),
    "reset of GRU": (
        (node("GRU", ["x", "x", "x"], ["y"], "n", hidden_size=2, linear_before_reset=0), 13),
        (node("GRU", ["x", "x", "x"], ["y"], "n", hidden_size=2, linear_before_reset=1), 13),
        ("unknown", "attributes", ""),
    ),
    "mode of AscendQuant": (
        (node("AscendQuant", ["x"], ["y"], "n", scale=1.0, offset=0.0, dst_type="INT8"), 13),
        (
            node("AscendQuant", ["x"], ["y"], "n", scale=1.0, offset=0.0, fakequant_precision_mode="FORCE_FP16_QUANT"),
            13,
        ),
        ("unknown", "attributes", ""),
    ),
}


@pytest.mark.parametrize("rule", RULES)
def test_rules(rule: str) -> None:
    (taken, opset), (refused, other), expected = RULES[rule]
    assert found(taken, opset=opset) == []
    assert found(refused, opset=other) == [expected]


def test_names_of_constants_and_of_nodes_without_a_name() -> None:
    """ATC makes nodes of constants, and names nodes by type and number."""
    assert found(node("Relu", ["w"], ["y"], "w"), w=TensorProto.FLOAT) == []
    assert found(node("Relu", ["w"], ["y"], "w_Initializer_0"), w=TensorProto.FLOAT) == [("refused", "names", "E13009")]
    both = node("Relu", ["x"], ["z"]), node("Relu", ["z"], ["y"], "Relu_0")
    assert found(*both) == [("refused", "names", "E13009")]


def test_absent_results_meet_absent_inputs() -> None:
    lstm = node("LSTM", ["x", "x", "x"], ["", "y"], "lstm", hidden_size=2)
    assert found(lstm) == []
    assert found(lstm, node("Clip", ["y", "", "x"], ["z"], "clip")) == [("refused", "ports", "")]


def test_files() -> None:
    assert found(node("Relu", ["x"], ["y"], "n"), inputs=()) == [("refused", "ends", "E16001")]
    assert found(node("Relu", ["w"], ["y"], "n"), w=TensorProto.FLOAT8E4M3FNUZ) == [("refused", "elements", "E19999")]
    assert found(node("GlobalMaxPool", ["x"], ["y"], "n")) == []
    assert found(node("GlobalMaxPool", ["x"], ["y"], "n"), rank=5) == [("refused", "attributes", "")]


def test_the_reason_names_what_is_taken() -> None:
    (own,) = findings(model(node("LayerNormalization", ["x", "x"], ["y"], "n")))
    reason = "ATC has no plug-in for ai.onnx::LayerNormalization in opset 13, it has one in 17-18"
    assert own == Finding("n", "LayerNormalization", "refused", "registered", reason, "E16002")


def test_every_operator_that_is_written_is_registered() -> None:
    """In every opset of the target; what an opset does not have is written by its expansion."""
    pairs = [(row.op_type, opset) for row in ROWS for opset in range(11, 18) if schema_of(row.op_type, opset)]
    assert [pair for pair in pairs if operator_of(pair[0], "", pair[1]) is None] == []


def test_a_node_never_has_the_name_of_an_input(deploy: Any) -> None:
    net = Net(1, 2, 4, 4)
    module = net.module(net.layer(nn.ConvOp, net.x, np.ones((2, 2, 1, 1), np.int8), scales=[0.1], name="x"))
    assert not [each for each in findings(deploy.write(module)) if each.status != "confirmed"]


NET = """
func.func @main(%x: tensor<1x2x8x8xf32> {nn.name = "x"}) -> (tensor<1x2x7x7xf32> {nn.name = "y"}) {
  %low = nn.constant dense<0xFF800000> : tensor<f32>
  %high = nn.constant dense<0x7F800000> : tensor<f32>
  %p = nn.max_pool %x dilations [DILATION, DILATION] kernel [2, 2] from <onnx, "MaxPool", "pool"> :
    (tensor<1x2x8x8xf32>) -> tensor<1x2xSIZExSIZExf32>
  %y = ascend.ClipByValue %p, %low, %high : (tensor<1x2xSIZExSIZExf32>, tensor<f32>, tensor<f32>) -> tensor<1x2xSIZExSIZExf32>
  func.return %y : tensor<1x2xSIZExSIZExf32>
}
"""


def written(dilation: int, path: Path) -> Session:
    size = str(8 - dilation)
    module, session = parsed(NET.replace("7x7", "SIZExSIZE").replace("DILATION", str(dilation)).replace("SIZE", size))
    OnnxAscendTarget().write(module, path, session)
    return session


def test_the_writer_reports_what_atc_refuses(tmp_path: Path) -> None:
    session = written(2, tmp_path / "net.onnx")
    (remark,) = [each for each in session.remarks if each.rule.startswith("atc-")]
    assert (remark.kind, remark.rule, remark.layer) == ("missed", "atc-attributes", "pool")
    assert remark.reason == "its plug-in does not use dilations: MaxPoolV3 has none"
    text = "ATC refuses 1 node of net.onnx: MaxPool 'pool': its plug-in does not use dilations: MaxPoolV3 has none"
    assert session.warnings == ["no layer computes in integers: the file is a float model", f"{text} (amct atc-check)"]


def test_a_clip_without_bounds_is_an_identity(tmp_path: Path) -> None:
    session = written(1, tmp_path / "net.onnx")
    assert [each.op_type for each in onnx.load(tmp_path / "net.onnx").graph.node] == ["MaxPool", "Identity"]
    assert not [each for each in session.remarks if each.rule.startswith("atc-")]
