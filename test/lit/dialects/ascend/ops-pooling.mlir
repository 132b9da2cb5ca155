// RUN: ROUNDTRIP | filecheck %s

// Pooling: padding given, SAME and VALID, all of space.

// CHECK-LABEL: func.func @max_pool(
func.func @max_pool(%x: tensor<?x4x9x8xf32>, %i: tensor<1x4x9x8xi8>) {
  // CHECK-NEXT: %plain = ascend.MaxPoolV3 %x ksize [1, 1, 2, 2] strides [1, 1, 2, 2] : (tensor<?x4x9x8xf32>) -> tensor<?x4x4x4xf32>
  %plain = ascend.MaxPoolV3 %x ksize [1, 1, 2, 2] strides [1, 1, 2, 2] : (tensor<?x4x9x8xf32>) -> tensor<?x4x4x4xf32>
  // CHECK-NEXT: %up = ascend.MaxPoolV3 %x ksize [1, 1, 2, 2] strides [1, 1, 2, 2] ceil_mode true : (tensor<?x4x9x8xf32>) -> tensor<?x4x5x4xf32>
  %up = ascend.MaxPoolV3 %x ksize [1, 1, 2, 2] strides [1, 1, 2, 2] ceil_mode true : (tensor<?x4x9x8xf32>) -> tensor<?x4x5x4xf32>
  // CHECK-NEXT: %pads = ascend.MaxPoolV3 %i ksize [1, 1, 3, 3] strides [1, 1, 2, 2] pads [1, 0, 0, 1] : (tensor<1x4x9x8xi8>) -> tensor<1x4x4x4xi8>
  %pads = ascend.MaxPoolV3 %i ksize [1, 1, 3, 3] strides [1, 1, 2, 2] pads [1, 0, 0, 1] : (tensor<1x4x9x8xi8>) -> tensor<1x4x4x4xi8>
  // CHECK-NEXT: %last = ascend.MaxPoolV3 %x ksize [1, 3, 3, 1] strides [1, 1, 1, 1] padding_mode "VALID" data_format "NHWC" : (tensor<?x4x9x8xf32>) -> tensor<?x2x7x8xf32>
  %last = ascend.MaxPoolV3 %x ksize [1, 3, 3, 1] strides [1, 1, 1, 1] padding_mode "VALID" data_format "NHWC" : (tensor<?x4x9x8xf32>) -> tensor<?x2x7x8xf32>
  // CHECK-NEXT: func.return
  func.return
}

// Unknown sizes keep SAME.
// CHECK-LABEL: func.func @average_pool(
func.func @average_pool(%x: tensor<1x?x?x4xf16>, %i: tensor<1x4x9x8xi8>) {
  // CHECK-NEXT: %same = ascend.AvgPoolV2 %x ksize [1, 3, 3, 1] strides [1, 2, 2, 1] padding_mode "SAME" data_format "NHWC" : tensor<1x?x?x4xf16>
  %same = ascend.AvgPoolV2 %x ksize [1, 3, 3, 1] strides [1, 2, 2, 1] padding_mode "SAME" data_format "NHWC" : tensor<1x?x?x4xf16>
  // CHECK-NEXT: %all = ascend.AvgPoolV2 %x ksize [1, 1, 1, 1] strides [1, 1, 1, 1] data_format "NHWC" global_pooling true : (tensor<1x?x?x4xf16>) -> tensor<1x1x1x4xf16>
  %all = ascend.AvgPoolV2 %x ksize [1, 1, 1, 1] strides [1, 1, 1, 1] data_format "NHWC" global_pooling true : (tensor<1x?x?x4xf16>) -> tensor<1x1x1x4xf16>
  // CHECK-NEXT: %sum = ascend.AvgPoolV2 %i exclusive false offset_x -128 ksize [1, 1, 3, 3] strides [1, 1, 2, 2] pads [1, 1, 1, 1] : (tensor<1x4x9x8xi8>) -> tensor<1x4x5x4xi32>
  %sum = ascend.AvgPoolV2 %i exclusive false offset_x -128 ksize [1, 1, 3, 3] strides [1, 1, 2, 2] pads [1, 1, 1, 1] : (tensor<1x4x9x8xi8>) -> tensor<1x4x5x4xi32>
  // CHECK-NEXT: func.return
  func.return
}

// TensorFlow's and Caffe's.
// CHECK-LABEL: func.func @others(
func.func @others(%x: tensor<1x?x?x4xf32>, %i: tensor<1x9x8x4xi8>, %c: tensor<1x4x9x8xf16>, %j: tensor<1x4x9x8xi8>) {
  // CHECK-NEXT: %a = ascend.MaxPool %x ksize [1, 2, 2, 1] strides [1, 2, 2, 1] padding "SAME" : tensor<1x?x?x4xf32>
  %a = ascend.MaxPool %x ksize [1, 2, 2, 1] strides [1, 2, 2, 1] padding "SAME" : tensor<1x?x?x4xf32>
  // CHECK-NEXT: %b = ascend.AvgPool %i ksize [1, 2, 2, 1] strides [1, 2, 2, 1] padding "VALID" offset_x -3 : (tensor<1x9x8x4xi8>) -> tensor<1x4x4x4xi32>
  %b = ascend.AvgPool %i ksize [1, 2, 2, 1] strides [1, 2, 2, 1] padding "VALID" offset_x -3 : (tensor<1x9x8x4xi8>) -> tensor<1x4x4x4xi32>
  // CHECK-NEXT: %d = ascend.AvgPool %c ksize [1, 1, 2, 2] strides [1, 1, 2, 2] padding "SAME" data_format "NCHW" : (tensor<1x4x9x8xf16>) -> tensor<1x4x5x4xf16>
  %d = ascend.AvgPool %c ksize [1, 1, 2, 2] strides [1, 1, 2, 2] padding "SAME" data_format "NCHW" : (tensor<1x4x9x8xf16>) -> tensor<1x4x5x4xf16>
  // CHECK-NEXT: %e = ascend.Pooling %c window [2, 2] stride [2, 2] : (tensor<1x4x9x8xf16>) -> tensor<1x4x5x4xf16>
  %e = ascend.Pooling %c window [2, 2] stride [2, 2] : (tensor<1x4x9x8xf16>) -> tensor<1x4x5x4xf16>
  // CHECK-NEXT: %f = ascend.Pooling %j mode 1 window [3, 3] stride [2, 2] pad [1, 1, 1, 1] ceil_mode 1 offset_x 7 : (tensor<1x4x9x8xi8>) -> tensor<1x4x5x4xi32>
  %f = ascend.Pooling %j mode 1 window [3, 3] stride [2, 2] pad [1, 1, 1, 1] ceil_mode 1 offset_x 7 : (tensor<1x4x9x8xi8>) -> tensor<1x4x5x4xi32>
  // CHECK-NEXT: %g = ascend.Pooling %j mode 1 global_pooling true : (tensor<1x4x9x8xi8>) -> tensor<1x4x1x1xi32>
  %g = ascend.Pooling %j mode 1 global_pooling true : (tensor<1x4x9x8xi8>) -> tensor<1x4x1x1xi32>
  // CHECK-NEXT: func.return
  func.return
}
