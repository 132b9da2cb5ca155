// RUN: VERIFY_DIAGNOSTICS | filecheck %s

// Each rule of the matrix product and of bias_add.

func.func @main(%a: tensor<2x3xf32>, %b: tensor<4x5xf32>) {
  // CHECK: invalid-linear.mlir:7:3: error: 'nn.matmul' op contracted sizes differ: 3 and 4
  nn.matmul %a, %b : (tensor<2x3xf32>, tensor<4x5xf32>) -> tensor<2x5xf32>
  func.return
}

// -----

func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x5xf32>) {
  // CHECK: invalid-linear.mlir:15:3: error: 'nn.matmul' op contracted sizes differ: 2 and 3
  nn.matmul %a, %b transpose_a : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>
  func.return
}

// -----

func.func @main(%a: tensor<2x1x3xf32>, %b: tensor<5x3x4xf32>) {
  // CHECK: invalid-linear.mlir:23:3: error: 'nn.matmul' op shapes do not broadcast: [2], [5]
  nn.matmul %a, %b : (tensor<2x1x3xf32>, tensor<5x3x4xf32>) -> tensor<2x1x4xf32>
  func.return
}

// -----

func.func @main(%a: tensor<f32>, %b: tensor<3x5xf32>) {
  // CHECK: invalid-linear.mlir:31:3: error: 'nn.matmul' op a scalar cannot be multiplied as a matrix
  nn.matmul %a, %b : (tensor<f32>, tensor<3x5xf32>) -> tensor<5xf32>
  func.return
}

// -----

func.func @main(%a: tensor<3xf32>, %b: tensor<3x5xf32>) {
  // CHECK: invalid-linear.mlir:39:3: error: 'nn.matmul' op a vector cannot be transposed
  nn.matmul %a, %b transpose_a : (tensor<3xf32>, tensor<3x5xf32>) -> tensor<5xf32>
  func.return
}

// -----

func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x5xf32>, %c: tensor<2xf32>) {
  // CHECK: invalid-linear.mlir:47:3: error: 'nn.matmul' op bias length and output columns differ: 2 and 5
  nn.matmul %a, %b, %c : (tensor<2x3xf32>, tensor<3x5xf32>, tensor<2xf32>) -> tensor<2x5xf32>
  func.return
}

// -----

func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x5xf32>, %c: tensor<1x5xf32>) {
  // CHECK: invalid-linear.mlir:55:3: error: 'nn.matmul' op bias must be of rank 1, next to a right operand of rank 2 or more
  nn.matmul %a, %b, %c : (tensor<2x3xf32>, tensor<3x5xf32>, tensor<1x5xf32>) -> tensor<2x5xf32>
  func.return
}

// -----

func.func @main(%a: tensor<2x3xf32>, %b: tensor<3xf32>, %c: tensor<1xf32>) {
  // CHECK: invalid-linear.mlir:63:3: error: 'nn.matmul' op bias must be of rank 1, next to a right operand of rank 2 or more
  nn.matmul %a, %b, %c : (tensor<2x3xf32>, tensor<3xf32>, tensor<1xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @main(%a: tensor<2x3xf32>, %b: tensor<3x5xf16>) {
  // CHECK: invalid-linear.mlir:71:3: error: 'nn.matmul' op element types differ: f32, f16
  nn.matmul %a, %b : (tensor<2x3xf32>, tensor<3x5xf16>) -> tensor<2x5xf32>
  func.return
}

// -----

func.func @main(%x: tensor<3xf32>) {
  // CHECK: invalid-linear.mlir:79:3: error: 'nn.bias_add' op input of rank 1 and bias of rank 1, expected at least 2 and 1
  nn.bias_add %x, %x : tensor<3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3x4xf32>, %b: tensor<4xf32>) {
  // CHECK: invalid-linear.mlir:87:3: error: 'nn.bias_add' op channels and bias length differ: 3 and 4
  nn.bias_add %x, %b : (tensor<2x3x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  func.return
}
