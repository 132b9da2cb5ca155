// RUN: CONSTANTS | amct-opt - --fuse-bias --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// CONSTANT: %weight = nn.constant dense<[[[[1.0]], [[3.0]]], [[[5.0]], [[7.0]]]]> : tensor<2x2x1x1xf32>
// CONSTANT: %one = nn.constant dense<1.0> : tensor<2xf32>
// CONSTANT: %two = nn.constant dense<2.0> : tensor<f32>

// BiasAdd, then a scalar, then one number per channel, then a subtraction: 1 + 2 + [2, 4] - 2.
// CHECK-LABEL: @conv
// CHECK:       nn.constant dense<[3.000000e+00, 5.000000e+00]> : tensor<2xf32>
// CHECK-NEXT:  [[Y:%.*]] = nn.conv
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-bias applied compute-add] "bias": fused into conv1
// REMARK:      [fuse-bias applied compute-add] "scalar"
// REMARK:      [fuse-bias applied compute-add] "channels"
// REMARK:      [fuse-bias applied compute-add] "sub"
func.func @conv(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %per = nn.constant dense<[[[2.0]], [[4.0]]]> : tensor<2x1x1xf32>
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %b = nn.bias_add %c, %one from <tf, "BiasAdd", "bias"> : (tensor<1x2x4x4xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %s = nn.add %two, %b from <tf, "add", "scalar"> : (tensor<f32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %t = nn.add %s, %per from <tf, "add", "channels"> : (tensor<1x2x4x4xf32>, tensor<2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.sub %t, %two from <tf, "sub", "sub"> : (tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Matrix product plus a constant of shape 2.
// CHECK-LABEL: @matmul_one_dim
// CHECK:       nn.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
// CHECK-NOT:   nn.add
// REMARK:      [fuse-bias applied compute-add] "one_dim": fused into fc
func.func @matmul_one_dim(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %weight = nn.constant dense<[[1.0, 3.0], [5.0, 7.0]]> : tensor<2x2xf32>
  %k = nn.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %c = nn.matmul %x, %weight from <tf, "MatMul", "fc"> : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %y = nn.add %c, %k from <tf, "add", "one_dim"> : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// -----

// Matrix product plus a constant of shape 1x2.
// CHECK-LABEL: @matmul_row
// CHECK:       nn.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
// CHECK-NOT:   nn.add
// REMARK:      [fuse-bias applied compute-add] "row": fused into fc
func.func @matmul_row(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %weight = nn.constant dense<[[1.0, 3.0], [5.0, 7.0]]> : tensor<2x2xf32>
  %k = nn.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32>
  %c = nn.matmul %x, %weight from <tf, "MatMul", "fc"> : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %y = nn.add %c, %k from <tf, "add", "row"> : (tensor<3x2xf32>, tensor<1x2xf32>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// -----

// Batched matrix product; the weight may even be an input, a bias does not touch it.
// CHECK-LABEL: @batched
// CHECK:       nn.matmul %x, %weight, %fc.bias.folded
// CHECK-NOT:   nn.add
// REMARK:      [fuse-bias applied compute-add] "batched": fused into fc
func.func @batched(%x: tensor<5x3x2xf32>, %weight: tensor<5x2x2xf32>) -> tensor<5x3x2xf32> {
  %k = nn.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32>
  %c = nn.matmul %x, %weight from <tf, "MatMul", "fc"> : (tensor<5x3x2xf32>, tensor<5x2x2xf32>) -> tensor<5x3x2xf32>
  %y = nn.add %c, %k from <tf, "add", "batched"> : (tensor<5x3x2xf32>, tensor<1x2xf32>) -> tensor<5x3x2xf32>
  func.return %y : tensor<5x3x2xf32>
}

// -----

// An existing bias is summed, also when the constant has [1, C, 1, 1] and W = C.
// CHECK-LABEL: @existing
// CHECK:       nn.constant dense<[3.000000e+00, 5.000000e+00]> : tensor<2xf32>
// REMARK:      [fuse-bias applied compute-add] "existing"
func.func @existing(%x: tensor<1x2x4x2xf32>) -> tensor<1x2x4x2xf32> {
  %k = nn.constant dense<[[[[2.0]], [[4.0]]]]> : tensor<1x2x1x1xf32>
  %c = nn.conv %x, %weight, %one from <onnx, "Conv", "conv1"> : (tensor<1x2x4x2xf32>, tensor<2x2x1x1xf32>, tensor<2xf32>) -> tensor<1x2x4x2xf32>
  %y = nn.add %c, %k from <tf, "add", "existing"> : (tensor<1x2x4x2xf32>, tensor<1x2x1x1xf32>) -> tensor<1x2x4x2xf32>
  func.return %y : tensor<1x2x4x2xf32>
}

// -----

// Channels last: [C] runs along the channels.
// CHECK-LABEL: @channels_last
// CHECK-NOT:   nn.add
// REMARK:      [fuse-bias applied compute-add] "nhwc"
func.func @channels_last(%x: tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32> {
  %c = nn.conv %x, %weight layout nhwc from <tf, "Conv2D", "conv1"> : (tensor<1x4x4x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x4x4x2xf32>
  %y = nn.add %c, %one from <tf, "add", "nhwc"> : (tensor<1x4x4x2xf32>, tensor<2xf32>) -> tensor<1x4x4x2xf32>
  func.return %y : tensor<1x4x4x2xf32>
}

// -----

// Not fused: channels first, where [C] runs along the last axis, although W = C.
// CHECK-LABEL: @channels_first
// CHECK:       nn.add
// REMARK:      [fuse-bias missed runs-along-channels] "nchw": the constant [2] varies along other axes than the channels
func.func @channels_first(%x: tensor<1x2x4x2xf32>) -> tensor<1x2x4x2xf32> {
  %one = nn.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x2xf32>
  %y = nn.add %c, %one from <tf, "add", "nchw"> : (tensor<1x2x4x2xf32>, tensor<2xf32>) -> tensor<1x2x4x2xf32>
  func.return %y : tensor<1x2x4x2xf32>
}

// -----

// Not fused: a BiasAdd along another axis.
// CHECK-LABEL: @bias_axis
// CHECK:       nn.bias_add
// REMARK:      [fuse-bias missed runs-along-channels] "bias": it adds along axis 3, the output channels are axis 1
func.func @bias_axis(%x: tensor<1x2x4x2xf32>) -> tensor<1x2x4x2xf32> {
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x2xf32>
  %b = nn.bias_add %c, %one layout nhwc from <tf, "BiasAdd", "bias"> : (tensor<1x2x4x2xf32>, tensor<2xf32>) -> tensor<1x2x4x2xf32>
  func.return %b : tensor<1x2x4x2xf32>
}

// -----

// Not fused: another number of channels.
// CHECK-LABEL: @one_channel
// CHECK:       nn.add
// REMARK:      [fuse-bias missed runs-along-channels] "count": the constant has 2 channels, the result 1
func.func @one_channel(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %weight = nn.constant dense<1.0> : tensor<1x2x1x1xf32>
  %per = nn.constant dense<[[[2.0]], [[4.0]]]> : tensor<2x1x1xf32>
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<1x2x1x1xf32>) -> tensor<1x1x4x4xf32>
  %y = nn.add %c, %per from <tf, "add", "count"> : (tensor<1x1x4x4xf32>, tensor<2x1x1xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Not fused: the sum is larger than the result.
// CHECK-LABEL: @larger
// CHECK:       nn.add
// REMARK:      [fuse-bias missed runs-along-channels] "rank": the constant is of rank 5, the result of rank 4
func.func @larger(%x: tensor<1x2x4x4xf32>) -> tensor<1x1x2x4x4xf32> {
  %k = nn.constant dense<2.0> : tensor<1x1x1x1x1xf32>
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.add %c, %k from <tf, "add", "rank"> : (tensor<1x2x4x4xf32>, tensor<1x1x1x1x1xf32>) -> tensor<1x1x2x4x4xf32>
  func.return %y : tensor<1x1x2x4x4xf32>
}

// -----

// Not fused: the result is a graph output too, the existing bias an input.
// CHECK-LABEL: @used
// CHECK:       nn.add
// CHECK:       nn.add
// REMARK:      [fuse-bias missed result-used-once] "used": the result of fc has 2 uses
// REMARK:      [fuse-bias missed bias-constant] "input": the bias is computed at run time
func.func @used(%x: tensor<3x2xf32>, %bias: tensor<2xf32>) -> (tensor<3x2xf32>, tensor<3x2xf32>) {
  %weight = nn.constant dense<[[1.0, 3.0], [5.0, 7.0]]> : tensor<2x2xf32>
  %c = nn.matmul %x, %weight from <tf, "MatMul", "fc"> : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %m = nn.add %c, %two from <tf, "add", "used"> : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %d = nn.matmul %m, %weight, %bias from <tf, "MatMul", "fc2"> : (tensor<3x2xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %y = nn.add %d, %two from <tf, "add", "input"> : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  func.return %c, %y : tensor<3x2xf32>, tensor<3x2xf32>
}

// -----

// Not fused: a vector on the right leaves no channel axis; no weights come before.
// CHECK-LABEL: @others
// CHECK:       nn.add
// CHECK:       nn.add
// REMARK:      [fuse-bias missed channels-followed] "vector": the result has no channel axis
// REMARK:      [fuse-bias missed no-producer] "alone": its input comes from a graph input, which has no weights
func.func @others(%x: tensor<3x2xf32>) -> (tensor<3xf32>, tensor<3x2xf32>) {
  %weight = nn.constant dense<1.0> : tensor<2xf32>
  %c = nn.matmul %x, %weight from <tf, "MatMul", "fc"> : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3xf32>
  %m = nn.add %c, %two from <tf, "add", "vector"> : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %y = nn.add %x, %two from <tf, "add", "alone"> : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  func.return %m, %y : tensor<3xf32>, tensor<3x2xf32>
}

// -----

// Not a candidate: a residual addition has no constant, and no remark.
// CHECK-LABEL: @residual
// CHECK:       nn.add
// REMARK-NOT:  residual
func.func @residual(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.add %c, %x from <tf, "add", "residual"> : (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Not fused: the constant comes first.
// CHECK-LABEL: @constant_first
// CHECK:       nn.sub
// REMARK:      [fuse-bias missed constant-first] "subtracted": it subtracts the result of 'nn.conv' conv1 from a constant, which is not a bias of it
func.func @constant_first(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %weight = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.sub %two, %c from <onnx, "Sub", "subtracted"> : (tensor<f32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Not fused: a product of two inputs, whose number of columns is not known.
// CHECK-LABEL: @unknown_columns
// CHECK:       nn.add
// REMARK:      [fuse-bias missed channels-followed] "scalar": the number of output channels is not known before run time
func.func @unknown_columns(%x: tensor<3x2xf32>, %w: tensor<2x?xf32>) -> tensor<3x?xf32> {
  %one = nn.constant dense<1.0> : tensor<f32>
  %c = nn.matmul %x, %w from <onnx, "MatMul", "fc"> : (tensor<3x2xf32>, tensor<2x?xf32>) -> tensor<3x?xf32>
  %y = nn.add %c, %one from <onnx, "Add", "scalar"> : (tensor<3x?xf32>, tensor<f32>) -> tensor<3x?xf32>
  func.return %y : tensor<3x?xf32>
}
