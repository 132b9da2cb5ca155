// RUN: ROUNDTRIP | filecheck %s

// Pooling over windows, and over all of space.

// CHECK-LABEL: func.func @windows(
func.func @windows(%x: tensor<?x3x7x?xf32>, %y: tensor<1x7x9x3xf32>, %line: tensor<1x2x10xf32>) {
  // CHECK-NEXT: %max = nn.max_pool %x kernel [3, 2] ceil_mode strides [2, 2] pads [1, 0, 1, 0] : (tensor<?x3x7x?xf32>) -> tensor<?x3x4x?xf32>
  %max = nn.max_pool %x kernel [3, 2] ceil_mode strides [2, 2] pads [1, 0, 1, 0] : (tensor<?x3x7x?xf32>) -> tensor<?x3x4x?xf32>
  // CHECK-NEXT: %dilated = nn.max_pool %y kernel [3, 3] dilations [2, 3] layout nhwc : (tensor<1x7x9x3xf32>) -> tensor<1x3x3x3xf32>
  %dilated = nn.max_pool %y kernel [3, 3] dilations [2, 3] layout nhwc : (tensor<1x7x9x3xf32>) -> tensor<1x3x3x3xf32>
  // CHECK-NEXT: %even = nn.max_pool %x kernel [2, 2] strides [3, 3] auto_pad same_upper : (tensor<?x3x7x?xf32>) -> tensor<?x3x3x?xf32>
  %even = nn.max_pool %x kernel [2, 2] strides [3, 3] auto_pad same_upper : (tensor<?x3x7x?xf32>) -> tensor<?x3x3x?xf32>
  // CHECK-NEXT: %mean = nn.average_pool %x kernel [2, 2] auto_pad same_lower : tensor<?x3x7x?xf32>
  %mean = nn.average_pool %x kernel [2, 2] auto_pad same_lower : tensor<?x3x7x?xf32>
  // CHECK-NEXT: %counted = nn.average_pool %line count_include_pad kernel [4] ceil_mode strides [3] pads [1, 1] dilations [2] : (tensor<1x2x10xf32>) -> tensor<1x2x3xf32>
  %counted = nn.average_pool %line count_include_pad kernel [4] ceil_mode strides [3] pads [1, 1] dilations [2] : (tensor<1x2x10xf32>) -> tensor<1x2x3xf32>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @global(
func.func @global(%x: tensor<?x3x7x?xf32>) {
  // CHECK-NEXT: %mean = nn.global_average_pool %x : (tensor<?x3x7x?xf32>) -> tensor<?x3x1x1xf32>
  %mean = nn.global_average_pool %x : (tensor<?x3x7x?xf32>) -> tensor<?x3x1x1xf32>
  // CHECK-NEXT: %max = nn.global_max_pool %x layout nhwc : (tensor<?x3x7x?xf32>) -> tensor<?x1x1x?xf32>
  %max = nn.global_max_pool %x layout nhwc : (tensor<?x3x7x?xf32>) -> tensor<?x1x1x?xf32>
  // CHECK-NEXT: func.return
  func.return
}
