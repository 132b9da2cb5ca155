// RUN: CONSTANTS | amct-opt - --fuse-bn --split-input-file --print-debuginfo | filecheck %s
// RUN: CONSTANTS | amct-opt - --fuse-bn --split-input-file --remarks=all 2>&1 >/dev/null | filecheck %s --check-prefix REMARK

// CONSTANT: %weight = nn.constant dense<[[[[1.0]], [[3.0]]], [[[5.0]], [[7.0]]]]> : tensor<2x2x1x1xf32>
// CONSTANT: %scale = nn.constant dense<[2.0, -2.0]> : tensor<2xf32>
// CONSTANT: %offset = nn.constant dense<[0.5, 0.25]> : tensor<2xf32>
// CONSTANT: %mean = nn.constant dense<[0.0, 1.0]> : tensor<2xf32>
// CONSTANT: %variance = nn.constant dense<[3.0, 0.0]> : tensor<2xf32>

// With k = scale / sqrt(variance + 1) = [1, -2] and shift = offset - mean * k = [0.5, 2.25].
// CHECK-LABEL: @conv
// CHECK-DAG:   [[W:%.*]] = nn.constant dense<{{\[\[\[\[}}1.000000e+00]], {{\[\[}}3.000000e+00]]], {{\[\[\[}}-1.000000e+01]], {{\[\[}}-1.400000e+01]]]]> : tensor<2x2x1x1xf32> loc(fused["conv1", "bn1"])
// CHECK-DAG:   [[B:%.*]] = nn.constant dense<[5.000000e-01, 2.250000e+00]> : tensor<2xf32>
// CHECK-NOT:   nn.batch_norm
// CHECK:       [[Y:%.*]] = nn.conv %x, [[W]], [[B]] from <onnx, "Conv", "conv1"> {{.*}} loc(fused["conv1", "bn1"])
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      remark: [fuse-bn applied compute-batch-norm] "bn1": fused into conv1
func.func @conv(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32> loc("conv1")
  %y = nn.batch_norm %c, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "bn1"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32> loc("bn1")
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// An existing bias is scaled too: [1, 1] * k + shift.
// CHECK-LABEL: @bias
// CHECK:       nn.constant dense<[1.500000e+00, 2.500000e-01]> : tensor<2xf32>
// CHECK-NOT:   nn.batch_norm
// REMARK:      [fuse-bn applied compute-batch-norm] "bias": fused into conv1
func.func @bias(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %b = nn.constant dense<1.0> : tensor<2xf32>
  %c = nn.conv %x, %weight, %b from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.batch_norm %c, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "bias"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Channels last, batch unknown.
// CHECK-LABEL: @channels_last
// CHECK-NOT:   nn.batch_norm
// CHECK:       nn.conv %x, {{.*}} layout nhwc
// REMARK:      [fuse-bn applied compute-batch-norm] "nhwc"
func.func @channels_last(%x: tensor<?x4x4x2xf32>) -> tensor<?x4x4x2xf32> {
  %c = nn.conv %x, %weight layout nhwc from <onnx, "Conv", "conv1"> : (tensor<?x4x4x2xf32>, tensor<2x2x1x1xf32>) -> tensor<?x4x4x2xf32>
  %y = nn.batch_norm %c, %scale, %offset, %mean, %variance layout nhwc epsilon 1.0 from <onnx, "BatchNormalization", "nhwc"> : (tensor<?x4x4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<?x4x4x2xf32>
  func.return %y : tensor<?x4x4x2xf32>
}

// -----

// CHECK-LABEL: @conv1d
// CHECK-NOT:   nn.batch_norm
// REMARK:      [fuse-bn applied compute-batch-norm] "conv1d"
func.func @conv1d(%x: tensor<1x2x4xf32>) -> tensor<1x2x4xf32> {
  %weight = nn.constant dense<2.0> : tensor<2x2x1xf32>
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4xf32>, tensor<2x2x1xf32>) -> tensor<1x2x4xf32>
  %y = nn.batch_norm %c, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "conv1d"> : (tensor<1x2x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4xf32>
  func.return %y : tensor<1x2x4xf32>
}

// -----

// CHECK-LABEL: @conv3d
// CHECK-NOT:   nn.batch_norm
// REMARK:      [fuse-bn applied compute-batch-norm] "conv3d"
func.func @conv3d(%x: tensor<1x2x4x4x4xf32>) -> tensor<1x2x4x4x4xf32> {
  %weight = nn.constant dense<2.0> : tensor<2x2x1x1x1xf32>
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4x4xf32>, tensor<2x2x1x1x1xf32>) -> tensor<1x2x4x4x4xf32>
  %y = nn.batch_norm %c, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "conv3d"> : (tensor<1x2x4x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4x4xf32>
  func.return %y : tensor<1x2x4x4x4xf32>
}

// -----

// CHECK-LABEL: @depthwise
// CHECK-NOT:   nn.batch_norm
// REMARK:      [fuse-bn applied compute-batch-norm] "depthwise"
func.func @depthwise(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %weight = nn.constant dense<2.0> : tensor<2x1x1x1xf32>
  %c = nn.conv %x, %weight groups 2 from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.batch_norm %c, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "depthwise"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Weight [in, out, ...]: columns are scaled.
// CHECK-LABEL: @conv_transpose
// CHECK:       nn.constant dense<{{\[\[\[\[}}1.000000e+00]], {{\[\[}}-6.000000e+00]]], {{\[\[\[}}5.000000e+00]], {{\[\[}}-1.400000e+01]]]]> : tensor<2x2x1x1xf32>
// CHECK-NOT:   nn.batch_norm
// REMARK:      [fuse-bn applied compute-batch-norm] "deconv"
func.func @conv_transpose(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv_transpose %x, %weight from <onnx, "ConvTranspose", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.batch_norm %c, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "deconv"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// CHECK-LABEL: @matmul
// CHECK:       nn.constant dense<{{\[\[}}1.000000e+00, -6.000000e+00], [5.000000e+00, -1.400000e+01]]> : tensor<2x2xf32>
// CHECK-NOT:   nn.batch_norm
// REMARK:      [fuse-bn applied compute-batch-norm] "matmul"
func.func @matmul(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %weight = nn.constant dense<[[1.0, 3.0], [5.0, 7.0]]> : tensor<2x2xf32>
  %c = nn.matmul %x, %weight from <onnx, "Gemm", "fc"> : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %y = nn.batch_norm %c, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "matmul"> : (tensor<3x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// -----

// CHECK-LABEL: @matmul_transposed
// CHECK:       nn.constant dense<{{\[\[}}1.000000e+00, 3.000000e+00], [-1.000000e+01, -1.400000e+01]]> : tensor<2x2xf32>
// CHECK-NOT:   nn.batch_norm
// REMARK:      [fuse-bn applied compute-batch-norm] "matmul_transposed"
func.func @matmul_transposed(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %weight = nn.constant dense<[[1.0, 3.0], [5.0, 7.0]]> : tensor<2x2xf32>
  %c = nn.matmul %x, %weight transpose_b from <onnx, "Gemm", "fc"> : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %y = nn.batch_norm %c, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "matmul_transposed"> : (tensor<3x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// -----

// Not fused: a graph output is a use.
// CHECK-LABEL: @graph_output
// CHECK:       nn.batch_norm
// REMARK:      [fuse-bn missed result-used-once] "out": the result of conv1 has 2 uses
func.func @graph_output(%x: tensor<1x2x4x4xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) {
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.batch_norm %c, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "out"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  func.return %c, %y : tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>
}

// -----

// Not fused: the weight is an input.
// CHECK-LABEL: @weight_input
// CHECK:       nn.batch_norm
// REMARK:      [fuse-bn missed weight-constant] "runtime": the weight is computed at run time
func.func @weight_input(%x: tensor<1x2x4x4xf32>, %weight: tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.batch_norm %c, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "runtime"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Not fused: the batch norm works on another axis.
// CHECK-LABEL: @other_axis
// CHECK:       nn.batch_norm
// REMARK:      [fuse-bn missed normalizes-channels] "axis": it normalizes axis 3, the output channels are axis 1
func.func @other_axis(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %y = nn.batch_norm %c, %scale, %offset, %mean, %variance layout nhwc epsilon 1.0 from <onnx, "BatchNormalization", "axis"> : (tensor<1x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// Not fused: the variance is -epsilon, the factor would be infinite.
// CHECK-LABEL: @infinite
// CHECK:       nn.batch_norm
// REMARK:      [fuse-bn missed finite] "inf": the folded numbers hold NaN or Inf
func.func @infinite(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %variance = nn.constant dense<[3.0, -1.0]> : tensor<2xf32>
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.batch_norm %c, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "inf"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Not fused: nothing with weights comes before it.
// CHECK-LABEL: @alone
// CHECK:       nn.batch_norm
// REMARK:      [fuse-bn missed no-producer] "alone": its input comes from a graph input, which has no weights
func.func @alone(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %y = nn.batch_norm %x, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "alone"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Not fused: a quantization point stands between.
// CHECK-LABEL: @quantized
// CHECK:       nn.batch_norm
// REMARK:      [fuse-bn missed no-producer] "point": its input comes from 'nn.observe' bn1, which has no weights
func.func @quantized(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %o = nn.observe %c as "bn1:0" by "minmax" : tensor<1x2x4x4xf32>
  %y = nn.batch_norm %o, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "point"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Not fused: rank 3, where the columns are the last axis and the norm works on axis 1.
// CHECK-LABEL: @matmul_rank3
// CHECK:       nn.batch_norm
// REMARK:      [fuse-bn missed normalizes-channels] "rank3": it normalizes axis 1, the output channels are axis 2
func.func @matmul_rank3(%x: tensor<3x2x2xf32>) -> tensor<3x2x2xf32> {
  %weight = nn.constant dense<1.0> : tensor<2x2xf32>
  %c = nn.matmul %x, %weight from <onnx, "MatMul", "fc"> : (tensor<3x2x2xf32>, tensor<2x2xf32>) -> tensor<3x2x2xf32>
  %y = nn.batch_norm %c, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "rank3"> : (tensor<3x2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<3x2x2xf32>
  func.return %y : tensor<3x2x2xf32>
}

// -----

// A weight that two convolutions share is copied: only one of them has a norm.
// CHECK-LABEL: @shared
// CHECK:       %weight = nn.constant
// CHECK:       nn.conv %x, %weight from
// CHECK:       nn.conv %x, %weight.folded, {{.*}}
// CHECK-NOT:   nn.batch_norm
// REMARK:      [fuse-bn applied compute-batch-norm] "shared"
func.func @shared(%x: tensor<1x2x4x4xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) {
  %other = nn.conv %x, %weight from <onnx, "Conv", "conv0"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.batch_norm %c, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "shared"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  func.return %other, %y : tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>
}

// -----

// Not fused: a statistic is an input.
// CHECK-LABEL: @mean_input
// CHECK:       nn.batch_norm
// REMARK:      [fuse-bn missed parameters-constant] "mean": its mean is computed at run time
func.func @mean_input(%x: tensor<1x1x4x4xf32>, %mean: tensor<1xf32>) -> tensor<1x1x4x4xf32> {
  %one = nn.constant dense<1.0> : tensor<1xf32>
  %weight = nn.constant dense<2.0> : tensor<1x1x1x1xf32>
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %y = nn.batch_norm %c, %one, %one, %mean, %one from <onnx, "BatchNormalization", "mean"> : (tensor<1x1x4x4xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x4x4xf32>
  func.return %y : tensor<1x1x4x4xf32>
}
