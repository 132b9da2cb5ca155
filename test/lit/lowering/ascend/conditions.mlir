// Conditions that no other file here shows, and operations that they refuse.
// RUN: amct-opt %s --lower-to-ascend --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// Caffe's Scale by another tensor.
// CHECK-LABEL: @scale_computed
// REMARK:      [lower-to-ascend missed constant-scale] "y": its scale is computed at run time
func.func @scale_computed(%x: tensor<1x3x4x4xf32>, %s: tensor<1x3x1x1xf32>) -> tensor<1x3x4x4xf32> {
  %y = nn.mul %x, %s from <caffe, "Scale", "y"> : (tensor<1x3x4x4xf32>, tensor<1x3x1x1xf32>) -> tensor<1x3x4x4xf32>
  func.return %y : tensor<1x3x4x4xf32>
}

// -----

// BatchNorm's parameters.
// CHECK-LABEL: @norm_scale
// REMARK:      [lower-to-ascend missed constant-scale] "y": its scale is computed at run time
func.func @norm_scale(%x: tensor<1x4x4x4xf32>, %p: tensor<4xf32>) -> tensor<1x4x4x4xf32> {
  %c = nn.constant dense<1.0> : tensor<4xf32>
  %y = nn.batch_norm %x, %p, %c, %c, %c from <caffe, "BatchNorm", "y"> : (tensor<1x4x4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x4x4xf32>
  func.return %y : tensor<1x4x4x4xf32>
}

// -----

// Another one.
// CHECK-LABEL: @norm_offset
// REMARK:      [lower-to-ascend missed constant-offset] "y": its offset is computed at run time
func.func @norm_offset(%x: tensor<1x4x4x4xf32>, %p: tensor<4xf32>) -> tensor<1x4x4x4xf32> {
  %c = nn.constant dense<1.0> : tensor<4xf32>
  %y = nn.batch_norm %x, %c, %p, %c, %c from <caffe, "BatchNorm", "y"> : (tensor<1x4x4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x4x4xf32>
  func.return %y : tensor<1x4x4x4xf32>
}

// -----

// Another one.
// CHECK-LABEL: @norm_layout
// REMARK:      [lower-to-ascend missed channels-second] "y": BNInference normalizes axis 1
func.func @norm_layout(%x: tensor<1x4x4x4xf32>, %p: tensor<4xf32>) -> tensor<1x4x4x4xf32> {
  %c = nn.constant dense<1.0> : tensor<4xf32>
  %z = nn.constant dense<0.0> : tensor<4xf32>
  %y = nn.batch_norm %x, %c, %z, %c, %c layout nhwc from <caffe, "BatchNorm", "y"> : (tensor<1x4x4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x4x4xf32>
  func.return %y : tensor<1x4x4x4xf32>
}

// -----

// A product that sums.
// CHECK-LABEL: @einsum
// REMARK:      [lower-to-ascend missed outer-product] "y": 'ij,jk->ik' is not an outer product
func.func @einsum(%x: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %y = nn.opaque %x, %x framework "onnx" op_type "Einsum" version 12 attrs {equation = "ij,jk->ik"} from <onnx, "Einsum", "y"> : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<3x3xf32>
  func.return %y : tensor<3x3xf32>
}

// -----

// One spatial axis.
// CHECK-LABEL: @backprop
// REMARK:      [lower-to-ascend missed spatial-rank] "y": Conv2DBackpropInput has two spatial axes
func.func @backprop(%x: tensor<1x2x4xf32>) -> tensor<1x3x8xf32> {
  %w = nn.constant dense<1.0> : tensor<2x3x2xf32>
  %y = nn.conv_transpose %x, %w strides [2] from <tensorflow, "Conv2DBackpropInput", "y"> : (tensor<1x2x4xf32>, tensor<2x3x2xf32>) -> tensor<1x3x8xf32>
  func.return %y : tensor<1x3x8xf32>
}

// -----

// A vector next to a weight of integers.
// CHECK-LABEL: @vector
// REMARK:      [lower-to-ascend missed matrix-rank] "y": an operand is a vector
func.func @vector(%x: tensor<8xf32>) -> tensor<2xf32> {
  %c = nn.constant dense<1> : tensor<8x2xi8>
  %w = nn.dequantize %c by <i8, scale = 0.25> : (tensor<8x2xi8>) -> tensor<8x2xf32>
  %y = nn.matmul %x, %w : (tensor<8xf32>, tensor<8x2xf32>) -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}

// -----

// InnerProduct of rank 4, with a weight of integers.
// CHECK-LABEL: @inner_product
// REMARK-NOT:  ascend-constraint
// REMARK:      [lower-to-ascend missed inner-product] "y": FullyConnection multiplies rank 2 or 3 by a matrix
func.func @inner_product(%x: tensor<2x3x5x8xf32>) -> tensor<2x3x5x4xf32> {
  %c = nn.constant dense<1> : tensor<8x4xi8>
  %w = nn.dequantize %c by <i8, scale = 0.25> : (tensor<8x4xi8>) -> tensor<8x4xf32>
  %y = nn.matmul %x, %w from <caffe, "InnerProduct", "y"> : (tensor<2x3x5x8xf32>, tensor<8x4xf32>) -> tensor<2x3x5x4xf32>
  func.return %y : tensor<2x3x5x4xf32>
}

// -----

// Groups that are not whole, and, in float16, of another size than the operator's.
// CHECK-LABEL: @groups
// REMARK:      [lower-to-ascend missed group-size] "y": groups of 3 do not divide its 8 input channels
func.func @groups(%x: tensor<2x8xf32>) -> tensor<2x1xf32> {
  %c = nn.constant dense<1> : tensor<8x1xi8>
  %w = nn.dequantize %c by <i8, scale = [0.25, 0.5, 1.0], axis = 0, block = 3> : (tensor<8x1xi8>) -> tensor<8x1xf32>
  %y = nn.matmul %x, %w : (tensor<2x8xf32>, tensor<8x1xf32>) -> tensor<2x1xf32>
  func.return %y : tensor<2x1xf32>
}

// -----

// Groups of 4.
// CHECK-LABEL: @half_groups
// REMARK:      [lower-to-ascend missed group-size] "y": WeightQuantBatchMatmulV2 has groups of 32, 64, ... or all input channels
func.func @half_groups(%x: tensor<2x8xf16>) -> tensor<2x1xf16> {
  %c = nn.constant dense<1> : tensor<8x1xi8>
  %w = nn.dequantize %c by <i8, scale = [0.25, 0.5], axis = 0, block = 4> : (tensor<8x1xi8>) -> tensor<8x1xf16>
  %y = nn.matmul %x, %w : (tensor<2x8xf16>, tensor<8x1xf16>) -> tensor<2x1xf16>
  func.return %y : tensor<2x1xf16>
}

// -----

// A product of two inputs.
// CHECK-LABEL: @product
// REMARK:      [lower-to-ascend missed symmetric-activation] "y": it multiplies two inputs, and their zero points are not both 0
func.func @product(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %a = nn.quantize %x by <i8, scale = 0.5, zero_point = 3> : (tensor<4x4xf32>) -> tensor<4x4xi8>
  %b = nn.dequantize %a by <i8, scale = 0.5, zero_point = 3> : (tensor<4x4xi8>) -> tensor<4x4xf32>
  %y = nn.matmul %b, %b from <onnx, "MatMul", "y"> : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  func.return %y : tensor<4x4xf32>
}

// -----

// Caffe's Pooling over one axis.
// CHECK-LABEL: @pooling
// REMARK:      [lower-to-ascend missed spatial-rank] "y": Pooling has two spatial axes
func.func @pooling(%x: tensor<1x3x4xf32>) -> tensor<1x3x2xf32> {
  %y = nn.max_pool %x kernel [2] strides [2] from <caffe, "Pooling", "y"> : (tensor<1x3x4xf32>) -> tensor<1x3x2xf32>
  func.return %y : tensor<1x3x2xf32>
}

// -----

// Padding by a size that is not known.
// CHECK-LABEL: @pooling_pads
// REMARK:      [lower-to-ascend missed known-pads] "y": its auto_pad depends on sizes that are not known
func.func @pooling_pads(%x: tensor<1x3x?x4xf32>) -> tensor<1x3x?x2xf32> {
  %y = nn.max_pool %x kernel [2, 2] strides [2, 2] auto_pad same_upper from <caffe, "Pooling", "y"> : (tensor<1x3x?x4xf32>) -> tensor<1x3x?x2xf32>
  func.return %y : tensor<1x3x?x2xf32>
}

// -----

// What they accept.
// CHECK-LABEL: @holds
// CHECK:         %o = ascend.Mul
// CHECK:         %y_acc = ascend.BatchMatMulV2
// CHECK:         %s = ascend.Scale
// CHECK:         %n = ascend.BNInference
// CHECK:         %p = ascend.Pooling
// CHECK:         %u = ascend.Conv2DBackpropInput
// CHECK:         %f = ascend.FullyConnection
// CHECK:         %g = ascend.MatMulV2 %x, %g_weight
// CHECK:         %h = ascend.WeightQuantBatchMatmulV2
// REMARK:      [lower-to-ascend applied lower] "o": computed by ascend.Mul
// REMARK:      [lower-to-ascend applied lower] "y": computed by ascend.AscendDequant
func.func @holds(%v: tensor<3xf32>, %x: tensor<4x4xf32>, %i: tensor<1x3x4x4xf32>, %j: tensor<4x64xf16>) {
  %o = nn.opaque %v, %v framework "onnx" op_type "Einsum" version 12 attrs {equation = "i,j->ij"} from <onnx, "Einsum", "o"> : (tensor<3xf32>, tensor<3xf32>) -> tensor<3x3xf32>
  %a = nn.quantize %x by <i8, scale = 0.5> : (tensor<4x4xf32>) -> tensor<4x4xi8>
  %b = nn.dequantize %a by <i8, scale = 0.5> : (tensor<4x4xi8>) -> tensor<4x4xf32>
  %y = nn.matmul %b, %b from <onnx, "MatMul", "y"> : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %k = nn.constant dense<1.0> : tensor<3xf32>
  %z = nn.constant dense<0.0> : tensor<3xf32>
  %m = nn.constant dense<2.0> : tensor<1x3x1x1xf32>
  %s = nn.mul %i, %m from <caffe, "Scale", "s"> : (tensor<1x3x4x4xf32>, tensor<1x3x1x1xf32>) -> tensor<1x3x4x4xf32>
  %n = nn.batch_norm %i, %k, %z, %k, %k from <caffe, "BatchNorm", "n"> : (tensor<1x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<1x3x4x4xf32>
  %p = nn.max_pool %i kernel [2, 2] from <caffe, "Pooling", "p"> : (tensor<1x3x4x4xf32>) -> tensor<1x3x3x3xf32>
  %t = nn.constant dense<1.0> : tensor<3x3x2x2xf32>
  %u = nn.conv_transpose %i, %t strides [2, 2] from <tensorflow, "Conv2DBackpropInput", "u"> : (tensor<1x3x4x4xf32>, tensor<3x3x2x2xf32>) -> tensor<1x3x8x8xf32>
  %c = nn.constant dense<1> : tensor<4x4xi8>
  %d = nn.dequantize %c by <i8, scale = 0.25> : (tensor<4x4xi8>) -> tensor<4x4xf32>
  %f = nn.matmul %x, %d from <caffe, "InnerProduct", "f"> : tensor<4x4xf32>
  %l = nn.constant dense<1> : tensor<4x1xi8>
  %e = nn.dequantize %l by <i8, scale = [0.25, 0.5], axis = 0, block = 2> : (tensor<4x1xi8>) -> tensor<4x1xf32>
  %g = nn.matmul %x, %e from <onnx, "Gemm", "g"> : (tensor<4x4xf32>, tensor<4x1xf32>) -> tensor<4x1xf32>
  %q = nn.constant dense<1> : tensor<64x1xi8>
  %w = nn.dequantize %q by <i8, scale = [0.25, 0.5], axis = 0, block = 32> : (tensor<64x1xi8>) -> tensor<64x1xf16>
  %h = nn.matmul %j, %w from <onnx, "Gemm", "h"> : (tensor<4x64xf16>, tensor<64x1xf16>) -> tensor<4x1xf16>
  func.return
}
