"""Exports whose parameters are computed by nodes, as `torch.onnx.export(..., dynamo=True, optimize=False)` writes them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

from amct_opt.tools.amct import run

SCOPES = "pkg.torch.onnx.name_scopes"


def node(op_type: str, inputs: str, output: str, module: str) -> NodeProto:
    made = helper.make_node(op_type, inputs.split(), [output], name=f"node_{output}")
    made.metadata_props.add(key=SCOPES, value=f"['', 'features', 'features.{module}', '{output}']")
    return made


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """conv (its bias expanded from zero), batch norm and relu6 (its bounds after CastLike), then a convolution."""
    rng = np.random.default_rng(0)
    arrays = {
        "zero": np.zeros((), np.float32),
        "six": np.full((), 6, np.int64),
        "channels": np.array([4]),
        "w1": rng.normal(size=(4, 3, 3, 3)).astype(np.float32),
        "w2": rng.normal(size=(1, 4, 4, 1)).astype(np.float32),
        **{name: rng.uniform(0.5, 1.5, 4).astype(np.float32) for name in ("scale", "shift", "mean", "variance")},
    }
    nodes = [
        node("CastLike", "zero x", "zero_like", "0"),
        node("Expand", "zero_like channels", "bias", "0"),
        node("Conv", "x w1 bias", "conv", "0"),
        node("Identity", "scale", "scale_id", "1"),
        node("CastLike", "scale_id x", "scale_like", "1"),
        node("BatchNormalization", "conv scale_like shift mean variance", "bn", "1"),
        node("CastLike", "zero bn", "low", "2"),
        node("CastLike", "six bn", "high", "2"),
        node("Clip", "bn low high", "relu6", "2"),
        node("Transpose", "w2", "w2_t", "3"),
        node("Conv", "relu6 w2_t", "y", "3"),
    ]
    nodes[-2].attribute.append(helper.make_attribute("perm", [2, 1, 0, 3]))
    graph = helper.make_graph(
        nodes,
        "main",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(array, name) for name, array in arrays.items()],
    )
    path = tmp_path / "raw.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path


def test_parameters_behind_nodes_are_folded_before_anything_is_matched(model: Path, tmp_path: Path) -> None:
    assert run(["quantize", str(model), "-o", str(tmp_path / "out"), "--verbose"]) == 0
    layers = json.loads((tmp_path / "out" / "summary.json").read_text("utf-8"))["layers"]
    assert sorted(row["rule"] for row in layers["fused"]) == [
        "compute-activation",
        "compute-batch-norm",
        "relu6-saturates",
    ]
    assert [(row["layer"], row["module"]) for row in layers["quantized"]] == [
        ("node_conv", "features.0"),
        ("node_y", "features.3"),
    ]
    assert layers["not_fused"] == layers["left_in_float"] == []


def test_what_is_part_of_a_quantized_layer_is_not_counted_as_float(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["quantize", str(model), "-o", str(tmp_path / "out"), "--verbose"]) == 0
    layers = json.loads((tmp_path / "out" / "summary.json").read_text("utf-8"))["layers"]
    assert (layers["inside"], layers["others"]) == ({"nn.relu6": 1}, {})
    assert "part of a quantized layer   1: nn.relu6 1" in capsys.readouterr().out


def test_layers_are_called_by_their_modules(model: Path, tmp_path: Path) -> None:
    assert run(["quantize", str(model), "-o", str(tmp_path / "out"), "--skip-layers", "features.0"]) == 0
    layers = json.loads((tmp_path / "out" / "summary.json").read_text("utf-8"))["layers"]
    assert [row["layer"] for row in layers["quantized"]] == ["node_y"]
    assert [(row["layer"], row["rule"]) for row in layers["left_in_float"]] == [("node_conv", "skip-layers")]


def test_parameters_of_text_are_folded(tmp_path: Path) -> None:
    """In a module, which no import has folded."""
    image, channel = "tensor<1x1x4x4xf32>", "tensor<1xf32>"
    (tmp_path / "net.mlir").write_text(f"""
func.func @main(%x: {image}) -> {image} {{
  %w = nn.constant dense<2.0> : tensor<1x1x1x1xf32>
  %one = nn.constant dense<1.0> : {channel}
  %zero = nn.constant dense<0.0> : tensor<f32>
  %bias = nn.expand %zero to [1] : (tensor<f32>) -> {channel}
  %c = nn.conv %x, %w, %bias from <onnx, "Conv", "conv"> : ({image}, tensor<1x1x1x1xf32>, {channel}) -> {image}
  %n = nn.batch_norm %c, %one, %one, %one, %one : ({image}, {", ".join([channel] * 4)}) -> {image}
  func.return %n : {image}
}}
""")
    assert run(["quantize", str(tmp_path / "net.mlir"), "-o", str(tmp_path / "out")]) == 0
    layers = json.loads((tmp_path / "out" / "summary.json").read_text("utf-8"))["layers"]
    assert [row["rule"] for row in layers["fused"]] == ["compute-batch-norm"]
