// RUN: amct-opt %s --lower-to-ascend --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// Every window counts 4 elements: the sum is exact, 0.5 / 4 is in deq_scale.
// CHECK-LABEL: @quantized
// CHECK:         %y_sum = ascend.AvgPoolV2 %q offset_x -3 ksize [1, 1, 2, 2] strides [1, 1, 2, 2] from <onnx, "AveragePool", "pool"> : (tensor<1x3x8x8xi8>) -> tensor<1x3x4x4xi32>
// CHECK-NEXT:    %y_deq_scale = nn.constant dense<1.250000e-01> : tensor<1xf32>
// CHECK-NEXT:    %y = ascend.AscendDequant %y_sum, %y_deq_scale from <onnx, "AveragePool", "pool">
// REMARK:      [lower-to-ascend applied lower] "pool"
func.func @quantized(%x: tensor<1x3x8x8xf32>) -> tensor<1x3x4x4xf32> {
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x8x8xf32>) -> tensor<1x3x8x8xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x8x8xi8>) -> tensor<1x3x8x8xf32>
  %y = nn.average_pool %d strides [2, 2] kernel [2, 2] from <onnx, "AveragePool", "pool"> : (tensor<1x3x8x8xf32>) -> tensor<1x3x4x4xf32>
  func.return %y : tensor<1x3x4x4xf32>
}

// -----

// Padding that counts: 9 elements everywhere, the zero point contributes 0.
// CHECK-LABEL: @counted_padding
// CHECK:         ascend.AvgPoolV2 %q exclusive false offset_x -3 ksize [1, 1, 3, 3] strides [1, 1, 1, 1] pads [1, 0, 1, 2]
// CHECK-NEXT:    %y_deq_scale = nn.constant dense<5.000000e-01> : tensor<1xf32>
// REMARK:      [lower-to-ascend applied lower] "y"
func.func @counted_padding(%x: tensor<1x3x8x8xf32>) -> tensor<1x3x7x9xf32> {
  %q = nn.quantize %x by <i8, scale = 4.5, zero_point = -3> : (tensor<1x3x8x8xf32>) -> tensor<1x3x8x8xi8>
  %d = nn.dequantize %q by <i8, scale = 4.5, zero_point = -3> : (tensor<1x3x8x8xi8>) -> tensor<1x3x8x8xf32>
  %y = nn.average_pool %d pads [1, 1, 0, 2] kernel [3, 3] count_include_pad : (tensor<1x3x8x8xf32>) -> tensor<1x3x7x9xf32>
  func.return %y : tensor<1x3x7x9xf32>
}

// -----

// Padding that does not count: windows at the border count less.
// CHECK-LABEL: @constant_count
// CHECK:         %d = ascend.AscendAntiQuant %q
// CHECK:         %y = ascend.AvgPoolV2 %d ksize [1, 1, 3, 3] strides [1, 1, 1, 1] pads [1, 1, 1, 1] : tensor<1x3x8x8xf32>
// REMARK:      [lower-to-ascend missed constant-count] "y": its windows do not all count the same number of elements
func.func @constant_count(%x: tensor<1x3x8x8xf32>) -> tensor<1x3x8x8xf32> {
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x8x8xf32>) -> tensor<1x3x8x8xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x8x8xi8>) -> tensor<1x3x8x8xf32>
  %y = nn.average_pool %d pads [1, 1, 1, 1] kernel [3, 3] : tensor<1x3x8x8xf32>
  func.return %y : tensor<1x3x8x8xf32>
}

// -----

// A divided scale that is not a normal number.
// CHECK-LABEL: @scale_range
// CHECK:         %y = ascend.AvgPoolV2 %d
// REMARK:      [lower-to-ascend missed scale-range] "y": its scale divided by the count leaves the normal range of float32
func.func @scale_range(%x: tensor<1x3x8x8xf32>) -> tensor<1x3x7x7xf32> {
  %q = nn.quantize %x by <i8, scale = 2.0e-38, zero_point = -3> : (tensor<1x3x8x8xf32>) -> tensor<1x3x8x8xi8>
  %d = nn.dequantize %q by <i8, scale = 2.0e-38, zero_point = -3> : (tensor<1x3x8x8xi8>) -> tensor<1x3x8x8xf32>
  %y = nn.average_pool %d kernel [2, 2] : (tensor<1x3x8x8xf32>) -> tensor<1x3x7x7xf32>
  func.return %y : tensor<1x3x7x7xf32>
}

// -----

// SAME stays a mode while sizes are not known.
// CHECK-LABEL: @max_pool
// CHECK-NEXT:    %y = ascend.MaxPoolV3 %x ksize [1, 3, 3, 1] strides [1, 2, 2, 1] padding_mode "SAME" data_format "NHWC"
// CHECK-NEXT:    %z = ascend.MaxPoolV3 %y ksize [1, 2, 2, 1] strides [1, 2, 2, 1] pads [0, 1, 0, 1] data_format "NHWC" ceil_mode true
// REMARK:      [lower-to-ascend applied lower] "y"
func.func @max_pool(%x: tensor<1x?x?x3xf32>) -> tensor<1x?x?x3xf32> {
  %y = nn.max_pool %x layout nhwc strides [2, 2] auto_pad same_upper kernel [3, 3] : tensor<1x?x?x3xf32>
  %z = nn.max_pool %y layout nhwc strides [2, 2] pads [0, 0, 1, 1] kernel [2, 2] ceil_mode : tensor<1x?x?x3xf32>
  func.return %z : tensor<1x?x?x3xf32>
}

// -----

