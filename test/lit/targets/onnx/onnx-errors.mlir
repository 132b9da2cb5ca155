// One located line and a hint, status 1, no file.
// RUN: rm -f %t.onnx
// RUN: not amct-opt %s -t onnx{opset=17} -o %t.onnx 2>&1 | filecheck %s
// RUN: not test -e %t.onnx
// RUN: amct-opt %s -t onnx{opset=21} -o %t.onnx

// CHECK:      onnx-errors.mlir:{{[0-9]+}}:3: error: 'nn.quantize' op becomes ONNX QuantizeLinear, which in opset 17 takes no int16
// CHECK-NEXT: hint: write a newer opset: -t 'onnx{opset=21}'

func.func @main(%x: tensor<4xf32> {nn.name = "x"}) -> (tensor<4xi16> {nn.name = "y"}) {
  %q = nn.quantize %x by <i16, scale = 0.5> : (tensor<4xf32>) -> tensor<4xi16>
  func.return %q : tensor<4xi16>
}
