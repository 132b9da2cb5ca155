// A configuration's do_fusion and skip_fusion_layers.
// RUN: echo 'skip_fusion_layers: "conv1"' > %t.cfg
// RUN: amct-opt %s --fuse-all='config=%t.cfg' --remarks=missed 2>&1 | filecheck %s --check-prefix SKIP
// RUN: echo '{"do_fusion": false, "conv1": {}}' > %t.json
// RUN: amct-opt %s --fuse-all='config=%t.json' --remarks=missed 2>&1 | filecheck %s --check-prefix OFF

// SKIP-DAG: [fuse-bn missed skip-fusion] "bn1": conv1 is one of skip_fusion_layers
// SKIP-NOT: "bn2"
// SKIP:     nn.batch_norm
// SKIP-NOT: nn.batch_norm
// OFF-DAG:  [fuse-bn missed do-fusion] "bn1": do-fusion is false
// OFF-DAG:  [fuse-bn missed do-fusion] "bn2": do-fusion is false
func.func @main(%x: tensor<1x1x4x4xf32>) -> (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>) {
  %one = nn.constant dense<1.0> : tensor<1xf32>
  %weight = nn.constant dense<2.0> : tensor<1x1x1x1xf32>
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %b = nn.batch_norm %c, %one, %one, %one, %one from <onnx, "BatchNormalization", "bn1"> : (tensor<1x1x4x4xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x4x4xf32>
  %d = nn.conv %x, %weight from <onnx, "Conv", "conv2"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %e = nn.batch_norm %d, %one, %one, %one, %one from <onnx, "BatchNormalization", "bn2"> : (tensor<1x1x4x4xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x4x4xf32>
  func.return %b, %e : tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>
}
