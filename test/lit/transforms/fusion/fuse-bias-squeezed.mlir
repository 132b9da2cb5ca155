// Convolutions over one axis as TensorFlow writes them: Conv2D between ExpandDims and Squeeze, then BiasAdd and batch norm.
// RUN: amct-opt %s --fuse-all --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// k = scale / sqrt(variance + 1) = [1, 2]; the bias is [1, 2] * k + [0, 1].
// CHECK-LABEL: @bias_and_norm
// CHECK-DAG:   nn.constant dense<[1.000000e+00, 5.000000e+00]>
// CHECK-DAG:   nn.constant dense<{{.*}}1.000000e+00{{.*}}4.000000e+00{{.*}}> : tensor<2x1x1x1xf32>
// CHECK:       nn.conv
// CHECK-NEXT:  nn.squeeze %{{.*}} axes [-3]
// CHECK-NEXT:  func.return
// REMARK-DAG:  [fuse-bias applied compute-add] "bias"
// REMARK-DAG:  [fuse-bn applied compute-batch-norm] "bn"
func.func @bias_and_norm(%x: tensor<1x4x1xf32>) -> tensor<1x4x2xf32> {
  %w = nn.constant dense<[[[[1.0]]], [[[2.0]]]]> : tensor<2x1x1x1xf32>
  %b = nn.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %scale = nn.constant dense<[2.0, 4.0]> : tensor<2xf32>
  %offset = nn.constant dense<[0.0, 1.0]> : tensor<2xf32>
  %mean = nn.constant dense<0.0> : tensor<2xf32>
  %variance = nn.constant dense<3.0> : tensor<2xf32>
  %u = nn.unsqueeze %x axes [-3] : (tensor<1x4x1xf32>) -> tensor<1x1x4x1xf32>
  %c = nn.conv %u, %w layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<1x1x4x1xf32>, tensor<2x1x1x1xf32>) -> tensor<1x1x4x2xf32>
  %s = nn.squeeze %c axes [-3] : (tensor<1x1x4x2xf32>) -> tensor<1x4x2xf32>
  %a = nn.bias_add %s, %b layout nhwc from <tensorflow, "BiasAdd", "bias"> : (tensor<1x4x2xf32>, tensor<2xf32>) -> tensor<1x4x2xf32>
  %y = nn.batch_norm %a, %scale, %offset, %mean, %variance epsilon 1.0 layout nhwc from <tensorflow, "FusedBatchNorm", "bn"> : (tensor<1x4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x4x2xf32>
  func.return %y : tensor<1x4x2xf32>
}

// -----

// Not fused: someone else reads what the squeeze gives.
// CHECK-LABEL: @read_twice
// CHECK:       nn.bias_add
// REMARK:      [fuse-bias missed result-used-once] "bias": the result of s has 2 uses
func.func @read_twice(%x: tensor<1x1x4x1xf32>) -> (tensor<1x4x2xf32>, tensor<1x4x2xf32>) {
  %w = nn.constant dense<[[[[1.0]]], [[[2.0]]]]> : tensor<2x1x1x1xf32>
  %b = nn.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %c = nn.conv %x, %w layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<1x1x4x1xf32>, tensor<2x1x1x1xf32>) -> tensor<1x1x4x2xf32>
  %s = nn.squeeze %c axes [1] : (tensor<1x1x4x2xf32>) -> tensor<1x4x2xf32>
  %a = nn.bias_add %s, %b layout nhwc from <tensorflow, "BiasAdd", "bias"> : (tensor<1x4x2xf32>, tensor<2xf32>) -> tensor<1x4x2xf32>
  func.return %a, %s : tensor<1x4x2xf32>, tensor<1x4x2xf32>
}

// -----

// Not fused: the bias runs along space.
// CHECK-LABEL: @other_axis
// CHECK:       nn.bias_add
// REMARK:      [fuse-bias missed runs-along-channels] "bias": it adds along axis 1, the output channels are axis 2
func.func @other_axis(%x: tensor<1x1x2x1xf32>) -> tensor<1x2x2xf32> {
  %w = nn.constant dense<[[[[1.0]]], [[[2.0]]]]> : tensor<2x1x1x1xf32>
  %b = nn.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %c = nn.conv %x, %w layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<1x1x2x1xf32>, tensor<2x1x1x1xf32>) -> tensor<1x1x2x2xf32>
  %s = nn.squeeze %c axes [1] : (tensor<1x1x2x2xf32>) -> tensor<1x2x2xf32>
  %a = nn.bias_add %s, %b layout nchw from <tensorflow, "BiasAdd", "bias"> : (tensor<1x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2xf32>
  func.return %a : tensor<1x2x2xf32>
}

// -----

