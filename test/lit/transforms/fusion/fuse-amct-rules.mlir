// RUN: CONSTANTS | amct-opt - --fuse-all --rules=amct --split-input-file --remarks=missed 2>%t.remarks | filecheck %s --check-prefix AMCT
// RUN: filecheck %s --check-prefix REMARK < %t.remarks
// RUN: CONSTANTS | amct-opt - --fuse-all --rules=tf2.6 --split-input-file --remarks=missed 2>%t.remarks | filecheck %s --check-prefix AMCT
// RUN: filecheck %s --check-prefix REMARK < %t.remarks
// RUN: CONSTANTS | amct-opt - --fuse-all --split-input-file | filecheck %s --check-prefix EXT

// CONSTANT: %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
// CONSTANT: %w2 = nn.constant dense<1.0> : tensor<2x2xf32>
// CONSTANT: %w3 = nn.constant dense<1.0> : tensor<2x2x1x1x1xf32>
// CONSTANT: %two = nn.constant dense<2.0> : tensor<f32>
// CONSTANT: %one = nn.constant dense<[2.0]> : tensor<1xf32>
// CONSTANT: %row = nn.constant dense<[[2.0, 2.0]]> : tensor<1x2xf32>
// CONSTANT: %column = nn.constant dense<[[2.0]]> : tensor<1x1xf32>
// CONSTANT: %per = nn.constant dense<[2.0, -2.0]> : tensor<2xf32>
// CONSTANT: %offset = nn.constant dense<[0.5, 0.25]> : tensor<2xf32>
// CONSTANT: %var = nn.constant dense<1.0> : tensor<4xf32>
// CONSTANT: %var2 = nn.constant dense<1.0> : tensor<2xf32>
// CONSTANT: %four = nn.constant dense<[2.0, -2.0, 1.0, 1.0]> : tensor<4xf32>

// AMCT's rules for TensorFlow to the letter, and what is exact beyond them.

