// Written and read back: the same layers under the same names, in both forms of quantization.
// RUN: amct-opt %s -t 'tf-fakequant{nodes=fakequant}' --remarks=all -o %t.pb 2>&1 | filecheck %s --check-prefix REMARKS
// RUN: amct-opt %t.pb | filecheck %s
// RUN: amct-opt %s -t tf-fakequant -o %t.plain.pb
// RUN: amct-opt %t.plain.pb | filecheck %s --check-prefix PLAIN

// REMARKS:     "conv1.bias": is written in plain operators: a FakeQuant has 2 to 16 bits, not 32

// CHECK-LABEL: func.func @main(
// CHECK-SAME:    %image: tensor<?x4x4x2xf32> {nn.name = "image"})
// CHECK-SAME:    -> (tensor<?x2x2x3xf32> {nn.name = "top"})
// CHECK:       nn.quantize %image by <i8, scale = 0.023529412, zero_point = -128>
// CHECK:       nn.dequantize %{{.+}} by <i8, scale = [0.1, 0.2, 0.3], axis = 0>
// CHECK:       nn.conv %{{.+}} strides [2, 2]
// CHECK-SAME:    from <tensorflow, "Conv2D", "conv1"
// CHECK:       nn.relu %{{.+}} from <tensorflow, "Relu", "top">

// PLAIN:       nn.div %{{.+}} from <tensorflow, "RealDiv"
// PLAIN:       nn.round
// PLAIN:       nn.conv %{{.+}} strides [2, 2]
// PLAIN-SAME:    from <tensorflow, "Conv2D", "conv1"
func.func @main(%image: tensor<?x4x4x2xf32> {nn.name = "image"}) -> (tensor<?x2x2x3xf32> {nn.name = "top"}) {
  %q = nn.quantize %image by <i8, scale = 0.023529412, zero_point = -128> : (tensor<?x4x4x2xf32>) -> tensor<?x4x4x2xi8>
  %x = nn.dequantize %q by <i8, scale = 0.023529412, zero_point = -128> : (tensor<?x4x4x2xi8>) -> tensor<?x4x4x2xf32>
  %w8 = nn.constant dense<1> : tensor<3x2x3x3xi8>
  %w = nn.dequantize %w8 by <i8, scale = [0.1, 0.2, 0.3], axis = 0> : (tensor<3x2x3x3xi8>) -> tensor<3x2x3x3xf32>
  %b32 = nn.constant dense<[1, 2, 3]> : tensor<3xi32>
  %b = nn.dequantize %b32 by <i32, scale = 0.01> from <onnx, "Conv", "conv1.bias"> : (tensor<3xi32>) -> tensor<3xf32>
  %c = nn.conv %x, %w, %b strides [2, 2] auto_pad same_upper layout nhwc from <onnx, "Conv", "conv1">
    : (tensor<?x4x4x2xf32>, tensor<3x2x3x3xf32>, tensor<3xf32>) -> tensor<?x2x2x3xf32>
  %r = nn.relu %c from <onnx, "Relu", "top"> : tensor<?x2x2x3xf32>
  func.return %r : tensor<?x2x2x3xf32>
}
