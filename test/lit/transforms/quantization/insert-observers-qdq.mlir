// RUN: amct-opt %s --profile=qdq --insert-observers --split-input-file --remarks=missed 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks
// RUN: amct-opt %s --profile=qdq --quantize --split-input-file --remarks=applied 2>&1 >/dev/null | filecheck %s --check-prefix QUANTIZED

// Between convolutions an addition is quantized; what is read in float alone is not, nor what a float operation gives.
// CHECK-LABEL: @residual
// CHECK:       nn.observe %a as "conv1:out"
// CHECK:       nn.observe %s as "sum:out"
// CHECK:       nn.observe %c as "conv2:out"
// CHECK-NOT:   nn.observe
// CHECK:       func.return %u
// REMARK:      [insert-observers missed between] "last": profile qdq leaves it in float: nothing that computes in integers reads its result
// QUANTIZED:   "sum"
// QUANTIZED-NOT: [convert-observers applied quantized] "last"
func.func @residual(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = nn.constant dense<[[[[1.0]], [[2.0]]], [[[3.0]], [[-4.0]]]]> : tensor<2x2x1x1xf32>
  %a = nn.conv %x, %w from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %s = nn.add %a, %x from <onnx, "Add", "sum"> : tensor<1x2x4x4xf32>
  %c = nn.conv %s, %w from <onnx, "Conv", "conv2"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %u = nn.add %c, %s from <onnx, "Add", "last"> : tensor<1x2x4x4xf32>
  func.return %u : tensor<1x2x4x4xf32>
}

// -----

// A matrix product gives reals to readers in float, and has no point for them.
// CHECK-LABEL: @encoder
// CHECK:       nn.observe %x as "m:0"
// CHECK-NOT:   nn.observe %m
// CHECK:       %s = nn.add %m, %x
// CHECK:       [[S:%.*]] = nn.observe %s as "n:0"
// CHECK:       nn.matmul [[S]]
// CHECK-NOT:   nn.observe
// CHECK:       func.return %n, %s
// REMARK:      [insert-observers missed between] "s": profile qdq leaves it in float: not all of its operands are computed in integers
func.func @encoder(%x: tensor<2x2xf32>) -> (tensor<2x2xf32>, tensor<2x2xf32>) {
  %w = nn.constant dense<[[1.0, 2.0], [3.0, -4.0]]> : tensor<2x2xf32>
  %m = nn.matmul %x, %w from <onnx, "MatMul", "m"> : tensor<2x2xf32>
  %s = nn.add %m, %x from <onnx, "Add", "s"> : tensor<2x2xf32>
  %n = nn.matmul %s, %w from <onnx, "MatMul", "n"> : tensor<2x2xf32>
  func.return %n, %s : tensor<2x2xf32>, tensor<2x2xf32>
}

// -----

// Products whose results other products alone read give integers, through relu and what moves elements.
// CHECK-LABEL: @perceptron
// CHECK:       [[R:%.*]] = nn.observe %r as "r:out"
// CHECK:       nn.reshape [[R]]
// CHECK-NOT:   nn.observe
// CHECK:       func.return
func.func @perceptron(%x: tensor<2x2xf32>) -> tensor<1x1xf32> {
  %w = nn.constant dense<[[1.0, 2.0], [3.0, -4.0]]> : tensor<2x2xf32>
  %v = nn.constant dense<1.0> : tensor<4x1xf32>
  %m = nn.matmul %x, %w from <onnx, "MatMul", "m"> : tensor<2x2xf32>
  %r = nn.relu %m from <onnx, "Relu", "r"> : tensor<2x2xf32>
  %f = nn.reshape %r to [1, 4] : (tensor<2x2xf32>) -> tensor<1x4xf32>
  %n = nn.matmul %f, %v from <onnx, "MatMul", "n"> : (tensor<1x4xf32>, tensor<4x1xf32>) -> tensor<1x1xf32>
  func.return %n : tensor<1x1xf32>
}

// -----

// Nearest neighbours are on the grid of the input, what is interpolated is computed in float; so is a sum with it.
// CHECK-LABEL: @resized
// CHECK-NOT:   nn.observe %n
// CHECK-NOT:   nn.observe %l
// CHECK:       nn.add
// CHECK:       nn.observe %s as "conv2:0"
// REMARK:      [insert-observers missed resize-nearest] "l": its mode is linear, which onnxruntime computes in float
// REMARK:      [insert-observers missed between] "s"
func.func @resized(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x8x8xf32> {
  %w = nn.constant dense<[[[[1.0]], [[2.0]]], [[[3.0]], [[-4.0]]]]> : tensor<2x2x1x1xf32>
  %a = nn.conv %x, %w from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %n = nn.resize %a scales [1.0, 1.0, 2.0, 2.0] from <onnx, "Resize", "n"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x8x8xf32>
  %l = nn.resize %a scales [1.0, 1.0, 2.0, 2.0] mode linear from <onnx, "Resize", "l"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x8x8xf32>
  %s = nn.add %n, %l from <onnx, "Add", "s"> : tensor<1x2x8x8xf32>
  %c = nn.conv %s, %w from <onnx, "Conv", "conv2"> : (tensor<1x2x8x8xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x8x8xf32>
  func.return %c : tensor<1x2x8x8xf32>
}
