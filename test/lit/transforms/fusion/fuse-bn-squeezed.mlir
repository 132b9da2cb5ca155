// A batch norm after the squeeze of a convolution over one axis, as TensorFlow writes Conv1D.
// RUN: CONSTANTS | amct-opt - --fuse-bn --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// CONSTANT: %w = nn.constant dense<[[[[1.0]]], [[[2.0]]]]> : tensor<2x1x1x1xf32>
// CONSTANT: %scale = nn.constant dense<[2.0, 4.0]> : tensor<2xf32>
// CONSTANT: %offset = nn.constant dense<[0.0, 1.0]> : tensor<2xf32>
// CONSTANT: %mean = nn.constant dense<0.0> : tensor<2xf32>
// CONSTANT: %variance = nn.constant dense<3.0> : tensor<2xf32>

// k = scale / sqrt(variance + 1) = [1, 2]
// CHECK-LABEL: @norm
// CHECK-DAG:   nn.constant dense<{{.*}}1.000000e+00{{.*}}4.000000e+00{{.*}}> : tensor<2x1x1x1xf32>
// CHECK:       nn.conv
// CHECK-NEXT:  nn.squeeze %{{.*}} axes [1]
// CHECK-NEXT:  func.return
// REMARK:      [fuse-bn applied compute-batch-norm] "bn"
func.func @norm(%x: tensor<1x1x4x1xf32>) -> tensor<1x4x2xf32> {
  %c = nn.conv %x, %w layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<1x1x4x1xf32>, tensor<2x1x1x1xf32>) -> tensor<1x1x4x2xf32>
  %s = nn.squeeze %c axes [1] : (tensor<1x1x4x2xf32>) -> tensor<1x4x2xf32>
  %y = nn.batch_norm %s, %scale, %offset, %mean, %variance epsilon 1.0 layout nhwc from <tensorflow, "FusedBatchNorm", "bn"> : (tensor<1x4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x4x2xf32>
  func.return %y : tensor<1x4x2xf32>
}

// -----

// Not fused: someone else reads what the squeeze gives.
// CHECK-LABEL: @read_twice
// CHECK:       nn.batch_norm
// REMARK:      [fuse-bn missed result-used-once] "bn": the result of s has 2 uses
func.func @read_twice(%x: tensor<1x1x4x1xf32>) -> (tensor<1x4x2xf32>, tensor<1x4x2xf32>) {
  %c = nn.conv %x, %w layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<1x1x4x1xf32>, tensor<2x1x1x1xf32>) -> tensor<1x1x4x2xf32>
  %s = nn.squeeze %c axes [1] : (tensor<1x1x4x2xf32>) -> tensor<1x4x2xf32>
  %y = nn.batch_norm %s, %scale, %offset, %mean, %variance epsilon 1.0 layout nhwc from <tensorflow, "FusedBatchNorm", "bn"> : (tensor<1x4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x4x2xf32>
  func.return %y, %s : tensor<1x4x2xf32>, tensor<1x4x2xf32>
}

// -----

// Not fused: the norm runs along space.
// CHECK-LABEL: @other_axis
// CHECK:       nn.batch_norm
// REMARK:      [fuse-bn missed normalizes-channels] "bn": it normalizes axis 1, the output channels are axis 2
func.func @other_axis(%x: tensor<1x1x2x1xf32>) -> tensor<1x2x2xf32> {
  %c = nn.conv %x, %w layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<1x1x2x1xf32>, tensor<2x1x1x1xf32>) -> tensor<1x1x2x2xf32>
  %s = nn.squeeze %c axes [1] : (tensor<1x1x2x2xf32>) -> tensor<1x2x2xf32>
  %y = nn.batch_norm %s, %scale, %offset, %mean, %variance epsilon 1.0 layout nchw from <tensorflow, "FusedBatchNorm", "bn"> : (tensor<1x2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x2xf32>
  func.return %y : tensor<1x2x2xf32>
}
