// RUN: amct-opt %s --profile=ppq --fuse-activation --remarks=missed 2>&1 | filecheck %s
// RUN: amct-opt %s --fuse-activation | filecheck %s --check-prefix ASCEND

// Integer runtimes add no residual inside a convolution: the addition and its activation become a region of their own.
// CHECK:     [fuse-activation missed add-of-target] "sum": profile ppq adds no residual inside a computing operation
// CHECK:     %a = nn.conv %x, %weight
// CHECK:     nn.fused
// CHECK:     nn.add
// CHECK:     nn.relu
// ASCEND:    nn.fused "ConvAddReLU2d"
func.func @main(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %weight = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %a = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %s = nn.add %a, %x from <onnx, "Add", "sum"> : tensor<1x2x4x4xf32>
  %r = nn.relu %s : tensor<1x2x4x4xf32>
  func.return %r : tensor<1x2x4x4xf32>
}
