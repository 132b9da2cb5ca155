"""`amct run --fp16` on a module of ascend, and on one of nn, which it refuses."""

import numpy as np
import pytest

LAYER = """
func.func @main(%x: tensor<1x2xf32> {nn.name = "x"}) -> (tensor<1x2xi8>, tensor<1x1xf32>) {
  %w = nn.constant dense<127> : tensor<2x1xi8>
  %s = nn.constant dense<0.1> : tensor<1xf32>
  %q = ascend.AscendQuant %x scale 1.0 offset 0.0 : (tensor<1x2xf32>) -> tensor<1x2xi8>
  %acc = ascend.MatMulV2 %q, %w : (tensor<1x2xi8>, tensor<2x1xi8>) -> tensor<1x1xi32>
  %y = ascend.AscendDequant %acc, %s : (tensor<1x1xi32>, tensor<1xf32>) -> tensor<1x1xf32>
  func.return %q, %y : tensor<1x2xi8>, tensor<1x1xf32>
}"""

NN = """
func.func @main(%x: tensor<1x2xf32> {nn.name = "x"}) -> tensor<1x2xf32> {
  %y = nn.relu %x : tensor<1x2xf32>
  func.return %y : tensor<1x2xf32>
}"""


@pytest.fixture
def run(amct_tool, tmp_path):
    def run(module, *options):
        (tmp_path / "m.mlir").write_text(module)
        np.savez(tmp_path / "x.npz", x=np.array([[2.5004, 0]], np.float32))
        inputs, outputs = tmp_path / "x.npz", tmp_path / "y.npz"
        return amct_tool("run", tmp_path / "m.mlir", "--data", inputs, "-o", outputs, *options), outputs

    return run


def values(path):
    with np.load(path) as outputs:
        return [outputs[name].ravel().tolist() for name in outputs.files]


def test_rounds_to_float16(run):
    """2.5004 is 2.5 in float16, a tie, which goes to 2; 254 * 0.1 = 25.4 is 25.40625."""
    result, outputs = run(LAYER)
    assert result.status == 0
    assert values(outputs)[0] == [3, 0]
    result, outputs = run(LAYER, "--fp16")
    assert result.status == 0
    assert values(outputs) == [[2, 0], [25.40625]]


def test_refuses_a_module_without_ascend(run):
    result, outputs = run(NN, "--fp16")
    assert result.status == 1
    assert "--fp16 is for modules of the ascend dialect" in result.err
    assert "run amct-opt --lower-to-ascend first" in result.err
    assert not outputs.exists()
