// RUN: ROUNDTRIP | filecheck %s

// Matrix products and biases.

// CHECK-LABEL: func.func @matmul(
func.func @matmul(%a: tensor<2x3xf32>, %b: tensor<3x4xf32>, %two: tensor<2xf32>, %s: tensor<?x8x1x5x6xf32>, %t: tensor<3x7x6xf32>, %v: tensor<3xf32>, %i: tensor<?x5x3xui8>, %j: tensor<3x4xi8>) {
  // CHECK-NEXT: %plain = nn.matmul %a, %b : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  %plain = nn.matmul %a, %b : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
  // CHECK-NEXT: %biased = nn.matmul %b, %a, %two transpose_a transpose_b : (tensor<3x4xf32>, tensor<2x3xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  %biased = nn.matmul %b, %a, %two transpose_a transpose_b : (tensor<3x4xf32>, tensor<2x3xf32>, tensor<2xf32>) -> tensor<4x2xf32>
  // CHECK-NEXT: %batched = nn.matmul %s, %t transpose_b : (tensor<?x8x1x5x6xf32>, tensor<3x7x6xf32>) -> tensor<?x8x3x5x7xf32>
  %batched = nn.matmul %s, %t transpose_b : (tensor<?x8x1x5x6xf32>, tensor<3x7x6xf32>) -> tensor<?x8x3x5x7xf32>
  // CHECK-NEXT: %column = nn.matmul %a, %v : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2xf32>
  %column = nn.matmul %a, %v : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2xf32>
  // CHECK-NEXT: %row = nn.matmul %v, %b : (tensor<3xf32>, tensor<3x4xf32>) -> tensor<4xf32>
  %row = nn.matmul %v, %b : (tensor<3xf32>, tensor<3x4xf32>) -> tensor<4xf32>
  // CHECK-NEXT: %dot = nn.matmul %v, %v : (tensor<3xf32>, tensor<3xf32>) -> tensor<f32>
  %dot = nn.matmul %v, %v : (tensor<3xf32>, tensor<3xf32>) -> tensor<f32>
  // CHECK-NEXT: %integer = nn.matmul_integer %i, %j lhs_zero_point 128 rhs_zero_point -3 : (tensor<?x5x3xui8>, tensor<3x4xi8>) -> tensor<?x5x4xi32>
  %integer = nn.matmul_integer %i, %j lhs_zero_point 128 rhs_zero_point -3 : (tensor<?x5x3xui8>, tensor<3x4xi8>) -> tensor<?x5x4xi32>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @bias_add(
func.func @bias_add(%x: tensor<1x3x4x4xf32>, %y: tensor<1x4x4x3xf32>, %b: tensor<3xf32>) {
  // CHECK-NEXT: %first = nn.bias_add %x, %b : (tensor<1x3x4x4xf32>, tensor<3xf32>) -> tensor<1x3x4x4xf32>
  %first = nn.bias_add %x, %b : (tensor<1x3x4x4xf32>, tensor<3xf32>) -> tensor<1x3x4x4xf32>
  // CHECK-NEXT: %last = nn.bias_add %y, %b layout nhwc from <tensorflow, "BiasAdd", "head/BiasAdd"> : (tensor<1x4x4x3xf32>, tensor<3xf32>) -> tensor<1x4x4x3xf32>
  %last = nn.bias_add %y, %b layout nhwc from <tensorflow, "BiasAdd", "head/BiasAdd"> : (tensor<1x4x4x3xf32>, tensor<3xf32>) -> tensor<1x4x4x3xf32>
  // CHECK-NEXT: func.return
  func.return
}
