// RUN: amct-opt %s --canonicalize --split-input-file --print-debuginfo | filecheck %s
// RUN: amct-opt %s --canonicalize --split-input-file --remarks=all 2>&1 >/dev/null | filecheck %s --check-prefix REMARK
// RUN: amct-opt %s --canonicalize --rules=amct --split-input-file --remarks=missed 2>&1 >/dev/null | filecheck %s --check-prefix AMCT

// A matrix times channels, its batch and space of any size; the origin is the product's.
// CHECK-LABEL: @mixing
// CHECK-NEXT:  %w = nn.constant dense<[{{\[\[}}1.000000e+00], [2.000000e+00]], {{\[\[}}3.000000e+00], [4.000000e+00]], {{\[\[}}5.000000e+00], [6.000000e+00]]]> : tensor<3x2x1xf32>
// CHECK-NEXT:  nn.conv %x, %w from <onnx, "MatMul", "m"> : (tensor<?x2x?xf32>, tensor<3x2x1xf32>) -> tensor<?x3x?xf32> loc("m")
// CHECK-NEXT:  func.return
// REMARK:      [canonicalize applied convolution] "m": its constant is the weight of a convolution with windows of 1
func.func @mixing(%x: tensor<?x2x?xf32>) -> tensor<?x3x?xf32> {
  %w = nn.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %y = nn.matmul %w, %x from <onnx, "MatMul", "m"> : (tensor<3x2xf32>, tensor<?x2x?xf32>) -> tensor<?x3x?xf32> loc("m")
  func.return %y : tensor<?x3x?xf32>
}

// -----