// Not fused: the bias is an input of the graph.
// CHECK-LABEL: @computed
// CHECK:       nn.bias_add
// REMARK:      [fuse-bias missed parameter-constant] "bias": its other operand comes from a graph input, not from a constant
func.func @computed(%x: tensor<1x1x4x1xf32>, %b: tensor<2xf32>) -> tensor<1x4x2xf32> {
  %w = nn.constant dense<[[[[1.0]]], [[[2.0]]]]> : tensor<2x1x1x1xf32>
  %c = nn.conv %x, %w layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<1x1x4x1xf32>, tensor<2x1x1x1xf32>) -> tensor<1x1x4x2xf32>
  %s = nn.squeeze %c axes [1] : (tensor<1x1x4x2xf32>) -> tensor<1x4x2xf32>
  %a = nn.bias_add %s, %b layout nhwc from <tensorflow, "BiasAdd", "bias"> : (tensor<1x4x2xf32>, tensor<2xf32>) -> tensor<1x4x2xf32>
  func.return %a : tensor<1x4x2xf32>
}

// -----

// Keras's Dense on a sequence: rows of all steps in one matrix, reshaped to a sequence before the bias.
// CHECK-LABEL: @dense_on_sequence
// CHECK:       nn.matmul
// CHECK-NEXT:  nn.reshape
// CHECK-NEXT:  func.return
// REMARK-DAG:  [fuse-bias applied compute-add] "bias": fused into dense
// REMARK-DAG:  [fuse-mul applied compute-mul] "mul": fused into dense
func.func @dense_on_sequence(%x: tensor<?x1xf32>) -> tensor<?x4x2xf32> {
  %w = nn.constant dense<[[1.0, 2.0]]> : tensor<1x2xf32>
  %b = nn.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %k = nn.constant dense<[2.0, 4.0]> : tensor<2xf32>
  %c = nn.constant dense<[0.0, 1.0]> : tensor<2xf32>
  %m = nn.matmul %x, %w from <tensorflow, "MatMul", "dense"> : (tensor<?x1xf32>, tensor<1x2xf32>) -> tensor<?x2xf32>
  %r = nn.reshape %m to [-1, 4, 2] : (tensor<?x2xf32>) -> tensor<?x4x2xf32>
  %a = nn.bias_add %r, %b layout nhwc from <tensorflow, "BiasAdd", "bias"> : (tensor<?x4x2xf32>, tensor<2xf32>) -> tensor<?x4x2xf32>
  %n = nn.mul %a, %k from <tensorflow, "Mul", "mul"> : (tensor<?x4x2xf32>, tensor<2xf32>) -> tensor<?x4x2xf32>
  %y = nn.add %n, %c from <tensorflow, "AddV2", "bn"> : (tensor<?x4x2xf32>, tensor<2xf32>) -> tensor<?x4x2xf32>
  func.return %y : tensor<?x4x2xf32>
}

// -----

// Not fused: the reshape joins columns with rows, and the bias in front of the sum is not one of the convolution.
// CHECK-LABEL: @mixed
// CHECK:       nn.add
// CHECK:       nn.add
// REMARK:      [fuse-bias missed channels-followed] "mixed": 'nn.reshape' r joins or cuts the channels, axis 1: [4, 3] to [3, 4]
// REMARK:      [fuse-bias missed runs-along-channels] "rows": it adds along axis 1, the output channels are axis 3
// REMARK:      [fuse-bias missed bias-along-channels] "sum": the BiasAdd adds along axis 1, the output channels are axis 3
func.func @mixed(%x: tensor<4x1xf32>) -> tensor<1x2x1x3xf32> {
  %w = nn.constant dense<1.0> : tensor<1x3xf32>
  %two = nn.constant dense<2.0> : tensor<4xf32>
  %m = nn.matmul %x, %w from <onnx, "MatMul", "fc"> : (tensor<4x1xf32>, tensor<1x3xf32>) -> tensor<4x3xf32>
  %r = nn.reshape %m to [3, 4] : (tensor<4x3xf32>) -> tensor<3x4xf32>
  %s = nn.add %r, %two from <onnx, "Add", "mixed"> : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  %i = nn.reshape %s to [1, 2, 1, 6] : (tensor<3x4xf32>) -> tensor<1x2x1x6xf32>
  %k = nn.constant dense<1.0> : tensor<3x6x1x1xf32>
  %d = nn.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %three = nn.constant dense<3.0> : tensor<f32>
  %c = nn.conv %i, %k layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<1x2x1x6xf32>, tensor<3x6x1x1xf32>) -> tensor<1x2x1x3xf32>
  %e = nn.bias_add %c, %d layout nchw from <tensorflow, "BiasAdd", "rows"> : (tensor<1x2x1x3xf32>, tensor<2xf32>) -> tensor<1x2x1x3xf32>
  %y = nn.add %e, %three from <tensorflow, "AddV2", "sum"> : (tensor<1x2x1x3xf32>, tensor<f32>) -> tensor<1x2x1x3xf32>
  func.return %y : tensor<1x2x1x3xf32>
}
