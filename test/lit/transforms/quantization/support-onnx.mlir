// RUN: amct-opt %s --quantize --split-input-file --remarks=all 2>&1 >/dev/null | filecheck %s

// AMCT's table of uniform quantization, ONNX: each row once as it is quantized, and once for each constraint.

// Conv: with a filter of rank 5 dilation_d 1; weight not from a placeholder. Sizes need not be known.
// CHECK: [insert-observers applied observed] "conv"
// CHECK: [insert-observers applied observed] "dilated"
// CHECK: [insert-observers applied observed] "volume"
// CHECK: [insert-observers missed dilation-d-1] "deep": its dilation_d is 2
// CHECK: [insert-observers missed weight-constant] "computed": its weight is computed at run time
// CHECK: [convert-observers applied quantized] "conv"
// CHECK: [convert-observers applied quantized] "dilated"
// CHECK: [convert-observers applied quantized] "volume"
func.func @main(%x: tensor<?x2x?x?xf32>, %k: tensor<2x2x1x1xf32>, %v: tensor<1x1x4x4x4xf32>) {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %vw = nn.constant dense<1.0> : tensor<1x1x1x1x1xf32>
  %0 = nn.conv %x, %w from <onnx, "Conv", "conv"> : (tensor<?x2x?x?xf32>, tensor<2x2x1x1xf32>) -> tensor<?x2x?x?xf32>
  %1 = nn.conv %x, %w dilations [2, 2] from <onnx, "Conv", "dilated", {dilations = array<i64: 2, 2>}> : (tensor<?x2x?x?xf32>, tensor<2x2x1x1xf32>) -> tensor<?x2x?x?xf32>
  %2 = nn.conv %v, %vw from <onnx, "Conv", "volume", {dilations = array<i64: 1, 2, 2>}> : (tensor<1x1x4x4x4xf32>, tensor<1x1x1x1x1xf32>) -> tensor<1x1x4x4x4xf32>
  %3 = nn.conv %v, %vw from <onnx, "Conv", "deep", {dilations = array<i64: 2, 1, 1>}> : (tensor<1x1x4x4x4xf32>, tensor<1x1x1x1x1xf32>) -> tensor<1x1x4x4x4xf32>
  %4 = nn.conv %x, %k from <onnx, "Conv", "computed"> : (tensor<?x2x?x?xf32>, tensor<2x2x1x1xf32>) -> tensor<?x2x?x?xf32>
  func.return
}

// -----

// Gemm: transpose_a false.
// CHECK: [insert-observers applied observed] "gemm"
// CHECK: [insert-observers applied observed] "turned-weight"
// CHECK: [insert-observers missed transpose-a-false] "turned": its transA is 1
// CHECK: [insert-observers missed weight-constant] "computed": its weight is computed at run time
// CHECK: [convert-observers applied quantized] "gemm"
// CHECK: [convert-observers applied quantized] "turned-weight"
func.func @main(%x: tensor<2x2xf32>, %k: tensor<2x2xf32>) {
  %w = nn.constant dense<1.0> : tensor<2x2xf32>
  %0 = nn.matmul %x, %w from <onnx, "Gemm", "gemm"> : tensor<2x2xf32>
  %1 = nn.matmul %x, %w transpose_b from <onnx, "Gemm", "turned-weight", {transB = 1 : i64}> : tensor<2x2xf32>
  %2 = nn.matmul %x, %w transpose_a from <onnx, "Gemm", "turned", {transA = 1 : i64}> : tensor<2x2xf32>
  %3 = nn.matmul %x, %k from <onnx, "Gemm", "computed"> : tensor<2x2xf32>
  func.return
}

// -----

