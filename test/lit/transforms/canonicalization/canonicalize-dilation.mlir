// RUN: amct-opt %s --canonicalize --split-input-file --print-debuginfo | filecheck %s
// RUN: amct-opt %s --canonicalize --split-input-file --remarks=all 2>&1 >/dev/null | filecheck %s --check-prefix REMARK

// TensorFlow's SAME padding of a dilated convolution: pads 2 and 3, of which 1 only fills up the last block and is cropped.
// CHECK-LABEL: @dilated
// CHECK-NEXT:  nn.conv %x, %w pads [2, 2, 2, 2] dilations [2, 2] layout nhwc from <tensorflow, "Conv2D", "c"> {{.*}} -> tensor<?x7x7x4xf32> loc(fused["s", "c", "b"])
// REMARK:      [canonicalize applied dilation] "b": c is a convolution with dilations [2, 2]
func.func @dilated(%x: tensor<?x7x7x3xf32>, %w: tensor<4x3x3x3xf32>) -> tensor<?x7x7x4xf32> {
  %s = nn.space_to_batch %x block [2, 2] pads [2, 2, 3, 3] layout nhwc : (tensor<?x7x7x3xf32>) -> tensor<?x6x6x3xf32> loc("s")
  %c = nn.conv %s, %w layout nhwc from <tensorflow, "Conv2D", "c"> : (tensor<?x6x6x3xf32>, tensor<4x3x3x3xf32>) -> tensor<?x4x4x4xf32> loc("c")
  %b = nn.batch_to_space %c block [2, 2] crops [0, 0, 1, 1] layout nhwc : (tensor<?x4x4x4xf32>) -> tensor<?x7x7x4xf32> loc("b")
  func.return %b : tensor<?x7x7x4xf32>
}

// -----

// A block of the first axis only, and pads of the convolution itself, which every block gets.
// CHECK-LABEL: @own_pads
// CHECK-NEXT:  nn.conv %x, %w pads [3, 1, 3, 1] dilations [3, 1]
func.func @own_pads(%x: tensor<1x3x9x5xf32>, %w: tensor<4x3x3x3xf32>) -> tensor<1x4x9x5xf32> {
  %s = nn.space_to_batch %x block [3] pads [0, 0] : (tensor<1x3x9x5xf32>) -> tensor<3x3x3x5xf32>
  %c = nn.conv %s, %w pads [1, 1, 1, 1] : (tensor<3x3x3x5xf32>, tensor<4x3x3x3xf32>) -> tensor<3x4x3x5xf32>
  %b = nn.batch_to_space %c block [3] crops [0, 0] : (tensor<3x4x3x5xf32>) -> tensor<1x4x9x5xf32>
  func.return %b : tensor<1x4x9x5xf32>
}

// -----

// CHECK-LABEL: @blocks
// CHECK:       nn.batch_to_space
// REMARK:      [canonicalize missed same-blocks] "b": blocks [4] and [2] differ
func.func @blocks(%x: tensor<1x3x8xf32>, %w: tensor<4x3x1xf32>) -> tensor<2x4x4xf32> {
  %s = nn.space_to_batch %x block [4] pads [0, 0] : (tensor<1x3x8xf32>) -> tensor<4x3x2xf32>
  %c = nn.conv %s, %w : (tensor<4x3x2xf32>, tensor<4x3x1xf32>) -> tensor<4x4x2xf32>
  %b = nn.batch_to_space %c block [2] crops [0, 0] : (tensor<4x4x2xf32>) -> tensor<2x4x4xf32>
  func.return %b : tensor<2x4x4xf32>
}

// -----

