// RUN: VERIFY_DIAGNOSTICS | filecheck %s

// One part per rule of quantized weights and of scales per channel.

// Offsets of weights are int8.
// CHECK: error: 'ascend.AscendWeightQuant' op offset is of i32, AscendWeightQuant takes i8
func.func @main(%x: tensor<4x3xi8>, %s: tensor<4x1xi32>) {
  %y = ascend.AscendWeightQuant %x, %s : (tensor<4x3xi8>, tensor<4x1xi32>) -> tensor<4x3xi8>
  func.return
}

// -----

// They broadcast to the weight.
// CHECK: error: 'ascend.AscendWeightQuant' op shapes of x and broadcast offset differ: 1 and 4
func.func @main(%x: tensor<1x3xi8>, %s: tensor<4x1xi8>) {
  %y = ascend.AscendWeightQuant %x, %s : (tensor<1x3xi8>, tensor<4x1xi8>) -> tensor<4x3xi8>
  func.return
}

// -----

// The type is int8 or int4.
// CHECK: error: 'ascend.AscendWeightQuant' op dst_type 3 is neither 2 (int8) nor 29 (int4)
func.func @main(%x: tensor<4x3xi8>, %s: tensor<4x1xi8>) {
  %y = ascend.AscendWeightQuant %x, %s dst_type 3 : (tensor<4x3xi8>, tensor<4x1xi8>) -> tensor<4x3xi8>
  func.return
}

// -----

// AscendQuantV2 takes floats.
// CHECK: error: 'ascend.AscendQuantV2' op x is of i32, AscendQuantV2 takes f16, f32, bf16
func.func @main(%x: tensor<2x4xi32>, %s: tensor<4xf32>) {
  %y = ascend.AscendQuantV2 %x, %s : (tensor<2x4xi32>, tensor<4xf32>) -> tensor<2x4xi8>
  func.return
}

// -----

// Of one type.
// CHECK: error: 'ascend.AscendQuantV2' op element types differ: f32, f16
func.func @main(%x: tensor<2x4xf32>, %s: tensor<4xf16>) {
  %y = ascend.AscendQuantV2 %x, %s : (tensor<2x4xf32>, tensor<4xf16>) -> tensor<2x4xi8>
  func.return
}

// -----

// A known way to round.
// CHECK: error: 'ascend.AscendQuantV2' op round_mode 'Round' is not one of round, floor, ceil, trunc
func.func @main(%x: tensor<2x4xf32>, %s: tensor<4xf32>) {
  %y = ascend.AscendQuantV2 %x, %s round_mode "Round" : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xi8>
  func.return
}

// -----

// One scale per element of the axis.
// CHECK: error: 'ascend.AscendQuantV2' op axis and scale length differ: 2 and 4
func.func @main(%x: tensor<2x4xf32>, %s: tensor<4xf32>) {
  %y = ascend.AscendQuantV2 %x, %s axis 0 : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xi8>
  func.return
}

// -----

// And one offset.
// CHECK: error: 'ascend.AscendQuantV2' op axis and offset length differ: 4 and 3
func.func @main(%x: tensor<2x4xf32>, %s: tensor<4xf32>, %o: tensor<3xf32>) {
  %y = ascend.AscendQuantV2 %x, %s, %o : (tensor<2x4xf32>, tensor<4xf32>, tensor<3xf32>) -> tensor<2x4xi8>
  func.return
}

// -----

// In a vector.
// CHECK: error: 'ascend.AscendQuantV2' op scale must be of rank 1, not 2
func.func @main(%x: tensor<2x4xf32>, %s: tensor<1x4xf32>) {
  %y = ascend.AscendQuantV2 %x, %s : (tensor<2x4xf32>, tensor<1x4xf32>) -> tensor<2x4xi8>
  func.return
}

// -----

// The axis is one of x.
// CHECK: error: 'ascend.AscendQuantV2' op axis 2 is out of range for rank 2
func.func @main(%x: tensor<2x4xf32>, %s: tensor<4xf32>) {
  %y = ascend.AscendQuantV2 %x, %s axis 2 : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xi8>
  func.return
}

// -----

// The type is int8 or int4.
// CHECK: error: 'ascend.AscendQuantV2' op dst_type 1 is neither 2 (int8) nor 29 (int4)
func.func @main(%x: tensor<2x4xf32>, %s: tensor<4xf32>) {
  %y = ascend.AscendQuantV2 %x, %s dst_type 1 : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xi8>
  func.return
}

// -----

// int4 values are packed in pairs.
// CHECK: error: 'ascend.AscendQuantV2' op int4 needs an even last size
func.func @main(%x: tensor<2x3xf32>, %s: tensor<3xf32>) {
  %y = ascend.AscendQuantV2 %x, %s dst_type 29 : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xi4>
  func.return
}

// -----

// AscendAntiQuantV2 takes integers.
// CHECK: error: 'ascend.AscendAntiQuantV2' op x is of i32, AscendAntiQuantV2 takes i8, i4
func.func @main(%x: tensor<2x4xi32>, %s: tensor<4xf32>) {
  %y = ascend.AscendAntiQuantV2 %x, %s : (tensor<2x4xi32>, tensor<4xf32>) -> tensor<2x4xf16>
  func.return
}

