// RUN: amct-opt %s --lower-to-ascend --print-debuginfo | filecheck %s

// What stands for an operation has its location, AscendQuant that of the quantize.
// CHECK:         ascend.AscendQuant {{.*}} loc("conv1:0")
// CHECK:         ascend.Conv2D {{.*}} loc("conv1")
// CHECK:         nn.constant dense<1.250000e-01> : tensor<1xf32> loc("conv1")
// CHECK:         ascend.AscendDequant {{.*}} loc("conv1")
func.func @main(%x: tensor<1x3x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = nn.constant dense<1> : tensor<2x3x1x1xi8>
  %wd = nn.dequantize %w by <i8, scale = 0.25> : (tensor<2x3x1x1xi8>) -> tensor<2x3x1x1xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xi8> loc("conv1:0")
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xi8>) -> tensor<1x3x4x4xf32> loc("conv1:0")
  %y = nn.conv %d, %wd : (tensor<1x3x4x4xf32>, tensor<2x3x1x1xf32>) -> tensor<1x2x4x4xf32> loc("conv1")
  func.return %y : tensor<1x2x4x4xf32>
}