// CHECK-LABEL: @layout
// CHECK:       nn.batch_to_space
// REMARK:      [canonicalize missed same-layout] "b": the three have different layouts
func.func @layout(%x: tensor<1x3x3xf32>, %w: tensor<3x3x1xf32>) -> tensor<1x3x3xf32> {
  %s = nn.space_to_batch %x block [1] pads [0, 0] layout nhwc : tensor<1x3x3xf32>
  %c = nn.conv %s, %w : (tensor<1x3x3xf32>, tensor<3x3x1xf32>) -> tensor<1x3x3xf32>
  %b = nn.batch_to_space %c block [1] crops [0, 0] : tensor<1x3x3xf32>
  func.return %b : tensor<1x3x3xf32>
}

// -----

// CHECK-LABEL: @second_use
// CHECK:       nn.batch_to_space
// REMARK:      [canonicalize missed used-once] "b": the result of c is used elsewhere
func.func @second_use(%x: tensor<1x3x8xf32>, %w: tensor<4x3x1xf32>) -> (tensor<1x4x8xf32>, tensor<2x4x4xf32>) {
  %s = nn.space_to_batch %x block [2] pads [0, 0] : (tensor<1x3x8xf32>) -> tensor<2x3x4xf32>
  %c = nn.conv %s, %w : (tensor<2x3x4xf32>, tensor<4x3x1xf32>) -> tensor<2x4x4xf32>
  %b = nn.batch_to_space %c block [2] crops [0, 0] : (tensor<2x4x4xf32>) -> tensor<1x4x8xf32>
  func.return %b, %c : tensor<1x4x8xf32>, tensor<2x4x4xf32>
}

// -----

// CHECK-LABEL: @stride
// CHECK:       nn.batch_to_space
// REMARK:      [canonicalize missed stride-one] "b": c has strides [2]
func.func @stride(%x: tensor<1x3x8xf32>, %w: tensor<4x3x1xf32>) -> tensor<1x4x4xf32> {
  %s = nn.space_to_batch %x block [2] pads [0, 0] : (tensor<1x3x8xf32>) -> tensor<2x3x4xf32>
  %c = nn.conv %s, %w strides [2] : (tensor<2x3x4xf32>, tensor<4x3x1xf32>) -> tensor<2x4x2xf32>
  %b = nn.batch_to_space %c block [2] crops [0, 0] : (tensor<2x4x2xf32>) -> tensor<1x4x4xf32>
  func.return %b : tensor<1x4x4xf32>
}

// -----

// CHECK-LABEL: @auto_pad
// CHECK:       nn.batch_to_space
// REMARK:      [canonicalize missed explicit-pads] "b": the pads of c follow from sizes (auto_pad)
func.func @auto_pad(%x: tensor<1x3x8xf32>, %w: tensor<4x3x3xf32>) -> tensor<1x4x8xf32> {
  %s = nn.space_to_batch %x block [2] pads [0, 0] : (tensor<1x3x8xf32>) -> tensor<2x3x4xf32>
  %c = nn.conv %s, %w auto_pad same_upper : (tensor<2x3x4xf32>, tensor<4x3x3xf32>) -> tensor<2x4x4xf32>
  %b = nn.batch_to_space %c block [2] crops [0, 0] : (tensor<2x4x4xf32>) -> tensor<1x4x8xf32>
  func.return %b : tensor<1x4x8xf32>
}

// -----

// CHECK-LABEL: @crops
// CHECK:       nn.batch_to_space
// REMARK:      [canonicalize missed crops-within-pads] "b": the crops take away more than the padding added
func.func @crops(%x: tensor<1x3x7xf32>, %w: tensor<4x3x1xf32>) -> tensor<1x4x6xf32> {
  %s = nn.space_to_batch %x block [2] pads [0, 1] : (tensor<1x3x7xf32>) -> tensor<2x3x4xf32>
  %c = nn.conv %s, %w : (tensor<2x3x4xf32>, tensor<4x3x1xf32>) -> tensor<2x4x4xf32>
  %b = nn.batch_to_space %c block [2] crops [1, 1] : (tensor<2x4x4xf32>) -> tensor<1x4x6xf32>
  func.return %b : tensor<1x4x6xf32>
}
