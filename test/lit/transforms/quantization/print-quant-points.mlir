// RUN: amct-opt %s --profile=ppq --insert-observers --print-quant-points 2>&1 >/dev/null | filecheck %s --check-prefix OBSERVED
// RUN: amct-opt %s --profile=ppq --quantize --print-quant-points 2>&1 >/dev/null | filecheck %s --check-prefix QUANTIZED

// OBSERVED:      layer value state parameters
// OBSERVED-NEXT: x x ACTIVATED
// OBSERVED-NEXT: conv1 a OVERLAPPED
// OBSERVED-NEXT: r r PASSIVE group sum
// OBSERVED-NEXT: conv2 b PASSIVE group sum
// OBSERVED-NEXT: sum s ACTIVATED
// OBSERVED-NEXT: p p OVERLAPPED
// OBSERVED-NEXT: e e FP32

// QUANTIZED:      x x ACTIVATED i8 scale {{.*}} zero point
// QUANTIZED-NEXT: conv1 weight.i8 ACTIVATED i8 2 scales along axis 0
// QUANTIZED-NEXT: conv1 bias.i32 PASSIVE i32 2 scales along axis 0
// QUANTIZED-NEXT: conv1 a OVERLAPPED i8 scale [[S:[0-9.e-]+]] zero point
// QUANTIZED-NEXT: r r PASSIVE i8 scale [[S]] zero point {{.*}} group sum
// QUANTIZED-NEXT: conv2 weight.i8 ACTIVATED
// QUANTIZED-NEXT: conv2 b PASSIVE i8 scale [[S]] zero point {{.*}} group sum
// QUANTIZED-NEXT: sum s ACTIVATED i8 scale [[T:[0-9.e-]+]]
// QUANTIZED-NEXT: p p OVERLAPPED i8 scale [[T]]
// QUANTIZED-NEXT: e e FP32
func.func @main(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x2x2xf32> {
  %weight = nn.constant dense<[[[[1.0]], [[2.0]]], [[[3.0]], [[-4.0]]]]> : tensor<2x2x1x1xf32>
  %bias = nn.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %a = nn.conv %x, %weight, %bias from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %r = nn.relu %a : tensor<1x2x4x4xf32>
  %b = nn.conv %r, %weight from <onnx, "Conv", "conv2"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %s = nn.add %b, %r from <onnx, "Add", "sum"> : tensor<1x2x4x4xf32>
  %p = nn.max_pool %s kernel [2, 2] strides [2, 2] : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x2xf32>
  %e = nn.exp %p : tensor<1x2x2x2xf32>
  func.return %e : tensor<1x2x2x2xf32>
}
