// RUN: amct-opt %s --quantize --split-input-file --remarks=all 2>&1 >/dev/null | filecheck %s

// AMCT's table of uniform quantization, Caffe: each row once as it is quantized, and once for each constraint.

// InnerProduct: transpose false, axis 1.
// CHECK: [insert-observers applied observed] "inner-product"
// CHECK: [insert-observers missed transpose-false] "transposed": its transpose is true
// CHECK: [insert-observers missed axis-1] "other-axis": its axis is 2
// CHECK: [insert-observers missed weight-constant] "computed": its weight is computed at run time
// CHECK: [convert-observers applied quantized] "inner-product"
func.func @main(%x: tensor<2x2xf32>, %k: tensor<2x2xf32>) {
  %w = nn.constant dense<1.0> : tensor<2x2xf32>
  %0 = nn.matmul %x, %w transpose_b from <caffe, "InnerProduct", "inner-product"> : tensor<2x2xf32>
  %1 = nn.matmul %x, %w from <caffe, "InnerProduct", "transposed", {transpose = 1 : i64}> : tensor<2x2xf32>
  %2 = nn.matmul %x, %w from <caffe, "InnerProduct", "other-axis", {axis = 2 : i64}> : tensor<2x2xf32>
  %3 = nn.matmul %x, %k from <caffe, "InnerProduct", "computed"> : tensor<2x2xf32>
  func.return
}

// -----

// Convolution: filter of rank 4; dilations do not matter.
// CHECK: [insert-observers applied observed] "convolution"
// CHECK: [insert-observers applied observed] "dilated"
// CHECK: [insert-observers applied observed] "other-spelling"
// CHECK: [insert-observers missed filter-rank-4] "volume": its filter is of rank 5
// CHECK: [insert-observers missed weight-constant] "computed": its weight is computed at run time
// CHECK: [convert-observers applied quantized] "convolution"
// CHECK: [convert-observers applied quantized] "dilated"
// CHECK: [convert-observers applied quantized] "other-spelling"
func.func @main(%x: tensor<1x2x4x4xf32>, %v: tensor<1x1x4x4x4xf32>, %k: tensor<2x2x1x1xf32>) {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %vw = nn.constant dense<1.0> : tensor<1x1x1x1x1xf32>
  %0 = nn.conv %x, %w from <caffe, "Convolution", "convolution"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %1 = nn.conv %x, %w dilations [2, 2] from <caffe, "Convolution", "dilated", {dilation = array<i64: 2>}> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %2 = nn.conv %x, %w from <caffe, "DepthwiseConvolution", "other-spelling"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %3 = nn.conv %v, %vw from <caffe, "Convolution", "volume"> : (tensor<1x1x4x4x4xf32>, tensor<1x1x1x1x1xf32>) -> tensor<1x1x4x4x4xf32>
  %4 = nn.conv %x, %k from <caffe, "Convolution", "computed"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  func.return
}

// -----

// Deconvolution: dilation 1, filter of rank 4. The source's dilation counts, also where a kernel of 1 makes it no difference.
// CHECK: [insert-observers applied observed] "deconvolution"
// CHECK: [insert-observers missed dilation-1] "dilated": its dilations are [2]
// CHECK: [insert-observers missed filter-rank-4] "line": its filter is of rank 3
// CHECK: [insert-observers missed weight-constant] "computed": its weight is computed at run time
// CHECK: [convert-observers applied quantized] "deconvolution"
func.func @main(%x: tensor<1x2x4x4xf32>, %l: tensor<1x1x4xf32>, %k: tensor<2x2x1x1xf32>) {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %lw = nn.constant dense<1.0> : tensor<1x1x1xf32>
  %0 = nn.conv_transpose %x, %w from <caffe, "Deconvolution", "deconvolution"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %1 = nn.conv_transpose %x, %w from <caffe, "Deconvolution", "dilated", {dilation = array<i64: 2>}> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %2 = nn.conv_transpose %l, %lw from <caffe, "Deconvolution", "line"> : (tensor<1x1x4xf32>, tensor<1x1x1xf32>) -> tensor<1x1x4xf32>
  %3 = nn.conv_transpose %x, %k from <caffe, "Deconvolution", "computed"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  func.return
}

