// RUN: amct-opt %s --profile=qdq --fuse-all --quantize=observer=minmax --lower-to-ascend --remarks=missed 2>&1 | filecheck %s

// Profile qdq leaves passive operations without a point of their own: their input's parameters hold. Quantization comes after
// them then, so that the layer after them computes in integers.

// CHECK-NOT: missed
// CHECK: %c = ascend.AscendDequant
// CHECK-NEXT: %m = ascend.MaxPoolV3 %c
// CHECK-NEXT: %m.q = ascend.AscendQuant %m scale {{[0-9.]+}} offset {{[0-9.-]+}}
// CHECK-NEXT: %d_acc = ascend.Conv2D %m.q
// CHECK-SAME: tensor<1x4x4x4xi32>
func.func @main(%x: tensor<1x3x8x8xf32> {nn.name = "x"}) -> (tensor<1x4x4x4xf32> {nn.name = "y"}) {
  %w = nn.constant dense<0.5> : tensor<4x3x1x1xf32>
  %v = nn.constant dense<0.25> : tensor<4x4x1x1xf32>
  %c = nn.conv %x, %w from <onnx, "Conv", "first"> : (tensor<1x3x8x8xf32>, tensor<4x3x1x1xf32>) -> tensor<1x4x8x8xf32>
  %m = nn.max_pool %c kernel [2, 2] strides [2, 2] from <onnx, "MaxPool", "pool"> : (tensor<1x4x8x8xf32>) -> tensor<1x4x4x4xf32>
  %d = nn.conv %m, %v from <onnx, "Conv", "second"> : (tensor<1x4x4x4xf32>, tensor<4x4x1x1xf32>) -> tensor<1x4x4x4xf32>
  func.return %d : tensor<1x4x4x4xf32>
}
