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
// REMARK-DAG:  [fuse-bias applied squeeze-add] "bias"
// REMARK-DAG:  [fuse-bn applied squeeze-batch-norm] "bn"
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
// REMARK:      [fuse-bias missed squeeze-used-once] "bias": the result of the squeeze has 2 uses
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
// REMARK:      [fuse-bias missed channels-stay] "bias": it runs along axis 1, the output channels are axis 2 then
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
// REMARK:      [fuse-bias missed constants] "bias"
func.func @computed(%x: tensor<1x1x4x1xf32>, %b: tensor<2xf32>) -> tensor<1x4x2xf32> {
  %w = nn.constant dense<[[[[1.0]]], [[[2.0]]]]> : tensor<2x1x1x1xf32>
  %c = nn.conv %x, %w layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<1x1x4x1xf32>, tensor<2x1x1x1xf32>) -> tensor<1x1x4x2xf32>
  %s = nn.squeeze %c axes [1] : (tensor<1x1x4x2xf32>) -> tensor<1x4x2xf32>
  %a = nn.bias_add %s, %b layout nhwc from <tensorflow, "BiasAdd", "bias"> : (tensor<1x4x2xf32>, tensor<2xf32>) -> tensor<1x4x2xf32>
  func.return %a : tensor<1x4x2xf32>
}
