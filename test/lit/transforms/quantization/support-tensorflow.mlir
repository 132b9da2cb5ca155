// RUN: amct-opt %s --quantize --split-input-file --remarks=all 2>&1 >/dev/null | filecheck %s

// AMCT's table of uniform quantization, TensorFlow: each row once as it is quantized, and once for each constraint.

// MatMul: transposed and adjoint false; weight not from a placeholder.
// CHECK: [insert-observers applied observed] "matmul"
// CHECK: [insert-observers missed transpose-false] "transpose-a": its transpose_a is true
// CHECK: [insert-observers missed transpose-false] "transpose-b": its transpose_b is true
// CHECK: [insert-observers missed transpose-false] "adjoint-a": its adjoint_a is true
// CHECK: [insert-observers missed transpose-false] "adjoint-b": its adjoint_b is true
// CHECK: [insert-observers missed weight-constant] "computed": its weight is computed at run time
// CHECK: [convert-observers applied quantized] "matmul"
func.func @main(%x: tensor<2x2xf32>, %k: tensor<2x2xf32>) {
  %w = nn.constant dense<1.0> : tensor<2x2xf32>
  %0 = nn.matmul %x, %w from <tensorflow, "MatMul", "matmul"> : tensor<2x2xf32>
  %1 = nn.matmul %x, %w from <tensorflow, "MatMul", "transpose-a", {transpose_a = 1 : i64}> : tensor<2x2xf32>
  %2 = nn.matmul %x, %w from <tensorflow, "MatMul", "transpose-b", {transpose_b = 1 : i64}> : tensor<2x2xf32>
  %3 = nn.matmul %x, %w from <tensorflow, "MatMul", "adjoint-a", {adjoint_a = 1 : i64}> : tensor<2x2xf32>
  %4 = nn.matmul %x, %w from <tensorflow, "MatMul", "adjoint-b", {adjoint_b = 1 : i64}> : tensor<2x2xf32>
  %5 = nn.matmul %x, %k from <tensorflow, "MatMul", "computed"> : tensor<2x2xf32>
  func.return
}

// -----

// Conv2D: weight not from a placeholder.
// CHECK: [insert-observers applied observed] "conv2d"
// CHECK: [insert-observers missed weight-constant] "computed": its weight is computed at run time
// CHECK: [convert-observers applied quantized] "conv2d"
func.func @main(%x: tensor<1x2x4x4xf32>, %k: tensor<2x2x1x1xf32>) {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %0 = nn.conv %x, %w from <tensorflow, "Conv2D", "conv2d"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %1 = nn.conv %x, %k from <tensorflow, "Conv2D", "computed"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  func.return
}

// -----

