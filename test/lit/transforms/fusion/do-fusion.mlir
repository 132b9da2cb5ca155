// RUN: amct-opt %s --fuse-all='do-fusion=false' --remarks=missed 2>&1 | filecheck %s
// RUN: amct-opt %s --fuse-all='do-fusion=true' | filecheck %s --check-prefix FUSED

// CHECK-DAG: [fuse-bn missed do-fusion] "bn1": do-fusion is false
// CHECK:     nn.conv
// CHECK:     nn.batch_norm
// CHECK:     nn.relu
// FUSED-NOT: nn.batch_norm
// FUSED:     nn.fused "ConvReLU2d"
func.func @main(%x: tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32> {
  %one = nn.constant dense<1.0> : tensor<1xf32>
  %weight = nn.constant dense<2.0> : tensor<1x1x1x1xf32>
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %b = nn.batch_norm %c, %one, %one, %one, %one from <onnx, "BatchNormalization", "bn1"> : (tensor<1x1x4x4xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x4x4xf32>
  %y = nn.relu %b : tensor<1x1x4x4xf32>
  func.return %y : tensor<1x1x4x4xf32>
}
