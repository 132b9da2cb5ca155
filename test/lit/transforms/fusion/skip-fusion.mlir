// RUN: amct-opt %s --fuse-bn --skip-fusion=conv1 --remarks=missed 2>&1 | filecheck %s

// RUN: echo 'skip_fusion_layers: "relu1"' > %t.cfg
// RUN: amct-opt %s --fuse-bn=config=%t.cfg --skip-fusion=bn1,typo --remarks=all 2>&1 >/dev/null | filecheck %s --check-prefix NEEDLESS

// RUN: amct-opt %s --fuse-all=skip-types=Conv,BatchNormalisation,lstm 2>&1 >/dev/null | filecheck %s --check-prefix TYPES

// Types that the model does not have are reported, and what they may have meant.
// TYPES-NOT: 'Conv'
// TYPES:     warning: skip-types names 'BatchNormalisation', which is not the type of an operation of the model: did you mean BatchNormalization?
// TYPES:     warning: skip-types names 'lstm', which is not the type of an operation of the model
// TYPES-NOT: warning

// What is fused with nothing anyway, and what is not there, is reported.
// NEEDLESS-DAG: warning: --skip-fusion names 'typo', which is not a layer or module of the model: layers are conv1, bn1, relu1
// NEEDLESS-DAG: [fuse-bn analysis skip-fusion] "relu1": relu1 is one of skip_fusion_layers, but nothing is fused with it anyway
// NEEDLESS-DAG: [fuse-bn missed skip-fusion] "bn1": bn1 is on the list of --skip-fusion
// CHECK:     [fuse-bn missed skip-fusion] "bn1": conv1 is on the list of --skip-fusion
// CHECK:     nn.batch_norm
func.func @main(%x: tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32> {
  %one = nn.constant dense<1.0> : tensor<1xf32>
  %weight = nn.constant dense<2.0> : tensor<1x1x1x1xf32>
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %y = nn.batch_norm %c, %one, %one, %one, %one from <onnx, "BatchNormalization", "bn1"> : (tensor<1x1x4x4xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x4x4xf32>
  %r = nn.relu %y from <onnx, "Relu", "relu1"> : tensor<1x1x4x4xf32>
  func.return %r : tensor<1x1x4x4xf32>
}