// Over all of space: reductions that keep the axes.
// CHECK-LABEL: @global
// CHECK-NEXT:    %y_axes = nn.constant dense<[2, 3]> : tensor<2xi64>
// CHECK-NEXT:    %y = ascend.ReduceMean %x, %y_axes keep_dims true
// CHECK-NEXT:    %z_axes = nn.constant dense<[1, 2]> : tensor<2xi64>
// CHECK-NEXT:    %z = ascend.ReduceMax %x, %z_axes keep_dims true
// REMARK:      [lower-to-ascend applied lower] "y": computed by ascend.ReduceMean
func.func @global(%x: tensor<1x3x8x8xf32>) -> (tensor<1x3x1x1xf32>, tensor<1x1x1x8xf32>) {
  %y = nn.global_average_pool %x : (tensor<1x3x8x8xf32>) -> tensor<1x3x1x1xf32>
  %z = nn.global_max_pool %x layout nhwc : (tensor<1x3x8x8xf32>) -> tensor<1x1x1x8xf32>
  func.return %y, %z : tensor<1x3x1x1xf32>, tensor<1x1x1x8xf32>
}

// -----

// SAME with the odd element first has no mode.
// CHECK-LABEL: @lower
// CHECK:         %y = nn.
// REMARK:      [lower-to-ascend missed known-pads] "y": its auto_pad depends on sizes that are not known
func.func @lower(%x: tensor<1x?x?x3xf32>) -> tensor<1x?x?x3xf32> {
  %y = nn.max_pool %x layout nhwc auto_pad same_lower kernel [2, 2] : tensor<1x?x?x3xf32>
  func.return %y : tensor<1x?x?x3xf32>
}

// -----

// Nor have dilations an attribute.
// CHECK-LABEL: @no_dilation
// CHECK:         %y = nn.
// REMARK:      [lower-to-ascend missed no-dilation] "y": Ascend IR has no pooling with dilations
func.func @no_dilation(%x: tensor<1x3x8x8xf32>) -> tensor<1x3x6x6xf32> {
  %y = nn.max_pool %x dilations [2, 2] kernel [2, 2] : (tensor<1x3x8x8xf32>) -> tensor<1x3x6x6xf32>
  func.return %y : tensor<1x3x6x6xf32>
}

// -----

// One axis gets another of size 1, in integers too.
// CHECK-LABEL: @one_axis
// CHECK:         %y_x = ascend.Unsqueeze %x axes [2]
// CHECK:         ascend.AvgPoolV2 %y_x exclusive false ksize [1, 1, 1, 2] strides [1, 1, 1, 2] pads [0, 0, 1, 0]
// CHECK:         %y = ascend.Squeeze %{{.*}} axis [2]
// CHECK:         ascend.MaxPoolV3 %{{.*}} ksize [1, 1, 3, 1] strides [1, 1, 1, 1] data_format "NHWC"
// CHECK:         %z = ascend.Squeeze %{{.*}} axis [1]
// CHECK:         ascend.AscendQuant
// CHECK:         ascend.AvgPoolV2 %{{.*}} : (tensor<1x3x1x8xi8>) -> tensor<1x3x1x7xi32>
// CHECK:         ascend.AscendDequant
// CHECK:         %i = ascend.Squeeze
func.func @one_axis(%x: tensor<1x3x8xf32>, %l: tensor<1x8x3xf32>) -> (tensor<1x3x4xf32>, tensor<1x6x3xf32>, tensor<1x3x7xf32>) {
  %y = nn.average_pool %x strides [2] pads [1, 0] kernel [2] count_include_pad : (tensor<1x3x8xf32>) -> tensor<1x3x4xf32>
  %z = nn.max_pool %l layout nhwc kernel [3] : (tensor<1x8x3xf32>) -> tensor<1x6x3xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = 3> : (tensor<1x3x8xf32>) -> tensor<1x3x8xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = 3> : (tensor<1x3x8xi8>) -> tensor<1x3x8xf32>
  %i = nn.average_pool %d kernel [2] : (tensor<1x3x8xf32>) -> tensor<1x3x7xf32>
  func.return %y, %z, %i : tensor<1x3x4xf32>, tensor<1x6x3xf32>, tensor<1x3x7xf32>
}

// -----

// Pooling is over one or two axes.
// CHECK-LABEL: @spatial_rank
// CHECK:         %y = nn.
// REMARK:      [lower-to-ascend missed spatial-rank] "y": it pools over 3 spatial axes, Ascend IR over at most 2
func.func @spatial_rank(%x: tensor<1x3x8x8x8xf32>) -> tensor<1x3x7x7x7xf32> {
  %y = nn.average_pool %x kernel [2, 2, 2] : (tensor<1x3x8x8x8xf32>) -> tensor<1x3x7x7x7xf32>
  func.return %y : tensor<1x3x7x7x7xf32>
}

// -----

// A window has a limit.
// CHECK-LABEL: @window_limit
// CHECK:         %y = nn.
// REMARK:      [lower-to-ascend missed ascend-constraint] "y": a window of 256 elements, at most 255 are possible
func.func @window_limit(%x: tensor<1x3x16x16xf32>) -> tensor<1x3x1x1xf32> {
  %y = nn.average_pool %x kernel [16, 16] : (tensor<1x3x16x16xf32>) -> tensor<1x3x1x1xf32>
  func.return %y : tensor<1x3x1x1xf32>
}

// -----

// Nothing to reduce.
// CHECK-LABEL: @no_space
// CHECK:         %y = nn.
// REMARK:      [lower-to-ascend missed spatial-rank] "y": there are no spatial axes to reduce
func.func @no_space(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %y = nn.global_average_pool %x : tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}
