// RUN: ROUNDTRIP | filecheck %s

// Scale, Bias and BatchNorm of Caffe.

// CHECK-LABEL: func.func @scale(
func.func @scale(%x: tensor<2x4x3x5xf32>, %s: tensor<4xf32>, %t: tensor<4x3x5xf32>, %n: tensor<f32>) {
  // CHECK-NEXT: %a = ascend.Scale %x, %s, %s : (tensor<2x4x3x5xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x3x5xf32>
  %a = ascend.Scale %x, %s, %s : (tensor<2x4x3x5xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x3x5xf32>
  // CHECK-NEXT: %b = ascend.Scale %x, %t axis -3 num_axes -1 : (tensor<2x4x3x5xf32>, tensor<4x3x5xf32>) -> tensor<2x4x3x5xf32>
  %b = ascend.Scale %x, %t axis -3 num_axes -1 : (tensor<2x4x3x5xf32>, tensor<4x3x5xf32>) -> tensor<2x4x3x5xf32>
  // CHECK-NEXT: %c = ascend.Scale %x, %n scale_from_blob false num_axes 0 : (tensor<2x4x3x5xf32>, tensor<f32>) -> tensor<2x4x3x5xf32>
  %c = ascend.Scale %x, %n scale_from_blob false num_axes 0 : (tensor<2x4x3x5xf32>, tensor<f32>) -> tensor<2x4x3x5xf32>
  // CHECK-NEXT: %d = ascend.Bias %x, %s : (tensor<2x4x3x5xf32>, tensor<4xf32>) -> tensor<2x4x3x5xf32>
  %d = ascend.Bias %x, %s : (tensor<2x4x3x5xf32>, tensor<4xf32>) -> tensor<2x4x3x5xf32>
  // CHECK-NEXT: %e = ascend.BNInference %x, %s, %s, %n epsilon 0.001 : (tensor<2x4x3x5xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<2x4x3x5xf32>
  %e = ascend.BNInference %x, %s, %s, %n epsilon 0.001 : (tensor<2x4x3x5xf32>, tensor<4xf32>, tensor<4xf32>, tensor<f32>) -> tensor<2x4x3x5xf32>
  // CHECK-NEXT: func.return
  func.return
}
