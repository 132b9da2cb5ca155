// RUN: amct-opt %s --lower-to-ascend --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// Float convolutions keep their operands.
// CHECK-LABEL: @float
// CHECK-NEXT:    %y = ascend.Conv2D %x, %w, %b strides [1, 1, 1, 1] pads [1, 1, 1, 1] data_format "NCHW" from <onnx, "Conv", "c"> : (tensor<?x3x8x8xf32>, tensor<2x3x3x3xf32>, tensor<2xf32>) -> tensor<?x2x8x8xf32>
// REMARK:      [lower-to-ascend applied lower] "c": computed by ascend.Conv2D
func.func @float(%x: tensor<?x3x8x8xf32>, %w: tensor<2x3x3x3xf32>, %b: tensor<2xf32>) -> tensor<?x2x8x8xf32> {
  %y = nn.conv %x, %w, %b pads [1, 1, 1, 1] from <onnx, "Conv", "c"> : (tensor<?x3x8x8xf32>, tensor<2x3x3x3xf32>, tensor<2xf32>) -> tensor<?x2x8x8xf32>
  func.return %y : tensor<?x2x8x8xf32>
}

// -----

// SAME padding is written out where sizes are known: 8 by stride 3 needs 1 element, at the end.
// CHECK-LABEL: @same
// CHECK:         strides [1, 1, 3, 3] pads [0, 1, 0, 1]
// REMARK:      [lower-to-ascend applied lower] "y"
func.func @same(%x: tensor<?x3x8x8xf32>, %w: tensor<2x3x3x3xf32>) -> tensor<?x2x3x3xf32> {
  %y = nn.conv %x, %w strides [3, 3] auto_pad same_upper : (tensor<?x3x8x8xf32>, tensor<2x3x3x3xf32>) -> tensor<?x2x3x3xf32>
  func.return %y : tensor<?x2x3x3xf32>
}

// -----