// ConvTranspose: dilation 1, filter of rank 4.
// CHECK: [insert-observers applied observed] "deconv"
// CHECK: [insert-observers missed dilation-1] "dilated": its dilations are [2, 2]
// CHECK: [insert-observers missed filter-rank-4] "volume": its filter is of rank 5
// CHECK: [insert-observers missed weight-constant] "computed": its weight is computed at run time
// CHECK: [convert-observers applied quantized] "deconv"
func.func @main(%x: tensor<1x2x4x4xf32>, %k: tensor<2x2x1x1xf32>, %v: tensor<1x1x4x4x4xf32>) {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %vw = nn.constant dense<1.0> : tensor<1x1x1x1x1xf32>
  %0 = nn.conv_transpose %x, %w from <onnx, "ConvTranspose", "deconv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %1 = nn.conv_transpose %x, %w dilations [2, 2] from <onnx, "ConvTranspose", "dilated", {dilations = array<i64: 2, 2>}> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %2 = nn.conv_transpose %v, %vw from <onnx, "ConvTranspose", "volume"> : (tensor<1x1x4x4x4xf32>, tensor<1x1x1x1x1xf32>) -> tensor<1x1x4x4x4xf32>
  %3 = nn.conv_transpose %x, %k from <onnx, "ConvTranspose", "computed"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  func.return
}

// -----

// MatMul: second input a constant of rank 2.
// CHECK: [insert-observers applied observed] "matmul"
// CHECK: [insert-observers missed weight-constant] "computed": its weight is computed at run time
// CHECK: [insert-observers missed matrix-weight] "batched-weight": its second operand is of rank 3
// CHECK: [convert-observers applied quantized] "matmul"
func.func @main(%x: tensor<3x?x2xf32>, %k: tensor<2x2xf32>) {
  %w = nn.constant dense<1.0> : tensor<2x2xf32>
  %b = nn.constant dense<1.0> : tensor<3x2x2xf32>
  %0 = nn.matmul %x, %w from <onnx, "MatMul", "matmul"> : (tensor<3x?x2xf32>, tensor<2x2xf32>) -> tensor<3x?x2xf32>
  %1 = nn.matmul %x, %k from <onnx, "MatMul", "computed"> : (tensor<3x?x2xf32>, tensor<2x2xf32>) -> tensor<3x?x2xf32>
  %2 = nn.matmul %x, %b from <onnx, "MatMul", "batched-weight"> : (tensor<3x?x2xf32>, tensor<3x2x2xf32>) -> tensor<3x?x2xf32>
  func.return
}

// -----

// A convolution that a MatMul or Gemm with its constant on the left became.
// CHECK: [insert-observers applied observed] "mixing"
// CHECK: [insert-observers applied observed] "gemm"
// CHECK: [insert-observers missed weight-constant] "computed": its weight is computed at run time
// CHECK: [convert-observers applied quantized] "mixing"
// CHECK: [convert-observers applied quantized] "gemm"
func.func @main(%x: tensor<?x2x5xf32>, %k: tensor<2x2x1xf32>) {
  %w = nn.constant dense<1.0> : tensor<2x2x1xf32>
  %0 = nn.conv %x, %w from <onnx, "MatMul", "mixing"> : (tensor<?x2x5xf32>, tensor<2x2x1xf32>) -> tensor<?x2x5xf32>
  %1 = nn.conv %x, %w from <onnx, "Gemm", "gemm"> : (tensor<?x2x5xf32>, tensor<2x2x1xf32>) -> tensor<?x2x5xf32>
  %2 = nn.conv %x, %k from <onnx, "MatMul", "computed"> : (tensor<?x2x5xf32>, tensor<2x2x1xf32>) -> tensor<?x2x5xf32>
  func.return
}

// -----

// AveragePool: global_pooling false.
// CHECK: [insert-observers applied observed] "average"
// CHECK: [insert-observers missed global-pooling-false] "whole": global pooling is not quantized
// CHECK: [convert-observers applied quantized] "average"
func.func @main(%x: tensor<1x2x4x4xf32>) {
  %0 = nn.average_pool %x kernel [2, 2] from <onnx, "AveragePool", "average"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x3x3xf32>
  %1 = nn.global_average_pool %x from <onnx, "GlobalAveragePool", "whole"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x1x1xf32>
  func.return
}

// -----