// -----

// Scales of float32 or bfloat16.
// CHECK: error: 'ascend.AscendAntiQuantV2' op scale is of f16, AscendAntiQuantV2 takes f32, bf16
func.func @main(%x: tensor<2x4xi8>, %s: tensor<4xf16>) {
  %y = ascend.AscendAntiQuantV2 %x, %s : (tensor<2x4xi8>, tensor<4xf16>) -> tensor<2x4xf16>
  func.return
}

// -----

// Scale and offset are of one type.
// CHECK: error: 'ascend.AscendAntiQuantV2' op element types differ: f32, bf16
func.func @main(%x: tensor<2x4xi8>, %s: tensor<4xf32>, %o: tensor<4xbf16>) {
  %y = ascend.AscendAntiQuantV2 %x, %s, %o : (tensor<2x4xi8>, tensor<4xf32>, tensor<4xbf16>) -> tensor<2x4xf16>
  func.return
}

// -----

// It gives float16 or bfloat16.
// CHECK: error: 'ascend.AscendAntiQuantV2' op dst_type 0 is neither 1 (float16) nor 27 (bfloat16)
func.func @main(%x: tensor<2x4xi8>, %s: tensor<4xf32>) {
  %y = ascend.AscendAntiQuantV2 %x, %s dst_type 0 : (tensor<2x4xi8>, tensor<4xf32>) -> tensor<2x4xf32>
  func.return
}

// -----

// One scale per element of the last axis.
// CHECK: error: 'ascend.AscendAntiQuantV2' op last axis and scale length differ: 4 and 2
func.func @main(%x: tensor<2x4xi8>, %s: tensor<2xf32>) {
  %y = ascend.AscendAntiQuantV2 %x, %s : (tensor<2x4xi8>, tensor<2xf32>) -> tensor<2x4xf16>
  func.return
}

// -----

// No scalars.
// CHECK: error: 'ascend.AscendAntiQuantV2' op x must be of rank 1 or more, not 0
func.func @main(%x: tensor<i8>, %s: tensor<1xf32>) {
  %y = ascend.AscendAntiQuantV2 %x, %s : (tensor<i8>, tensor<1xf32>) -> tensor<f16>
  func.return
}

// -----

// The product takes float16 or bfloat16.
// CHECK: error: 'ascend.WeightQuantBatchMatmulV2' op x is of f32, WeightQuantBatchMatmulV2 takes f16, bf16
func.func @main(%x: tensor<2x8xf32>, %w: tensor<8x4xi8>, %s: tensor<4xf16>, %o: tensor<4xf16>) {
  %y = ascend.WeightQuantBatchMatmulV2 %x, %w, %s, %o : (tensor<2x8xf32>, tensor<8x4xi8>, tensor<4xf16>, tensor<4xf16>) -> tensor<2x4xf16>
  func.return
}

// -----

// The weight is int8 or int4.
// CHECK: error: 'ascend.WeightQuantBatchMatmulV2' op weight is of f16, WeightQuantBatchMatmulV2 takes i8, i4
func.func @main(%x: tensor<2x8xf16>, %w: tensor<8x4xf16>, %s: tensor<4xf16>, %o: tensor<4xf16>) {
  %y = ascend.WeightQuantBatchMatmulV2 %x, %w, %s, %o : (tensor<2x8xf16>, tensor<8x4xf16>, tensor<4xf16>, tensor<4xf16>) -> tensor<2x4xf16>
  func.return
}

// -----

// Scales are of the type of x.
// CHECK: error: 'ascend.WeightQuantBatchMatmulV2' op element types differ: f16, bf16
func.func @main(%x: tensor<2x8xf16>, %w: tensor<8x4xi8>, %s: tensor<4xbf16>, %o: tensor<4xbf16>) {
  %y = ascend.WeightQuantBatchMatmulV2 %x, %w, %s, %o : (tensor<2x8xf16>, tensor<8x4xi8>, tensor<4xbf16>, tensor<4xbf16>) -> tensor<2x4xf16>
  func.return
}

// -----

// Sizes fit.
// CHECK: error: 'ascend.WeightQuantBatchMatmulV2' op contracted sizes differ: 8 and 4
func.func @main(%x: tensor<2x8xf16>, %w: tensor<8x4xi8>, %s: tensor<4xf16>, %o: tensor<4xf16>) {
  %y = ascend.WeightQuantBatchMatmulV2 %x, %w, %s, %o transpose_weight true : (tensor<2x8xf16>, tensor<8x4xi8>, tensor<4xf16>, tensor<4xf16>) -> tensor<2x4xf16>
  func.return
}

// -----

// Matrices.
// CHECK: error: 'ascend.WeightQuantBatchMatmulV2' op x must be of rank 2, not 3
func.func @main(%x: tensor<1x2x8xf16>, %w: tensor<8x4xi8>, %s: tensor<4xf16>, %o: tensor<4xf16>) {
  %y = ascend.WeightQuantBatchMatmulV2 %x, %w, %s, %o : (tensor<1x2x8xf16>, tensor<8x4xi8>, tensor<4xf16>, tensor<4xf16>) -> tensor<2x4xf16>
  func.return
}