// Where they are not known it stays in nn.
// CHECK-LABEL: @known_pads
// CHECK:         %y = nn.
// REMARK:      [lower-to-ascend missed known-pads] "y": its auto_pad depends on sizes that are not known
func.func @known_pads(%x: tensor<1x3x?x?xf32>, %w: tensor<2x3x3x3xf32>) -> tensor<1x2x?x?xf32> {
  %y = nn.conv %x, %w strides [3, 3] auto_pad same_upper : (tensor<1x3x?x?xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x?x?xf32>
  func.return %y : tensor<1x2x?x?xf32>
}

// -----

// There is no convolution over four axes.
// CHECK-LABEL: @spatial_rank
// CHECK:         %y = nn.
// REMARK:      [lower-to-ascend missed spatial-rank] "y": there is no convolution with 4 spatial axes
func.func @spatial_rank(%x: tensor<1x1x2x2x2x2xf32>, %w: tensor<1x1x2x2x2x2xf32>) -> tensor<1x1x1x1x1x1xf32> {
  %y = nn.conv %x, %w : (tensor<1x1x2x2x2x2xf32>, tensor<1x1x2x2x2x2xf32>) -> tensor<1x1x1x1x1x1xf32>
  func.return %y : tensor<1x1x1x1x1x1xf32>
}

// -----

// Nor a transposed one over three.
// CHECK-LABEL: @transposed_rank
// CHECK:         %y = nn.
// REMARK:      [lower-to-ascend missed spatial-rank] "y": there is no Conv3DTranspose
func.func @transposed_rank(%x: tensor<1x1x3x3x3xf32>, %w: tensor<1x1x3x3x3xf32>) -> tensor<1x1x5x5x5xf32> {
  %y = nn.conv_transpose %x, %w : (tensor<1x1x3x3x3xf32>, tensor<1x1x3x3x3xf32>) -> tensor<1x1x5x5x5xf32>
  func.return %y : tensor<1x1x5x5x5xf32>
}

// -----

// An output larger than the windows reach.
// CHECK-LABEL: @pads
// CHECK:         %y = nn.
// REMARK:      [lower-to-ascend missed pads] "y": its output_shape asks for more than the windows cover
func.func @pads(%x: tensor<1x1x3x3xf32>, %w: tensor<1x1x3x3xf32>) -> tensor<1x1x6x6xf32> {
  %y = nn.conv_transpose %x, %w output_shape [6, 6] : (tensor<1x1x3x3xf32>, tensor<1x1x3x3xf32>) -> tensor<1x1x6x6xf32>
  func.return %y : tensor<1x1x6x6xf32>
}

// -----

// A dilated transposed convolution.
// CHECK-LABEL: @transposed_dilation
// CHECK:         %y = nn.
// REMARK:      [lower-to-ascend missed ascend-constraint] "y": dilations [1, 1, 2, 2] must be 1
func.func @transposed_dilation(%x: tensor<1x1x3x3xf32>, %w: tensor<1x1x3x3xf32>) -> tensor<1x1x7x7xf32> {
  %y = nn.conv_transpose %x, %w dilations [2, 2] : (tensor<1x1x3x3xf32>, tensor<1x1x3x3xf32>) -> tensor<1x1x7x7xf32>
  func.return %y : tensor<1x1x7x7xf32>
}

// -----

// Channels last with a weight that is computed at run time, and one that comes in the order of ascend.
// CHECK-LABEL: @computed_weight
// CHECK:         %y_filter_perm = nn.constant dense<[2, 3, 1, 0]> : tensor<4xi64>
// CHECK-NEXT:    %y_filter = ascend.Transpose %w, %y_filter_perm : (tensor<2x3x3x3xf32>, tensor<4xi64>) -> tensor<3x3x3x2xf32>
// CHECK-NEXT:    ascend.Conv2D %x, %y_filter
func.func @computed_weight(%x: tensor<1x8x8x3xf32>, %w: tensor<2x3x3x3xf32>) -> tensor<1x6x6x2xf32> {
  %y = nn.conv %x, %w layout nhwc : (tensor<1x8x8x3xf32>, tensor<2x3x3x3xf32>) -> tensor<1x6x6x2xf32>
  func.return %y : tensor<1x6x6x2xf32>
}

// CHECK-LABEL: @transposed_weight
// CHECK-NOT:     Transpose
// CHECK:         ascend.Conv2D %x, %w
func.func @transposed_weight(%x: tensor<1x8x8x3xf32>, %w: tensor<3x3x3x2xf32>) -> tensor<1x6x6x2xf32> {
  %t = nn.transpose %w perm [3, 2, 0, 1] : (tensor<3x3x3x2xf32>) -> tensor<2x3x3x3xf32>
  %y = nn.conv %x, %t layout nhwc : (tensor<1x8x8x3xf32>, tensor<2x3x3x3xf32>) -> tensor<1x6x6x2xf32>
  func.return %y : tensor<1x6x6x2xf32>
}

// -----

// A weight of unknown size.
// CHECK-LABEL: @known_sizes
// CHECK:         %y = nn.
// REMARK:      [lower-to-ascend missed known-sizes] "y": the sizes of its weight are not known
func.func @known_sizes(%x: tensor<?x3x8x8xf32>, %w: tensor<2x3x?x?xf32>) -> tensor<?x2x?x?xf32> {
  %y = nn.conv %x, %w : (tensor<?x3x8x8xf32>, tensor<2x3x?x?xf32>) -> tensor<?x2x?x?xf32>
  func.return %y : tensor<?x2x?x?xf32>
}

// -----

// Beyond what the device takes.
// CHECK-LABEL: @stride_limit
// CHECK:         %y = nn.
// REMARK:      [lower-to-ascend missed ascend-constraint] "y": stride 64 is not in [1, 63]
func.func @stride_limit(%x: tensor<?x3x8x8xf32>, %w: tensor<2x3x3x3xf32>) -> tensor<?x2x1x6xf32> {
  %y = nn.conv %x, %w strides [64, 1] : (tensor<?x3x8x8xf32>, tensor<2x3x3x3xf32>) -> tensor<?x2x1x6xf32>
  func.return %y : tensor<?x2x1x6xf32>
}
