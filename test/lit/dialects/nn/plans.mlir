// RUN: ROUNDTRIP | filecheck %s

// Plans print as they are read, whichever form an operation has.
// CHECK: nn.matmul %x, %w from <onnx, "Gemm", "a"> {nn.plan = #nn.plan<float "skip-layers">}
// CHECK: nn.matmul %x, %w from <onnx, "Gemm", "b"> {nn.plan = #nn.plan<input>}
// CHECK: nn.matmul %x, %w from <onnx, "Gemm", "c"> {nn.plan = #nn.plan<input, operand 0 i8 symmetric observer "minmax", weight i8 axis 1 levels 16, balance 0.3, shift>}
// CHECK: nn.matmul %x, %w from <onnx, "Gemm", "d"> {nn.plan = #nn.plan<weight i4 axis 1 asymmetric rounding "adaround" search>}
// CHECK: nn.matmul %x, %w from <onnx, "Gemm", "e"> {nn.plan = #nn.plan<input, operand 0 by <i8, scale = 0.1, zero_point = 3> observer "mse", operand 1 i16 observer "kl", weight by <i6, scale = [0.1, 0.2], axis = 1> levels [-3, 4], balance [2.0, 0.3], shift [3, 4]>}
// CHECK: nn.split %x axis 1 sizes [1, 1] from <onnx, "Split", "g"> {nn.plan = #nn.plan<input, operand 0 value i8 observer "minmax" as "g:in", result shared with "g:in", result 1 i8 symmetric observer "kl">}
// CHECK: nn.add %x, %x from <onnx, "Add", "h"> {nn.plan = #nn.plan<input, operand 0 shared with "g:0", operand 1 float "constant-operand", result float "record-result", aligned output apart>}
// CHECK: nn.matmul %x, %w, %x2 from <onnx, "Gemm", "i"> {nn.plan = #nn.plan<input, operand 2 derived, aligned joint, weight i8 axis 1 portable>}
// CHECK: from <onnx, "GRU", "f"> {nn.plan = #nn.plan<weight i8, weight i8 axis 1>}
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = nn.constant dense<1.0> : tensor<2x2xf32>
  %a = nn.matmul %x, %w from <onnx, "Gemm", "a"> {nn.plan = #nn.plan<float "skip-layers">} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %b = nn.matmul %x, %w from <onnx, "Gemm", "b"> {nn.plan = #nn.plan<input>} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %c = nn.matmul %x, %w from <onnx, "Gemm", "c"> {nn.plan = #nn.plan<input, operand 0 i8 symmetric observer "minmax", weight i8 axis 1 levels 16, balance 0.3, shift>} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %d = nn.matmul %x, %w from <onnx, "Gemm", "d"> {nn.plan = #nn.plan<weight i4 axis 1 asymmetric rounding "adaround" search>} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %e = nn.matmul %x, %w from <onnx, "Gemm", "e"> {nn.plan = #nn.plan<input, operand 0 by <i8, scale = 0.1, zero_point = 3> observer "mse", operand 1 i16 observer "kl", weight by <i6, scale = [0.1, 0.2], axis = 1> levels [-3, 4], balance [2.0, 0.3], shift [3, 4]>} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %h1, %h2 = nn.split %x axis 1 sizes [1, 1] from <onnx, "Split", "g"> {nn.plan = #nn.plan<input, operand 0 value i8 observer "minmax" as "g:in", result shared with "g:in", result 1 i8 symmetric observer "kl">} : (tensor<1x2xf32>) -> (tensor<1x1xf32>, tensor<1x1xf32>)
  %h = nn.add %x, %x from <onnx, "Add", "h"> {nn.plan = #nn.plan<input, operand 0 shared with "g:0", operand 1 float "constant-operand", result float "record-result", aligned output apart>} : tensor<1x2xf32>
  %x2 = nn.constant dense<1.0> : tensor<2xf32>
  %i = nn.matmul %x, %w, %x2 from <onnx, "Gemm", "i"> {nn.plan = #nn.plan<input, operand 2 derived, aligned joint, weight i8 axis 1 portable>} : (tensor<1x2xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
  %s, %g, %r = "test.op"() : () -> (tensor<4x1x2xf32>, tensor<1x3x2xf32>, tensor<1x3x1xf32>)
  %f = nn.opaque %s, %g, %r framework "onnx" op_type "GRU" version 14 attrs {hidden_size = 1 : i64} from <onnx, "GRU", "f"> {nn.plan = #nn.plan<weight i8, weight i8 axis 1>} : (tensor<4x1x2xf32>, tensor<1x3x2xf32>, tensor<1x3x1xf32>) -> tensor<4x1x1x1xf32>
  func.return %a : tensor<1x2xf32>
}
