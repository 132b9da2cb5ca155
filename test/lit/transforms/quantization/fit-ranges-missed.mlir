// Parameters that are given stay. Where their error is most of the output's, no range gains enough.
// RUN: amct-opt %s --calibrate -o %t.mlir 2>/dev/null
// RUN: amct-opt %t.mlir --fit-ranges -o %t.fitted.mlir --remarks=all 2>&1 | filecheck %s
// RUN: diff %t.mlir %t.fitted.mlir

// CHECK: [fit-ranges missed data] "sum": its parameters do not come from data
// CHECK: [fit-ranges missed outputs] "fc": with it output result0 of the quantized model has {{[0-9.]+}} dB, without it {{[0-9.]+}} dB
func.func @main(%x: tensor<?x512x2xf32>) -> tensor<?x512x2xf32> {
  %w = nn.constant dense<[[0.03, -0.07], [0.045, 0.02]]> : tensor<2x2xf32>
  %square = nn.mul %x, %x from <onnx, "Mul", "square"> : tensor<?x512x2xf32>
  %y = nn.mul %square, %x from <onnx, "Mul", "cube"> : tensor<?x512x2xf32>
  %p = nn.observe %y as "fc:0" by "minmax" bits 4 : tensor<?x512x2xf32>
  %a = nn.matmul %p, %w from <onnx, "MatMul", "fc"> : (tensor<?x512x2xf32>, tensor<2x2xf32>) -> tensor<?x512x2xf32>
  %q = nn.observe %x as "sum:0" by "minmax" bits 4 gives <i4, scale = 9.0> given user : tensor<?x512x2xf32>
  %s = nn.add %q, %a from <onnx, "Add", "sum"> : tensor<?x512x2xf32>
  func.return %s : tensor<?x512x2xf32>
}
