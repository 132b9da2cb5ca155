// One case for each condition; a layer with a float input has no sums, and no remark.
// RUN: amct-opt %s --shift-accumulators --remarks=all 2>&1 >/dev/null | filecheck %s

// CHECK:      [shift-accumulators missed integer-weight] "float": its weight is not quantized
// CHECK-NEXT: [shift-accumulators missed per-tensor-data] "channels": its input has more than one scale
// CHECK-NEXT: [shift-accumulators applied shifted] "shifted": its sums are shifted right by 2, from the record
// CHECK-NOT:  unquantized
func.func @main(%x: tensor<1x2xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>, tensor<1x2xf32>, tensor<1x2xf32>) {
  %w = nn.constant dense<1.0> : tensor<2x2xf32>
  %i = nn.constant dense<1> : tensor<2x2xi8>
  %v = nn.dequantize %i by <i8, scale = 0.5> : (tensor<2x2xi8>) -> tensor<2x2xf32>
  %q = nn.quantize %x by <i8, scale = 0.5> : (tensor<1x2xf32>) -> tensor<1x2xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5> : (tensor<1x2xi8>) -> tensor<1x2xf32>
  %r = nn.quantize %x by <i8, scale = [0.5, 0.25], axis = 1> : (tensor<1x2xf32>) -> tensor<1x2xi8>
  %e = nn.dequantize %r by <i8, scale = [0.5, 0.25], axis = 1> : (tensor<1x2xi8>) -> tensor<1x2xf32>
  %0 = nn.matmul %d, %w from <onnx, "Gemm", "float"> {nn.plan = #nn.plan<input, shift [2]>} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %1 = nn.matmul %e, %v from <onnx, "Gemm", "channels"> {nn.plan = #nn.plan<input, shift [2]>} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %2 = nn.matmul %d, %v from <onnx, "Gemm", "shifted"> {nn.plan = #nn.plan<input, shift [2]>} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %3 = nn.matmul %x, %v from <onnx, "Gemm", "unquantized"> {nn.plan = #nn.plan<input, shift [2]>} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %0, %1, %2, %3 : tensor<1x2xf32>, tensor<1x2xf32>, tensor<1x2xf32>, tensor<1x2xf32>
}
