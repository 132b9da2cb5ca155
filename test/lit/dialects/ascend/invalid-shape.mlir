// RUN: VERIFY_DIAGNOSTICS | filecheck %s

// One part per rule of data movement and reductions.

// Reshape keeps the elements.
// CHECK: error: 'ascend.Reshape' op [2, 3, 4] has 24 elements, [5, 5] has 25
func.func @main(%x: tensor<2x3x4xf32>) {
  %s = nn.constant dense<[5, 5]> : tensor<2xi64>
  %y = ascend.Reshape %x, %s : (tensor<2x3x4xf32>, tensor<2xi64>) -> tensor<5x5xf32>
  func.return
}

// -----

// 0 is a size, not a copy.
// CHECK: error: 'ascend.Reshape' op [2, 3, 4] cannot be reshaped to [0, -1]
func.func @main(%x: tensor<2x3x4xf32>) {
  %s = nn.constant dense<[0, -1]> : tensor<2xi64>
  %y = ascend.Reshape %x, %s : (tensor<2x3x4xf32>, tensor<2xi64>) -> tensor<2x12xf32>
  func.return
}

// -----

// A shape is a vector.
// CHECK: error: 'ascend.Reshape' op shape must be of rank 1, not 2
func.func @main(%x: tensor<2x3x4xf32>, %s: tensor<1x2xi64>) {
  %y = ascend.Reshape %x, %s : (tensor<2x3x4xf32>, tensor<1x2xi64>) -> tensor<2x12xf32>
  func.return
}

// -----

// Of integers.
// CHECK: error: 'ascend.Reshape' op shape is of f32, Reshape takes i32, i64
func.func @main(%x: tensor<2x3x4xf32>, %s: tensor<2xf32>) {
  %y = ascend.Reshape %x, %s : (tensor<2x3x4xf32>, tensor<2xf32>) -> tensor<2x12xf32>
  func.return
}

// -----

// The whole shape is replaced.
// CHECK: error: 'ascend.Reshape' op axis and num_axes must be 0 and -1: only the whole shape is replaced
func.func @main(%x: tensor<2x3x4xf32>) {
  %s = nn.constant dense<[2, 12]> : tensor<2xi64>
  %y = ascend.Reshape %x, %s axis 1 : (tensor<2x3x4xf32>, tensor<2xi64>) -> tensor<2x12xf32>
  func.return
}

// -----

// A permutation names each axis once.
// CHECK: error: 'ascend.Transpose' op perm [0, 1, 1] is not a permutation of 3 axes
func.func @main(%x: tensor<2x3x4xf32>) {
  %p = nn.constant dense<[0, 1, 1]> : tensor<3xi64>
  %y = ascend.Transpose %x, %p : (tensor<2x3x4xf32>, tensor<3xi64>) -> tensor<2x3x3xf32>
  func.return
}

// -----

// It is known when compiling.
// CHECK: error: 'ascend.Transpose' op perm must be a constant
func.func @main(%x: tensor<2x3x4xf32>, %p: tensor<3xi64>) {
  %y = ascend.Transpose %x, %p : (tensor<2x3x4xf32>, tensor<3xi64>) -> tensor<2x3x4xf32>
  func.return
}

// -----

// As a vector.
// CHECK: error: 'ascend.Transpose' op perm must be of rank 0 or 1
func.func @main(%x: tensor<2x3x4xf32>) {
  %p = nn.constant dense<[[0, 1, 2]]> : tensor<1x3xi64>
  %y = ascend.Transpose %x, %p : (tensor<2x3x4xf32>, tensor<1x3xi64>) -> tensor<2x3x4xf32>
  func.return
}

// -----

// Transpose has at most 8 axes.
// CHECK: error: 'ascend.Transpose' op x must be of rank 8 at most, not 9
func.func @main(%x: tensor<1x1x1x1x1x1x1x1x1xf32>) {
  %p = nn.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8]> : tensor<9xi64>
  %y = ascend.Transpose %x, %p : (tensor<1x1x1x1x1x1x1x1x1xf32>, tensor<9xi64>) -> tensor<1x1x1x1x1x1x1x1x1xf32>
  func.return
}

// -----

// N counts the inputs.
// CHECK: error: 'ascend.ConcatV2' op N is 1, but there are 2 inputs
func.func @main(%x: tensor<2x3x4xf32>) {
  %d = nn.constant dense<1> : tensor<i64>
  %y = ascend.ConcatV2 %x, %x, %d : (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<i64>) -> tensor<2x6x4xf32>
  func.return
}

// -----

// It is one.
// CHECK: error: 'ascend.ConcatV2' op concat_dim must hold one number, not 2
func.func @main(%x: tensor<2x3x4xf32>) {
  %d = nn.constant dense<[0, 1]> : tensor<2xi64>
  %y = ascend.ConcatV2 %x, %x, %d N 2 : (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2xi64>) -> tensor<2x3x4xf32>
  func.return
}

// -----

// num_split counts the parts.
// CHECK: error: 'ascend.SplitV' op num_split is 1, size_splits has 2 entries
func.func @main(%x: tensor<2x3x4xf32>) {
  %s = nn.constant dense<[1, 2]> : tensor<2xi64>
  %d = nn.constant dense<1> : tensor<i64>
  %y = ascend.SplitV %x, %s, %d num_split 1 : (tensor<2x3x4xf32>, tensor<2xi64>, tensor<i64>) -> tensor<2x1x4xf32>
  func.return
}

