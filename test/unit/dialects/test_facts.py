"""Facts of operations, by numbers and by their readers."""

from __future__ import annotations

import json
from pathlib import Path

from amct_opt.runtime.comparison import match_layers
from amct_opt.summary import describe_layers
from amct_opt.targets.fusion_info import FusionInfoTarget
from amct_opt.text import parse_module
from amct_opt.transforms.quantization.print_quant_points import quant_points
from amct_opt.transforms.quantization.profiles import ASCEND
from amct_opt.universe import new_session

SHIFTED = """
func.func @main(%x: tensor<1x2x4x4xf32> {nn.name = "x"}) -> (tensor<1x2x4x4xf32> {nn.name = "y"}) {
  %w = nn.constant dense<0.5> : tensor<2x2x1x1xf32>
  %c = nn.conv %x, %w from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %s = nn.shift_accumulator %c of <i32, scale = 0.5> by [2] from <onnx, "ShiftN", "conv.shift"> : tensor<1x2x4x4xf32>
  func.return %s : tensor<1x2x4x4xf32>
}
"""


def test_what_stands_between_layers_is_not_a_layer(tmp_path: Path) -> None:
    """The summary, the fusion information, `amct compare` and the list of points agree about the shift of a layer's sums."""
    session = new_session()
    module = parse_module(session, SHIFTED, "shifted.mlir")
    summary = describe_layers(module, [])
    assert {**summary.others, **summary.inside, **summary.quantized_before} == {"nn.conv": 1}
    (file,) = FusionInfoTarget().write(module, tmp_path / "shifted.json", session)
    (graph,) = json.loads(file.read_text())["graph"]
    assert [op["name"] for op in graph["op"]] == ["conv"]
    assert match_layers(module, module)[0].keys() == {"conv"}
    assert [point.layer for point in quant_points(module, ASCEND)] == ["x", "conv"]
