// RUN: amct-opt %s --adapt-qat --split-input-file --verify-diagnostics | filecheck %s

// CHECK: adapt-qat-errors.mlir:{{.*}}: error: 'nn.dequantize' op has a different scale or zero point than the quantize before it
func.func @pairs(%x: tensor<2xf32>) -> tensor<2xf32> {
  %q = nn.quantize %x by <i8, scale = 0.25> : (tensor<2xf32>) -> tensor<2xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5> : (tensor<2xi8>) -> tensor<2xf32>
  func.return %d : tensor<2xf32>
}

// -----

// CHECK: adapt-qat-errors.mlir:{{.*}}: error: 'func.func' op has the input 'x' of f16: training's quantization is float32's
func.func @half(%x: tensor<2xf16>) -> tensor<2xf16> {
  %y = nn.relu %x : tensor<2xf16>
  func.return %y : tensor<2xf16>
}
