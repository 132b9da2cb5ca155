// RUN: amct-opt %s --profile=ppq --insert-observers='fuse-activation=false' | filecheck %s --check-prefix APART
// RUN: amct-opt %s --profile=ppq --insert-observers='activation-type=Sigmoid,LeakyRelu' | filecheck %s --check-prefix TYPES
// RUN: amct-opt %s --profile=ppq --insert-observers='activation-type=sigmoid,leaky_relu' | filecheck %s --check-prefix TYPES
// RUN: amct-opt %s --profile=ppq --insert-observers='fuse-passive-op=false' | filecheck %s --check-prefix ACTIVE
// RUN: amct-opt %s --profile=ppq --insert-observers='align-elementwise=output align-pooling=input' | filecheck %s --check-prefix OUTPUT
// RUN: amct-opt %s --profile=ppq --insert-observers='align-elementwise=none' | filecheck %s --check-prefix NONE
// RUN: amct-opt %s --profile=ppq --insert-observers='skip-layers=sum' --remarks=missed 2>&1 | filecheck %s --check-prefix SKIP
// RUN: amct-opt %s --profile=ppq --insert-observers --insert-observers -o %t.twice.mlir
// RUN: amct-opt %s --profile=ppq --insert-observers -o %t.once.mlir
// RUN: diff %t.once.mlir %t.twice.mlir
// RUN: not amct-opt %s --insert-observers='align-concat=none' 2>&1 | filecheck %s --check-prefix PROFILE
// RUN: not amct-opt %s --profile=ppq --insert-observers='activation-type=Best' 2>&1 | filecheck %s --check-prefix TYPE

// APART:     nn.observe %a as "conv1:out"
// APART:     nn.observe %r as "r:out"
// APART:     nn.observe %b as "conv2:out"
// TYPES:     nn.observe %a as "conv1:out"
// TYPES:     nn.observe %r as "r:out"
// TYPES-NOT: nn.observe %b
// ACTIVE:    nn.observe %p as "p:out"
// OUTPUT:     nn.observe %r as "r:out" by "mse" group "sum"
// OUTPUT:     nn.observe %s as "sum:out" by "mse" group "sum" master
// OUTPUT:     nn.observe %q as "q:out" by "mse" group "sum"
// NONE-NOT:  group
// NONE:      func.return
// SKIP:      [insert-observers missed skip-layers] "sum": it is on the list of skip-layers
// SKIP-NOT:  "sum:out"
// SKIP:      nn.observe %s as "q:0"
// PROFILE:   error: profile ascend does not support align-concat
// TYPE:      error: activation-type: no activation is called 'Best'
func.func @main(%x: tensor<1x2x4x4xf32>) -> (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) {
  %weight = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %a = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %r = nn.relu %a from <onnx, "Relu", "r"> : tensor<1x2x4x4xf32>
  %b = nn.conv %r, %weight from <onnx, "Conv", "conv2"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %g = nn.sigmoid %b from <onnx, "Sigmoid", "g"> : tensor<1x2x4x4xf32>
  %s = nn.add %g, %r from <onnx, "Add", "sum"> : tensor<1x2x4x4xf32>
  %p = nn.max_pool %s kernel [2, 2] strides [2, 2] from <onnx, "MaxPool", "p"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x2xf32>
  %q = nn.average_pool %s kernel [2, 2] strides [2, 2] from <onnx, "AveragePool", "q"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x2xf32>
  func.return %p, %q : tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>
}
