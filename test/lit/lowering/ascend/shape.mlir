// RUN: amct-opt %s --lower-to-ascend --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// A size that ONNX copies is written out, or -1 where it is not known.
// CHECK-LABEL: @reshape
// CHECK-NEXT:    %a_shape = nn.constant dense<[-1, 12]> : tensor<2xi64>
// CHECK-NEXT:    %a = ascend.Reshape %x, %a_shape : ({{.*}}) -> tensor<?x12xf32>
// CHECK-NEXT:    %b = ascend.Flatten %x axis 2
// CHECK-NEXT:    %c_perm = nn.constant dense<[2, 0, 1]> : tensor<3xi64>
// CHECK-NEXT:    %c = ascend.Transpose %x, %c_perm
// CHECK-NEXT:    %d = ascend.Unsqueeze %c axes [1]
// CHECK-NEXT:    %e = ascend.Squeeze %d axis [1]
// REMARK:      [lower-to-ascend applied lower] "a"
func.func @reshape(%x: tensor<?x3x4xf32>) -> (tensor<?x12xf32>, tensor<?x4xf32>, tensor<4x?x3xf32>) {
  %a = nn.reshape %x to [0, -1] : (tensor<?x3x4xf32>) -> tensor<?x12xf32>
  %b = nn.flatten %x axis 2 : (tensor<?x3x4xf32>) -> tensor<?x4xf32>
  %c = nn.transpose %x perm [2, 0, 1] : (tensor<?x3x4xf32>) -> tensor<4x?x3xf32>
  %d = nn.unsqueeze %c axes [1] : (tensor<4x?x3xf32>) -> tensor<4x1x?x3xf32>
  %e = nn.squeeze %d axes [1] : (tensor<4x1x?x3xf32>) -> tensor<4x?x3xf32>
  func.return %a, %b, %e : tensor<?x12xf32>, tensor<?x4xf32>, tensor<4x?x3xf32>
}

// -----

// CHECK-LABEL: @join
// CHECK-NEXT:    %a_axis = nn.constant dense<1> : tensor<i64>
// CHECK-NEXT:    %a = ascend.ConcatV2 %x, %x, %a_axis N 2
// CHECK-NEXT:    %b_sizes = nn.constant dense<[2, 4]> : tensor<2xi64>
// CHECK-NEXT:    %b_axis = nn.constant dense<1> : tensor<i64>
// CHECK-NEXT:    %b, %c = ascend.SplitV %a, %b_sizes, %b_axis num_split 2
// CHECK-NEXT:    %d_begin = nn.constant dense<1> : tensor<1xi64>
// CHECK-NEXT:    %d_end = nn.constant dense<3> : tensor<1xi64>
// CHECK-NEXT:    %d_axes = nn.constant dense<1> : tensor<1xi64>
// CHECK-NEXT:    %d_strides = nn.constant dense<1> : tensor<1xi64>
// CHECK-NEXT:    %d = ascend.StridedSliceV2 %c, %d_begin, %d_end, %d_axes, %d_strides
// CHECK-NEXT:    %e_pads = nn.constant dense<[0, 0, 1, 0, 0, 2]> : tensor<6xi64>
// CHECK-NEXT:    %e_value = nn.constant dense<5.000000e-01> : tensor<f32>
// CHECK-NEXT:    %e = ascend.PadV3 %d, %e_pads, %e_value paddings_contiguous false
// CHECK-NEXT:    %f_pads
// CHECK-NEXT:    %f = ascend.PadV3 %e, %f_pads mode "edge" paddings_contiguous false
// REMARK:      [lower-to-ascend applied lower] "a"
func.func @join(%x: tensor<?x3x4xf32>) -> tensor<?x2x8xf32> {
  %a = nn.concat %x, %x axis 1 : (tensor<?x3x4xf32>, tensor<?x3x4xf32>) -> tensor<?x6x4xf32>
  %b, %c = nn.split %a axis 1 sizes [2, 4] : (tensor<?x6x4xf32>) -> (tensor<?x2x4xf32>, tensor<?x4x4xf32>)
  %d = nn.slice %c starts [1] ends [3] axes [1] : (tensor<?x4x4xf32>) -> tensor<?x2x4xf32>
  %e = nn.pad %d pads [0, 0, 1, 0, 0, 2] value 0.5 : (tensor<?x2x4xf32>) -> tensor<?x2x7xf32>
  %f = nn.pad %e pads [0, 0, 1, 0, 0, 0] mode edge : (tensor<?x2x7xf32>) -> tensor<?x2x8xf32>
  func.return %f : tensor<?x2x8xf32>
}