// And every window averages as many elements, known or not: of what size the input is, is asked where it matters.
// CHECK: [insert-observers applied observed] "same-without-pads"
// CHECK: [insert-observers applied observed] "counted-pads"
// CHECK: [insert-observers applied observed] "ceil-by-one"
// CHECK: [insert-observers missed average-count] "ceil-by-two": ceil_mode adds windows that average fewer elements
// CHECK: [insert-observers missed average-count] "border": its windows at the border average fewer elements
// CHECK: [insert-observers missed average-count] "same": its padding is not known before run time
// CHECK: [convert-observers applied quantized] "same-without-pads"
// CHECK: [convert-observers applied quantized] "counted-pads"
// CHECK: [convert-observers applied quantized] "ceil-by-one"
func.func @main(%x: tensor<1x2x4x4xf32>, %d: tensor<1x2x?x?xf32>) {
  %0 = nn.average_pool %x strides [2, 2] auto_pad same_upper kernel [2, 2] from <onnx, "AveragePool", "same-without-pads"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x2xf32>
  %1 = nn.average_pool %x pads [1, 1, 1, 1] kernel [3, 3] count_include_pad from <onnx, "AveragePool", "counted-pads"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %2 = nn.average_pool %d kernel [2, 2] ceil_mode from <onnx, "AveragePool", "ceil-by-one"> : (tensor<1x2x?x?xf32>) -> tensor<1x2x?x?xf32>
  %3 = nn.average_pool %d strides [2, 2] kernel [2, 2] ceil_mode from <onnx, "AveragePool", "ceil-by-two"> : (tensor<1x2x?x?xf32>) -> tensor<1x2x?x?xf32>
  %4 = nn.average_pool %x pads [1, 1, 1, 1] kernel [3, 3] from <onnx, "AveragePool", "border"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %5 = nn.average_pool %d auto_pad same_upper kernel [2, 2] from <onnx, "AveragePool", "same"> : (tensor<1x2x?x?xf32>) -> tensor<1x2x?x?xf32>
  func.return
}

// -----

// MaxPool and Add: tensor only.
// CHECK: [insert-observers missed tensor-only] "max": only its input can be quantized: set tensor_quantize for that
// CHECK: [insert-observers missed tensor-only] "add": only its input can be quantized: set tensor_quantize for that
func.func @main(%x: tensor<1x2x4x4xf32>) {
  %0 = nn.max_pool %x kernel [2, 2] from <onnx, "MaxPool", "max"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x3x3xf32>
  %1 = nn.add %x, %x from <onnx, "Add", "add"> : tensor<1x2x4x4xf32>
  func.return
}

// -----

// AveragePool, MaxPool and Add are switched off in models of float16.
// CHECK: [insert-observers missed float16-off] "average-half": the model is of float16 or mixed types
// CHECK: [insert-observers missed float16-off] "max-half": the model is of float16 or mixed types
// CHECK: [insert-observers missed float16-off] "add-half": the model is of float16 or mixed types
func.func @main(%x: tensor<1x2x4x4xf16>) {
  %0 = nn.average_pool %x kernel [2, 2] from <onnx, "AveragePool", "average-half"> : (tensor<1x2x4x4xf16>) -> tensor<1x2x3x3xf16>
  %1 = nn.max_pool %x kernel [2, 2] from <onnx, "MaxPool", "max-half"> : (tensor<1x2x4x4xf16>) -> tensor<1x2x3x3xf16>
  %2 = nn.add %x, %x from <onnx, "Add", "add-half"> : tensor<1x2x4x4xf16>
  func.return
}

// -----

// And in mixed ones; an input is enough.
// CHECK: [insert-observers missed float16-off] "average-mixed": the model is of float16 or mixed types
func.func @main(%x: tensor<1x2x4x4xf32>, %h: tensor<2xf16>) {
  %0 = nn.average_pool %x kernel [2, 2] from <onnx, "AveragePool", "average-mixed"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x3x3xf32>
  func.return
}

// -----

// Convolutions and matrix products of float16 are quantized.
// CHECK: [insert-observers applied observed] "conv-half"
// CHECK: [convert-observers applied quantized] "conv-half"
func.func @main(%x: tensor<1x2x4x4xf16>) {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf16>
  %0 = nn.conv %x, %w from <onnx, "Conv", "conv-half"> : (tensor<1x2x4x4xf16>, tensor<2x2x1x1xf16>) -> tensor<1x2x4x4xf16>
  func.return
}

// -----

