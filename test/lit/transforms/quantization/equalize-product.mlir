// A norm that a residual addition reads keeps its channels; a product divides what the layers read.
// RUN: amct-opt %s --equalize --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --input-file %t.remarks --check-prefix REMARKS
// RUN: amct-opt %s --profile=ppq --equalize --remarks=all 2>&1 >/dev/null | filecheck %s --check-prefix PPQ

// REMARKS-DAG: [equalize missed homogeneous] "norm": 'nn.add' sum reads its result, and does not scale with it
// REMARKS-DAG: [equalize applied balanced] "first": a product divides 1 of 4 channels of its input by 2^0 to 2^9, the error of first, second {{[0-9.]+}} dB smaller
// REMARKS-DAG: [equalize missed no-product] "even": no product with its input makes its error four times smaller
// REMARKS-DAG: [equalize missed float-input] "after": its input comes from integers, and a product would compute in float
// PPQ-NOT:     balanced

// CHECK:       [[N:%.*]] = nn.layer_norm
// CHECK-NEXT:  [[F:%.*]] = nn.constant dense<{{.*}}> : tensor<1x1x4xf32>
// CHECK-NEXT:  [[P:%.*]] = nn.mul [[N]], [[F]] from <onnx, "Mul", "first.equalized">
// CHECK:       nn.matmul [[P]], {{.*}} from <onnx, "MatMul", "first">
// CHECK:       nn.matmul [[P]], {{.*}} from <onnx, "MatMul", "second">
// CHECK:       nn.add [[N]], {{.*}} from <onnx, "Add", "sum">
// CHECK:       nn.conv {{.*}} from <onnx, "Conv", "even">
func.func @main(%x: tensor<2x8x4xf32>, %i: tensor<1x2x4x4xf32>) -> (tensor<2x8x4xf32>, tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) {
  %g = nn.constant dense<[1.0, 400.0, 0.8, 1.2]> : tensor<4xf32>
  %w = nn.constant dense<[[0.3, -0.8, 0.2, 0.7], [0.001, -0.002, 0.0015, 0.001], [-0.9, 0.4, 0.6, 0.1], [0.5, 0.3, -0.7, 0.2]]> : tensor<4x4xf32>
  %n = nn.layer_norm %x, %g axis -1 from <onnx, "LayerNormalization", "norm"> : (tensor<2x8x4xf32>, tensor<4xf32>) -> tensor<2x8x4xf32>
  %a = nn.matmul %n, %w from <onnx, "MatMul", "first"> : (tensor<2x8x4xf32>, tensor<4x4xf32>) -> tensor<2x8x4xf32>
  %b = nn.matmul %n, %w from <onnx, "MatMul", "second"> : (tensor<2x8x4xf32>, tensor<4x4xf32>) -> tensor<2x8x4xf32>
  %c = nn.mul %a, %b : tensor<2x8x4xf32>
  %s = nn.add %n, %c from <onnx, "Add", "sum"> : tensor<2x8x4xf32>
  %v = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %e = nn.conv %i, %v from <onnx, "Conv", "even"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %r = nn.relu %e : tensor<1x2x4x4xf32>
  %d = nn.conv %r, %v from <onnx, "Conv", "after"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  func.return %s, %d, %e : tensor<2x8x4xf32>, tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>
}
