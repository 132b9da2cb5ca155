// RUN: amct-opt %s --fuse-modules='features.0.0,features.0.1,features.0.2;block.conv,block.norm;fc,act;conv,skip_add.add,relu;out,relu' --remarks=all 2>%t | filecheck %s
// RUN: filecheck %s --check-prefix REMARK --input-file %t
// RUN: not amct-opt %s --fuse-modules='twice,relu' 2>&1 | filecheck %s --check-prefix TWICE
// RUN: not amct-opt %s --fuse-modules='features.0.0,features.0.3' 2>&1 | filecheck %s --check-prefix NEAR
// RUN: not amct-opt %s --fuse-modules='block.conv,norm' 2>&1 | filecheck %s --check-prefix LOST
// RUN: amct-opt %s --insert-observers='skip-layers=features,twice only-layers=features,twice,fc' --remarks=all 2>&1 >%t2 | filecheck %s --check-prefix SKIP
// RUN: not amct-opt %s --insert-observers='skip-layers=features.0.9' 2>&1 | filecheck %s --check-prefix TYPO
// RUN: amct-opt %s --fuse-activation --skip-fusion=features --remarks=missed 2>&1 | filecheck %s --check-prefix FUSION

// Layers by the paths of their PyTorch modules: as metadata has them (`in`), or as TorchScript's exporter writes them into names.

// What the exporter has folded counts as done, with its path or without.
// CHECK:       nn.fused "ConvReLU2d" ({{.*}}) from <onnx, "Conv", "node_Conv_1" in "features.0.0" + "features.0.1">
// CHECK:       nn.conv {{.*}} from <onnx, "Conv", "/block/conv/Conv" in "block.conv" + ?>
// A linear layer is a product and a sum.
// CHECK:       nn.fused "LinearReLU" ({{.*}}) from <onnx, "MatMul", "node_MatMul_3" in "fc">
// An addition of a FloatFunctional belongs to the module around it.
// CHECK:       nn.fused "ConvAddReLU2d" ({{.*}}) from <onnx, "Conv", "node_Conv_4" in "conv">
// Of a module that is called twice, the call that takes the result.
// CHECK:       nn.conv {{.*}} from <onnx, "Conv", "node_Conv_6" in "twice">
// CHECK:       nn.conv {{.*}} from <onnx, "Conv", "node_Conv_7" in "twice">
// CHECK:       nn.fused "ConvReLU2d" ({{.*}}) from <onnx, "Conv", "node_Conv_8" in "out">

// REMARK:      [fuse-modules analysis already-fused] "node_Conv_1": the exporter has folded features.0.1 into it
// REMARK-NEXT: [fuse-modules applied compute-activation] "node_Relu_2": fused into ConvReLU2d node_Conv_1
// REMARK-NEXT: [fuse-modules analysis already-fused] "/block/conv/Conv": the file has no block.norm: the exporter has computed the weight, as it does to fold a batch norm into it
// REMARK-NEXT: [fuse-modules applied compute-add] "node_linear": fused into node_MatMul_3
// REMARK-NEXT: [fuse-modules applied compute-activation] "node_Relu_3": fused into LinearReLU node_MatMul_3

// TWICE:       error: --fuse-modules cannot fuse twice,relu at twice: it is a module that is called 2 times, as node_Conv_6, node_Conv_7: name one of them
// NEAR:        error: --fuse-modules: no layer or module is called 'features.0.3'
// NEAR-NEXT:   hint: did you mean features.0.2, features.0.1, features.0.0?
// LOST:        error: --fuse-modules: no layer or module is called 'norm'

// A module stands for all modules inside it.
// SKIP:        [insert-observers analysis module] "node_Conv_1": features is a module with the layers node_Conv_1, node_Relu_2
// SKIP-NEXT:   [insert-observers analysis module] "node_Conv_6": twice is a module that is called 2 times, as node_Conv_6, node_Conv_7
// SKIP-NEXT:   [insert-observers analysis module] "node_MatMul_3": fc is a module with the layers node_MatMul_3, node_linear
// SKIP-NEXT:   [insert-observers missed skip-layers] "node_Conv_1": it is on the list of skip-layers
// SKIP-NEXT:   [insert-observers missed only-layers] "/block/conv/Conv"
// SKIP:        [insert-observers applied observed] "node_MatMul_3"
// SKIP:        [insert-observers missed skip-layers] "node_Conv_6"
// SKIP-NEXT:   [insert-observers missed skip-layers] "node_Conv_7"
// TYPO:        error: skip_layers names 'features.0.9', which is not a layer or module of the model
// TYPO-NEXT:   hint: did you mean features.0.2, features.0.1, features.0.0?
// FUSION:      [fuse-activation missed skip-fusion] "node_Relu_2": features is on the list of --skip-fusion
func.func @main(%x: tensor<1x2x4x4xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x4x2xf32>, tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %v = nn.constant dense<1.0> : tensor<4x2xf32>
  %b = nn.constant dense<1.0> : tensor<2xf32>
  %c1 = nn.conv %x, %w from <onnx, "Conv", "node_Conv_1" in "features.0.0" + "features.0.1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %r1 = nn.relu %c1 from <onnx, "Relu", "node_Relu_2" in "features.0.2"> : tensor<1x2x4x4xf32>
  %c2 = nn.conv %r1, %w from <onnx, "Conv", "/block/conv/Conv" in "block.conv" + ?> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %m = nn.matmul %c2, %v from <onnx, "MatMul", "node_MatMul_3" in "fc"> : (tensor<1x2x4x4xf32>, tensor<4x2xf32>) -> tensor<1x2x4x2xf32>
  %l = nn.add %m, %b from <onnx, "Add", "node_linear" in "fc"> : (tensor<1x2x4x2xf32>, tensor<2xf32>) -> tensor<1x2x4x2xf32>
  %r2 = nn.relu %l from <onnx, "Relu", "node_Relu_3" in "act"> : tensor<1x2x4x2xf32>
  %c3 = nn.conv %c2, %w from <onnx, "Conv", "node_Conv_4" in "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %a = nn.add %c3, %x from <onnx, "Add", "node_add"> : tensor<1x2x4x4xf32>
  %r3 = nn.relu %a from <onnx, "Relu", "node_Relu_5" in "relu"> : tensor<1x2x4x4xf32>
  %c4 = nn.conv %x, %w from <onnx, "Conv", "node_Conv_6" in "twice"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %c5 = nn.conv %c4, %w from <onnx, "Conv", "node_Conv_7" in "twice"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %c6 = nn.conv %c5, %w from <onnx, "Conv", "node_Conv_8" in "out"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %r4 = nn.relu %c6 from <onnx, "Relu", "node_Relu_9" in "relu"> : tensor<1x2x4x4xf32>
  func.return %c2, %r2, %r3, %r4 : tensor<1x2x4x4xf32>, tensor<1x2x4x2xf32>, tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>
}