// -----

// Indices that may count from the end have to be announced.
// CHECK-LABEL: @gather
// CHECK:         %a = ascend.GatherV2 %x, %i, %a_axis :
// CHECK:         %b = ascend.GatherV2 %x, %n, %b_axis negative_index_support true
// CHECK:         %c = ascend.GatherV2 %x, %r, %c_axis negative_index_support true
// REMARK:      [lower-to-ascend applied lower] "a"
func.func @gather(%x: tensor<?x3x4xf32>, %r: tensor<2xi64>) -> (tensor<?x2x4xf32>, tensor<?x2x4xf32>, tensor<?x2x4xf32>) {
  %i = nn.constant dense<[0, 2]> : tensor<2xi64>
  %n = nn.constant dense<[0, -1]> : tensor<2xi64>
  %a = nn.gather %x, %i axis 1 : (tensor<?x3x4xf32>, tensor<2xi64>) -> tensor<?x2x4xf32>
  %b = nn.gather %x, %n axis 1 : (tensor<?x3x4xf32>, tensor<2xi64>) -> tensor<?x2x4xf32>
  %c = nn.gather %x, %r axis 1 : (tensor<?x3x4xf32>, tensor<2xi64>) -> tensor<?x2x4xf32>
  func.return %a, %b, %c : tensor<?x2x4xf32>, tensor<?x2x4xf32>, tensor<?x2x4xf32>
}

// -----

// CHECK-LABEL: @reduce
// CHECK-NEXT:    %a_axes = nn.constant dense<[1, 2]> : tensor<2xi64>
// CHECK-NEXT:    %a = ascend.ReduceMean %x, %a_axes keep_dims true
// CHECK-NEXT:    %b_axes = nn.constant dense<[0, 1, 2]> : tensor<3xi64>
// CHECK-NEXT:    %b = ascend.ReduceSum %x, %b_axes :
// CHECK:         %c = ascend.ReduceMax
// CHECK:         %d = ascend.ReduceMin
// CHECK:         %e = ascend.ReduceProd
// REMARK:      [lower-to-ascend applied lower] "a"
func.func @reduce(%x: tensor<?x3x4xf32>) -> (tensor<?x1x1xf32>, tensor<f32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>) {
  %a = nn.reduce_mean %x axes [1, 2] keepdims : (tensor<?x3x4xf32>) -> tensor<?x1x1xf32>
  %b = nn.reduce_sum %x : (tensor<?x3x4xf32>) -> tensor<f32>
  %c = nn.reduce_max %x axes [0] : (tensor<?x3x4xf32>) -> tensor<3x4xf32>
  %d = nn.reduce_min %x axes [0] : (tensor<?x3x4xf32>) -> tensor<3x4xf32>
  %e = nn.reduce_prod %x axes [0] : (tensor<?x3x4xf32>) -> tensor<3x4xf32>
  func.return %a, %b, %c, %d, %e : tensor<?x1x1xf32>, tensor<f32>, tensor<3x4xf32>, tensor<3x4xf32>, tensor<3x4xf32>
}

// -----

// A shape computed at run time: a 0 in it copies a size to ONNX, and does not to Ascend.
// CHECK-LABEL: @run_time_shape
// CHECK-NEXT:    %y_x_sizes = ascend.Shape %x dtype 9
// CHECK:         %y_x = ascend.Slice %y_x_sizes
// CHECK:         %y_copied = ascend.Equal %s, %y_zero
// CHECK-NEXT:    %y_shape = ascend.Select %y_copied, %y_x, %s
// CHECK-NEXT:    %y = ascend.Reshape %x, %y_shape : (tensor<?x3x4xf32>, tensor<2xi64>) -> tensor<?x12xf32>
func.func @run_time_shape(%x: tensor<?x3x4xf32>, %s: tensor<2xi64>) -> tensor<?x12xf32> {
  %y = nn.reshape %x, %s : (tensor<?x3x4xf32>, tensor<2xi64>) -> tensor<?x12xf32>
  func.return %y : tensor<?x12xf32>
}

// -----

// CHECK-LABEL: @known_sizes
// CHECK:         %y = nn.
// REMARK:      [lower-to-ascend missed known-sizes] "y": its shape is computed at run time, and how many sizes it has is not known
func.func @known_sizes(%x: tensor<?x3x4xf32>, %s: tensor<?xi64>) -> tensor<?x12xf32> {
  %y = nn.reshape %x, %s : (tensor<?x3x4xf32>, tensor<?xi64>) -> tensor<?x12xf32>
  func.return %y : tensor<?x12xf32>
}

