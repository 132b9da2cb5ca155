// RUN: amct-opt %s --lower-to-ascend --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// The shifts are part of the dequantization, with an int32 bias among the sums.
// CHECK-LABEL: @convolution
// CHECK:         %conv1_acc = ascend.Conv2D %q, %w, %b
// CHECK-NOT:     ascend.AscendDequant %conv1_acc, %conv1
// CHECK:         %s_deq_scale = nn.constant dense<[1.250000e-01, 2.500000e-01]> : tensor<2xf32>
// CHECK-NEXT:    %s = ascend.AscendDequant %conv1_acc, %s_deq_scale shift_n [2, 3]
// CHECK-NEXT:    ascend.Relu %s
// REMARK:      [lower-to-ascend applied lower] "s": computed by ascend.AscendDequant
func.func @convolution(%x: tensor<1x3x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = nn.constant dense<1> : tensor<2x3x1x1xi8>
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5], axis = 0> : (tensor<2x3x1x1xi8>) -> tensor<2x3x1x1xf32>
  %b = nn.constant dense<[7, -8]> : tensor<2xi32>
  %bd = nn.dequantize %b by <i32, scale = [0.125, 0.25], axis = 0> : (tensor<2xi32>) -> tensor<2xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xi8>) -> tensor<1x3x4x4xf32>
  %conv1 = nn.conv %d, %wd, %bd : (tensor<1x3x4x4xf32>, tensor<2x3x1x1xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %s = nn.shift_accumulator %conv1 of <i32, scale = [0.125, 0.25], axis = 1> by [2, 3] : tensor<1x2x4x4xf32>
  %r = nn.relu %s : tensor<1x2x4x4xf32>
  func.return %r : tensor<1x2x4x4xf32>
}

// -----

// Channels last, and one axis: the scales are of the rank of the sums. Who takes the whole sums still has them.
// CHECK-LABEL: @one_axis
// CHECK:         %c_acc = ascend.Conv2D
// CHECK:         %c_deq = ascend.AscendDequant %c_acc, %c_deq_scale :
// CHECK-NEXT:    %c = ascend.Squeeze %c_deq axis [1]
// CHECK-NEXT:    %s_deq_scale = nn.constant {{.*}} : tensor<1x1x1x2xf32>
// CHECK-NEXT:    %s_deq = ascend.AscendDequant %c_acc, %s_deq_scale shift_n [1]
// CHECK-NEXT:    %s = ascend.Squeeze %s_deq axis [1]
// REMARK:      [lower-to-ascend applied lower] "c"
func.func @one_axis(%x: tensor<1x9x3xf32>) -> (tensor<1x9x2xf32>, tensor<1x9x2xf32>) {
  %w = nn.constant dense<1> : tensor<2x3x1xi8>
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5], axis = 0> : (tensor<2x3x1xi8>) -> tensor<2x3x1xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x9x3xf32>) -> tensor<1x9x3xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<1x9x3xi8>) -> tensor<1x9x3xf32>
  %c = nn.conv %d, %wd layout nhwc : (tensor<1x9x3xf32>, tensor<2x3x1xf32>) -> tensor<1x9x2xf32>
  %s = nn.shift_accumulator %c of <i32, scale = [0.125, 0.25], axis = 2> by [1] : tensor<1x9x2xf32>
  func.return %s, %c : tensor<1x9x2xf32>, tensor<1x9x2xf32>
}

// -----

// A float bias is not a part of the sums.
// CHECK-LABEL: @integer_sums
// CHECK:         ascend.BiasAdd
// CHECK-NEXT:    nn.shift_accumulator
// REMARK:      [lower-to-ascend missed integer-sums] "s": it does not shift sums of integers that are only dequantized
func.func @integer_sums(%x: tensor<1x3x4x4xf32>, %b: tensor<2xf32>) -> tensor<1x2x4x4xf32> {
  %w = nn.constant dense<1> : tensor<2x3x1x1xi8>
  %wd = nn.dequantize %w by <i8, scale = 0.25> : (tensor<2x3x1x1xi8>) -> tensor<2x3x1x1xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xi8>) -> tensor<1x3x4x4xf32>
  %c = nn.conv %d, %wd, %b : (tensor<1x3x4x4xf32>, tensor<2x3x1x1xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %s = nn.shift_accumulator %c of <i32, scale = 0.125> by [2] : tensor<1x2x4x4xf32>
  func.return %s : tensor<1x2x4x4xf32>
}

// -----

// CHECK-LABEL: @equal_scales
// CHECK:         nn.shift_accumulator
// REMARK:      [lower-to-ascend missed equal-scales] "s": its scale differs from the scale of the sums
func.func @equal_scales(%x: tensor<1x3x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = nn.constant dense<1> : tensor<2x3x1x1xi8>
  %wd = nn.dequantize %w by <i8, scale = 0.25> : (tensor<2x3x1x1xi8>) -> tensor<2x3x1x1xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xi8>) -> tensor<1x3x4x4xf32>
  %c = nn.conv %d, %wd : (tensor<1x3x4x4xf32>, tensor<2x3x1x1xf32>) -> tensor<1x2x4x4xf32>
  %s = nn.shift_accumulator %c of <i32, scale = 0.25> by [2] : tensor<1x2x4x4xf32>
  func.return %s : tensor<1x2x4x4xf32>
}
