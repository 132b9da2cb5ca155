// RUN: ROUNDTRIP | filecheck %s

// Convolutions: every property once, absent ones at their defaults.

// CHECK-LABEL: func.func @conv(
func.func @conv(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>, %b: tensor<6xf32>) {
  // CHECK-NEXT: %plain = nn.conv %x, %w : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  %plain = nn.conv %x, %w : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  // CHECK-NEXT: %bias = nn.conv %x, %w, %b strides [2, 1] pads [1, 0, 1, 2] dilations [1, 2] : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>, tensor<6xf32>) -> tensor<1x6x4x6xf32>
  %bias = nn.conv %x, %w, %b strides [2, 1] pads [1, 0, 1, 2] dilations [1, 2] : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>, tensor<6xf32>) -> tensor<1x6x4x6xf32>
  // CHECK-NEXT: %same = nn.conv %x, %w strides [3, 3] auto_pad same_upper from <onnx, "Conv", "stem/conv", {kernel_shape = [3 : i64, 3 : i64]}> : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x3x3xf32>
  %same = nn.conv %x, %w strides [3, 3] auto_pad same_upper from <onnx, "Conv", "stem/conv", {kernel_shape = [3 : i64, 3 : i64]}> : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x3x3xf32>
  // CHECK-NEXT: %lower = nn.conv %x, %w auto_pad same_lower {note = "kept"} : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x8x8xf32>
  %lower = nn.conv %x, %w auto_pad same_lower {note = "kept"} : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x8x8xf32>
  // CHECK-NEXT: func.return
  func.return
}

// Depthwise and channels last, with a batch and a size that are not known.
// CHECK-LABEL: func.func @depthwise(
func.func @depthwise(%x: tensor<?x?x9x8xf16>, %w: tensor<16x1x3x3xf16>) {
  // CHECK-NEXT: %y = nn.conv %x, %w groups 8 pads [1, 1, 1, 1] layout nhwc : (tensor<?x?x9x8xf16>, tensor<16x1x3x3xf16>) -> tensor<?x?x9x16xf16>
  %y = nn.conv %x, %w groups 8 pads [1, 1, 1, 1] layout nhwc : (tensor<?x?x9x8xf16>, tensor<16x1x3x3xf16>) -> tensor<?x?x9x16xf16>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @spatial_ranks(
func.func @spatial_ranks(%x: tensor<1x2x7xf32>, %w: tensor<3x2x3xf32>, %v: tensor<1x2x5x6x7xf32>, %k: tensor<4x1x2x2x2xf32>) {
  // CHECK-NEXT: %one = nn.conv %x, %w : (tensor<1x2x7xf32>, tensor<3x2x3xf32>) -> tensor<1x3x5xf32>
  %one = nn.conv %x, %w : (tensor<1x2x7xf32>, tensor<3x2x3xf32>) -> tensor<1x3x5xf32>
  // CHECK-NEXT: %three = nn.conv %v, %k groups 2 : (tensor<1x2x5x6x7xf32>, tensor<4x1x2x2x2xf32>) -> tensor<1x4x4x5x6xf32>
  %three = nn.conv %v, %k groups 2 : (tensor<1x2x5x6x7xf32>, tensor<4x1x2x2x2xf32>) -> tensor<1x4x4x5x6xf32>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @transposed(
func.func @transposed(%x: tensor<1x4x5x5xf32>, %w: tensor<4x3x3x3xf32>, %b: tensor<6xf32>, %d: tensor<1x?x?x4xf32>) {
  // CHECK-NEXT: %plain = nn.conv_transpose %x, %w : (tensor<1x4x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x3x7x7xf32>
  %plain = nn.conv_transpose %x, %w : (tensor<1x4x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x3x7x7xf32>
  // CHECK-NEXT: %all = nn.conv_transpose %x, %w, %b output_padding [1, 0] groups 2 strides [2, 2] pads [1, 1, 1, 1] dilations [1, 2] : (tensor<1x4x5x5xf32>, tensor<4x3x3x3xf32>, tensor<6xf32>) -> tensor<1x6x10x11xf32>
  %all = nn.conv_transpose %x, %w, %b output_padding [1, 0] groups 2 strides [2, 2] pads [1, 1, 1, 1] dilations [1, 2] : (tensor<1x4x5x5xf32>, tensor<4x3x3x3xf32>, tensor<6xf32>) -> tensor<1x6x10x11xf32>
  // CHECK-NEXT: %shape = nn.conv_transpose %x, %w output_shape [10, 10] strides [2, 2] : (tensor<1x4x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x3x10x10xf32>
  %shape = nn.conv_transpose %x, %w output_shape [10, 10] strides [2, 2] : (tensor<1x4x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x3x10x10xf32>
  // CHECK-NEXT: %same = nn.conv_transpose %d, %w strides [2, 2] auto_pad same_upper layout nhwc : (tensor<1x?x?x4xf32>, tensor<4x3x3x3xf32>) -> tensor<1x?x?x3xf32>
  %same = nn.conv_transpose %d, %w strides [2, 2] auto_pad same_upper layout nhwc : (tensor<1x?x?x4xf32>, tensor<4x3x3x3xf32>) -> tensor<1x?x?x3xf32>
  // CHECK-NEXT: func.return
  func.return
}
