// What a channel never falls below moves into the bias after it.
// RUN: amct-opt %s --equalize --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --input-file %t.remarks --check-prefix REMARKS

// REMARKS-DAG: [equalize applied absorbed] "first": 7/8 of the minima of 1 of 2 channels moved into the biases of second

// CHECK:       %b.absorbed = nn.constant dense<[{{.*}}, 0.000000e+00]> : tensor<2xf32>
// CHECK:       nn.matmul {{.*}}, %b.absorbed from <onnx, "Gemm", "first">
// CHECK:       nn.matmul {{.*}}, %c.absorbed from <onnx, "Gemm", "second">
func.func @main(%x: tensor<64x2xf32>) -> tensor<64x2xf32> {
  %w = nn.constant dense<[[1.0, 0.5], [-0.5, 1.0]]> : tensor<2x2xf32>
  %b = nn.constant dense<[1000.0, 0.0]> : tensor<2xf32>
  %c = nn.constant dense<[0.25, 0.5]> : tensor<2xf32>
  %y = nn.matmul %x, %w, %b from <onnx, "Gemm", "first"> : (tensor<64x2xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<64x2xf32>
  %r = nn.relu %y : tensor<64x2xf32>
  %z = nn.matmul %r, %w, %c from <onnx, "Gemm", "second"> : (tensor<64x2xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<64x2xf32>
  func.return %z : tensor<64x2xf32>
}