// -----

// More than one size that is not known: the shape is made at run time.
// CHECK-LABEL: @unknown_sizes
// CHECK-NEXT:    %y_sizes = ascend.Shape %x dtype 9 : (tensor<?x?x4xf32>) -> tensor<3xi64>
// CHECK-NEXT:    %y_offsets = nn.constant dense<0> : tensor<1xi64>
// CHECK-NEXT:    %y_size = nn.constant dense<2> : tensor<1xi64>
// CHECK-NEXT:    %y_copied = ascend.Slice %y_sizes, %y_offsets, %y_size
// CHECK-NEXT:    %y_shape = nn.constant dense<2> : tensor<2xi64>
// CHECK-NEXT:    %y_axis = nn.constant dense<0> : tensor<i64>
// CHECK-NEXT:    %y_shape{{.*}} = ascend.ConcatV2 %y_copied, %y_shape, %y_axis N 2
// CHECK-NEXT:    %y = ascend.Reshape %x, %y_shape{{.*}} : (tensor<?x?x4xf32>, tensor<4xi64>) -> tensor<?x?x2x2xf32>
// CHECK:         %z_copied = ascend.Slice
// CHECK-NEXT:    %z_shape = nn.constant dense<-1> : tensor<1xi64>
// CHECK:         %z = ascend.Reshape
// CHECK-NEXT:    %w = ascend.Reshape %x, %s
// REMARK:      [lower-to-ascend applied lower] "y": computed by ascend.Reshape
func.func @unknown_sizes(%x: tensor<?x?x4xf32>, %s: tensor<2xi64>) -> (tensor<?x?x2x2xf32>, tensor<?x?xf32>, tensor<?x?xf32>) {
  %y = nn.reshape %x to [0, 0, 2, 2] : (tensor<?x?x4xf32>) -> tensor<?x?x2x2xf32>
  %z = nn.reshape %x to [0, -1] : (tensor<?x?x4xf32>) -> tensor<?x?xf32>
  %w = nn.reshape %x, %s allow_zero : (tensor<?x?x4xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  func.return %y, %z, %w : tensor<?x?x2x2xf32>, tensor<?x?xf32>, tensor<?x?xf32>
}

// -----

// A table for each batch.
// CHECK-LABEL: @batches
// CHECK:         %y = ascend.GatherV2 %x, %i, %y_axis batch_dims 1 negative_index_support true
// REMARK:      [lower-to-ascend applied lower] "y": computed by ascend.GatherV2
func.func @batches(%x: tensor<?x3x4xf32>, %i: tensor<?x2xi64>) -> tensor<?x2x4xf32> {
  %y = nn.gather %x, %i axis 1 batch_dims 1 : (tensor<?x3x4xf32>, tensor<?x2xi64>) -> tensor<?x2x4xf32>
  func.return %y : tensor<?x2x4xf32>
}

// -----

// A way to pad that PadV3 has not.
// CHECK-LABEL: @pad_mode
// CHECK:         %y = nn.
// REMARK:      [lower-to-ascend missed pad-mode] "y": PadV3 does not wrap around
func.func @pad_mode(%x: tensor<?x3x4xf32>) -> tensor<?x3x5xf32> {
  %y = nn.pad %x pads [0, 0, 1, 0, 0, 0] mode wrap : (tensor<?x3x4xf32>) -> tensor<?x3x5xf32>
  func.return %y : tensor<?x3x5xf32>
}

// -----

// Pads that take away.
// CHECK-LABEL: @negative_pads
// CHECK:         %y = nn.
// REMARK:      [lower-to-ascend missed ascend-constraint] "y": paddings [0, 0, -1, 0, 0, 0] must not be negative
func.func @negative_pads(%x: tensor<?x3x4xf32>) -> tensor<?x3x3xf32> {
  %y = nn.pad %x pads [0, 0, -1, 0, 0, 0] : (tensor<?x3x4xf32>) -> tensor<?x3x3xf32>
  func.return %y : tensor<?x3x3xf32>
}

// -----

// A scalar has no axes.
// CHECK-LABEL: @some_axis
// CHECK:         %y = nn.
// REMARK:      [lower-to-ascend missed some-axis] "y": the operand has no axis to reduce
func.func @some_axis(%x: tensor<f32>) -> tensor<f32> {
  %y = nn.reduce_sum %x : tensor<f32>
  func.return %y : tensor<f32>
}
