// RUN: amct-opt %s --insert-observers --remarks=all 2>&1 >/dev/null | filecheck %s --check-prefix NORM
// RUN: amct-opt %s --fuse-all --skip-fusion=bn --insert-observers --remarks=all 2>&1 >/dev/null | filecheck %s --check-prefix SKIPPED
// RUN: amct-opt %s --profile=qdq --insert-observers=activation-type=Swish --remarks=all 2>&1 >/dev/null | filecheck %s --check-prefix SWISH
// RUN: amct-opt %s --profile=qdq --fuse-activation=activation-type=Swish --insert-observers=activation-type=Swish --remarks=all 2>&1 >/dev/null | filecheck %s --check-prefix REGION

// What a pass that was not asked for would have made better.

// NORM:        [insert-observers analysis batch-norm] "bn": it could be folded into conv1 before quantization: --fuse-all
// NORM-NOT:    batch-norm
// SKIPPED:     [fuse-bn missed skip-fusion] "bn"
// SKIPPED-NOT: batch-norm
// SWISH:       [insert-observers analysis activation-type] "mul": swish is 2 operations here, each with a point of its own; --fuse-activation=activation-type=swish makes one of them
// REGION-NOT:  activation-type
// REGION:      [insert-observers applied observed] "conv2"
func.func @main(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %one = nn.constant dense<1.0> : tensor<2xf32>
  %a = nn.conv %x, %w from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %n = nn.batch_norm %a, %one, %one, %one, %one from <onnx, "BatchNormalization", "bn"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %alone = nn.batch_norm %x, %one, %one, %one, %one from <onnx, "BatchNormalization", "alone"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %b = nn.conv %n, %w from <onnx, "Conv", "conv2"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %s = nn.sigmoid %b from <onnx, "Sigmoid", "sigmoid"> : tensor<1x2x4x4xf32>
  %m = nn.mul %b, %s from <onnx, "Mul", "mul"> : tensor<1x2x4x4xf32>
  %y = nn.add %m, %alone from <onnx, "Add", "add"> : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}
