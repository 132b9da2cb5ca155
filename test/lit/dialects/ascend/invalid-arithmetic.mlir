// RUN: VERIFY_DIAGNOSTICS | filecheck %s

// One part per rule of further arithmetic.

// Swish takes no double.
// CHECK: error: 'ascend.Swish' op x is of f64, Swish takes f16, f32, bf16
func.func @main(%x: tensor<2xf64>) {
  %y = ascend.Swish %x : (tensor<2xf64>) -> tensor<2xf64>
  func.return
}

// -----

// Muls takes no int8.
// CHECK: error: 'ascend.Muls' op x is of i8, Muls takes f16, f32, bf16, i16, i32, i64
func.func @main(%x: tensor<2xi8>) {
  %y = ascend.Muls %x value 1.0 : (tensor<2xi8>) -> tensor<2xi8>
  func.return
}

// -----

// Adds takes no int64.
// CHECK: error: 'ascend.Adds' op x is of i64, Adds takes f16, f32, bf16, i16, i32
func.func @main(%x: tensor<2xi64>) {
  %y = ascend.Adds %x value 1.0 : (tensor<2xi64>) -> tensor<2xi64>
  func.return
}

// -----

// N counts.
// CHECK: error: 'ascend.AddN' op N is 3, but there are 2 inputs
func.func @main(%x: tensor<2x4xf32>) {
  %y = ascend.AddN %x, %x N 3 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return
}

// -----

// Of one shape.
// CHECK: error: 'ascend.AddN' op shapes of the inputs differ: 4 and 3
func.func @main(%x: tensor<2x4xf32>, %h: tensor<2x3xf32>) {
  %y = ascend.AddN %x, %h N 2 : (tensor<2x4xf32>, tensor<2x3xf32>) -> tensor<2x4xf32>
  func.return
}

// -----

// Of one type.
// CHECK: error: 'ascend.AddN' op element types differ: f32, f16
func.func @main(%x: tensor<2x4xf32>, %h: tensor<2x4xf16>) {
  %y = ascend.AddN %x, %h N 2 : (tensor<2x4xf32>, tensor<2x4xf16>) -> tensor<2x4xf32>
  func.return
}

// -----

// Eltwise takes no int8.
// CHECK: error: 'ascend.Eltwise' op x is of i8, Eltwise takes f16, f32, bf16
func.func @main(%x: tensor<2xi8>) {
  %y = ascend.Eltwise %x, %x N 2 : (tensor<2xi8>, tensor<2xi8>) -> tensor<2xi8>
  func.return
}

// -----

// A product, a sum or the largest.
// CHECK: error: 'ascend.Eltwise' op mode 3 is not in [0, 2]
func.func @main(%x: tensor<2x4xf32>) {
  %y = ascend.Eltwise %x, %x N 2 mode 3 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return
}

// -----

// At most 32 of them.
// CHECK: error: 'ascend.Eltwise' op N 33 is not in [1, 32]
func.func @main(%x: tensor<2x4xf32>) {
  %y = ascend.Eltwise %x, %x N 33 : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return
}

// -----

// A factor for each.
// CHECK: error: 'ascend.Eltwise' op coeff has 1 entries for 2 inputs
func.func @main(%x: tensor<2x4xf32>) {
  %y = ascend.Eltwise %x, %x N 2 coeff [0.5] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return
}

// -----

// Of a sum.
// CHECK: error: 'ascend.Eltwise' op coeff is for mode 1, the sum
func.func @main(%x: tensor<2x4xf32>) {
  %y = ascend.Eltwise %x, %x N 2 mode 0 coeff [0.5, 0.5] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return
}

// -----

// At most 1.
// CHECK: error: 'ascend.Eltwise' op coeff must lie in [-1, 1]
func.func @main(%x: tensor<2x4xf32>) {
  %y = ascend.Eltwise %x, %x N 2 coeff [1.5, 0.5] : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return
}

// -----

// A condition is i1.
// CHECK: error: 'ascend.Select' op condition is of i32, Select takes i1
func.func @main(%c: tensor<2x4xi32>, %x: tensor<2x4xf32>) {
  %y = ascend.Select %c, %x, %x : (tensor<2x4xi32>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return
}

// -----

// Both choices are of one type.
// CHECK: error: 'ascend.Select' op element types differ: f32, f16
func.func @main(%c: tensor<2x4xi1>, %x: tensor<2x4xf32>, %h: tensor<2x4xf16>) {
  %y = ascend.Select %c, %x, %h : (tensor<2x4xi1>, tensor<2x4xf32>, tensor<2x4xf16>) -> tensor<2x4xf32>
  func.return
}

// -----

// Shapes broadcast.
// CHECK: error: 'ascend.Select' op shapes do not broadcast: [2, 3], [2, 4], [2, 4]
func.func @main(%c: tensor<2x3xi1>, %x: tensor<2x4xf32>) {
  %y = ascend.Select %c, %x, %x : (tensor<2x3xi1>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  func.return
}

// -----

// A bound is one number.
// CHECK: error: 'ascend.ClipByValueV2' op clip_value_max must hold one number
func.func @main(%x: tensor<2x4xf32>, %l: tensor<f32>, %u: tensor<4xf32>) {
  %y = ascend.ClipByValueV2 %x, %l, %u : (tensor<2x4xf32>, tensor<f32>, tensor<4xf32>) -> tensor<2x4xf32>
  func.return
}

// -----

// Of the type of x.
// CHECK: error: 'ascend.ClipByValueV2' op element types differ: f32, f16
func.func @main(%x: tensor<2x4xf32>, %l: tensor<f32>, %u: tensor<f16>) {
  %y = ascend.ClipByValueV2 %x, %l, %u : (tensor<2x4xf32>, tensor<f32>, tensor<f16>) -> tensor<2x4xf32>
  func.return
}
