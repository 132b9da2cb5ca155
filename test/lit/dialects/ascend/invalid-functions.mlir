// RUN: VERIFY_DIAGNOSTICS | filecheck %s

// One part per rule of functions, comparisons and logic.

// A logarithm to base e of x itself.
// CHECK: error: 'ascend.Log' op base, scale and shift must be -1, 1 and 0
func.func @main(%x: tensor<2xf32>) {
  %y = ascend.Log %x base 2.0 : tensor<2xf32>
  func.return
}

// -----

// Rint is of floats.
// CHECK: error: 'ascend.Rint' op x is of i32, Rint takes f16, f32, bf16, f64
func.func @main(%x: tensor<2xi32>) {
  %y = ascend.Rint %x : tensor<2xi32>
  func.return
}

// -----

// Truths have no order.
// CHECK: error: 'ascend.Less' op x1 is of i1, Less takes
func.func @main(%x: tensor<2xi1>) {
  %y = ascend.Less %x, %x : tensor<2xi1>
  func.return
}

// -----

// Nor are numbers truths.
// CHECK: error: 'ascend.LogicalAnd' op x1 is of i32, LogicalAnd takes i1
func.func @main(%x: tensor<2xi32>) {
  %y = ascend.LogicalAnd %x, %x : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
  func.return
}

// -----

// Operands of two types.
// CHECK: error: 'ascend.Equal' op
func.func @main(%x: tensor<2xi32>, %z: tensor<2xi64>) {
  %y = ascend.Equal %x, %z : (tensor<2xi32>, tensor<2xi64>) -> tensor<2xi1>
  func.return
}

// -----

// The result is a truth.
// CHECK: error: 'ascend.Equal' op result is declared tensor<2xi32>, operands and properties give tensor<2xi1>
func.func @main(%x: tensor<2xi32>) {
  %y = ascend.Equal %x, %x : tensor<2xi32>
  func.return
}

// -----

// A place is counted in int32 or int64.
// CHECK: error: 'ascend.ArgMin' op dtype 0 is neither 3 (int32) nor 9 (int64)
func.func @main(%x: tensor<2xf32>) {
  %d = nn.constant dense<0> : tensor<i64>
  %y = ascend.ArgMin %x, %d dtype 0 : (tensor<2xf32>, tensor<i64>) -> tensor<f32>
  func.return
}
