"""`shift_n` of AscendDequant in a deployable file: bits 39..32 of each scale (AMCT's layout)."""

import numpy as np
import onnx
from onnx import numpy_helper

from amct_opt.tools import amct_opt

MODULE = """
func.func @main(%x: tensor<1x2xf32> {nn.name = "x"}) -> tensor<1x2xf32> {
  %w = nn.constant dense<[[127, 3], [4, -5]]> : tensor<2x2xi8>
  %s = nn.constant dense<[1.0e-03, 0.5]> : tensor<2xf32>
  %q = ascend.AscendQuant %x scale 1.0 offset 0.0 : (tensor<1x2xf32>) -> tensor<1x2xi8>
  %acc = ascend.MatMulV2 %q, %w : (tensor<1x2xi8>, tensor<2x2xi8>) -> tensor<1x2xi32>
  %y = ascend.AscendDequant %acc, %s shift_n SHIFTS : (tensor<1x2xi32>, tensor<2xf32>) -> tensor<1x2xf32>
  func.return %y : tensor<1x2xf32>
}"""


def packed(tmp_path, shifts):
    (tmp_path / "m.mlir").write_text(MODULE.replace("SHIFTS", shifts))
    assert amct_opt.run([str(tmp_path / "m.mlir"), "-t", "onnx-ascend", "-o", str(tmp_path / "m.onnx")]) == 0
    (param,) = (t for t in onnx.load(tmp_path / "m.onnx").graph.initializer if t.data_type == onnx.TensorProto.UINT64)
    return numpy_helper.to_array(param)


def test_one_shift_and_one_for_each_scale(tmp_path):
    """0.001 is 0x3a83126f, 0.5 is 0x3f000000."""
    assert packed(tmp_path, "[5]").tolist() == [0x5_3A83126F, 0x5_3F000000]
    assert packed(tmp_path, "[5, 16]").tolist() == [0x5_3A83126F, 0x10_3F000000]
    assert packed(tmp_path, "[1]").dtype == np.uint64
