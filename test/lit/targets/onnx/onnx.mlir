// Written and read back: the same layers under the same names, quantization parameters to the bit, names of sizes.
// RUN: amct-opt %s -t onnx -o %t.onnx
// RUN: amct-opt %t.onnx | filecheck %s

// CHECK-LABEL: func.func @main(
// CHECK-SAME:    %image: tensor<?x2x4x4xf32> {nn.name = "image", nn.dims = ["batch", "", "", ""]})
// CHECK-SAME:    -> (tensor<?x3x2x2xf32> {nn.name = "top", nn.dims = ["batch", "", "", ""]})
// CHECK:       %[[X:.+]] = nn.quantize %image by <i8, scale = 0.023529412, zero_point = -128>
// CHECK-NEXT:  %[[XF:.+]] = nn.dequantize %[[X]] by <i8, scale = 0.023529412, zero_point = -128>
// CHECK:       %[[W:.+]] = nn.dequantize %{{.+}} by <i8, scale = [0.1, 0.2, 0.3], axis = 0>
// CHECK:       %[[C:.+]] = nn.conv %[[XF]], %[[W]] strides [2, 2] pads [1, 1, 1, 1]
// CHECK-SAME:    from <onnx, "Conv", "conv1">
// CHECK:       %[[R:.+]] = nn.relu %[[C]] from <onnx, "Relu", "relu1">
// CHECK:       return %[[R]]
func.func @main(%image: tensor<?x2x4x4xf32> {nn.name = "image", nn.dims = ["batch", "", "", ""]})
    -> (tensor<?x3x2x2xf32> {nn.name = "top", nn.dims = ["batch", "", "", ""]}) {
  %q = nn.quantize %image by <i8, scale = 0.023529412, zero_point = -128> : (tensor<?x2x4x4xf32>) -> tensor<?x2x4x4xi8>
  %x = nn.dequantize %q by <i8, scale = 0.023529412, zero_point = -128> : (tensor<?x2x4x4xi8>) -> tensor<?x2x4x4xf32>
  %w8 = nn.constant dense<1> : tensor<3x2x3x3xi8>
  %w = nn.dequantize %w8 by <i8, scale = [0.1, 0.2, 0.3], axis = 0> : (tensor<3x2x3x3xi8>) -> tensor<3x2x3x3xf32>
  %c = nn.conv %x, %w strides [2, 2] pads [1, 1, 1, 1] from <onnx, "Conv", "conv1">
    : (tensor<?x2x4x4xf32>, tensor<3x2x3x3xf32>) -> tensor<?x3x2x2xf32>
  %r = nn.relu %c from <onnx, "Relu", "relu1"> : tensor<?x3x2x2xf32>
  func.return %r : tensor<?x3x2x2xf32>
}
