// RUN: CONSTANTS | amct-opt - --fuse-mul --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// CONSTANT: %weight = nn.constant dense<[[[[1.0]], [[3.0]]], [[[5.0]], [[7.0]]]]> : tensor<2x2x1x1xf32>
// CONSTANT: %two = nn.constant dense<2.0> : tensor<f32>

// AMCT's rule: the factor is a constant of empty shape.
// CHECK-LABEL: @scalar
// CHECK:       nn.constant dense<{{\[\[\[\[}}2.000000e+00]], {{\[\[}}6.000000e+00]]], {{\[\[\[}}1.000000e+01]], {{\[\[}}1.400000e+01]]]]>
// CHECK-NEXT:  [[Y:%.*]] = nn.conv
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-mul applied compute-mul] "scalar": fused into conv1
func.func @scalar(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.mul %c, %two from <tf, "mul", "scalar"> : (tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// With a BiasAdd between: weight and bias are scaled, the BiasAdd goes.
// CHECK-LABEL: @bias_add
// CHECK:       nn.constant dense<2.000000e+00> : tensor<2xf32>
// CHECK-NOT:   nn.bias_add
// CHECK-NOT:   nn.mul
// REMARK:      [fuse-mul applied compute-mul] "biased": fused into conv1
func.func @bias_add(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %one = nn.constant dense<1.0> : tensor<2xf32>
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %b = nn.bias_add %c, %one from <tf, "BiasAdd", "bias"> : (tensor<1x2x4x4xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.mul %two, %b from <tf, "mul", "biased"> : (tensor<f32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Beyond AMCT: one factor per channel, and division.
// CHECK-LABEL: @per_channel
// CHECK:       nn.constant dense<{{\[\[\[\[}}5.000000e-01]], {{\[\[}}1.500000e+00]]], {{\[\[\[}}1.250000e+00]], {{\[\[}}1.750000e+00]]]]>
// CHECK-NOT:   nn.div
// REMARK:      [fuse-mul applied compute-mul] "divided": fused into conv1
func.func @per_channel(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %per = nn.constant dense<[[[2.0]], [[4.0]]]> : tensor<2x1x1xf32>
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.div %c, %per from <tf, "div", "divided"> : (tensor<1x2x4x4xf32>, tensor<2x1x1xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Matrix product: the columns are scaled.
// CHECK-LABEL: @matmul
// CHECK:       nn.constant dense<{{\[\[}}1.000000e+00, 6.000000e+00], [5.000000e+00, 1.400000e+01]]>
// CHECK-NOT:   nn.mul
// REMARK:      [fuse-mul applied compute-mul] "columns": fused into fc
func.func @matmul(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %weight = nn.constant dense<[[1.0, 3.0], [5.0, 7.0]]> : tensor<2x2xf32>
  %k = nn.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %c = nn.matmul %x, %weight from <tf, "MatMul", "fc"> : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %y = nn.mul %c, %k from <tf, "mul", "columns"> : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// -----

// Transposed convolution and depthwise.
// CHECK-LABEL: @others
// CHECK-NOT:   nn.mul
// REMARK:      [fuse-mul applied compute-mul] "m1": fused into deconv
// REMARK:      [fuse-mul applied compute-mul] "m2": fused into depthwise
func.func @others(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %d = nn.constant dense<1.0> : tensor<2x1x1x1xf32>
  %c = nn.conv_transpose %x, %weight from <tf, "Conv2DBackpropInput", "deconv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %m = nn.mul %c, %two from <tf, "mul", "m1"> : (tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32>
  %e = nn.conv %m, %d groups 2 from <tf, "DepthwiseConv2dNative", "depthwise"> : (tensor<1x2x4x4xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.mul %e, %two from <tf, "mul", "m2"> : (tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Not fused: the product has 2 uses.
// CHECK-LABEL: @used
// CHECK:       nn.mul
// REMARK:      [fuse-mul missed result-used-once] "used": the result of conv1 has 2 uses
func.func @used(%x: tensor<1x2x4x4xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) {
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.mul %c, %two from <tf, "mul", "used"> : (tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32>
  func.return %c, %y : tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>
}

// -----

// Not fused: weight or bias is an input.
// CHECK-LABEL: @inputs
// CHECK:       nn.mul
// CHECK:       nn.mul
// REMARK:      [fuse-mul missed weight-constant] "w": the weight is computed at run time
// REMARK:      [fuse-mul missed bias-constant] "b": the bias is computed at run time
func.func @inputs(%x: tensor<3x2xf32>, %weight: tensor<2x2xf32>, %bias: tensor<2xf32>) -> tensor<3x2xf32> {
  %k = nn.constant dense<1.0> : tensor<2x2xf32>
  %c = nn.matmul %x, %weight from <tf, "MatMul", "fc"> : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %m = nn.mul %c, %two from <tf, "mul", "w"> : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  %d = nn.matmul %m, %k, %bias from <tf, "MatMul", "fc2"> : (tensor<3x2xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %y = nn.mul %d, %two from <tf, "mul", "b"> : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// -----

// Not fused: the BiasAdd runs along another axis.
// CHECK-LABEL: @bias_axis
// CHECK:       nn.mul
// REMARK:      [fuse-mul missed bias-along-channels] "axis": the BiasAdd adds along axis 3, the output channels are axis 1
func.func @bias_axis(%x: tensor<1x2x4x2xf32>) -> tensor<1x2x4x2xf32> {
  %one = nn.constant dense<1.0> : tensor<2xf32>
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x2xf32>
  %b = nn.bias_add %c, %one layout nhwc from <tf, "BiasAdd", "bias"> : (tensor<1x2x4x2xf32>, tensor<2xf32>) -> tensor<1x2x4x2xf32>
  %y = nn.mul %b, %two from <tf, "mul", "axis"> : (tensor<1x2x4x2xf32>, tensor<f32>) -> tensor<1x2x4x2xf32>
  func.return %y : tensor<1x2x4x2xf32>
}

// -----

// Not fused: the factor varies along the columns of the image.
// CHECK-LABEL: @other_axis
// CHECK:       nn.mul
// REMARK:      [fuse-mul missed runs-along-channels] "spatial": the constant [4] varies along other axes than the channels
func.func @other_axis(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %k = nn.constant dense<[2.0, 1.0, 2.0, 2.0]> : tensor<4xf32>
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.mul %c, %k from <tf, "mul", "spatial"> : (tensor<1x2x4x4xf32>, tensor<4xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Not fused: the factor enlarges the result.
// CHECK-LABEL: @enlarges
// CHECK:       nn.mul
// REMARK:      [fuse-mul missed runs-along-channels] "rank": the constant is of rank 5, the result of rank 4
func.func @enlarges(%x: tensor<1x2x4x4xf32>) -> tensor<1x1x2x4x4xf32> {
  %k = nn.constant dense<2.0> : tensor<1x1x1x1x1xf32>
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.mul %c, %k from <tf, "mul", "rank"> : (tensor<1x2x4x4xf32>, tensor<1x1x1x1x1xf32>) -> tensor<1x1x2x4x4xf32>
  func.return %y : tensor<1x1x2x4x4xf32>
}

// -----

// Not fused: division by zero would make the weight infinite.
// CHECK-LABEL: @zero
// CHECK:       nn.div
// REMARK:      [fuse-mul missed finite] "zero": the folded numbers hold NaN or Inf
func.func @zero(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %k = nn.constant dense<0.0> : tensor<f32>
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.div %c, %k from <tf, "div", "zero"> : (tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Not fused: no weights come before; a factor past a relu is not a factor of the weight.
// CHECK-LABEL: @past_relu
// CHECK:       nn.mul
// REMARK:      [fuse-mul missed no-producer] "late": its input comes from 'nn.relu' r, which has no weights
func.func @past_relu(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %r = nn.relu %c : tensor<1x2x4x4xf32>
  %y = nn.mul %r, %two from <tf, "mul", "late"> : (tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Not fused: the products are about the smallest number that float16 holds.
// CHECK-LABEL: @underflow
// CHECK:       nn.mul
// REMARK:      [fuse-mul missed underflow] "small": underflow of float16 takes 41.29% of the folded numbers
func.func @underflow(%x: tensor<1x2x4x4xf16>) -> tensor<1x2x4x4xf16> {
  %weight = nn.constant dense<[[[[9.0e-4]], [[9.0e-4]]], [[[3.0e-4]], [[2.0e-4]]]]> : tensor<2x2x1x1xf16>
  %k = nn.constant dense<1.0e-4> : tensor<f16>
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf16>, tensor<2x2x1x1xf16>) -> tensor<1x2x4x4xf16>
  %y = nn.mul %c, %k from <tf, "mul", "small"> : (tensor<1x2x4x4xf16>, tensor<f16>) -> tensor<1x2x4x4xf16>
  func.return %y : tensor<1x2x4x4xf16>
}

// -----

// A number near zero among larger ones may be lost.
// CHECK-LABEL: @nearly_zero
// CHECK-NOT:   nn.mul
// REMARK:      [fuse-mul applied compute-mul] "fine": fused into conv1
func.func @nearly_zero(%x: tensor<1x2x4x4xf16>) -> tensor<1x2x4x4xf16> {
  %weight = nn.constant dense<[[[[9.0e-7]], [[1.0]]], [[[2.0]], [[3.0]]]]> : tensor<2x2x1x1xf16>
  %k = nn.constant dense<0.3> : tensor<f16>
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf16>, tensor<2x2x1x1xf16>) -> tensor<1x2x4x4xf16>
  %y = nn.mul %c, %k from <tf, "mul", "fine"> : (tensor<1x2x4x4xf16>, tensor<f16>) -> tensor<1x2x4x4xf16>
  func.return %y : tensor<1x2x4x4xf16>
}

// -----

// bfloat16 has the range of float32: the same factors are fine.
// CHECK-LABEL: @wide
// CHECK-NOT:   nn.mul
// REMARK:      [fuse-mul applied compute-mul] "wide": fused into conv1
func.func @wide(%x: tensor<1x2x4x4xbf16>) -> tensor<1x2x4x4xbf16> {
  %weight = nn.constant dense<[[[[9.0e-4]], [[9.0e-4]]], [[[3.0e-4]], [[2.0e-4]]]]> : tensor<2x2x1x1xbf16>
  %k = nn.constant dense<1.0e-4> : tensor<bf16>
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xbf16>, tensor<2x2x1x1xbf16>) -> tensor<1x2x4x4xbf16>
  %y = nn.mul %c, %k from <tf, "mul", "wide"> : (tensor<1x2x4x4xbf16>, tensor<bf16>) -> tensor<1x2x4x4xbf16>
  func.return %y : tensor<1x2x4x4xbf16>
}

// -----

// The range of float32 has an end, too.
// CHECK-LABEL: @denormal
// CHECK:       nn.mul
// REMARK:      [fuse-mul missed underflow] "denormal": underflow of float32 takes
func.func @denormal(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %weight = nn.constant dense<[[[[9.0e-24]], [[9.0e-24]]], [[[3.0e-24]], [[2.0e-24]]]]> : tensor<2x2x1x1xf32>
  %k = nn.constant dense<1.0e-21> : tensor<f32>
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.mul %c, %k from <tf, "mul", "denormal"> : (tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Not fused: the constant comes first.
// CHECK-LABEL: @constant_first
// CHECK:       nn.div
// REMARK:      [fuse-mul missed constant-first] "divided": it divides a constant by the result of 'nn.conv' conv1, which is not a factor of its weights
func.func @constant_first(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %weight = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.div %two, %c from <onnx, "Div", "divided"> : (tensor<f32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Not fused: factors that are known at run time only. A gate of one number per element is not a factor of weights.
// CHECK-LABEL: @run_time
// CHECK:       nn.mul
// REMARK:      [fuse-mul missed parameter-constant] "scalar": its other operand comes from a graph input, not from a constant
// REMARK:      [fuse-mul missed parameter-constant] "channels": its other operand comes from 'nn.sigmoid' s, not from a constant
// REMARK-NOT:  "gate"
func.func @run_time(%x: tensor<1x2x4x4xf32>, %k: tensor<f32>, %c: tensor<2x1x1xf32>) -> tensor<1x2x4x4xf32> {
  %weight = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %a = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %m = nn.mul %k, %a from <onnx, "Mul", "scalar"> : (tensor<f32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %b = nn.conv %m, %weight from <onnx, "Conv", "conv2"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %s = nn.sigmoid %c : tensor<2x1x1xf32>
  %n = nn.div %b, %s from <onnx, "Div", "channels"> : (tensor<1x2x4x4xf32>, tensor<2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %d = nn.conv %n, %weight from <onnx, "Conv", "conv3"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.mul %d, %x from <onnx, "Mul", "gate"> : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// After a reshape of heads and a transpose, as attention scales its queries.
// CHECK-LABEL: @heads
// CHECK:       nn.constant dense<{{\[\[}}2.000000e+00, 6.000000e+00, 4.000000e+00, 8.000000e+00]]>
// CHECK:       [[M:%.*]] = nn.matmul
// CHECK-NEXT:  [[R:%.*]] = nn.reshape [[M]]
// CHECK-NEXT:  [[T:%.*]] = nn.transpose [[R]]
// CHECK-NEXT:  func.return [[T]]
// REMARK:      [fuse-mul applied compute-mul] "scaled": fused into query
func.func @heads(%x: tensor<?x3x1xf32>) -> tensor<?x2x3x2xf32> {
  %weight = nn.constant dense<1.0> : tensor<1x4xf32>
  %k = nn.constant dense<[[[2.0, 6.0]], [[4.0, 8.0]]]> : tensor<2x1x2xf32>
  %m = nn.matmul %x, %weight from <onnx, "MatMul", "query"> : (tensor<?x3x1xf32>, tensor<1x4xf32>) -> tensor<?x3x4xf32>
  %r = nn.reshape %m to [0, 3, 2, 2] : (tensor<?x3x4xf32>) -> tensor<?x3x2x2xf32>
  %t = nn.transpose %r perm [0, 2, 1, 3] : (tensor<?x3x2x2xf32>) -> tensor<?x2x3x2xf32>
  %y = nn.mul %t, %k from <onnx, "Mul", "scaled"> : (tensor<?x2x3x2xf32>, tensor<2x1x2xf32>) -> tensor<?x2x3x2xf32>
  func.return %y : tensor<?x2x3x2xf32>
}

// -----

// Not fused: the reshape joins columns with rows.
// CHECK-LABEL: @mixed
// CHECK:       nn.mul
// REMARK:      [fuse-mul missed channels-followed] "mixed": 'nn.reshape' r joins or cuts the channels, axis 1: [4, 3] to [3, 4]
func.func @mixed(%x: tensor<4x1xf32>) -> tensor<3x4xf32> {
  %weight = nn.constant dense<1.0> : tensor<1x3xf32>
  %m = nn.matmul %x, %weight from <onnx, "MatMul", "fc"> : (tensor<4x1xf32>, tensor<1x3xf32>) -> tensor<4x3xf32>
  %r = nn.reshape %m to [3, 4] : (tensor<4x3xf32>) -> tensor<3x4xf32>
  %y = nn.mul %r, %two from <onnx, "Mul", "mixed"> : (tensor<3x4xf32>, tensor<f32>) -> tensor<3x4xf32>
  func.return %y : tensor<3x4xf32>
}
