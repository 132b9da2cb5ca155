// RUN: amct-opt %s --lower-to-ascend --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// Equal quantizations of one value become one AscendQuant, another zero point another one. The quantized value that an
// operation takes in float comes out of AscendAntiQuant, whose offset is the negated zero point.
// CHECK-LABEL: @merged
// CHECK:         %q = ascend.AscendQuant %x scale 2.0 offset -3.0
// CHECK-NEXT:    %d = ascend.AscendAntiQuant %q scale 0.5 offset 3.0
// CHECK-NEXT:    %r = ascend.AscendQuant %x scale 2.0 offset 4.0
// CHECK-NOT:     ascend.AscendQuant
// CHECK:         ascend.Conv2D %q, %w
// CHECK:         ascend.Conv2D %q, %w
// CHECK:         ascend.Conv2D %r, %w
// CHECK:         ascend.Relu %d
// REMARK:      [lower-to-ascend applied lower] "d": computed by ascend.AscendAntiQuant
func.func @merged(%x: tensor<1x3x4x4xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>, tensor<1x3x4x4xf32>) {
  %w = nn.constant dense<1> : tensor<2x3x1x1xi8>
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5], axis = 0> : (tensor<2x3x1x1xi8>) -> tensor<2x3x1x1xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xi8>) -> tensor<1x3x4x4xf32>
  %p = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xi8>
  %e = nn.dequantize %p by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xi8>) -> tensor<1x3x4x4xf32>
  %r = nn.quantize %x by <i8, scale = 0.5, zero_point = 4> : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xi8>
  %f = nn.dequantize %r by <i8, scale = 0.5, zero_point = 4> : (tensor<1x3x4x4xi8>) -> tensor<1x3x4x4xf32>
  %a = nn.conv %d, %wd : (tensor<1x3x4x4xf32>, tensor<2x3x1x1xf32>) -> tensor<1x2x4x4xf32>
  %b = nn.conv %e, %wd : (tensor<1x3x4x4xf32>, tensor<2x3x1x1xf32>) -> tensor<1x2x4x4xf32>
  %c = nn.conv %f, %wd : (tensor<1x3x4x4xf32>, tensor<2x3x1x1xf32>) -> tensor<1x2x4x4xf32>
  %o = nn.relu %d : tensor<1x3x4x4xf32>
  func.return %a, %b, %c, %o : tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>, tensor<1x3x4x4xf32>
}

// -----

// A fused region is taken apart: its operations are lowered one by one, with their own locations.
// CHECK-LABEL: @fused
// CHECK-NOT:     nn.fused
// CHECK:         %conv_acc = ascend.Conv2D %q, %w {{.*}} from <onnx, "Conv", "conv1">
// CHECK:         %conv = ascend.AscendDequant {{.*}} from <onnx, "Conv", "conv1">
// CHECK:         %relu = ascend.Relu %conv from <onnx, "Relu", "relu1">
// CHECK-NEXT:    func.return %relu
// REMARK:      remark: [lower-to-ascend applied lower] "conv1"
// REMARK:      remark: [lower-to-ascend applied lower] "relu1"
func.func @fused(%x: tensor<1x3x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = nn.constant dense<1> : tensor<2x3x1x1xi8>
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5], axis = 0> : (tensor<2x3x1x1xi8>) -> tensor<2x3x1x1xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xi8>) -> tensor<1x3x4x4xf32>
  %y = nn.fused "ConvReLU2d" (%a = %d, %k = %wd) : (tensor<1x3x4x4xf32>, tensor<2x3x1x1xf32>) -> tensor<1x2x4x4xf32> {
    %conv = nn.conv %a, %k from <onnx, "Conv", "conv1"> : (tensor<1x3x4x4xf32>, tensor<2x3x1x1xf32>) -> tensor<1x2x4x4xf32>
    %relu = nn.relu %conv from <onnx, "Relu", "relu1"> : tensor<1x2x4x4xf32>
    nn.yield %relu : tensor<1x2x4x4xf32>
  }
  func.return %y : tensor<1x2x4x4xf32>
}