// -----

// One scale per column.
// CHECK: error: 'ascend.WeightQuantBatchMatmulV2' op columns and antiquant_scale length differ: 4 and 8
func.func @main(%x: tensor<2x8xf16>, %w: tensor<8x4xi8>, %s: tensor<8xf16>, %o: tensor<8xf16>) {
  %y = ascend.WeightQuantBatchMatmulV2 %x, %w, %s, %o : (tensor<2x8xf16>, tensor<8x4xi8>, tensor<8xf16>, tensor<8xf16>) -> tensor<2x4xf16>
  func.return
}

// -----

// One offset too.
// CHECK: error: 'ascend.WeightQuantBatchMatmulV2' op columns and antiquant_offset length differ: 4 and 3
func.func @main(%x: tensor<2x8xf16>, %w: tensor<8x4xi8>, %s: tensor<4xf16>, %o: tensor<3xf16>) {
  %y = ascend.WeightQuantBatchMatmulV2 %x, %w, %s, %o : (tensor<2x8xf16>, tensor<8x4xi8>, tensor<4xf16>, tensor<3xf16>) -> tensor<2x4xf16>
  func.return
}

// -----

// A group has a size.
// CHECK: error: 'ascend.WeightQuantBatchMatmulV2' op antiquant_group_size must not be negative, but is -1
func.func @main(%x: tensor<2x8xf16>, %w: tensor<8x4xi8>, %s: tensor<4xf16>, %o: tensor<4xf16>) {
  %y = ascend.WeightQuantBatchMatmulV2 %x, %w, %s, %o antiquant_group_size -1 : (tensor<2x8xf16>, tensor<8x4xi8>, tensor<4xf16>, tensor<4xf16>) -> tensor<2x4xf16>
  func.return
}

// -----

// Groups have rows of scales.
// CHECK: error: 'ascend.WeightQuantBatchMatmulV2' op antiquant_scale must be of rank 2 next to antiquant_group_size, not 1
func.func @main(%x: tensor<2x8xf16>, %w: tensor<8x4xi8>, %s: tensor<4xf16>, %o: tensor<4xf16>) {
  %y = ascend.WeightQuantBatchMatmulV2 %x, %w, %s, %o antiquant_group_size 4 : (tensor<2x8xf16>, tensor<8x4xi8>, tensor<4xf16>, tensor<4xf16>) -> tensor<2x4xf16>
  func.return
}

// -----

// One row per group.
// CHECK: error: 'ascend.WeightQuantBatchMatmulV2' op rows of antiquant_scale and groups differ: 3 and 2
func.func @main(%x: tensor<2x8xf16>, %w: tensor<8x4xi8>, %s: tensor<3x4xf16>, %o: tensor<3x4xf16>) {
  %y = ascend.WeightQuantBatchMatmulV2 %x, %w, %s, %o antiquant_group_size 4 : (tensor<2x8xf16>, tensor<8x4xi8>, tensor<3x4xf16>, tensor<3x4xf16>) -> tensor<2x4xf16>
  func.return
}

// -----

// One column per column.
// CHECK: error: 'ascend.WeightQuantBatchMatmulV2' op columns of antiquant_scale and of weight differ: 3 and 4
func.func @main(%x: tensor<2x8xf16>, %w: tensor<8x4xi8>, %s: tensor<2x3xf16>, %o: tensor<2x3xf16>) {
  %y = ascend.WeightQuantBatchMatmulV2 %x, %w, %s, %o antiquant_group_size 4 : (tensor<2x8xf16>, tensor<8x4xi8>, tensor<2x3xf16>, tensor<2x3xf16>) -> tensor<2x4xf16>
  func.return
}

// -----

// The bias is as x, or float32.
// CHECK: error: 'ascend.WeightQuantBatchMatmulV2' op bias is of bf16, expected f16 or f32
func.func @main(%x: tensor<2x8xf16>, %w: tensor<8x4xi8>, %s: tensor<4xf16>, %o: tensor<4xf16>, %b: tensor<4xbf16>) {
  %y = ascend.WeightQuantBatchMatmulV2 %x, %w, %s, %o, %b : (tensor<2x8xf16>, tensor<8x4xi8>, tensor<4xf16>, tensor<4xf16>, tensor<4xbf16>) -> tensor<2x4xf16>
  func.return
}

// -----

// One per column, each.
// CHECK: error: 'ascend.WeightQuantBatchMatmulV2' op columns and bias length differ: 4 and 1
func.func @main(%x: tensor<2x8xf16>, %w: tensor<8x4xi8>, %s: tensor<4xf16>, %o: tensor<4xf16>, %b: tensor<1xf32>) {
  %y = ascend.WeightQuantBatchMatmulV2 %x, %w, %s, %o, %b : (tensor<2x8xf16>, tensor<8x4xi8>, tensor<4xf16>, tensor<4xf16>, tensor<1xf32>) -> tensor<2x4xf16>
  func.return
}