// A type that the table does not have, and one of it that is imported as something else.
// CHECK: [insert-observers missed not-in-table] "sum": AMCT does not quantize Sum layers
// CHECK: [insert-observers missed imported-as] "odd": it is imported as nn.relu
// CHECK-NOT: "even"
func.func @main(%x: tensor<1x2x4x4xf32>, %q: tensor<1x2x4x4xi8>) {
  %0 = nn.add %x, %x from <onnx, "Sum", "sum"> : tensor<1x2x4x4xf32>
  %1 = nn.relu %x from <onnx, "AveragePool", "odd"> : tensor<1x2x4x4xf32>
  %2 = nn.dequantize %q by <i8, scale = 0.5> : (tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xf32>
  %3 = nn.average_pool %2 kernel [1, 1] from <onnx, "AveragePool", "even"> : tensor<1x2x4x4xf32>
  func.return
}

// -----

// Operations without a source are judged as the ONNX layers that they resemble.
// CHECK: [insert-observers applied observed] "conv"
// CHECK: [insert-observers missed matrix-weight] "matmul": its second operand is of rank 3
// CHECK: [insert-observers missed tensor-only] "foreign": only its input can be quantized: set tensor_quantize for that
// CHECK: [convert-observers applied quantized] "conv"
func.func @main(%x: tensor<1x2x4x4xf32>, %m: tensor<2x2xf32>) {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %b = nn.constant dense<1.0> : tensor<3x2x2xf32>
  %conv = nn.conv %x, %w : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %matmul = nn.matmul %m, %b : (tensor<2x2xf32>, tensor<3x2x2xf32>) -> tensor<3x2x2xf32>
  %sum = nn.add %x, %x from <other, "Sum", "foreign"> : tensor<1x2x4x4xf32>
  func.return
}

// -----

// And an operator of Ascend IR has to compute the layer in integers, as the lowering of a copy shows.
// CHECK: [insert-observers applied observed] "line"
// CHECK: [insert-observers missed integer-operator] "pool-3d": it pools over 3 spatial axes, Ascend IR over at most 2
// CHECK: [insert-observers missed integer-operator] "pool-dilated": Ascend IR has no pooling with dilations
// CHECK: [insert-observers missed integer-operator] "pool-large": a window of 256 elements, at most 255 are possible
// CHECK: [insert-observers missed integer-operator] "beyond": its output_shape asks for more than the windows cover
// CHECK: [insert-observers missed integer-operator] "steps": stride 64 is not in [1, 63]
// CHECK: [insert-observers missed integer-operator] "double": AscendQuant takes f16 or f32, not f64
// CHECK: [convert-observers applied quantized] "line"
func.func @main(%l: tensor<1x2x8xf32>, %v: tensor<1x2x4x4x4xf32>, %x: tensor<1x2x16x16xf32>, %d: tensor<2x2xf64>) {
  %w = nn.constant dense<1.0> : tensor<2x2x2x2xf32>
  %k = nn.constant dense<1.0> : tensor<2x2xf64>
  %0 = nn.average_pool %l kernel [2] from <onnx, "AveragePool", "line"> : (tensor<1x2x8xf32>) -> tensor<1x2x7xf32>
  %1 = nn.average_pool %v kernel [2, 2, 2] from <onnx, "AveragePool", "pool-3d"> : (tensor<1x2x4x4x4xf32>) -> tensor<1x2x3x3x3xf32>
  %2 = nn.average_pool %x dilations [2, 2] kernel [2, 2] from <onnx, "AveragePool", "pool-dilated"> : (tensor<1x2x16x16xf32>) -> tensor<1x2x14x14xf32>
  %3 = nn.average_pool %x kernel [16, 16] from <onnx, "AveragePool", "pool-large"> : (tensor<1x2x16x16xf32>) -> tensor<1x2x1x1xf32>
  %4 = nn.conv_transpose %x, %w strides [2, 2] output_shape [33, 33] from <onnx, "ConvTranspose", "beyond"> : (tensor<1x2x16x16xf32>, tensor<2x2x2x2xf32>) -> tensor<1x2x33x33xf32>
  %5 = nn.conv %x, %w strides [64, 64] from <onnx, "Conv", "steps"> : (tensor<1x2x16x16xf32>, tensor<2x2x2x2xf32>) -> tensor<1x2x1x1xf32>
  %6 = nn.matmul %d, %k from <onnx, "MatMul", "double"> : tensor<2x2xf64>
  func.return
}
