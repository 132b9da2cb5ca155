// RUN: VERIFY_DIAGNOSTICS | filecheck %s

// One part per rule of the matrix products and BiasAdd.

// MatMulV2 takes matrices.
// CHECK: error: 'ascend.MatMulV2' op x1 must be of rank 2, not 3
func.func @main(%x: tensor<2x3x4xf32>, %w: tensor<4x5xf32>) {
  %y = ascend.MatMulV2 %x, %w : (tensor<2x3x4xf32>, tensor<4x5xf32>) -> tensor<2x3x5xf32>
  func.return
}

// -----

// Both of them.
// CHECK: error: 'ascend.MatMulV2' op x2 must be of rank 2, not 3
func.func @main(%x: tensor<3x4xf32>, %w: tensor<2x4x5xf32>) {
  %y = ascend.MatMulV2 %x, %w : (tensor<3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
  func.return
}

// -----

// The contracted sizes are equal.
// CHECK: error: 'ascend.MatMulV2' op contracted sizes differ: 4 and 5
func.func @main(%x: tensor<3x4xf32>, %w: tensor<5x6xf32>) {
  %y = ascend.MatMulV2 %x, %w : (tensor<3x4xf32>, tensor<5x6xf32>) -> tensor<3x6xf32>
  func.return
}

// -----

// x1 and x2 have one type.
// CHECK: error: 'ascend.MatMulV2' op x is of i8, x2 of i32: they must be equal
func.func @main(%x: tensor<3x4xi8>, %w: tensor<4x6xi32>) {
  %y = ascend.MatMulV2 %x, %w : (tensor<3x4xi8>, tensor<4x6xi32>) -> tensor<3x6xi32>
  func.return
}

// -----

// A bias is a vector.
// CHECK: error: 'ascend.MatMulV2' op bias must be of rank 1
func.func @main(%x: tensor<3x4xf32>, %w: tensor<4x6xf32>, %b: tensor<1x6xf32>) {
  %y = ascend.MatMulV2 %x, %w, %b : (tensor<3x4xf32>, tensor<4x6xf32>, tensor<1x6xf32>) -> tensor<3x6xf32>
  func.return
}

// -----

// It has one number per column.
// CHECK: error: 'ascend.MatMulV2' op bias length and output columns differ: 3 and 6
func.func @main(%x: tensor<3x4xf32>, %w: tensor<4x6xf32>, %b: tensor<3xf32>) {
  %y = ascend.MatMulV2 %x, %w, %b : (tensor<3x4xf32>, tensor<4x6xf32>, tensor<3xf32>) -> tensor<3x6xf32>
  func.return
}

// -----

// BatchMatMulV2 takes no vectors.
// CHECK: error: 'ascend.BatchMatMulV2' op x1 must be of rank 2 or more, not 1
func.func @main(%x: tensor<4xf32>, %w: tensor<4x6xf32>) {
  %y = ascend.BatchMatMulV2 %x, %w : (tensor<4xf32>, tensor<4x6xf32>) -> tensor<6xf32>
  func.return
}

// -----

// Batches broadcast.
// CHECK: error: 'ascend.BatchMatMulV2' op shapes do not broadcast: [2], [3]
func.func @main(%x: tensor<2x3x4xf32>, %w: tensor<3x4x6xf32>) {
  %y = ascend.BatchMatMulV2 %x, %w : (tensor<2x3x4xf32>, tensor<3x4x6xf32>) -> tensor<2x3x6xf32>
  func.return
}

// -----

// One number per channel.
// CHECK: error: 'ascend.BiasAdd' op channels and bias length differ: 3 and 4
func.func @main(%x: tensor<1x3x4xf32>, %b: tensor<4xf32>) {
  %y = ascend.BiasAdd %x, %b data_format "NCHW" : (tensor<1x3x4xf32>, tensor<4xf32>) -> tensor<1x3x4xf32>
  func.return
}

// -----

// In a format that it knows.
// CHECK: error: 'ascend.BiasAdd' op data_format 'ND' is not one of NHWC, NCHW
func.func @main(%x: tensor<3x4xf32>, %b: tensor<4xf32>) {
  %y = ascend.BiasAdd %x, %b data_format "ND" : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  func.return
}

// -----

// FullyConnection sums over axes from 1 or 2 on.
// CHECK: error: 'ascend.FullyConnection' op axis 0 is not in [1, 2]
func.func @main(%x: tensor<2x4x4xf32>, %w: tensor<3x16xf32>) {
  %y = ascend.FullyConnection %x, %w num_output 3 axis 0 : (tensor<2x4x4xf32>, tensor<3x16xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// There is such an axis.
// CHECK: error: 'ascend.FullyConnection' op x must be of rank 3 or more, not 2
func.func @main(%x: tensor<2x16xf32>, %w: tensor<3x16xf32>) {
  %y = ascend.FullyConnection %x, %w num_output 3 axis 2 : (tensor<2x16xf32>, tensor<3x16xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// The weight is a matrix.
// CHECK: error: 'ascend.FullyConnection' op w must be of rank 2, not 1
func.func @main(%x: tensor<2x4x4xf32>, %w: tensor<16xf32>) {
  %y = ascend.FullyConnection %x, %w num_output 3 : (tensor<2x4x4xf32>, tensor<16xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// A row per output.
// CHECK: error: 'ascend.FullyConnection' op outputs of w and num_output differ: 3 and 4
func.func @main(%x: tensor<2x4x4xf32>, %w: tensor<3x16xf32>) {
  %y = ascend.FullyConnection %x, %w num_output 4 : (tensor<2x4x4xf32>, tensor<3x16xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// Sizes fit.
// CHECK: error: 'ascend.FullyConnection' op contracted sizes differ: 16 and 15
func.func @main(%x: tensor<2x4x4xf32>, %w: tensor<3x15xf32>) {
  %y = ascend.FullyConnection %x, %w num_output 3 : (tensor<2x4x4xf32>, tensor<3x15xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// A bias per output.
// CHECK: error: 'ascend.FullyConnection' op length of b and num_output differ: 2 and 3
func.func @main(%x: tensor<2x4x4xf32>, %w: tensor<3x16xf32>, %b: tensor<2xf32>) {
  %y = ascend.FullyConnection %x, %w, %b num_output 3 : (tensor<2x4x4xf32>, tensor<3x16xf32>, tensor<2xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// In a vector.
// CHECK: error: 'ascend.FullyConnection' op b must be of rank 1
func.func @main(%x: tensor<2x4x4xf32>, %w: tensor<3x16xf32>, %b: tensor<1x3xf32>) {
  %y = ascend.FullyConnection %x, %w, %b num_output 3 : (tensor<2x4x4xf32>, tensor<3x16xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

// Operands of one row.
// CHECK: error: 'ascend.FullyConnection' op x is of f32, w of i8: they must be equal
func.func @main(%x: tensor<2x4x4xf32>, %w: tensor<3x16xi8>) {
  %y = ascend.FullyConnection %x, %w num_output 3 : (tensor<2x4x4xf32>, tensor<3x16xi8>) -> tensor<2x3xf32>
  func.return
}