// A factor of empty shape.
// AMCT-LABEL: @mul
// AMCT-NOT: nn.mul
// AMCT:     func.return
// EXT-LABEL: @mul
// EXT-NOT: nn.mul
// EXT:     func.return
func.func @mul(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %c = nn.conv %x, %w layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %y = nn.mul %c, %two from <tensorflow, "Mul", "y"> : (tensor<1x2x2x2xf32>, tensor<f32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// One number per channel.
// AMCT-LABEL: @mul_of_channels
// AMCT:     nn.mul
// REMARK: [fuse-mul missed empty-shape] "y": the factor has the shape [2], AMCT fuses an empty one
// EXT-LABEL: @mul_of_channels
// EXT-NOT: nn.mul
// EXT:     func.return
func.func @mul_of_channels(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %c = nn.conv %x, %w layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %y = nn.mul %c, %per from <tensorflow, "Mul", "y"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// One number in a shape.
// AMCT-LABEL: @mul_of_one
// AMCT:     nn.mul
// REMARK: [fuse-mul missed empty-shape] "y": the factor has the shape [1], AMCT fuses an empty one
// EXT-LABEL: @mul_of_one
// EXT-NOT: nn.mul
// EXT:     func.return
func.func @mul_of_one(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %c = nn.conv %x, %w layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %y = nn.mul %c, %one from <tensorflow, "Mul", "y"> : (tensor<1x2x2x2xf32>, tensor<1xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// A quotient.
// AMCT-LABEL: @div
// AMCT:     nn.div
// REMARK: [fuse-mul missed mul-of-amct] "y": y is RealDiv, AMCT fuses Mul
// EXT-LABEL: @div
// EXT-NOT: nn.div
// EXT:     func.return
func.func @div(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %c = nn.conv %x, %w layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %y = nn.div %c, %two from <tensorflow, "RealDiv", "y"> : (tensor<1x2x2x2xf32>, tensor<f32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// After Conv3D.
// AMCT-LABEL: @mul_volume
// AMCT:     nn.mul
// REMARK: [fuse-mul missed mul-of-amct] "y": conv is Conv3D, AMCT fuses Conv2D, MatMul, DepthwiseConv2dNative or Conv2DBackpropInput
// EXT-LABEL: @mul_volume
// EXT-NOT: nn.mul
// EXT:     func.return
func.func @mul_volume(%x: tensor<1x2x2x2x2xf32>) -> tensor<1x2x2x2x2xf32> {
  %c = nn.conv %x, %w3 layout nhwc from <tensorflow, "Conv3D", "conv"> : (tensor<1x2x2x2x2xf32>, tensor<2x2x1x1x1xf32>) -> tensor<1x2x2x2x2xf32>
  %y = nn.mul %c, %two from <tensorflow, "Mul", "y"> : (tensor<1x2x2x2x2xf32>, tensor<f32>) -> tensor<1x2x2x2x2xf32>
  func.return %y : tensor<1x2x2x2x2xf32>
}

// -----

// After a BiasAdd.
// AMCT-LABEL: @mul_bias
// AMCT-NOT: nn.mul
// AMCT:     func.return
// EXT-LABEL: @mul_bias
// EXT-NOT: nn.mul
// EXT:     func.return
func.func @mul_bias(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %c = nn.conv %x, %w layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %b = nn.bias_add %c, %offset layout nhwc from <tensorflow, "BiasAdd", "bias"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %y = nn.mul %b, %two from <tensorflow, "Mul", "y"> : (tensor<1x2x2x2xf32>, tensor<f32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// A scalar.
// AMCT-LABEL: @add_scalar
// AMCT-NOT: nn.add
// AMCT:     func.return
// EXT-LABEL: @add_scalar
// EXT-NOT: nn.add
// EXT:     func.return
func.func @add_scalar(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %c = nn.conv %x, %w layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %y = nn.add %c, %two from <tensorflow, "AddV2", "y"> : (tensor<1x2x2x2xf32>, tensor<f32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// One number per channel.
// AMCT-LABEL: @add_channels
// AMCT-NOT: nn.add
// AMCT:     func.return
// EXT-LABEL: @add_channels
// EXT-NOT: nn.add
// EXT:     func.return
func.func @add_channels(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %c = nn.conv %x, %w layout nhwc from <tensorflow, "DepthwiseConv2dNative", "conv"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %y = nn.add %c, %offset from <tensorflow, "Add", "y"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// More axes.
// AMCT-LABEL: @add_multi
// AMCT-NOT: nn.add
// AMCT:     func.return
// EXT-LABEL: @add_multi
// EXT-NOT: nn.add
// EXT:     func.return
func.func @add_multi(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %c = nn.conv %x, %w layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %y = nn.add %c, %column from <tensorflow, "AddV2", "y"> : (tensor<1x2x2x2xf32>, tensor<1x1xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// One axis of another length.
// AMCT-LABEL: @add_one
// AMCT:     nn.add
// REMARK: [fuse-bias missed shape-of-amct] "y": the summand has the shape [1], which AMCT does not make the bias of Conv2D
// EXT-LABEL: @add_one
// EXT-NOT: nn.add
// EXT:     func.return
func.func @add_one(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %c = nn.conv %x, %w layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %y = nn.add %c, %one from <tensorflow, "AddV2", "y"> : (tensor<1x2x2x2xf32>, tensor<1xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// The columns of a matrix product.
// AMCT-LABEL: @matmul_add
// AMCT-NOT: nn.add
// AMCT:     func.return
// EXT-LABEL: @matmul_add
// EXT-NOT: nn.add
// EXT:     func.return
func.func @matmul_add(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %c = nn.matmul %x, %w2 from <tensorflow, "MatMul", "fc"> : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %y = nn.add %c, %row from <tensorflow, "AddV2", "y"> : (tensor<3x2xf32>, tensor<1x2xf32>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// -----

// A scalar after a matrix product.
// AMCT-LABEL: @matmul_scalar
// AMCT:     nn.add
// REMARK: [fuse-bias missed shape-of-amct] "y": the summand has the shape [], which AMCT does not make the bias of MatMul
// EXT-LABEL: @matmul_scalar
// EXT-NOT: nn.add
// EXT:     func.return
func.func @matmul_scalar(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %c = nn.matmul %x, %w2 from <tensorflow, "MatMul", "fc"> : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %y = nn.add %c, %two from <tensorflow, "AddV2", "y"> : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// -----

// One axis after BatchMatMul.
// AMCT-LABEL: @batch_matmul_one
// AMCT-NOT: nn.add
// AMCT:     func.return
// EXT-LABEL: @batch_matmul_one
// EXT-NOT: nn.add
// EXT:     func.return
func.func @batch_matmul_one(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %c = nn.matmul %x, %w2 from <tensorflow, "BatchMatMulV2", "fc"> : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %y = nn.add %c, %one from <tensorflow, "AddV2", "y"> : (tensor<3x2xf32>, tensor<1xf32>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// -----

// Axes without the columns.
// AMCT-LABEL: @batch_matmul_column
// AMCT:     nn.add
// REMARK: [fuse-bias missed shape-of-amct] "y": the summand has the shape [1, 1], which AMCT does not make the bias of BatchMatMulV2
// EXT-LABEL: @batch_matmul_column
// EXT-NOT: nn.add
// EXT:     func.return
func.func @batch_matmul_column(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %c = nn.matmul %x, %w2 from <tensorflow, "BatchMatMulV2", "fc"> : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %y = nn.add %c, %column from <tensorflow, "AddV2", "y"> : (tensor<3x2xf32>, tensor<1x1xf32>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// -----

// A difference.
// AMCT-LABEL: @sub
// AMCT:     nn.sub
// REMARK: [fuse-bias missed add-of-amct] "y": y is Sub, AMCT fuses Add or AddV2
// EXT-LABEL: @sub
// EXT-NOT: nn.sub
// EXT:     func.return
func.func @sub(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %c = nn.conv %x, %w layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %y = nn.sub %c, %offset from <tensorflow, "Sub", "y"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// After a BiasAdd.
// AMCT-LABEL: @add_bias
// AMCT:     nn.add
// REMARK: [fuse-bias missed add-of-amct] "y": conv has a bias already
// EXT-LABEL: @add_bias
// EXT-NOT: nn.add
// EXT:     func.return
func.func @add_bias(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %c = nn.conv %x, %w layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %b = nn.bias_add %c, %offset layout nhwc from <tensorflow, "BiasAdd", "bias"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %y = nn.add %b, %offset from <tensorflow, "AddV2", "y"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// After another operation.
// AMCT-LABEL: @add_squeezed
// AMCT:     nn.add
// REMARK: [fuse-bias missed add-of-amct] "y": flat, Reshape, is between
// EXT-LABEL: @add_squeezed
// EXT-NOT: nn.add
// EXT:     func.return
func.func @add_squeezed(%x: tensor<1x2x2x2xf32>) -> tensor<2x2x2xf32> {
  %c = nn.conv %x, %w layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %s = nn.reshape %c to [2, 2, 2] from <tensorflow, "Reshape", "flat"> : (tensor<1x2x2x2xf32>) -> tensor<2x2x2xf32>
  %y = nn.add %s, %offset from <tensorflow, "AddV2", "y"> : (tensor<2x2x2xf32>, tensor<2xf32>) -> tensor<2x2x2xf32>
  func.return %y : tensor<2x2x2xf32>
}

// -----

// FusedBatchNorm after a convolution and its BiasAdd.
// AMCT-LABEL: @bn
// AMCT-NOT: nn.batch_norm
// AMCT:     func.return
// EXT-LABEL: @bn
// EXT-NOT: nn.batch_norm
// EXT:     func.return
func.func @bn(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %c = nn.conv %x, %w layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %b = nn.bias_add %c, %offset layout nhwc from <tensorflow, "BiasAdd", "bias"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %y = nn.batch_norm %b, %per, %offset, %offset, %offset epsilon 1.0 layout nhwc from <tensorflow, "FusedBatchNormV3", "bn"> : (tensor<1x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// Another batch norm.
// AMCT-LABEL: @bn_other
// AMCT:     nn.batch_norm
// REMARK: [fuse-bn missed norm-of-amct] "bn": bn is BatchNormWithGlobalNormalization, AMCT fuses FusedBatchNorm, FusedBatchNormV2 or FusedBatchNormV3
// EXT-LABEL: @bn_other
// EXT-NOT: nn.batch_norm
// EXT:     func.return
func.func @bn_other(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %c = nn.conv %x, %w layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %y = nn.batch_norm %c, %per, %offset, %offset, %offset epsilon 1.0 layout nhwc from <tensorflow, "BatchNormWithGlobalNormalization", "bn"> : (tensor<1x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// After a transposed convolution.
// AMCT-LABEL: @bn_transposed
// AMCT:     nn.batch_norm
// REMARK: [fuse-bn missed norm-of-amct] "bn": conv is Conv2DBackpropInput, AMCT fuses Conv2D, Conv3D or DepthwiseConv2dNative
// EXT-LABEL: @bn_transposed
// EXT-NOT: nn.batch_norm
// EXT:     func.return
func.func @bn_transposed(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %c = nn.conv_transpose %x, %w layout nhwc from <tensorflow, "Conv2DBackpropInput", "conv"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %y = nn.batch_norm %c, %per, %offset, %offset, %offset epsilon 1.0 layout nhwc from <tensorflow, "FusedBatchNormV3", "bn"> : (tensor<1x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// After a reshape.
// AMCT-LABEL: @bn_reshaped
// AMCT:     nn.batch_norm
// REMARK: [fuse-bn missed norm-of-amct] "bn": flat, Reshape, is between
// EXT-LABEL: @bn_reshaped
// EXT-NOT: nn.batch_norm
// EXT:     func.return
func.func @bn_reshaped(%x: tensor<1x2x2x2xf32>) -> tensor<2x2x2xf32> {
  %c = nn.conv %x, %w layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %s = nn.reshape %c to [2, 2, 2] from <tensorflow, "Reshape", "flat"> : (tensor<1x2x2x2xf32>) -> tensor<2x2x2xf32>
  %y = nn.batch_norm %s, %per, %offset, %offset, %offset epsilon 1.0 layout nhwc from <tensorflow, "FusedBatchNormV3", "bn"> : (tensor<2x2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x2x2xf32>
  func.return %y : tensor<2x2x2xf32>
}

// -----

// After BatchToSpace.
// AMCT-LABEL: @bn_space
// AMCT-NOT: nn.batch_norm
// AMCT:     func.return
// EXT-LABEL: @bn_space
// EXT-NOT: nn.batch_norm
// EXT:     func.return
func.func @bn_space(%x: tensor<4x1x1x2xf32>) -> tensor<1x2x2x2xf32> {
  %c = nn.conv %x, %w layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<4x1x1x2xf32>, tensor<2x2x1x1xf32>) -> tensor<4x1x1x2xf32>
  %s = nn.batch_to_space %c block [2, 2] crops [0, 0, 0, 0] layout nhwc from <tensorflow, "BatchToSpaceND", "space"> : (tensor<4x1x1x2xf32>) -> tensor<1x2x2x2xf32>
  %y = nn.batch_norm %s, %per, %offset, %offset, %offset epsilon 1.0 layout nhwc from <tensorflow, "FusedBatchNormV3", "bn"> : (tensor<1x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// Between two reshapes, back to the shape of the product.
// AMCT-LABEL: @matmul_bn
// AMCT-NOT: nn.batch_norm
// AMCT:     func.return
// EXT-LABEL: @matmul_bn
// EXT-NOT: nn.batch_norm
// EXT:     func.return
func.func @matmul_bn(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %c = nn.matmul %x, %w2 from <tensorflow, "MatMul", "fc"> : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %i = nn.reshape %c to [3, 1, 1, 2] from <tensorflow, "Reshape", "image"> : (tensor<3x2xf32>) -> tensor<3x1x1x2xf32>
  %n = nn.batch_norm %i, %per, %offset, %offset, %offset epsilon 1.0 layout nhwc from <tensorflow, "FusedBatchNormV3", "bn"> : (tensor<3x1x1x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<3x1x1x2xf32>
  %y = nn.reshape %n to [3, 2] from <tensorflow, "Reshape", "back"> : (tensor<3x1x1x2xf32>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// -----

// The second reshape gives another shape.
// AMCT-LABEL: @matmul_bn_shape
// AMCT:     nn.batch_norm
// REMARK: [fuse-bn missed norm-of-amct] "bn": AMCT folds it into MatMul only between two Reshape, the second of which gives the shape of MatMul
// EXT-LABEL: @matmul_bn_shape
// EXT-NOT: nn.batch_norm
// EXT:     func.return
func.func @matmul_bn_shape(%x: tensor<3x2xf32>) -> tensor<1x3x2xf32> {
  %c = nn.matmul %x, %w2 from <tensorflow, "MatMul", "fc"> : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %i = nn.reshape %c to [3, 1, 1, 2] from <tensorflow, "Reshape", "image"> : (tensor<3x2xf32>) -> tensor<3x1x1x2xf32>
  %n = nn.batch_norm %i, %per, %offset, %offset, %offset epsilon 1.0 layout nhwc from <tensorflow, "FusedBatchNormV3", "bn"> : (tensor<3x1x1x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<3x1x1x2xf32>
  %y = nn.reshape %n to [1, 3, 2] from <tensorflow, "Reshape", "back"> : (tensor<3x1x1x2xf32>) -> tensor<1x3x2xf32>
  func.return %y : tensor<1x3x2xf32>
}

// -----

// Not a Reshape.
// AMCT-LABEL: @matmul_bn_squeezed
// AMCT:     nn.batch_norm
// REMARK: [fuse-bn missed norm-of-amct] "bn": back is Squeeze, AMCT fuses Reshape
// EXT-LABEL: @matmul_bn_squeezed
// EXT-NOT: nn.batch_norm
// EXT:     func.return
func.func @matmul_bn_squeezed(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %c = nn.matmul %x, %w2 from <tensorflow, "MatMul", "fc"> : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %i = nn.reshape %c to [3, 1, 1, 2] from <tensorflow, "Reshape", "image"> : (tensor<3x2xf32>) -> tensor<3x1x1x2xf32>
  %n = nn.batch_norm %i, %per, %offset, %offset, %offset epsilon 1.0 layout nhwc from <tensorflow, "FusedBatchNormV3", "bn"> : (tensor<3x1x1x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<3x1x1x2xf32>
  %y = nn.reshape %n to [3, 2] from <tensorflow, "Squeeze", "back"> : (tensor<3x1x1x2xf32>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// -----

// Convolutions on the parts of a Split.
// AMCT-LABEL: @group
// AMCT-NOT: nn.batch_norm
// AMCT:     func.return
// EXT-LABEL: @group
// EXT-NOT: nn.batch_norm
// EXT:     func.return
func.func @group(%x: tensor<1x2x2x4xf32>) -> tensor<1x2x2x4xf32> {
  %p0, %p1 = nn.split %x axis 3 sizes [2, 2] from <tensorflow, "Split", "split"> : (tensor<1x2x2x4xf32>) -> (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>)
  %a = nn.conv %p0, %w layout nhwc from <tensorflow, "Conv2D", "left"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %b = nn.conv %p1, %w layout nhwc from <tensorflow, "Conv2D", "right"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %c = nn.concat %a, %b axis 3 from <tensorflow, "ConcatV2", "concat"> : (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) -> tensor<1x2x2x4xf32>
  %y = nn.batch_norm %c, %four, %four, %four, %var epsilon 1.0 layout nhwc from <tensorflow, "FusedBatchNormV3", "bn"> : (tensor<1x2x2x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x2x2x4xf32>
  func.return %y : tensor<1x2x2x4xf32>
}

// -----

// The parts in another order.
// AMCT-LABEL: @group_crossed
// AMCT:     nn.batch_norm
// REMARK: [fuse-bn missed group-of-amct] "bn": the convolutions are not on the parts of one Split, in their order
// EXT-LABEL: @group_crossed
// EXT-NOT: nn.batch_norm
// EXT:     func.return
func.func @group_crossed(%x: tensor<1x2x2x4xf32>) -> tensor<1x2x2x4xf32> {
  %p0, %p1 = nn.split %x axis 3 sizes [2, 2] from <tensorflow, "Split", "split"> : (tensor<1x2x2x4xf32>) -> (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>)
  %a = nn.conv %p1, %w layout nhwc from <tensorflow, "Conv2D", "left"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %b = nn.conv %p0, %w layout nhwc from <tensorflow, "Conv2D", "right"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %c = nn.concat %a, %b axis 3 from <tensorflow, "ConcatV2", "concat"> : (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) -> tensor<1x2x2x4xf32>
  %y = nn.batch_norm %c, %four, %four, %four, %var epsilon 1.0 layout nhwc from <tensorflow, "FusedBatchNormV3", "bn"> : (tensor<1x2x2x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x2x2x4xf32>
  func.return %y : tensor<1x2x2x4xf32>
}

// -----

// Of another type.
// AMCT-LABEL: @group_depthwise
// AMCT:     nn.batch_norm
// REMARK: [fuse-bn missed group-of-amct] "bn": left is DepthwiseConv2dNative, AMCT fuses Conv2D or Conv3D
// EXT-LABEL: @group_depthwise
// EXT-NOT: nn.batch_norm
// EXT:     func.return
func.func @group_depthwise(%x: tensor<1x2x2x4xf32>) -> tensor<1x2x2x4xf32> {
  %p0, %p1 = nn.split %x axis 3 sizes [2, 2] from <tensorflow, "Split", "split"> : (tensor<1x2x2x4xf32>) -> (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>)
  %a = nn.conv %p0, %w layout nhwc from <tensorflow, "DepthwiseConv2dNative", "left"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %b = nn.conv %p1, %w layout nhwc from <tensorflow, "DepthwiseConv2dNative", "right"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %c = nn.concat %a, %b axis 3 from <tensorflow, "ConcatV2", "concat"> : (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) -> tensor<1x2x2x4xf32>
  %y = nn.batch_norm %c, %four, %four, %four, %var epsilon 1.0 layout nhwc from <tensorflow, "FusedBatchNormV3", "bn"> : (tensor<1x2x2x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x2x2x4xf32>
  func.return %y : tensor<1x2x2x4xf32>
}

// -----

// A factor after a batch norm by itself.
// AMCT-LABEL: @bn_scale
// AMCT:     nn.mul
// REMARK: [fuse-bn missed scale-of-amct] "y": AMCT fuses it for ONNX, not for TensorFlow
// EXT-LABEL: @bn_scale
// EXT-NOT: nn.mul
// EXT:     func.return
func.func @bn_scale(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %n = nn.batch_norm %x, %per, %offset, %offset, %offset epsilon 1.0 layout nhwc from <tensorflow, "FusedBatchNormV3", "bn"> : (tensor<1x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %y = nn.mul %n, %two from <tensorflow, "Mul", "y"> : (tensor<1x2x2x2xf32>, tensor<f32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// A batch norm before a convolution.
// AMCT-LABEL: @bn_before
// AMCT:     nn.batch_norm
// REMARK: [fuse-bn missed before-of-amct] "conv": AMCT fuses it for Caffe, not for TensorFlow
// EXT-LABEL: @bn_before
// EXT-NOT: nn.batch_norm
// EXT:     func.return
func.func @bn_before(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %n = nn.batch_norm %x, %per, %offset, %offset, %offset epsilon 1.0 layout nhwc from <tensorflow, "FusedBatchNormV3", "bn"> : (tensor<1x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %c = nn.conv %n, %w layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  func.return %c : tensor<1x2x2x2xf32>
}

// -----

// What constants leave of a batch norm of Keras.
// AMCT-LABEL: @keras
// AMCT-NOT: nn.{{mul|add}}
// AMCT:     func.return
// EXT-LABEL: @keras
// EXT-NOT: nn.{{mul|add}}
// EXT:     func.return
func.func @keras(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %c = nn.conv %x, %w layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %m = nn.mul %c, %per from <tensorflow, "Mul", "m"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %y = nn.add %m, %offset from <tensorflow, "AddV2", "y"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// Not of Keras.
// AMCT-LABEL: @centered
// AMCT:     nn.sub
// AMCT:     nn.mul
// REMARK: [fuse-small-bn missed form-of-amct] "y": AMCT knows the form of Keras, of which a product and a sum per channel would be left
// EXT-LABEL: @centered
// EXT-NOT: nn.{{mul|sub}}
// EXT:     func.return
func.func @centered(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %c = nn.conv %x, %w layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %s = nn.sub %c, %offset from <tensorflow, "Sub", "s"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %y = nn.mul %s, %per from <tensorflow, "Mul", "y"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// By a quotient; the convolution is an output, too, so that its bias takes nothing.
// AMCT-LABEL: @written
// AMCT:     nn.sub
// AMCT:     nn.div
// REMARK: [fuse-small-bn missed form-of-amct] "y": AMCT knows the form of Keras, x * r + (offset - mean * r)
// REMARK: [fuse-bias missed result-used-once] "s": the result of conv has 2 uses
// EXT-LABEL: @written
// EXT:     nn.batch_norm
func.func @written(%x: tensor<1x2x2x2xf32>) -> (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) {
  %c = nn.conv %x, %w layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %v = nn.add %var2, %two : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %d = nn.sqrt %v : tensor<2xf32>
  %s = nn.sub %c, %offset from <tensorflow, "Sub", "s"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %y = nn.div %s, %d from <tensorflow, "RealDiv", "y"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y, %c : tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>
}

// -----

// AMCT does not quantize the layer.
// AMCT-LABEL: @quantizable
// AMCT:     nn.add
// REMARK: [fuse-bias missed only-quantizable] "y": conv cannot be quantized (integer-operator): int8 operands need a dilation of 1 along the depth
// EXT-LABEL: @quantizable
// EXT-NOT: nn.add
// EXT:     func.return
func.func @quantizable(%x: tensor<1x2x2x2x2xf32>) -> tensor<1x2x2x2x2xf32> {
  %c = nn.conv %x, %w3 dilations [2, 1, 1] layout nhwc from <tensorflow, "Conv3D", "conv", {dilations = [1, 2, 1, 1, 1]}> : (tensor<1x2x2x2x2xf32>, tensor<2x2x1x1x1xf32>) -> tensor<1x2x2x2x2xf32>
  %y = nn.add %c, %offset from <tensorflow, "AddV2", "y"> : (tensor<1x2x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2x2xf32>
  func.return %y : tensor<1x2x2x2x2xf32>
}

// -----

// Layers of other frameworks.
// AMCT-LABEL: @onnx
// AMCT-NOT: nn.mul
// AMCT:     func.return
// EXT-LABEL: @onnx
// EXT-NOT: nn.mul
// EXT:     func.return
func.func @onnx(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %c = nn.conv %x, %w layout nhwc from <onnx, "Conv", "conv"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %y = nn.mul %c, %per from <onnx, "Mul", "y"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}
