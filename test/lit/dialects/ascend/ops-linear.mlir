// RUN: ROUNDTRIP | filecheck %s

// Matrix products and BiasAdd.

// CHECK-LABEL: func.func @matmul(
func.func @matmul(%x: tensor<?x16xi8>, %w: tensor<16x10xi8>, %t: tensor<10x16xi8>, %b: tensor<10xi32>, %f: tensor<16x2xf32>, %k: tensor<16x10xf32>) {
  // CHECK-NEXT: %plain = ascend.MatMulV2 %x, %w : (tensor<?x16xi8>, tensor<16x10xi8>) -> tensor<?x10xi32>
  %plain = ascend.MatMulV2 %x, %w : (tensor<?x16xi8>, tensor<16x10xi8>) -> tensor<?x10xi32>
  // CHECK-NEXT: %all = ascend.MatMulV2 %x, %t, %b transpose_x2 true offset_x -128 from <onnx, "Gemm", "fc"> : (tensor<?x16xi8>, tensor<10x16xi8>, tensor<10xi32>) -> tensor<?x10xi32>
  %all = ascend.MatMulV2 %x, %t, %b transpose_x2 true offset_x -128 from <onnx, "Gemm", "fc"> : (tensor<?x16xi8>, tensor<10x16xi8>, tensor<10xi32>) -> tensor<?x10xi32>
  // CHECK-NEXT: %float = ascend.MatMulV2 %f, %k transpose_x1 true : (tensor<16x2xf32>, tensor<16x10xf32>) -> tensor<2x10xf32>
  %float = ascend.MatMulV2 %f, %k transpose_x1 true : (tensor<16x2xf32>, tensor<16x10xf32>) -> tensor<2x10xf32>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @batch_matmul(
func.func @batch_matmul(%x: tensor<2x?x3x16xi8>, %w: tensor<16x10xi8>, %b: tensor<10xi32>, %q: tensor<2x4x8xf16>, %k: tensor<2x5x8xf16>) {
  // CHECK-NEXT: %plain = ascend.BatchMatMulV2 %x, %w, %b offset_x 7 : (tensor<2x?x3x16xi8>, tensor<16x10xi8>, tensor<10xi32>) -> tensor<2x?x3x10xi32>
  %plain = ascend.BatchMatMulV2 %x, %w, %b offset_x 7 : (tensor<2x?x3x16xi8>, tensor<16x10xi8>, tensor<10xi32>) -> tensor<2x?x3x10xi32>
  // CHECK-NEXT: %scores = ascend.BatchMatMulV2 %q, %k adj_x2 true : (tensor<2x4x8xf16>, tensor<2x5x8xf16>) -> tensor<2x4x5xf32>
  %scores = ascend.BatchMatMulV2 %q, %k adj_x2 true : (tensor<2x4x8xf16>, tensor<2x5x8xf16>) -> tensor<2x4x5xf32>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @bias_add(
func.func @bias_add(%x: tensor<1x4x8x3xf32>, %b: tensor<3xf32>, %c: tensor<4xf32>) {
  // CHECK-NEXT: %last = ascend.BiasAdd %x, %b : (tensor<1x4x8x3xf32>, tensor<3xf32>) -> tensor<1x4x8x3xf32>
  %last = ascend.BiasAdd %x, %b : (tensor<1x4x8x3xf32>, tensor<3xf32>) -> tensor<1x4x8x3xf32>
  // CHECK-NEXT: %second = ascend.BiasAdd %x, %c data_format "NCHW" : (tensor<1x4x8x3xf32>, tensor<4xf32>) -> tensor<1x4x8x3xf32>
  %second = ascend.BiasAdd %x, %c data_format "NCHW" : (tensor<1x4x8x3xf32>, tensor<4xf32>) -> tensor<1x4x8x3xf32>
  // CHECK-NEXT: func.return
  func.return
}

// Caffe's inner product.
// CHECK-LABEL: func.func @inner_product(
func.func @inner_product(%x: tensor<?x4x2x2xi8>, %w: tensor<3x16xi8>, %b: tensor<3xi32>, %h: tensor<2x5x8xf16>, %v: tensor<8x3xf16>) {
  // CHECK-NEXT: %a = ascend.FullyConnection %x, %w, %b num_output 3 offset_x 4 : (tensor<?x4x2x2xi8>, tensor<3x16xi8>, tensor<3xi32>) -> tensor<?x3xi32>
  %a = ascend.FullyConnection %x, %w, %b num_output 3 offset_x 4 : (tensor<?x4x2x2xi8>, tensor<3x16xi8>, tensor<3xi32>) -> tensor<?x3xi32>
  // CHECK-NEXT: %c = ascend.FullyConnection %h, %v num_output 3 transpose true axis 2 : (tensor<2x5x8xf16>, tensor<8x3xf16>) -> tensor<2x5x3xf16>
  %c = ascend.FullyConnection %h, %v num_output 3 transpose true axis 2 : (tensor<2x5x8xf16>, tensor<8x3xf16>) -> tensor<2x5x3xf16>
  // CHECK-NEXT: func.return
  func.return
}
