// RUN: VERIFY_DIAGNOSTICS | filecheck %s

// One part per rule of Scale, Bias and BatchNorm.

// A scale covers axes of x.
// CHECK: error: 'ascend.Scale' op covered axes of x and scale differ: 4 and 3
func.func @main(%x: tensor<2x4x3x5xf32>, %s: tensor<3xf32>) {
  %y = ascend.Scale %x, %s : (tensor<2x4x3x5xf32>, tensor<3xf32>) -> tensor<2x4x3x5xf32>
  func.return
}

// -----

// As does its bias.
// CHECK: error: 'ascend.Scale' op covered axes of x and bias differ: 4 and 3
func.func @main(%x: tensor<2x4x3x5xf32>, %s: tensor<4xf32>, %b: tensor<3xf32>) {
  %y = ascend.Scale %x, %s, %b : (tensor<2x4x3x5xf32>, tensor<4xf32>, tensor<3xf32>) -> tensor<2x4x3x5xf32>
  func.return
}

// -----

// That there are.
// CHECK: error: 'ascend.Scale' op num_axes 4 from axis 1 on does not fit x of rank 4
func.func @main(%x: tensor<2x4x3x5xf32>, %s: tensor<4xf32>) {
  %y = ascend.Scale %x, %s num_axes 4 : (tensor<2x4x3x5xf32>, tensor<4xf32>) -> tensor<2x4x3x5xf32>
  func.return
}

// -----

// -1 means all.
// CHECK: error: 'ascend.Scale' op num_axes -2 from axis 1 on does not fit x of rank 4
func.func @main(%x: tensor<2x4x3x5xf32>, %s: tensor<4xf32>) {
  %y = ascend.Scale %x, %s num_axes -2 : (tensor<2x4x3x5xf32>, tensor<4xf32>) -> tensor<2x4x3x5xf32>
  func.return
}

// -----

// 0 means one number.
// CHECK: error: 'ascend.Scale' op scale must hold one number where num_axes is 0
func.func @main(%x: tensor<2x4x3x5xf32>, %s: tensor<4xf32>) {
  %y = ascend.Scale %x, %s num_axes 0 : (tensor<2x4x3x5xf32>, tensor<4xf32>) -> tensor<2x4x3x5xf32>
  func.return
}

// -----

// An axis of x.
// CHECK: error: 'ascend.Bias' op axis 4 is out of range for rank 4
func.func @main(%x: tensor<2x4x3x5xf32>, %s: tensor<4xf32>) {
  %y = ascend.Bias %x, %s axis 4 : (tensor<2x4x3x5xf32>, tensor<4xf32>) -> tensor<2x4x3x5xf32>
  func.return
}

// -----

// Of one type.
// CHECK: error: 'ascend.Bias' op element types differ: f32, f16
func.func @main(%x: tensor<2x4x3x5xf32>, %s: tensor<4xf16>) {
  %y = ascend.Bias %x, %s : (tensor<2x4x3x5xf32>, tensor<4xf16>) -> tensor<2x4x3x5xf32>
  func.return
}

// -----

// BNInference takes channels.
// CHECK: error: 'ascend.BNInference' op x must be of rank 2 or more, not 1
func.func @main(%x: tensor<4xf32>, %s: tensor<4xf32>, %n: tensor<1xf32>) {
  %y = ascend.BNInference %x, %s, %s, %n : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  func.return
}

// -----

// A mean per channel.
// CHECK: error: 'ascend.BNInference' op channels and mean length differ: 4 and 3
func.func @main(%x: tensor<2x4x3x5xf32>, %m: tensor<3xf32>, %s: tensor<4xf32>, %n: tensor<1xf32>) {
  %y = ascend.BNInference %x, %m, %s, %n : (tensor<2x4x3x5xf32>, tensor<3xf32>, tensor<4xf32>, tensor<1xf32>) -> tensor<2x4x3x5xf32>
  func.return
}

// -----

// In a vector.
// CHECK: error: 'ascend.BNInference' op variance must be of rank 1, not 0
func.func @main(%x: tensor<2x4x3x5xf32>, %s: tensor<4xf32>, %n: tensor<f32>) {
  %y = ascend.BNInference %x, %s, %n, %n : (tensor<2x4x3x5xf32>, tensor<4xf32>, tensor<f32>, tensor<f32>) -> tensor<2x4x3x5xf32>
  func.return
}

// -----

// One factor of both.
// CHECK: error: 'ascend.BNInference' op momentum must hold one number
func.func @main(%x: tensor<2x4x3x5xf32>, %s: tensor<4xf32>) {
  %y = ascend.BNInference %x, %s, %s, %s : (tensor<2x4x3x5xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x4x3x5xf32>
  func.return
}

// -----

// Of one type.
// CHECK: error: 'ascend.BNInference' op element types differ: f32, f16
func.func @main(%x: tensor<2x4x3x5xf32>, %s: tensor<4xf32>, %n: tensor<1xf16>) {
  %y = ascend.BNInference %x, %s, %s, %n : (tensor<2x4x3x5xf32>, tensor<4xf32>, tensor<4xf32>, tensor<1xf16>) -> tensor<2x4x3x5xf32>
  func.return
}

// -----

// The moments given are used.
// CHECK: error: 'ascend.BNInference' op use_global_stats and mode must be true and 1
func.func @main(%x: tensor<2x4x3x5xf32>, %s: tensor<4xf32>, %n: tensor<1xf32>) {
  %y = ascend.BNInference %x, %s, %s, %n use_global_stats false : (tensor<2x4x3x5xf32>, tensor<4xf32>, tensor<4xf32>, tensor<1xf32>) -> tensor<2x4x3x5xf32>
  func.return
}
