// RUN: ROUNDTRIP | filecheck %s

// Regions that a target runs as one operation.

// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x3x3xf32>) {
  // CHECK-NEXT: %y = nn.fused "ConvReLU2d" (%a = %x, %k = %w) from <onnx, "Conv", "conv1"> {note = "kept"} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32> {
  %y = nn.fused "ConvReLU2d" (%a = %x, %k = %w) from <onnx, "Conv", "conv1"> {note = "kept"} : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32> {
    // CHECK-NEXT: %conv = nn.conv %a, %k : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
    %conv = nn.conv %a, %k : (tensor<1x3x8x8xf32>, tensor<4x3x3x3xf32>) -> tensor<1x4x6x6xf32>
    // CHECK-NEXT: %relu = nn.relu %conv : tensor<1x4x6x6xf32>
    %relu = nn.relu %conv : tensor<1x4x6x6xf32>
    // CHECK-NEXT: nn.yield %relu : tensor<1x4x6x6xf32>
    nn.yield %relu : tensor<1x4x6x6xf32>
  // CHECK-NEXT: }
  }
  // CHECK-NEXT: func.return
  func.return
}
