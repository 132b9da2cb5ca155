// RUN: VERIFY_DIAGNOSTICS | filecheck %s

// One part per rule of the normalizations.

// BNInfer is of rank 4.
// CHECK: error: 'ascend.BNInfer' op x must be of rank 4, not 3
func.func @main(%x: tensor<2x3x4xf32>, %s: tensor<3xf32>, %m: tensor<3xf32>) {
  %y = ascend.BNInfer %x, %s, %s, %m, %s epsilon 1.0e-05 : (tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x4xf32>
  func.return
}

// -----

// One number per channel.
// CHECK: error: 'ascend.BNInfer' op channels and mean length differ: 3 and 4
func.func @main(%x: tensor<2x3x4x4xf32>, %s: tensor<3xf32>, %m: tensor<4xf32>) {
  %y = ascend.BNInfer %x, %s, %s, %m, %s epsilon 1.0e-05 : (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<4xf32>, tensor<3xf32>) -> tensor<2x3x4x4xf32>
  func.return
}

// -----

// In float32.
// CHECK: error: 'ascend.BNInfer' op mean is of f16, BNInfer takes f32
func.func @main(%x: tensor<2x3x4x4xf32>, %s: tensor<3xf32>, %m: tensor<3xf16>) {
  %y = ascend.BNInfer %x, %s, %s, %m, %s epsilon 1.0e-05 : (tensor<2x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf16>, tensor<3xf32>) -> tensor<2x3x4x4xf32>
  func.return
}

// -----

// LRN is of rank 4.
// CHECK: error: 'ascend.LRN' op x must be of rank 4, not 3
func.func @main(%x: tensor<2x3x4xf32>) {
  %y = ascend.LRN %x : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  func.return
}

// -----

// Its radius counts channels.
// CHECK: error: 'ascend.LRN' op depth_radius must not be negative, but is -1
func.func @main(%x: tensor<2x3x4x4xf32>) {
  %y = ascend.LRN %x depth_radius -1 : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  func.return
}

// -----

// It normalizes across channels.
// CHECK: error: 'ascend.LRN' op norm_region 'WITHIN_CHANNEL' is not one of ACROSS_CHANNELS
func.func @main(%x: tensor<2x3x4x4xf32>) {
  %y = ascend.LRN %x norm_region "WITHIN_CHANNEL" : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  func.return
}

// -----

// Softmax is along one axis.
// CHECK: error: 'ascend.SoftmaxV2' op axes must hold one axis, not 2
func.func @main(%x: tensor<2x3x4x4xf32>) {
  %y = ascend.SoftmaxV2 %x axes [1, 2] : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  func.return
}

// -----

// Which exists.
// CHECK: error: 'ascend.LogSoftmaxV2' op axis 4 is out of range for rank 4
func.func @main(%x: tensor<2x3x4x4xf32>) {
  %y = ascend.LogSoftmaxV2 %x axes [4] : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  func.return
}

// -----

// Its result has the type of x.
// CHECK: error: 'ascend.SoftmaxV2' op half_to_float must be false: y is of the type of x
func.func @main(%x: tensor<2x3x4x4xf32>) {
  %y = ascend.SoftmaxV2 %x half_to_float true : (tensor<2x3x4x4xf32>) -> tensor<2x3x4x4xf32>
  func.return
}
