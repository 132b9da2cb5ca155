// RUN: CONSTANTS | amct-opt - --fuse-bn --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// CONSTANT: %weight = nn.constant dense<[[[[1.0]], [[3.0]]], [[[5.0]], [[7.0]]]]> : tensor<2x2x1x1xf32>
// CONSTANT: %scale = nn.constant dense<[2.0, -2.0]> : tensor<2xf32>
// CONSTANT: %offset = nn.constant dense<[0.5, 0.25]> : tensor<2xf32>
// CONSTANT: %mean = nn.constant dense<[0.0, 1.0]> : tensor<2xf32>
// CONSTANT: %variance = nn.constant dense<[3.0, 0.0]> : tensor<2xf32>

// Batch norms in front of a convolution. k = scale / sqrt(variance + 1) = [1, -2], shift = offset - mean * k = [0.5, 2.25].

// The factors go to the input channels, the shifts through the weight into the bias: [1*0.5 + 3*2.25, 5*0.5 + 7*2.25].
// CHECK-LABEL: @conv
// CHECK-DAG:   [[W:%.*]] = nn.constant dense<{{\[\[\[\[}}1.000000e+00]], {{\[\[}}-6.000000e+00]]], {{\[\[\[}}5.000000e+00]], {{\[\[}}-1.400000e+01]]]]> : tensor<2x2x1x1xf32>
// CHECK-DAG:   [[B:%.*]] = nn.constant dense<[7.250000e+00, 1.825000e+01]> : tensor<2xf32>
// CHECK:       [[Y:%.*]] = nn.conv %x, [[W]], [[B]]
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-bn applied batch-norm-compute] "conv": fused into conv
func.func @conv(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %n = nn.batch_norm %x, %scale, %offset, %mean, %variance epsilon 1.0 from <caffe, "BatchNorm", "bn1"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.conv %n, %weight from <caffe, "Convolution", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// An existing bias is added to.
// CHECK-LABEL: @bias
// CHECK-DAG:   nn.constant dense<[8.250000e+00, 1.925000e+01]> : tensor<2xf32>
// CHECK-NOT:   nn.batch_norm
// REMARK:      [fuse-bn applied batch-norm-compute] "biased"
func.func @bias(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %one = nn.constant dense<1.0> : tensor<2xf32>
  %n = nn.batch_norm %x, %scale, %offset, %mean, %variance epsilon 1.0 from <caffe, "BatchNorm", "bn1"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.conv %n, %weight, %one from <caffe, "Convolution", "biased"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Groups: each output channel sees the inputs of its group.
// CHECK-LABEL: @groups
// CHECK-DAG:   nn.constant dense<{{\[\[\[\[}}3.000000e+00]]], {{\[\[\[}}-1.000000e+01]]]]> : tensor<2x1x1x1xf32>
// CHECK-DAG:   nn.constant dense<[1.500000e+00, 1.125000e+01]> : tensor<2xf32>
// CHECK-NOT:   nn.batch_norm
// REMARK:      [fuse-bn applied batch-norm-compute] "depthwise"
func.func @groups(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %weight = nn.constant dense<[[[[3.0]]], [[[5.0]]]]> : tensor<2x1x1x1xf32>
  %n = nn.batch_norm %x, %scale, %offset, %mean, %variance epsilon 1.0 from <caffe, "BatchNorm", "bn1"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.conv %n, %weight groups 2 from <caffe, "Convolution", "depthwise"> : (tensor<1x2x4x4xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// A matrix product: the factors go to the rows of the weight.
// CHECK-LABEL: @matmul
// CHECK-DAG:   nn.constant dense<{{\[\[}}1.000000e+00, 3.000000e+00], [-1.000000e+01, -1.400000e+01]]> : tensor<2x2xf32>
// CHECK-DAG:   nn.constant dense<[1.175000e+01, 1.725000e+01]> : tensor<2xf32>
// CHECK-NOT:   nn.batch_norm
// REMARK:      [fuse-bn applied batch-norm-compute] "fc"
func.func @matmul(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %weight = nn.constant dense<[[1.0, 3.0], [5.0, 7.0]]> : tensor<2x2xf32>
  %n = nn.batch_norm %x, %scale, %offset, %mean, %variance epsilon 1.0 from <caffe, "BatchNorm", "bn1"> : (tensor<3x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %y = nn.matmul %n, %weight from <caffe, "InnerProduct", "fc"> : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// -----

// A transposed convolution that takes one element.
// CHECK-LABEL: @transpose_pointwise
// CHECK-NOT:   nn.batch_norm
// REMARK:      [fuse-bn applied batch-norm-compute] "pointwise"
func.func @transpose_pointwise(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %n = nn.batch_norm %x, %scale, %offset, %mean, %variance epsilon 1.0 from <caffe, "BatchNorm", "bn1"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.conv_transpose %n, %weight from <caffe, "Convolution", "pointwise"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Zero shifts do no harm to padding.
// CHECK-LABEL: @zero_shift
// CHECK-NOT:   nn.batch_norm
// REMARK:      [fuse-bn applied batch-norm-compute] "padded"
func.func @zero_shift(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x5x5xf32> {
  %weight = nn.constant dense<1.0> : tensor<2x2x2x2xf32>
  %offset = nn.constant dense<0.0> : tensor<2xf32>
  %mean = nn.constant dense<0.0> : tensor<2xf32>
  %n = nn.batch_norm %x, %scale, %offset, %mean, %variance epsilon 1.0 from <caffe, "BatchNorm", "bn1"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.conv %n, %weight pads [1, 1, 1, 1] from <caffe, "Convolution", "padded"> : (tensor<1x2x4x4xf32>, tensor<2x2x2x2xf32>) -> tensor<1x2x5x5xf32>
  func.return %y : tensor<1x2x5x5xf32>
}

// -----

// Not fused: the shift would have to move the zeros of the padding.
// CHECK-LABEL: @padding
// CHECK:       nn.batch_norm
// REMARK:      [fuse-bn missed shift-meets-no-border] "border": it pads by [1, 1, 1, 1] with zeros, which the shift would have to move
func.func @padding(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x5x5xf32> {
  %weight = nn.constant dense<1.0> : tensor<2x2x2x2xf32>
  %n = nn.batch_norm %x, %scale, %offset, %mean, %variance epsilon 1.0 from <caffe, "BatchNorm", "bn1"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.conv %n, %weight pads [1, 1, 1, 1] from <caffe, "Convolution", "border"> : (tensor<1x2x4x4xf32>, tensor<2x2x2x2xf32>) -> tensor<1x2x5x5xf32>
  func.return %y : tensor<1x2x5x5xf32>
}

// -----

// Not fused: at the borders of a transposed convolution fewer inputs meet.
// CHECK-LABEL: @transpose
// CHECK:       nn.batch_norm
// REMARK:      [fuse-bn missed shift-meets-no-border] "deconv": the windows of a transposed convolution differ at its borders
func.func @transpose(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x5x5xf32> {
  %weight = nn.constant dense<1.0> : tensor<2x2x2x2xf32>
  %n = nn.batch_norm %x, %scale, %offset, %mean, %variance epsilon 1.0 from <caffe, "BatchNorm", "bn1"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.conv_transpose %n, %weight from <caffe, "Convolution", "deconv"> : (tensor<1x2x4x4xf32>, tensor<2x2x2x2xf32>) -> tensor<1x2x5x5xf32>
  func.return %y : tensor<1x2x5x5xf32>
}

// -----

// Not fused: what SAME padding is depends on sizes that are not known.
// CHECK-LABEL: @same
// CHECK:       nn.batch_norm
// REMARK:      [fuse-bn missed shift-meets-no-border] "same": the padding is not known before run time
func.func @same(%x: tensor<1x2x?x?xf32>) -> tensor<1x2x?x?xf32> {
  %weight = nn.constant dense<1.0> : tensor<2x2x2x2xf32>
  %n = nn.batch_norm %x, %scale, %offset, %mean, %variance epsilon 1.0 from <caffe, "BatchNorm", "bn1"> : (tensor<1x2x?x?xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x?x?xf32>
  %y = nn.conv %n, %weight auto_pad same_upper from <caffe, "Convolution", "same"> : (tensor<1x2x?x?xf32>, tensor<2x2x2x2xf32>) -> tensor<1x2x?x?xf32>
  func.return %y : tensor<1x2x?x?xf32>
}

// -----

// Not fused: the norm has another use.
// CHECK-LABEL: @used
// CHECK:       nn.batch_norm
// REMARK:      [fuse-bn missed norm-used-once] "used": the result of bn1 has 2 uses
func.func @used(%x: tensor<1x2x4x4xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) {
  %n = nn.batch_norm %x, %scale, %offset, %mean, %variance epsilon 1.0 from <caffe, "BatchNorm", "bn1"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.conv %n, %weight from <caffe, "Convolution", "used"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  func.return %n, %y : tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>
}

// -----

// Not fused: the weight is an input.
// CHECK-LABEL: @weight_input
// CHECK:       nn.batch_norm
// REMARK:      [fuse-bn missed weights-constant] "input": the weight is computed at run time
func.func @weight_input(%x: tensor<1x2x4x4xf32>, %weight: tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32> {
  %n = nn.batch_norm %x, %scale, %offset, %mean, %variance epsilon 1.0 from <caffe, "BatchNorm", "bn1"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.conv %n, %weight from <caffe, "Convolution", "input"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Not fused: a parameter of the norm is an input.
// CHECK-LABEL: @parameter
// CHECK:       nn.batch_norm
// REMARK:      [fuse-bn missed parameters-constant] "parameter": its offset is computed at run time
func.func @parameter(%x: tensor<1x2x4x4xf32>, %beta: tensor<2xf32>) -> tensor<1x2x4x4xf32> {
  %offset = nn.constant dense<[0.5, 0.25]> : tensor<2xf32>
  %n = nn.batch_norm %x, %scale, %beta, %mean, %variance epsilon 1.0 from <caffe, "BatchNorm", "bn1"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.conv %n, %weight from <caffe, "Convolution", "parameter"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Not fused: the norm works on the last axis, the convolution sums over axis 1.
// CHECK-LABEL: @axis
// CHECK:       nn.batch_norm
// REMARK:      [fuse-bn missed normalizes-input-channels] "axis": it normalizes axis 3, the input channels are axis 1
func.func @axis(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %n = nn.batch_norm %x, %scale, %offset, %mean, %variance epsilon 1.0 layout nhwc from <caffe, "BatchNorm", "bn1"> : (tensor<1x2x2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %y = nn.conv %n, %weight from <caffe, "Convolution", "axis"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// Not fused: a matrix for each sample would need a bias for each.
// CHECK-LABEL: @batched
// CHECK:       nn.batch_norm
// REMARK:      [fuse-bn missed one-matrix] "batched": the right operand is of rank 3
func.func @batched(%x: tensor<3x4x2xf32>) -> tensor<3x4x2xf32> {
  %weight = nn.constant dense<1.0> : tensor<3x2x2xf32>
  %n = nn.batch_norm %x, %scale, %offset, %mean, %variance epsilon 1.0 layout nhwc from <caffe, "BatchNorm", "bn1"> : (tensor<3x4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<3x4x2xf32>
  %y = nn.matmul %n, %weight from <onnx, "MatMul", "batched"> : (tensor<3x4x2xf32>, tensor<3x2x2xf32>) -> tensor<3x4x2xf32>
  func.return %y : tensor<3x4x2xf32>
}