// The constant is stored transposed.
// CHECK-LABEL: @transposed
// CHECK-NEXT:  nn.constant dense<[{{\[\[}}1.000000e+00], [3.000000e+00], [5.000000e+00]], {{\[\[}}2.000000e+00], [4.000000e+00], [6.000000e+00]]]> : tensor<2x3x1xf32>
// CHECK-NEXT:  nn.conv
func.func @transposed(%x: tensor<1x3x4xf32>) -> tensor<1x2x4xf32> {
  %w = nn.constant dense<[[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]> : tensor<3x2xf32>
  %y = nn.matmul %w, %x transpose_a : (tensor<3x2xf32>, tensor<1x3x4xf32>) -> tensor<1x2x4xf32>
  func.return %y : tensor<1x2x4xf32>
}

// -----

// Other ranks are reshaped: one size may be unknown. Axes of size 1 of the constant are those of the result.
// CHECK-LABEL: @ranks
// CHECK:       [[PLANE:%.+]] = nn.reshape %plane to [1, 2, 5]
// CHECK:       [[CONV:%.+]] = nn.conv [[PLANE]], {{.*}} -> tensor<1x3x5xf32>
// CHECK:       nn.reshape [[CONV]] to [3, 5]
// CHECK:       [[HEADS:%.+]] = nn.reshape %heads to [-1, 2, 5]
// CHECK:       [[CONV:%.+]] = nn.conv [[HEADS]], {{.*}} -> tensor<?x3x5xf32>
// CHECK:       nn.reshape [[CONV]] to [-1, 4, 3, 5]
// CHECK:       [[CONV:%.+]] = nn.conv %one, {{.*}} -> tensor<7x3x5xf32>
// CHECK:       nn.reshape [[CONV]] to [1, 7, 3, 5]
func.func @ranks(%plane: tensor<2x5xf32>, %heads: tensor<?x4x2x5xf32>, %one: tensor<7x2x5xf32>) -> (tensor<3x5xf32>, tensor<?x4x3x5xf32>, tensor<1x7x3x5xf32>) {
  %w = nn.constant dense<1.0> : tensor<3x2xf32>
  %u = nn.constant dense<1.0> : tensor<1x1x3x2xf32>
  %0 = nn.matmul %w, %plane : (tensor<3x2xf32>, tensor<2x5xf32>) -> tensor<3x5xf32>
  %1 = nn.matmul %w, %heads : (tensor<3x2xf32>, tensor<?x4x2x5xf32>) -> tensor<?x4x3x5xf32>
  %2 = nn.matmul %u, %one : (tensor<1x1x3x2xf32>, tensor<7x2x5xf32>) -> tensor<1x7x3x5xf32>
  func.return %0, %1, %2 : tensor<3x5xf32>, tensor<?x4x3x5xf32>, tensor<1x7x3x5xf32>
}

// -----

// Products of integers, with vectors, and with the constant on the right are none.
// CHECK-LABEL: @others
// CHECK-NOT:   nn.conv
// CHECK:       func.return
// REMARK-NOT:  canonicalize missed {{.*}} "other
func.func @others(%x: tensor<2x2xf32>, %v: tensor<2xf32>, %i: tensor<2x2xi32>) -> (tensor<2x2xf32>, tensor<2xf32>, tensor<2x2xi32>) {
  %w = nn.constant dense<1.0> : tensor<2x2xf32>
  %n = nn.constant dense<1> : tensor<2x2xi32>
  %other0 = nn.matmul %x, %w : tensor<2x2xf32>
  %other1 = nn.matmul %w, %v : (tensor<2x2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %other2 = nn.matmul %n, %i : tensor<2x2xi32>
  func.return %other0, %other1, %other2 : tensor<2x2xf32>, tensor<2xf32>, tensor<2x2xi32>
}

// -----

// CHECK-LABEL: @several
// CHECK:       nn.matmul
// REMARK:      [canonicalize missed one-matrix] "y": its constant left operand of [4, 3, 2] is several matrices
func.func @several(%x: tensor<4x2x5xf32>) -> tensor<4x3x5xf32> {
  %w = nn.constant dense<1.0> : tensor<4x3x2xf32>
  %y = nn.matmul %w, %x : (tensor<4x3x2xf32>, tensor<4x2x5xf32>) -> tensor<4x3x5xf32>
  func.return %y : tensor<4x3x5xf32>
}

// -----

// Positions times frequencies, as rotary embeddings have them.
// CHECK-LABEL: @outer
// CHECK:       nn.matmul
// REMARK:      [canonicalize missed sums-channels] "y": it sums over 1 channel
func.func @outer(%positions: tensor<?x1x?xf32>) -> tensor<?x4x?xf32> {
  %w = nn.constant dense<1.0> : tensor<1x4x1xf32>
  %y = nn.matmul %w, %positions : (tensor<1x4x1xf32>, tensor<?x1x?xf32>) -> tensor<?x4x?xf32>
  func.return %y : tensor<?x4x?xf32>
}

// -----

// CHECK-LABEL: @channels_last
// CHECK:       nn.matmul
// REMARK:      [canonicalize missed channels-before-space] "y": its right operand is transposed
func.func @channels_last(%x: tensor<5x2xf32>) -> tensor<3x5xf32> {
  %w = nn.constant dense<1.0> : tensor<3x2xf32>
  %y = nn.matmul %w, %x transpose_b : (tensor<3x2xf32>, tensor<5x2xf32>) -> tensor<3x5xf32>
  func.return %y : tensor<3x5xf32>
}

// -----

// CHECK-LABEL: @bias
// CHECK:       nn.matmul
// REMARK:      [canonicalize missed no-bias] "y": its bias runs along the last axis, not along the rows of its constant
func.func @bias(%x: tensor<2x5xf32>, %b: tensor<5xf32>) -> tensor<3x5xf32> {
  %w = nn.constant dense<1.0> : tensor<3x2xf32>
  %y = nn.matmul %w, %x, %b : (tensor<3x2xf32>, tensor<2x5xf32>, tensor<5xf32>) -> tensor<3x5xf32>
  func.return %y : tensor<3x5xf32>
}

// -----

// CHECK-LABEL: @unknown
// CHECK:       nn.matmul
// REMARK:      [canonicalize missed sizes-known] "y": its result of [?, 4, 3, ?] has several unknown sizes, or no elements
func.func @unknown(%x: tensor<?x4x2x?xf32>) -> tensor<?x4x3x?xf32> {
  %w = nn.constant dense<1.0> : tensor<3x2xf32>
  %y = nn.matmul %w, %x : (tensor<3x2xf32>, tensor<?x4x2x?xf32>) -> tensor<?x4x3x?xf32>
  func.return %y : tensor<?x4x3x?xf32>
}

// -----

// AMCT's rules for TensorFlow have no such layer.
// CHECK-LABEL: @tensorflow
// CHECK:       nn.conv
// AMCT:        [canonicalize missed beyond-amct] "mixed": AMCT does not quantize products with their constant on the left
func.func @tensorflow(%x: tensor<1x2x5xf32>) -> tensor<1x3x5xf32> {
  %w = nn.constant dense<1.0> : tensor<3x2xf32>
  %y = nn.matmul %w, %x from <tensorflow, "BatchMatMulV2", "mixed"> : (tensor<3x2xf32>, tensor<1x2x5xf32>) -> tensor<1x3x5xf32> loc("mixed")
  func.return %y : tensor<1x3x5xf32>
}
