// RUN: amct-opt %s --fuse-bn --skip-fusion=conv1 --remarks=missed 2>&1 | filecheck %s

// CHECK:     [fuse-bn missed skip-fusion] "bn1": conv1 is on the list of --skip-fusion
// CHECK:     nn.batch_norm
func.func @main(%x: tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32> {
  %one = nn.constant dense<1.0> : tensor<1xf32>
  %weight = nn.constant dense<2.0> : tensor<1x1x1x1xf32>
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %y = nn.batch_norm %c, %one, %one, %one, %one from <onnx, "BatchNormalization", "bn1"> : (tensor<1x1x4x4xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x4x4xf32>
  func.return %y : tensor<1x1x4x4xf32>
}
