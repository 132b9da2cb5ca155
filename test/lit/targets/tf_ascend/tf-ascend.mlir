// Written and read back: Ascend's operators under the layer's name, the layer on int8.
// RUN: amct-opt %s -t tf-ascend -o %t.pb
// RUN: amct-opt %t.pb | filecheck %s

// CHECK-LABEL: func.func @main(
// CHECK:       %[[B:.+]] = nn.constant dense<[1, 2, 16777217]> : tensor<3xi32>
// CHECK:       ascend.AscendQuant %image scale 42.5 offset -128.0 from <tensorflow, "AscendQuant", "conv1.quant">
// CHECK:       ascend.Conv2D %{{.+}}, %{{.+}}, %[[B]] strides [1, 2, 2, 1] pads [0, 1, 0, 1] offset_x -128
// CHECK-SAME:    from <tensorflow, "Conv2D", "conv1"
// CHECK:       ascend.AscendDequant %{{.+}} from <tensorflow, "AscendDequant", "conv1.dequant">
// CHECK:       nn.relu %{{.+}} from <tensorflow, "Relu", "top">
func.func @main(%image: tensor<?x4x4x2xf32> {nn.name = "image"}) -> (tensor<?x2x2x3xf32> {nn.name = "top"}) {
  %q = nn.quantize %image by <i8, scale = 0.023529412, zero_point = -128> : (tensor<?x4x4x2xf32>) -> tensor<?x4x4x2xi8>
  %x = nn.dequantize %q by <i8, scale = 0.023529412, zero_point = -128> : (tensor<?x4x4x2xi8>) -> tensor<?x4x4x2xf32>
  %w8 = nn.constant dense<1> : tensor<3x2x3x3xi8>
  %w = nn.dequantize %w8 by <i8, scale = 0.1> : (tensor<3x2x3x3xi8>) -> tensor<3x2x3x3xf32>
  %b32 = nn.constant dense<[1, 2, 16777217]> : tensor<3xi32>
  %b = nn.dequantize %b32 by <i32, scale = 0.0023529413> : (tensor<3xi32>) -> tensor<3xf32>
  %c = nn.conv %x, %w, %b strides [2, 2] auto_pad same_upper layout nhwc from <tensorflow, "Conv2D", "conv1">
    : (tensor<?x4x4x2xf32>, tensor<3x2x3x3xf32>, tensor<3xf32>) -> tensor<?x2x2x3xf32>
  %r = nn.relu %c from <tensorflow, "Relu", "top"> : tensor<?x2x2x3xf32>
  func.return %r : tensor<?x2x2x3xf32>
}
