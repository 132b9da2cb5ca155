// RUN: amct-opt %s --insert-observers --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// Two layers that read one value share one point, named after the first.
// CHECK-LABEL: @shared_point
// CHECK:       [[O:%.*]] = nn.observe %x as "conv1:0" by "mse" : tensor<?x2x4x4xf32>
// CHECK:       nn.conv [[O]], %weight from <onnx, "Conv", "conv1">
// CHECK-NOT:   nn.observe
// CHECK:       nn.conv [[O]], %weight from <onnx, "Conv", "conv2">
// REMARK:      [insert-observers applied observed] "conv1": input observed by mse
// REMARK:      [insert-observers applied observed] "conv2": input observed by mse
func.func @shared_point(%x: tensor<?x2x4x4xf32>) -> (tensor<?x2x4x4xf32>, tensor<?x2x4x4xf32>) {
  %weight = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %a = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<?x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<?x2x4x4xf32>
  %b = nn.conv %x, %weight from <onnx, "Conv", "conv2"> : (tensor<?x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<?x2x4x4xf32>
  func.return %a, %b : tensor<?x2x4x4xf32>, tensor<?x2x4x4xf32>
}

// -----

// Inside a fused region the point stands outside, on the region's input.
// CHECK-LABEL: @fused_region
// CHECK:       [[O:%.*]] = nn.observe %x as "conv1:0" by "mse"
// CHECK:       nn.fused "ConvReLU2d" ({{%.*}} = [[O]], {{%.*}} = %weight)
// REMARK:      [insert-observers applied observed] "conv1"
func.func @fused_region(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %weight = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %y = nn.fused "ConvReLU2d" (%a = %x, %w = %weight) : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32> {
    %c = nn.conv %a, %w from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
    %r = nn.relu %c : tensor<1x2x4x4xf32>
    nn.yield %r : tensor<1x2x4x4xf32>
  }
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Matrix product, transposed convolution, average pooling.
// CHECK-LABEL: @others
// CHECK:       nn.observe %x as "deconv:0"
// CHECK:       nn.observe {{.*}} as "pool:0"
// CHECK:       nn.observe {{.*}} as "fc:0"
func.func @others(%x: tensor<1x2x4x4xf32>) -> tensor<1x3xf32> {
  %weight = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %columns = nn.constant dense<1.0> : tensor<8x3xf32>
  %d = nn.conv_transpose %x, %weight from <onnx, "ConvTranspose", "deconv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %p = nn.average_pool %d strides [2, 2] kernel [2, 2] from <onnx, "AveragePool", "pool"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x2xf32>
  %f = nn.flatten %p : (tensor<1x2x2x2xf32>) -> tensor<1x8xf32>
  %y = nn.matmul %f, %columns from <onnx, "Gemm", "fc"> : (tensor<1x8xf32>, tensor<8x3xf32>) -> tensor<1x3xf32>
  func.return %y : tensor<1x3xf32>
}

// -----

// Already quantized or observed inputs are left alone; a float weight next to a quantized input is told.
// REMARK:      [insert-observers missed weight-quantized] "b": its input is quantized in the model, its weight is not: both stay so
// REMARK-NOT:  "c"
// CHECK-LABEL: @already
// CHECK:       nn.observe %x as "mine:0"
// CHECK-NOT:   nn.observe
// CHECK:       func.return
func.func @already(%x: tensor<1x2x4x4xf32>, %q: tensor<1x2x4x4xi8>) -> (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) {
  %weight = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %o = nn.observe %x as "mine:0" by "minmax" gives <i8, scale = 0.5> given user : tensor<1x2x4x4xf32>
  %dq = nn.dequantize %q by <i8, scale = 0.5> : (tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xf32>
  %a = nn.conv %o, %weight from <onnx, "Conv", "a"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %b = nn.conv %dq, %weight from <onnx, "Conv", "b"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %integers = nn.constant dense<1> : tensor<2x2x1x1xi8>
  %k = nn.dequantize %integers by <i8, scale = 0.5> : (tensor<2x2x1x1xi8>) -> tensor<2x2x1x1xf32>
  %c = nn.conv %dq, %k from <onnx, "Conv", "c"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  func.return %a, %b : tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>
}

// -----

// CHECK-LABEL: @integer_input
// CHECK-NOT:   nn.observe
// REMARK:      [insert-observers missed input-float] "int": its input is of i32
func.func @integer_input(%x: tensor<1x2xi32>) -> tensor<1x3xi32> {
  %w = nn.constant dense<1> : tensor<2x3xi32>
  %y = nn.matmul %x, %w from <onnx, "MatMul", "int"> : (tensor<1x2xi32>, tensor<2x3xi32>) -> tensor<1x3xi32>
  func.return %y : tensor<1x3xi32>
}

// -----

// CHECK-LABEL: @constant_input
// CHECK-NOT:   nn.observe
// REMARK:      [insert-observers missed input-computed] "const": its input is a constant
func.func @constant_input(%x: tensor<1x2xf32>) -> tensor<2x3xf32> {
  %c = nn.constant dense<1.0> : tensor<2x2xf32>
  %w = nn.constant dense<1.0> : tensor<2x3xf32>
  %y = nn.matmul %c, %w from <onnx, "MatMul", "const"> : (tensor<2x2xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}

// -----

// CHECK-LABEL: @weight_computed
// CHECK-NOT:   nn.observe
// REMARK:      [insert-observers missed weight-constant] "dynamic": its weight is computed at run time
func.func @weight_computed(%x: tensor<1x2xf32>, %w: tensor<2x3xf32>) -> tensor<1x3xf32> {
  %y = nn.matmul %x, %w from <onnx, "MatMul", "dynamic"> : (tensor<1x2xf32>, tensor<2x3xf32>) -> tensor<1x3xf32>
  func.return %y : tensor<1x3xf32>
}

// -----

// CHECK-LABEL: @weight_infinite
// CHECK-NOT:   nn.observe
// REMARK:      [insert-observers missed weight-constant] "nan": its weight holds NaN or Inf
func.func @weight_infinite(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
  %w = nn.constant dense<"0x0000C07F0000803F"> : tensor<2x1xf32>
  %y = nn.matmul %x, %w from <onnx, "MatMul", "nan"> : (tensor<1x2xf32>, tensor<2x1xf32>) -> tensor<1x1xf32>
  func.return %y : tensor<1x1xf32>
}

// -----

// CHECK-LABEL: @weight_empty
// CHECK-NOT:   nn.observe
// REMARK:      [insert-observers missed weight-constant] "empty": its weight has no elements
func.func @weight_empty(%x: tensor<1x0xf32>) -> tensor<1x2xf32> {
  %w = nn.constant dense<> : tensor<0x2xf32>
  %y = nn.matmul %x, %w from <onnx, "MatMul", "empty"> : (tensor<1x0xf32>, tensor<0x2xf32>) -> tensor<1x2xf32>
  func.return %y : tensor<1x2xf32>
}

// -----

// CHECK-LABEL: @bias_computed
// CHECK-NOT:   nn.observe
// REMARK:      [insert-observers missed bias-constant] "bias": its bias is computed at run time
func.func @bias_computed(%x: tensor<1x2xf32>, %b: tensor<3xf32>) -> tensor<1x3xf32> {
  %w = nn.constant dense<1.0> : tensor<2x3xf32>
  %y = nn.matmul %x, %w, %b from <onnx, "Gemm", "bias"> : (tensor<1x2xf32>, tensor<2x3xf32>, tensor<3xf32>) -> tensor<1x3xf32>
  func.return %y : tensor<1x3xf32>
}

// -----

// CHECK-LABEL: @batched_weight
// CHECK-NOT:   nn.observe
// REMARK:      [insert-observers missed matrix-weight] "batched": its second operand is of rank 3
func.func @batched_weight(%x: tensor<4x1x2xf32>) -> tensor<4x1x3xf32> {
  %w = nn.constant dense<1.0> : tensor<4x2x3xf32>
  %y = nn.matmul %x, %w from <onnx, "MatMul", "batched"> : (tensor<4x1x2xf32>, tensor<4x2x3xf32>) -> tensor<4x1x3xf32>
  func.return %y : tensor<4x1x3xf32>
}

// -----

// AMCT judges the source layer: transA was 1, whatever import made of it.
// CHECK-LABEL: @transposed_input
// CHECK-NOT:   nn.observe
// REMARK:      [insert-observers missed transpose-a-false] "ta": its transA is 1
func.func @transposed_input(%x: tensor<2x1xf32>) -> tensor<1x3xf32> {
  %w = nn.constant dense<1.0> : tensor<2x3xf32>
  %y = nn.matmul %x, %w transpose_a from <onnx, "Gemm", "ta", {transA = 1 : i64}> : (tensor<2x1xf32>, tensor<2x3xf32>) -> tensor<1x3xf32>
  func.return %y : tensor<1x3xf32>
}

// -----

// CHECK-LABEL: @dilated_depth
// CHECK-NOT:   nn.observe
// REMARK:      [insert-observers missed dilation-d-1] "conv3d": its dilation_d is 2
func.func @dilated_depth(%x: tensor<1x1x4x4x4xf32>) -> tensor<1x1x2x4x4xf32> {
  %w = nn.constant dense<1.0> : tensor<1x1x2x1x1xf32>
  %y = nn.conv %x, %w dilations [2, 1, 1] from <onnx, "Conv", "conv3d", {dilations = array<i64: 2, 1, 1>}> : (tensor<1x1x4x4x4xf32>, tensor<1x1x2x1x1xf32>) -> tensor<1x1x2x4x4xf32>
  func.return %y : tensor<1x1x2x4x4xf32>
}

// -----

// CHECK-LABEL: @dilated_transpose
// CHECK-NOT:   nn.observe
// REMARK:      [insert-observers missed dilation-1] "dilated": its dilations are [2, 2]
func.func @dilated_transpose(%x: tensor<1x1x4x4xf32>) -> tensor<1x1x6x6xf32> {
  %w = nn.constant dense<1.0> : tensor<1x1x2x2xf32>
  %y = nn.conv_transpose %x, %w dilations [2, 2] from <onnx, "ConvTranspose", "dilated", {dilations = array<i64: 2, 2>}> : (tensor<1x1x4x4xf32>, tensor<1x1x2x2xf32>) -> tensor<1x1x6x6xf32>
  func.return %y : tensor<1x1x6x6xf32>
}

// -----

// CHECK-LABEL: @transpose_1d
// CHECK-NOT:   nn.observe
// REMARK:      [insert-observers missed filter-rank-4] "deconv1d": its filter is of rank 3
func.func @transpose_1d(%x: tensor<1x1x4xf32>) -> tensor<1x1x5xf32> {
  %w = nn.constant dense<1.0> : tensor<1x1x2xf32>
  %y = nn.conv_transpose %x, %w from <onnx, "ConvTranspose", "deconv1d"> : (tensor<1x1x4xf32>, tensor<1x1x2xf32>) -> tensor<1x1x5xf32>
  func.return %y : tensor<1x1x5xf32>
}

// -----

// CHECK-LABEL: @border_windows
// CHECK-NOT:   nn.observe
// REMARK:      [insert-observers missed average-count] "border": its windows at the border average fewer elements
func.func @border_windows(%x: tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32> {
  %y = nn.average_pool %x pads [1, 1, 1, 1] kernel [3, 3] from <onnx, "AveragePool", "border"> : tensor<1x1x4x4xf32>
  func.return %y : tensor<1x1x4x4xf32>
}

// -----

// CHECK-LABEL: @half
// CHECK-NOT:   nn.observe
// REMARK:      [insert-observers missed float16-off] "half": the model is of float16 or mixed types
func.func @half(%x: tensor<1x1x4x4xf16>) -> tensor<1x1x3x3xf16> {
  %y = nn.average_pool %x kernel [2, 2] from <onnx, "AveragePool", "half"> : (tensor<1x1x4x4xf16>) -> tensor<1x1x3x3xf16>
  func.return %y : tensor<1x1x3x3xf16>
}

// -----

// CHECK-LABEL: @tensor_only
// CHECK-NOT:   nn.observe
// REMARK:      [insert-observers missed tensor-only] "pool": only its input can be quantized: set tensor_quantize for that
// REMARK:      [insert-observers missed tensor-only] "add"
func.func @tensor_only(%x: tensor<1x1x4x4xf32>) -> tensor<1x1x3x3xf32> {
  %p = nn.max_pool %x kernel [2, 2] from <onnx, "MaxPool", "pool"> : (tensor<1x1x4x4xf32>) -> tensor<1x1x3x3xf32>
  %y = nn.add %p, %p from <onnx, "Add", "add"> : tensor<1x1x3x3xf32>
  func.return %y : tensor<1x1x3x3xf32>
}

// -----

// CHECK-LABEL: @ceil_windows
// CHECK-NOT:   nn.observe
// REMARK:      [insert-observers missed average-count] "ceil": ceil_mode adds windows that average fewer elements
func.func @ceil_windows(%x: tensor<1x1x5x5xf32>) -> tensor<1x1x3x3xf32> {
  %y = nn.average_pool %x strides [2, 2] kernel [2, 2] ceil_mode from <onnx, "AveragePool", "ceil"> : (tensor<1x1x5x5xf32>) -> tensor<1x1x3x3xf32>
  func.return %y : tensor<1x1x3x3xf32>
}

// -----

// CHECK-LABEL: @same_windows
// CHECK-NOT:   nn.observe
// REMARK:      [insert-observers missed average-count] "same": its padding is not known before run time
func.func @same_windows(%x: tensor<1x1x?x?xf32>) -> tensor<1x1x?x?xf32> {
  %y = nn.average_pool %x auto_pad same_upper kernel [3, 3] count_include_pad from <onnx, "AveragePool", "same"> : tensor<1x1x?x?xf32>
  func.return %y : tensor<1x1x?x?xf32>
}

// -----

// CHECK-LABEL: @four_spatial_axes
// CHECK-NOT:   nn.observe
// REMARK:      [insert-observers missed integer-operator] "conv4d": there is no convolution with 4 spatial axes
func.func @four_spatial_axes(%x: tensor<1x1x2x2x2x2xf32>) -> tensor<1x1x2x2x2x2xf32> {
  %w = nn.constant dense<1.0> : tensor<1x1x1x1x1x1xf32>
  %y = nn.conv %x, %w from <onnx, "Conv", "conv4d"> : (tensor<1x1x2x2x2x2xf32>, tensor<1x1x1x1x1x1xf32>) -> tensor<1x1x2x2x2x2xf32>
  func.return %y : tensor<1x1x2x2x2x2xf32>
}

// -----

// What the source's layer allows is told first, as `amct support` tells it.

// CHECK-LABEL: @residual_inside_region
// REMARK:      [insert-observers missed tensor-only] "residual"
func.func @residual_inside_region(%x: tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32> {
  %weight = nn.constant dense<1.0> : tensor<1x1x1x1xf32>
  %y = nn.fused "ConvAdd2d" (%a = %x, %w = %weight) : (tensor<1x1x2x2xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x2x2xf32> {
    %c = nn.conv %a, %w from <onnx, "Conv", "before"> : (tensor<1x1x2x2xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x2x2xf32>
    %s = nn.add %c, %a from <onnx, "Add", "residual"> : tensor<1x1x2x2xf32>
    nn.yield %s : tensor<1x1x2x2xf32>
  }
  func.return %y : tensor<1x1x2x2xf32>
}

// -----

// CHECK-LABEL: @inside_region
// CHECK-NOT:   nn.observe
// REMARK:      [insert-observers missed input-computed] "inner": its input is computed inside the fused region
func.func @inside_region(%x: tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32> {
  %weight = nn.constant dense<1.0> : tensor<1x1x1x1xf32>
  %y = nn.fused "ReLUConv2d" (%a = %x, %w = %weight) : (tensor<1x1x2x2xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x2x2xf32> {
    %r = nn.relu %a : tensor<1x1x2x2xf32>
    %c = nn.conv %r, %w from <onnx, "Conv", "inner"> : (tensor<1x1x2x2xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x2x2xf32>
    nn.yield %c : tensor<1x1x2x2xf32>
  }
  func.return %y : tensor<1x1x2x2xf32>
}
