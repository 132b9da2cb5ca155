// RUN: VERIFY_DIAGNOSTICS | filecheck %s

// One part per rule of the operations on single elements.

// Types are those of the header.
// CHECK: error: 'ascend.Sigmoid' op x is of i64, Sigmoid takes f16, f32, bf16, f64
func.func @main(%x: tensor<2xi64>) {
  %y = ascend.Sigmoid %x : (tensor<2xi64>) -> tensor<2xi64>
  func.return
}

// -----

// Relu6 has fewer than Relu.
// CHECK: error: 'ascend.Relu6' op x is of i8, Relu6 takes f16, f32, i32, bf16
func.func @main(%x: tensor<2xi8>) {
  %y = ascend.Relu6 %x : (tensor<2xi8>) -> tensor<2xi8>
  func.return
}

// -----

// Two operands have one type.
// CHECK: error: 'ascend.Add' op element types differ: f32, f16
func.func @main(%x: tensor<2x3x4xf32>, %z: tensor<4xf16>) {
  %y = ascend.Add %x, %z : (tensor<2x3x4xf32>, tensor<4xf16>) -> tensor<2x3x4xf32>
  func.return
}

// -----

// They broadcast.
// CHECK: error: 'ascend.Mul' op shapes do not broadcast: [2, 3, 4], [3]
func.func @main(%x: tensor<2x3x4xf32>, %z: tensor<3xf32>) {
  %y = ascend.Mul %x, %z : (tensor<2x3x4xf32>, tensor<3xf32>) -> tensor<2x3x4xf32>
  func.return
}

// -----

// Maximum has no small integers.
// CHECK: error: 'ascend.Maximum' op x1 is of i8, Maximum takes f16, f32, f64, i32, i64, bf16
func.func @main(%x: tensor<2xi8>, %z: tensor<2xi8>) {
  %y = ascend.Maximum %x, %z : (tensor<2xi8>, tensor<2xi8>) -> tensor<2xi8>
  func.return
}

// -----

// PRelu has a vector.
// CHECK: error: 'ascend.PRelu' op weight must be of rank 1, not 3
func.func @main(%x: tensor<2x3x4xf32>, %z: tensor<3x1x1xf32>) {
  %y = ascend.PRelu %x, %z : (tensor<2x3x4xf32>, tensor<3x1x1xf32>) -> tensor<2x3x4xf32>
  func.return
}

// -----

// With one number per channel.
// CHECK: error: 'ascend.PRelu' op channels and weight length differ: 3 and 4
func.func @main(%x: tensor<2x3x4xf32>, %z: tensor<4xf32>) {
  %y = ascend.PRelu %x, %z : (tensor<2x3x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  func.return
}

// -----

// A vector has no channels.
// CHECK: error: 'ascend.PRelu' op x must be of rank 2 or more, not 1
func.func @main(%x: tensor<3xf32>, %z: tensor<3xf32>) {
  %y = ascend.PRelu %x, %z : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  func.return
}

// -----

// Bounds are single numbers.
// CHECK: error: 'ascend.ClipByValue' op clip_value_min must hold one number
func.func @main(%x: tensor<2x3x4xf32>, %a: tensor<2xf32>, %b: tensor<f32>) {
  %y = ascend.ClipByValue %x, %a, %b : (tensor<2x3x4xf32>, tensor<2xf32>, tensor<f32>) -> tensor<2x3x4xf32>
  func.return
}

// -----

// They are constants.
// CHECK: error: 'ascend.ClipByValue' op clip_value_min must be a constant
func.func @main(%x: tensor<2x3x4xf32>, %a: tensor<f32>, %b: tensor<f32>) {
  %y = ascend.ClipByValue %x, %a, %b : (tensor<2x3x4xf32>, tensor<f32>, tensor<f32>) -> tensor<2x3x4xf32>
  func.return
}

// -----

// Of the type of x.
// CHECK: error: 'ascend.ClipByValue' op element types differ: f32, i32
func.func @main(%x: tensor<2x3x4xf32>, %a: tensor<i32>, %b: tensor<i32>) {
  %y = ascend.ClipByValue %x, %a, %b : (tensor<2x3x4xf32>, tensor<i32>, tensor<i32>) -> tensor<2x3x4xf32>
  func.return
}

// -----

// Elu scales its result only.
// CHECK: error: 'ascend.Elu' op input_scale must be 1
func.func @main(%x: tensor<2x3x4xf32>) {
  %y = ascend.Elu %x input_scale 2.0 : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  func.return
}

// -----

// Exp is that of e.
// CHECK: error: 'ascend.Exp' op base, scale and shift must be -1, 1 and 0
func.func @main(%x: tensor<2x3x4xf32>) {
  %y = ascend.Exp %x base 2.0 : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  func.return
}

// -----

// Cast names a type by number.
// CHECK: error: 'ascend.Cast' op dst_type 5 names no element type
func.func @main(%x: tensor<2x3x4xf32>) {
  %y = ascend.Cast %x dst_type 5 : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  func.return
}

// -----

// The result has that type.
// CHECK: error: 'ascend.Cast' op result is declared tensor<2x3x4xf32>, operands and properties give tensor<2x3x4xi8>
func.func @main(%x: tensor<2x3x4xf32>) {
  %y = ascend.Cast %x dst_type 2 : (tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  func.return
}
