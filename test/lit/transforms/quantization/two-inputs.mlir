// RUN: amct-opt %s --profile ascend-a2 --quantize --split-input-file --remarks=all 2>&1 >/dev/null | filecheck %s
// RUN: amct-opt %s --quantize --split-input-file --remarks=all 2>&1 >/dev/null | filecheck %s --check-prefix=BEFORE

// Products of two inputs: profile ascend-a2 quantizes both, profile ascend none. Sizes need not be known, batches may broadcast.
// CHECK: [insert-observers applied observed] "scores": inputs observed by mse
// CHECK: [insert-observers applied observed] "broadcast": inputs observed by mse
// CHECK: [insert-observers applied observed] "square": inputs observed by mse
// CHECK: [insert-observers applied observed] "weighted": input observed by mse
// CHECK: [convert-observers applied quantized] "scores": int8 inputs, scales {{.*}} and
// CHECK: [convert-observers applied quantized] "broadcast": int8 inputs, scales {{.*}} and
// CHECK: [convert-observers applied quantized] "square": int8 inputs, scales {{.*}} and
// CHECK: [convert-observers applied quantized] "weighted": int8 input, scale {{.*}}; int8 weight per tensor
// BEFORE: [insert-observers missed weight-constant] "scores": its weight is computed at run time
// BEFORE: [insert-observers missed weight-constant] "broadcast": its weight is computed at run time
// BEFORE: [insert-observers missed weight-constant] "square": its weight is computed at run time
// BEFORE: [convert-observers applied quantized] "weighted"
func.func @main(%q: tensor<?x2x4x4xf32>, %k: tensor<?x2x4x4xf32>, %one: tensor<4x4xf32>) {
  %w = nn.constant dense<1.0> : tensor<4x4xf32>
  %0 = nn.matmul %q, %k transpose_b from <onnx, "MatMul", "scores"> : tensor<?x2x4x4xf32>
  %1 = nn.matmul %one, %k from <onnx, "MatMul", "broadcast"> : (tensor<4x4xf32>, tensor<?x2x4x4xf32>) -> tensor<?x2x4x4xf32>
  %2 = nn.matmul %q, %q transpose_b from <onnx, "MatMul", "square"> : tensor<?x2x4x4xf32>
  %3 = nn.matmul %q, %w from <onnx, "MatMul", "weighted"> : (tensor<?x2x4x4xf32>, tensor<4x4xf32>) -> tensor<?x2x4x4xf32>
  func.return
}

// -----

// What stays float: a constant on either side, layers that the table has with weights only.
// CHECK: [insert-observers missed matrix-weight] "constants": its second operand is of rank 3
// CHECK: [insert-observers missed input-computed] "first": its input is a constant
// CHECK: [insert-observers missed weight-constant] "gemm": its weight is computed at run time
// CHECK: [insert-observers missed weight-constant] "fully": its weight is computed at run time
func.func @main(%x: tensor<2x2x2xf32>, %m: tensor<2x2xf32>) {
  %w = nn.constant dense<1.0> : tensor<2x2x2xf32>
  %0 = nn.matmul %x, %w from <onnx, "MatMul", "constants"> : tensor<2x2x2xf32>
  %1 = nn.matmul %w, %x from <onnx, "MatMul", "first"> : tensor<2x2x2xf32>
  %2 = nn.matmul %m, %m from <onnx, "Gemm", "gemm"> : tensor<2x2xf32>
  %3 = nn.matmul %m, %m from <tensorflow, "MatMul", "fully"> : tensor<2x2xf32>
  func.return
}

// -----

// TensorFlow: adj_x false.
// CHECK: [insert-observers applied observed] "scores": inputs
// CHECK: [insert-observers missed adj-x-false] "turned": its adj_x is true
func.func @main(%q: tensor<?x2x2xf32>, %k: tensor<?x2x2xf32>) {
  %0 = nn.matmul %q, %k transpose_b from <tensorflow, "BatchMatMulV2", "scores", {adj_y = true}> : tensor<?x2x2xf32>
  %1 = nn.matmul %q, %k transpose_a from <tensorflow, "BatchMatMulV3", "turned", {adj_x = true}> : tensor<?x2x2xf32>
  func.return
}

// -----

// float16 anywhere in the model.
// CHECK: [insert-observers missed float16-off] "scores": the model is of float16 or mixed types
// CHECK: [convert-observers applied quantized] "weighted"
func.func @main(%q: tensor<2x2xf16>, %k: tensor<2x2xf16>) {
  %w = nn.constant dense<1.0> : tensor<2x2xf16>
  %0 = nn.matmul %q, %k from <onnx, "MatMul", "scores"> : tensor<2x2xf16>
  %1 = nn.matmul %0, %w from <onnx, "MatMul", "weighted"> : tensor<2x2xf16>
  func.return
}

// -----

// One side, or both, came quantized: what is missing stays so, unless the layer is named.
// CHECK: [insert-observers missed left-in-float] "one-side": the model is already quantized, and this layer was left in float
// CHECK: [insert-observers missed two-inputs] "offset": its input 1 came quantized otherwise than to int8 with one scale and no zero point
// CHECK-NEXT: [insert-observers missed left-in-float] "other-side": the model is already quantized, and this layer was left in float
func.func @main(%q: tensor<2x2xf32>, %k: tensor<2x2xf32>) {
  %0 = nn.quantize %k by <i8, scale = 0.5> : (tensor<2x2xf32>) -> tensor<2x2xi8>
  %1 = nn.dequantize %0 by <i8, scale = 0.5> : (tensor<2x2xi8>) -> tensor<2x2xf32>
  %2 = nn.quantize %k by <i8, scale = 0.5, zero_point = 3> : (tensor<2x2xf32>) -> tensor<2x2xi8>
  %3 = nn.dequantize %2 by <i8, scale = 0.5, zero_point = 3> : (tensor<2x2xi8>) -> tensor<2x2xf32>
  %4 = nn.matmul %q, %1 from <onnx, "MatMul", "one-side"> : tensor<2x2xf32>
  %5 = nn.matmul %q, %3 from <onnx, "MatMul", "offset"> : tensor<2x2xf32>
  %6 = nn.matmul %1, %1 from <onnx, "MatMul", "both"> : tensor<2x2xf32>
  %7 = nn.matmul %1, %q from <onnx, "MatMul", "other-side"> : tensor<2x2xf32>
  func.return
}

// -----

// Parameters that an observer was given win, on either side: the value is quantized once.
// CHECK: [convert-observers applied quantized] "given": int8 inputs, scales {{.*}} and 0.25
func.func @main(%q: tensor<2x2xf32>, %k: tensor<2x2xf32>) {
  %0 = nn.observe %k as "hand" by "minmax" symmetric gives <i8, scale = 0.25> : tensor<2x2xf32>
  %1 = nn.matmul %q, %0 from <onnx, "MatMul", "given"> : tensor<2x2xf32>
  func.return
}