// -----

// Pooling, mode 1 (AVE): global_pooling false. Mode 0 (MAX): tensor only.
// CHECK: [insert-observers applied observed] "average"
// CHECK: [insert-observers missed global-pooling-false] "average-whole": global pooling is not quantized
// CHECK: [insert-observers missed tensor-only] "max": only its input can be quantized: set tensor_quantize for that
// CHECK: [insert-observers missed tensor-only] "max-whole": only its input can be quantized: set tensor_quantize for that
// CHECK: [convert-observers applied quantized] "average"
func.func @main(%x: tensor<1x2x4x4xf32>) {
  %0 = nn.average_pool %x kernel [2, 2] from <caffe, "Pooling", "average", {pool = "AVE"}> : (tensor<1x2x4x4xf32>) -> tensor<1x2x3x3xf32>
  %1 = nn.global_average_pool %x from <caffe, "Pooling", "average-whole", {global_pooling = 1 : i64, pool = "AVE"}> : (tensor<1x2x4x4xf32>) -> tensor<1x2x1x1xf32>
  %2 = nn.max_pool %x kernel [2, 2] from <caffe, "Pooling", "max"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x3x3xf32>
  %3 = nn.global_max_pool %x from <caffe, "Pooling", "max-whole", {global_pooling = 1 : i64}> : (tensor<1x2x4x4xf32>) -> tensor<1x2x1x1xf32>
  func.return
}

// -----

// Eltwise: tensor only, operation 1 (SUM).
// CHECK: [insert-observers missed tensor-only] "sum": only its input can be quantized: set tensor_quantize for that
// CHECK: [insert-observers missed operation-sum] "product": its operation is PROD
// CHECK: [insert-observers missed operation-sum] "largest": its operation is MAX
func.func @main(%x: tensor<1x2x4x4xf32>) {
  %0 = nn.add %x, %x from <caffe, "Eltwise", "sum"> : tensor<1x2x4x4xf32>
  %1 = nn.mul %x, %x from <caffe, "Eltwise", "product", {operation = "PROD"}> : tensor<1x2x4x4xf32>
  %2 = nn.max %x, %x from <caffe, "Eltwise", "largest", {operation = "MAX"}> : tensor<1x2x4x4xf32>
  func.return
}

// -----

// Pooling and Eltwise are switched off in models of float16.
// CHECK: [insert-observers missed float16-off] "average-half": the model is of float16 or mixed types
// CHECK: [insert-observers missed float16-off] "max-half": the model is of float16 or mixed types
// CHECK: [insert-observers missed float16-off] "sum-half": the model is of float16 or mixed types
func.func @main(%x: tensor<1x2x4x4xf16>) {
  %0 = nn.average_pool %x kernel [2, 2] from <caffe, "Pooling", "average-half"> : (tensor<1x2x4x4xf16>) -> tensor<1x2x3x3xf16>
  %1 = nn.max_pool %x kernel [2, 2] from <caffe, "Pooling", "max-half"> : (tensor<1x2x4x4xf16>) -> tensor<1x2x3x3xf16>
  %2 = nn.add %x, %x from <caffe, "Eltwise", "sum-half"> : tensor<1x2x4x4xf16>
  func.return
}

// -----

// And in mixed ones: here one constant is of float16.
// CHECK: [insert-observers missed float16-off] "average-mixed": the model is of float16 or mixed types
func.func @main(%x: tensor<1x2x4x4xf32>) {
  %h = nn.constant dense<1.0> : tensor<2xf16>
  %0 = nn.average_pool %x kernel [2, 2] from <caffe, "Pooling", "average-mixed"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x3x3xf32>
  func.return
}

// -----

// A layer that the table does not have.
// CHECK: [insert-observers missed not-in-table] "scale": AMCT does not quantize Scale layers
func.func @main(%x: tensor<1x2x4x4xf32>) {
  %0 = nn.add %x, %x from <caffe, "Scale", "scale"> : tensor<1x2x4x4xf32>
  func.return
}
