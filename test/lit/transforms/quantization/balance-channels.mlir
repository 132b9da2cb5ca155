// DMQ: inputs divided, weights multiplied, channel by channel, as plans have it. Factors that are given need no data.
// RUN: amct-opt %s --balance-channels --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// One weight for two layers: the second, which has no factors, keeps it.
// CHECK-LABEL: @conv
// CHECK:       %weight = nn.constant
// CHECK:       [[I:%.*]] = nn.constant dense<{{\[\[\[\[}}5.000000e-01]], {{\[\[}}2.000000e+00]]]]> : tensor<1x2x1x1xf32>
// CHECK-NEXT:  [[X:%.*]] = nn.mul %x, [[I]] from <onnx, "DMQBalancer", "conv1.dmq", {source = "record"}>
// CHECK-NEXT:  [[W:%.*]] = nn.constant dense<{{\[\[\[\[}}2.000000e+00]], {{\[\[}}1.000000e+00]]], {{\[\[\[}}6.000000e+00]], {{\[\[}}2.000000e+00]]]]>
// CHECK-NEXT:  nn.conv [[X]], [[W]] from <onnx, "Conv", "conv1"> {nn.plan = #nn.plan<input>}
// CHECK-NEXT:  nn.conv %x, %weight from <onnx, "Conv", "conv2">
// REMARK:      [balance-channels applied balanced] "conv1": 2 channels of its input divided by 0.5 to 2 (record)
func.func @conv(%x: tensor<?x2x4x4xf32>) -> (tensor<?x2x4x4xf32>, tensor<?x2x4x4xf32>) {
  %weight = nn.constant dense<[[[[1.0]], [[2.0]]], [[[3.0]], [[4.0]]]]> : tensor<2x2x1x1xf32>
  %a = nn.conv %x, %weight from <onnx, "Conv", "conv1"> {nn.plan = #nn.plan<input, balance [2.0, 0.5]>} : (tensor<?x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<?x2x4x4xf32>
  %b = nn.conv %x, %weight from <onnx, "Conv", "conv2"> : (tensor<?x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<?x2x4x4xf32>
  func.return %a, %b : tensor<?x2x4x4xf32>, tensor<?x2x4x4xf32>
}

// -----

// A depthwise convolution, channels last; the size of its input's channels comes from the weight.
// CHECK-LABEL: @depthwise
// CHECK:       nn.constant dense<{{\[\[\[\[}}5.000000e-01, 2.500000e-01]]]]> : tensor<1x1x1x2xf32>
// CHECK:       nn.mul {{.*}} -> tensor<1x?x?x?xf32>
// CHECK:       nn.constant dense<{{\[\[\[\[}}2.000000e+00]]], {{\[\[\[}}8.000000e+00]]]]>
func.func @depthwise(%x: tensor<1x?x?x?xf32>) -> tensor<1x?x?x2xf32> {
  %weight = nn.constant dense<[[[[1.0]]], [[[2.0]]]]> : tensor<2x1x1x1xf32>
  %y = nn.conv %x, %weight groups 2 layout nhwc from <tensorflow, "DepthwiseConv2dNative", "grouped"> {nn.plan = #nn.plan<input, balance [2.0, 4.0]>} : (tensor<1x?x?x?xf32>, tensor<2x1x1x1xf32>) -> tensor<1x?x?x2xf32>
  func.return %y : tensor<1x?x?x2xf32>
}

// -----

// [in, out/groups, ...]; the region stays whole, the product stands before it.
// CHECK-LABEL: @conv_transpose
// CHECK:       [[X:%.*]] = nn.mul %x
// CHECK-NEXT:  [[W:%.*]] = nn.constant dense<{{\[\[\[\[}}2.000000e+00]], {{\[\[}}4.000000e+00]]], {{\[\[\[}}1.200000e+01]], {{\[\[}}1.600000e+01]]]]>
// CHECK-NEXT:  nn.fused "ConvReLU2d" ({{.*}} = [[X]], {{.*}} = [[W]])
func.func @conv_transpose(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %weight = nn.constant dense<[[[[1.0]], [[2.0]]], [[[3.0]], [[4.0]]]]> : tensor<2x2x1x1xf32>
  %y = nn.fused "ConvReLU2d" (%a = %x, %w = %weight) : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32> {
    %c = nn.conv_transpose %a, %w from <onnx, "ConvTranspose", "deconv"> {nn.plan = #nn.plan<input, balance [2.0, 4.0]>} : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
    %r = nn.relu %c : tensor<1x2x4x4xf32>
    nn.yield %r : tensor<1x2x4x4xf32>
  }
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// The contracted axis of both operands, wherever the flags put it.
// CHECK-LABEL: @matmul
// CHECK:       nn.constant dense<{{\[\[}}5.000000e-01, 2.500000e-01]]> : tensor<1x2xf32>
// CHECK:       nn.constant dense<{{\[\[}}2.000000e+00, 4.000000e+00], [1.200000e+01, 1.600000e+01]]>
// CHECK:       nn.constant dense<{{\[\[}}5.000000e-01, 2.500000e-01]]> : tensor<1x2xf32>
// CHECK:       nn.constant dense<{{\[\[}}2.000000e+00, 8.000000e+00], [6.000000e+00, 1.600000e+01]]>
func.func @matmul(%x: tensor<1x2xf32>) -> (tensor<1x2xf32>, tensor<1x2xf32>) {
  %weight = nn.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %y = nn.matmul %x, %weight from <onnx, "Gemm", "fc"> {nn.plan = #nn.plan<input, balance [2.0, 4.0]>} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %z = nn.matmul %x, %weight transpose_b from <onnx, "Gemm", "rows", {transB = 1 : i64}> {nn.plan = #nn.plan<input, balance [2.0, 4.0]>} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %y, %z : tensor<1x2xf32>, tensor<1x2xf32>
}
