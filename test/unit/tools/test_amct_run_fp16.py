"""`amct run --fp16` on a module of ascend, and on one of nn, which it refuses; `--chip`, which lowers it."""

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


def test_a_chip_has_its_own_types(run):
    """AscendQuant takes float32: 2.5004 goes to 3. The result of AscendDequant has float16 alone: 38.1 is 38.09375."""
    result, outputs = run(LAYER, "--chip", "910b")
    assert result.status == 0
    assert values(outputs) == [[3, 0], [38.09375]]


def test_a_chip_lowers_a_module_of_nn(run):
    result, outputs = run(NN, "--chip", "910b", "--fp16")
    assert (result.status, values(outputs)) == (0, [[2.5, 0]])


def test_an_operation_without_a_kernel_is_an_error(run):
    wide = LAYER.replace("1x2xi8>", "1x2xi16>").replace("%x scale 1.0", "%x dst_type 6 scale 1.0")
    result, outputs = run(wide, "--chip", "910b")
    assert result.status == 1
    assert "m.mlir:5:3: error: " in result.err
    assert "chip 910b has no AscendQuant of f32 -> i16" in result.err
    assert "hint: without --chip it runs as it is" in result.err
    assert not outputs.exists()
