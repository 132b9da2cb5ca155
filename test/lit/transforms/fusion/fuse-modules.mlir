// RUN: amct-opt %s --fuse-modules='conv,bn,relu;layer1.0.conv2,layer1.0.bn2,layer1.0.add;4,5' --remarks=all 2>%t | filecheck %s
// RUN: filecheck %s --check-prefix REMARK --input-file %t

// By layer name, by module path as PyTorch writes it into node names, by the index of a node without name.
// What is not named stays as it is.

// CHECK:       [[A:%.*]] = nn.fused "ConvReLU2d" ({{.*}}) from <onnx, "Conv", "conv">
// CHECK:       [[B:%.*]] = nn.fused "ConvAdd2d" ({{%.*}} = [[A]], {{.*}} = %x) from <onnx, "Conv", "/layer1/layer1.0/conv2/Conv">
// CHECK:       [[C:%.*]] = nn.conv [[B]], {{.*}} from <onnx, "Conv", "Conv_4">
// CHECK-NEXT:  [[R:%.*]] = nn.relu [[C]]
// CHECK-NEXT:  [[D:%.*]] = nn.conv [[R]]
// CHECK-NEXT:  [[N:%.*]] = nn.batch_norm [[D]]
// CHECK-NEXT:  nn.relu [[N]]
// CHECK-NOT:   nn.
// REMARK:      [fuse-modules applied compute-batch-norm] "bn": fused into conv
// REMARK-NEXT: [fuse-modules applied compute-activation] "relu": fused into ConvReLU2d conv
// REMARK-NEXT: [fuse-modules applied compute-batch-norm] "/layer1/layer1.0/bn2/BatchNormalization": fused into /layer1/layer1.0/conv2/Conv
// REMARK-NEXT: [fuse-modules applied compute-residual] "/layer1/layer1.0/add/Add": fused into ConvAdd2d /layer1/layer1.0/conv2/Conv
// REMARK-NEXT: [fuse-modules applied compute-batch-norm] "BatchNormalization_5": fused into Conv_4
// REMARK-NOT:  remark
func.func @main(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %one = nn.constant dense<1.0> : tensor<2xf32>
  %c = nn.conv %x, %w from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %n = nn.batch_norm %c, %one, %one, %one, %one from <onnx, "BatchNormalization", "bn"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %r = nn.relu %n from <onnx, "Relu", "relu"> : tensor<1x2x4x4xf32>
  %c2 = nn.conv %r, %w from <onnx, "Conv", "/layer1/layer1.0/conv2/Conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %n2 = nn.batch_norm %c2, %one, %one, %one, %one from <onnx, "BatchNormalization", "/layer1/layer1.0/bn2/BatchNormalization"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %a = nn.add %x, %n2 from <onnx, "Add", "/layer1/layer1.0/add/Add"> : tensor<1x2x4x4xf32>
  %c3 = nn.conv %a, %w from <onnx, "Conv", "Conv_4"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %n3 = nn.batch_norm %c3, %one, %one, %one, %one from <onnx, "BatchNormalization", "BatchNormalization_5"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %r3 = nn.relu %n3 from <onnx, "Relu", "Relu_6"> : tensor<1x2x4x4xf32>
  %c4 = nn.conv %r3, %w from <onnx, "Conv", "conv4"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %n4 = nn.batch_norm %c4, %one, %one, %one, %one from <onnx, "BatchNormalization", "bn4"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %r4 = nn.relu %n4 from <onnx, "Relu", "relu4"> : tensor<1x2x4x4xf32>
  func.return %r4 : tensor<1x2x4x4xf32>
}
