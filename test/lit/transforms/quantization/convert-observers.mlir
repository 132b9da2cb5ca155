// RUN: amct-opt %s --convert-observers --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// Weights per output channel: 1.27 / 127 = 0.01 and, the negative side being larger, 2.56 / 128 = 0.02.
// The bias is in units of 0.5 * 0.01 and 0.5 * 0.02: 1 / 0.005 = 200, -1 / 0.01 = -100.
// CHECK-LABEL: @conv
// CHECK:       %weight.i8 = nn.constant dense<{{\[\[\[\[}}127]], {{\[\[}}-64]]], {{\[\[\[}}64]], {{\[\[}}-128]]]]> : tensor<2x2x1x1xi8>
// CHECK:       [[W:%.*]] = nn.dequantize %weight.i8 by <i8, scale = [0.01, 0.02], axis = 0>
// CHECK:       [[Q:%.*]] = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> given user
// CHECK:       [[X:%.*]] = nn.dequantize [[Q]] by <i8, scale = 0.5, zero_point = -3>
// CHECK:       %bias.i32 = nn.constant dense<[200, -100]> : tensor<2xi32>
// CHECK:       [[B:%.*]] = nn.dequantize %bias.i32 by <i32, scale = [0.005, 0.01], axis = 0>
// CHECK:       nn.conv [[X]], [[W]], [[B]]
// REMARK:      [convert-observers applied quantized] "conv1": int8 input, scale 0.5, zero point -3; int8 weight per channel
func.func @conv(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %weight = nn.constant dense<[[[[1.27]], [[-0.64]]], [[[1.28]], [[-2.56]]]]> : tensor<2x2x1x1xf32>
  %bias = nn.constant dense<[1.0, -1.0]> : tensor<2xf32>
  %o = nn.observe %x as "conv1:0" by "minmax" gives <i8, scale = 0.5, zero_point = -3> given user : tensor<1x2x4x4xf32>
  %y = nn.conv %o, %weight, %bias from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Per tensor for a matrix product: 2.54 / 127 = 0.02; halves go to the even side: 0.05 / 0.02 = 2.5 gives 2.
// CHECK-LABEL: @matmul
// CHECK:       nn.constant dense<{{\[\[}}127, 2], [-50, 0]]> : tensor<2x2xi8>
// CHECK:       nn.dequantize {{.*}} by <i8, scale = 0.02> : (tensor<2x2xi8>)
// CHECK:       nn.constant dense<[100, 0]> : tensor<2xi32>
// CHECK:       nn.dequantize {{.*}} by <i32, scale = 0.01> : (tensor<2xi32>)
// REMARK:      [convert-observers applied quantized] "fc": int8 input, scale 0.5, zero point 0; int8 weight per tensor
func.func @matmul(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %weight = nn.constant dense<[[2.54, 0.05], [-1.0, 0.0]]> : tensor<2x2xf32>
  %bias = nn.constant dense<[1.0, 0.0]> : tensor<2xf32>
  %o = nn.observe %x as "fc:0" by "minmax" gives <i8, scale = 0.5> : tensor<1x2xf32>
  %y = nn.matmul %o, %weight, %bias from <onnx, "Gemm", "fc"> : (tensor<1x2xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
  func.return %y : tensor<1x2xf32>
}

// -----

// [in, out, ...]: the output channels are axis 1. A channel of zeros has scale 1 (AMCT).
// CHECK-LABEL: @conv_transpose
// CHECK:       nn.dequantize {{.*}} by <i8, scale = [0.01, 1.0], axis = 1>
func.func @conv_transpose(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %weight = nn.constant dense<[[[[1.27]], [[0.0]]], [[[1.0]], [[0.0]]]]> : tensor<2x2x1x1xf32>
  %o = nn.observe %x as "deconv:0" by "minmax" gives <i8, scale = 0.5> : tensor<1x2x4x4xf32>
  %y = nn.conv_transpose %o, %weight from <onnx, "ConvTranspose", "deconv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Grouped: no axis of the weight counts the four output channels, so one scale serves all.
// CHECK-LABEL: @grouped_transpose
// CHECK:       nn.dequantize {{.*}} by <i8, scale = 0.01> :
// REMARK:      [convert-observers applied quantized] "grouped": {{.*}} per tensor
func.func @grouped_transpose(%x: tensor<1x2x4x4xf32>) -> tensor<1x4x4x4xf32> {
  %weight = nn.constant dense<[[[[1.27]], [[0.5]]], [[[1.0]], [[0.0]]]]> : tensor<2x2x1x1xf32>
  %o = nn.observe %x as "grouped:0" by "minmax" gives <i8, scale = 0.5> : tensor<1x2x4x4xf32>
  %y = nn.conv_transpose %o, %weight groups 2 from <onnx, "ConvTranspose", "grouped"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x4x4x4xf32>
  func.return %y : tensor<1x4x4x4xf32>
}

// -----

// Nothing but the input of a pooling.
// CHECK-LABEL: @pool
// CHECK:       nn.quantize %x
// CHECK:       nn.dequantize
// CHECK-NEXT:  nn.average_pool
// REMARK:      [convert-observers applied quantized] "pool": int8 input, scale 0.25, zero point 0
func.func @pool(%x: tensor<1x1x4x4xf32>) -> tensor<1x1x3x3xf32> {
  %o = nn.observe %x as "pool:0" by "minmax" gives <i8, scale = 0.25> : tensor<1x1x4x4xf32>
  %y = nn.average_pool %o kernel [2, 2] from <onnx, "AveragePool", "pool"> : (tensor<1x1x4x4xf32>) -> tensor<1x1x3x3xf32>
  func.return %y : tensor<1x1x3x3xf32>
}

// -----

// A bias of 10000 would be more than 2^30 steps of 0.5 * (0.001 / 127): the channel's scale is raised to 10000 / 2^29,
// where the bias is 2^30 and the weight 0.001 / 1.8626451e-05 = 53.7.
// CHECK-LABEL: @large_bias
// CHECK:       nn.constant dense<{{\[\[\[\[}}54]]], {{\[\[\[}}127]]]]> : tensor<2x1x1x1xi8>
// CHECK-NEXT:  nn.dequantize {{.*}} by <i8, scale = [1.8626451e-05, 0.01], axis = 0>
// CHECK:       nn.constant dense<[1073741824, 20]> : tensor<2xi32>
func.func @large_bias(%x: tensor<1x1x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %weight = nn.constant dense<[[[[1.0e-3]]], [[[1.27]]]]> : tensor<2x1x1x1xf32>
  %bias = nn.constant dense<[10000.0, 0.1]> : tensor<2xf32>
  %o = nn.observe %x as "conv:0" by "minmax" gives <i8, scale = 0.5> : tensor<1x1x4x4xf32>
  %y = nn.conv %o, %weight, %bias from <onnx, "Conv", "conv"> : (tensor<1x1x4x4xf32>, tensor<2x1x1x1xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Not calibrated: nothing to convert, and a remark.
// CHECK-LABEL: @not_calibrated
// CHECK:       nn.observe
// CHECK-NOT:   nn.quantize
// REMARK:      [convert-observers missed calibrated] {{.*}}: it has no parameters: run --calibrate first
func.func @not_calibrated(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %weight = nn.constant dense<1.0> : tensor<2x2xf32>
  %o = nn.observe %x as "fc:0" by "minmax" : tensor<1x2xf32>
  %y = nn.matmul %o, %weight from <onnx, "Gemm", "fc"> : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %y : tensor<1x2xf32>
}