// DepthwiseConv2dNative: the same.
// CHECK: [insert-observers applied observed] "depthwise"
// CHECK: [insert-observers missed weight-constant] "computed": its weight is computed at run time
// CHECK: [convert-observers applied quantized] "depthwise"
func.func @main(%x: tensor<1x2x4x4xf32>, %k: tensor<2x1x1x1xf32>) {
  %w = nn.constant dense<1.0> : tensor<2x1x1x1xf32>
  %0 = nn.conv %x, %w groups 2 from <tensorflow, "DepthwiseConv2dNative", "depthwise"> : (tensor<1x2x4x4xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x4x4xf32>
  %1 = nn.conv %x, %k groups 2 from <tensorflow, "DepthwiseConv2dNative", "computed"> : (tensor<1x2x4x4xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x4x4xf32>
  func.return
}

// -----

// Conv2DBackpropInput: dilation 1, and the same.
// CHECK: [insert-observers applied observed] "backprop"
// CHECK: [insert-observers missed dilation-1] "dilated": its dilations are [1, 2, 2, 1]
// CHECK: [insert-observers missed weight-constant] "computed": its weight is computed at run time
// CHECK: [convert-observers applied quantized] "backprop"
func.func @main(%x: tensor<1x2x4x4xf32>, %k: tensor<2x2x1x1xf32>) {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %0 = nn.conv_transpose %x, %w from <tensorflow, "Conv2DBackpropInput", "backprop"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %1 = nn.conv_transpose %x, %w from <tensorflow, "Conv2DBackpropInput", "dilated", {dilations = array<i64: 1, 2, 2, 1>}> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %2 = nn.conv_transpose %x, %k from <tensorflow, "Conv2DBackpropInput", "computed"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  func.return
}

// -----

// BatchMatMulV2: adj_x false, second input a constant of rank 2.
// CHECK: [insert-observers applied observed] "batch"
// CHECK: [insert-observers applied observed] "other-version"
// CHECK: [insert-observers missed adj-x-false] "adjoint": its adj_x is true
// CHECK: [insert-observers missed weight-constant] "computed": its weight is computed at run time
// CHECK: [insert-observers missed matrix-weight] "batched-weight": its second operand is of rank 3
// CHECK: [convert-observers applied quantized] "batch"
// CHECK: [convert-observers applied quantized] "other-version"
func.func @main(%x: tensor<3x2x2xf32>, %k: tensor<2x2xf32>) {
  %w = nn.constant dense<1.0> : tensor<2x2xf32>
  %b = nn.constant dense<1.0> : tensor<3x2x2xf32>
  %0 = nn.matmul %x, %w from <tensorflow, "BatchMatMulV2", "batch"> : (tensor<3x2x2xf32>, tensor<2x2xf32>) -> tensor<3x2x2xf32>
  %1 = nn.matmul %x, %w from <tensorflow, "BatchMatMulV3", "other-version"> : (tensor<3x2x2xf32>, tensor<2x2xf32>) -> tensor<3x2x2xf32>
  %2 = nn.matmul %x, %w from <tensorflow, "BatchMatMulV2", "adjoint", {adj_x = 1 : i64}> : (tensor<3x2x2xf32>, tensor<2x2xf32>) -> tensor<3x2x2xf32>
  %3 = nn.matmul %x, %k from <tensorflow, "BatchMatMulV2", "computed"> : (tensor<3x2x2xf32>, tensor<2x2xf32>) -> tensor<3x2x2xf32>
  %4 = nn.matmul %x, %b from <tensorflow, "BatchMatMulV2", "batched-weight"> : tensor<3x2x2xf32>
  func.return
}

// -----

// A convolution that a product with its constant on the left became.
// CHECK: [insert-observers applied observed] "mixing"
// CHECK: [insert-observers missed weight-constant] "computed": its weight is computed at run time
// CHECK: [convert-observers applied quantized] "mixing"
func.func @main(%x: tensor<?x2x5xf32>, %k: tensor<2x2x1xf32>) {
  %w = nn.constant dense<1.0> : tensor<2x2x1xf32>
  %0 = nn.conv %x, %w from <tensorflow, "BatchMatMulV2", "mixing"> : (tensor<?x2x5xf32>, tensor<2x2x1xf32>) -> tensor<?x2x5xf32>
  %1 = nn.conv %x, %k from <tensorflow, "MatMul", "computed"> : (tensor<?x2x5xf32>, tensor<2x2x1xf32>) -> tensor<?x2x5xf32>
  func.return
}

// -----

// AvgPool.
// CHECK: [insert-observers applied observed] "average"
// CHECK: [convert-observers applied quantized] "average"
func.func @main(%x: tensor<1x2x4x4xf32>) {
  %0 = nn.average_pool %x kernel [2, 2] from <tensorflow, "AvgPool", "average"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x3x3xf32>
  func.return
}

// -----

// Conv3D: dilation_d 1; d is the first of the three axes, wherever they stand.
// CHECK: [insert-observers applied observed] "conv3d"
// CHECK: [insert-observers applied observed] "wide"
// CHECK: [insert-observers missed dilation-d-1] "deep": its dilation_d is 2
// CHECK: [insert-observers missed dilation-d-1] "deep-first": its dilation_d is 2
// CHECK: [insert-observers missed weight-constant] "computed": its weight is computed at run time
// CHECK: [convert-observers applied quantized] "conv3d"
// CHECK: [convert-observers applied quantized] "wide"
func.func @main(%v: tensor<1x1x4x4x4xf32>, %k: tensor<1x1x1x1x1xf32>) {
  %vw = nn.constant dense<1.0> : tensor<1x1x1x1x1xf32>
  %0 = nn.conv %v, %vw from <tensorflow, "Conv3D", "conv3d"> : (tensor<1x1x4x4x4xf32>, tensor<1x1x1x1x1xf32>) -> tensor<1x1x4x4x4xf32>
  %1 = nn.conv %v, %vw from <tensorflow, "Conv3D", "wide", {data_format = "NDHWC", dilations = array<i64: 1, 1, 2, 2, 1>}> : (tensor<1x1x4x4x4xf32>, tensor<1x1x1x1x1xf32>) -> tensor<1x1x4x4x4xf32>
  %2 = nn.conv %v, %vw from <tensorflow, "Conv3D", "deep", {data_format = "NDHWC", dilations = array<i64: 1, 2, 1, 1, 1>}> : (tensor<1x1x4x4x4xf32>, tensor<1x1x1x1x1xf32>) -> tensor<1x1x4x4x4xf32>
  %3 = nn.conv %v, %vw from <tensorflow, "Conv3D", "deep-first", {data_format = "NCDHW", dilations = array<i64: 1, 1, 2, 1, 1>}> : (tensor<1x1x4x4x4xf32>, tensor<1x1x1x1x1xf32>) -> tensor<1x1x4x4x4xf32>
  %4 = nn.conv %v, %k from <tensorflow, "Conv3D", "computed"> : (tensor<1x1x4x4x4xf32>, tensor<1x1x1x1x1xf32>) -> tensor<1x1x4x4x4xf32>
  func.return
}

// -----

// MaxPool and Add, also as their later versions: tensor only.
// CHECK: [insert-observers missed tensor-only] "max": only its input can be quantized: set tensor_quantize for that
// CHECK: [insert-observers missed tensor-only] "max-v2": only its input can be quantized: set tensor_quantize for that
// CHECK: [insert-observers missed tensor-only] "add": only its input can be quantized: set tensor_quantize for that
// CHECK: [insert-observers missed tensor-only] "add-v2": only its input can be quantized: set tensor_quantize for that
func.func @main(%x: tensor<1x2x4x4xf32>) {
  %0 = nn.max_pool %x kernel [2, 2] from <tensorflow, "MaxPool", "max"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x3x3xf32>
  %1 = nn.max_pool %x kernel [2, 2] from <tensorflow, "MaxPoolV2", "max-v2"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x3x3xf32>
  %2 = nn.add %x, %x from <tensorflow, "Add", "add"> : tensor<1x2x4x4xf32>
  %3 = nn.add %x, %x from <tensorflow, "AddV2", "add-v2"> : tensor<1x2x4x4xf32>
  func.return
}

// -----

// AvgPool, MaxPool and Add are switched off in models of float16.
// CHECK: [insert-observers missed float16-off] "average-half": the model is of float16 or mixed types
// CHECK: [insert-observers missed float16-off] "max-half": the model is of float16 or mixed types
// CHECK: [insert-observers missed float16-off] "add-half": the model is of float16 or mixed types
func.func @main(%x: tensor<1x2x4x4xf16>) {
  %0 = nn.average_pool %x kernel [2, 2] from <tensorflow, "AvgPool", "average-half"> : (tensor<1x2x4x4xf16>) -> tensor<1x2x3x3xf16>
  %1 = nn.max_pool %x kernel [2, 2] from <tensorflow, "MaxPool", "max-half"> : (tensor<1x2x4x4xf16>) -> tensor<1x2x3x3xf16>
  %2 = nn.add %x, %x from <tensorflow, "Add", "add-half"> : tensor<1x2x4x4xf16>
  func.return
}

// -----

// And in mixed ones.
// CHECK: [insert-observers missed float16-off] "average-mixed": the model is of float16 or mixed types
func.func @main(%x: tensor<1x2x4x4xf32>) {
  %h = nn.constant dense<1.0> : tensor<2xf16>
  %0 = nn.average_pool %x kernel [2, 2] from <tensorflow, "AvgPool", "average-mixed"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x3x3xf32>
  func.return
}

// -----

// Types that the table does not have.
// CHECK: [insert-observers missed not-in-table] "einsum": AMCT does not quantize Einsum layers
// CHECK: [insert-observers missed not-in-table] "average-3d": AMCT does not quantize AvgPool3D layers
func.func @main(%v: tensor<1x1x4x4x4xf32>, %x: tensor<2x2xf32>) {
  %w = nn.constant dense<1.0> : tensor<2x2xf32>
  %0 = nn.matmul %x, %w from <tensorflow, "Einsum", "einsum"> : tensor<2x2xf32>
  %1 = nn.average_pool %v kernel [2, 2, 2] from <tensorflow, "AvgPool3D", "average-3d"> : (tensor<1x1x4x4x4xf32>) -> tensor<1x1x3x3x3xf32>
  func.return
}