// -----

// The parts make the whole.
// CHECK: error: 'ascend.SplitV' op size of the axis and sum of the parts differ: 3 and 2
func.func @main(%x: tensor<2x3x4xf32>) {
  %s = nn.constant dense<[1, 1]> : tensor<2xi64>
  %d = nn.constant dense<1> : tensor<i64>
  %y, %z = ascend.SplitV %x, %s, %d num_split 2 : (tensor<2x3x4xf32>, tensor<2xi64>, tensor<i64>) -> (tensor<2x1x4xf32>, tensor<2x1x4xf32>)
  func.return
}

// -----

// Batches are before the axis.
// CHECK: error: 'ascend.GatherV2' op batch_dims 1 must not exceed axis 0 and the 1 axes of indices
func.func @main(%x: tensor<2x3x4xf32>, %i: tensor<2xi64>) {
  %d = nn.constant dense<0> : tensor<i64>
  %y = ascend.GatherV2 %x, %i, %d batch_dims 1 : (tensor<2x3x4xf32>, tensor<2xi64>, tensor<i64>) -> tensor<2x3x4xf32>
  func.return
}

// -----

// Indices are integers.
// CHECK: error: 'ascend.GatherV2' op indices is of f32, GatherV2 takes i32, i64
func.func @main(%x: tensor<2x3x4xf32>, %i: tensor<2xf32>) {
  %d = nn.constant dense<1> : tensor<i64>
  %y = ascend.GatherV2 %x, %i, %d : (tensor<2x3x4xf32>, tensor<2xf32>, tensor<i64>) -> tensor<2x2x4xf32>
  func.return
}

// -----

// Two paddings per axis.
// CHECK: error: 'ascend.PadV3' op paddings has 2 entries, expected 6
func.func @main(%x: tensor<2x3x4xf32>) {
  %p = nn.constant dense<[0, 0]> : tensor<2xi64>
  %y = ascend.PadV3 %x, %p : (tensor<2x3x4xf32>, tensor<2xi64>) -> tensor<2x3x4xf32>
  func.return
}

// -----

// Which add.
// CHECK: error: 'ascend.PadV3' op paddings [0, 0, 0, 0, 0, -1] must not be negative
func.func @main(%x: tensor<2x3x4xf32>) {
  %p = nn.constant dense<[0, 0, 0, 0, 0, -1]> : tensor<6xi64>
  %y = ascend.PadV3 %x, %p : (tensor<2x3x4xf32>, tensor<6xi64>) -> tensor<2x3x4xf32>
  func.return
}

// -----

// In a known way.
// CHECK: error: 'ascend.PadV3' op mode 'wrap' is not one of constant, reflect, edge
func.func @main(%x: tensor<2x3x4xf32>) {
  %p = nn.constant dense<[0, 0, 0, 0, 0, 0]> : tensor<6xi64>
  %y = ascend.PadV3 %x, %p mode "wrap" : (tensor<2x3x4xf32>, tensor<6xi64>) -> tensor<2x3x4xf32>
  func.return
}

// -----

// With one number.
// CHECK: error: 'ascend.PadV3' op constant_values must hold one number
func.func @main(%x: tensor<2x3x4xf32>, %v: tensor<2xf32>) {
  %p = nn.constant dense<[0, 0, 0, 0, 0, 0]> : tensor<6xi64>
  %y = ascend.PadV3 %x, %p, %v : (tensor<2x3x4xf32>, tensor<6xi64>, tensor<2xf32>) -> tensor<2x3x4xf32>
  func.return
}

// -----

// Of the type of x.
// CHECK: error: 'ascend.PadV3' op element types differ: f32, f16
func.func @main(%x: tensor<2x3x4xf32>, %v: tensor<f16>) {
  %p = nn.constant dense<[0, 0, 0, 0, 0, 0]> : tensor<6xi64>
  %y = ascend.PadV3 %x, %p, %v : (tensor<2x3x4xf32>, tensor<6xi64>, tensor<f16>) -> tensor<2x3x4xf32>
  func.return
}

// -----

// A reduction has axes.
// CHECK: error: 'ascend.ReduceSum' op expected at least one axis
func.func @main(%x: tensor<2x3x4xf32>) {
  %a = nn.constant dense<> : tensor<0xi64>
  %y = ascend.ReduceSum %x, %a : (tensor<2x3x4xf32>, tensor<0xi64>) -> tensor<2x3x4xf32>
  func.return
}

// -----

// And are known when compiling.
// CHECK: error: 'ascend.ReduceMax' op axes must be a constant
func.func @main(%x: tensor<2x3x4xf32>, %a: tensor<1xi64>) {
  %y = ascend.ReduceMax %x, %a : (tensor<2x3x4xf32>, tensor<1xi64>) -> tensor<2x4xf32>
  func.return
}

// -----

// keep_dims keeps them.
// CHECK: error: 'ascend.ReduceMean' op result is declared tensor<2x4xf32>, operands and properties give tensor<2x1x4xf32>
func.func @main(%x: tensor<2x3x4xf32>) {
  %a = nn.constant dense<[1]> : tensor<1xi64>
  %y = ascend.ReduceMean %x, %a keep_dims true : (tensor<2x3x4xf32>, tensor<1xi64>) -> tensor<2x4xf32>
  func.return
}
