// A record gives weights by themselves: of a matrix product, and not of a convolution, also where the inputs come from integers.
// RUN: echo 'record { key: "fc" value { scale_w: 0.5 offset_w: 0 weight_compress_only: true } }' > %t.txt
// RUN: echo 'record { key: "conv" value { scale_w: 0.5 offset_w: 0 weight_compress_only: true } }' >> %t.txt
// RUN: amct-opt %s --profile=qdq --insert-observers='record=%t.txt' --remarks=all 2>&1 | filecheck %s

// CHECK: [insert-observers applied weight-only] "fc": its input stays float, its weight is quantized by itself
// CHECK: [insert-observers missed weight-only] "conv": AMCT does not quantize the weights of Conv layers alone
func.func @main(%p: tensor<1x2xi8>, %q: tensor<1x2x4x4xi8>) -> (tensor<1x2xf32>, tensor<1x2x4x4xf32>) {
  %v = nn.constant dense<1.0> : tensor<2x2xf32>
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %x = nn.dequantize %p by <i8, scale = 0.5> : (tensor<1x2xi8>) -> tensor<1x2xf32>
  %y = nn.dequantize %q by <i8, scale = 0.5> : (tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xf32>
  %a = nn.matmul %x, %v from <onnx, "Gemm", "fc"> : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %c = nn.conv %y, %w from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  func.return %a, %c : tensor<1x2xf32>, tensor<1x2x4x4xf32>
}
