// RUN: amct-opt %s --lower-to-ascend --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// One scale and one zero point: the weight itself, whose offset is the negated zero point; the bias stays where it is.
// CHECK-LABEL: @one_scale
// CHECK:         %y_weight = ascend.AscendAntiQuant %w scale 0.25 offset 3.0 : (tensor<8x4xi8>) -> tensor<8x4xf32>
// CHECK-NEXT:    %y = ascend.MatMulV2 %x, %y_weight, %b :
// REMARK:      [lower-to-ascend applied lower] "y": computed by ascend.MatMulV2
func.func @one_scale(%x: tensor<?x8xf32>, %b: tensor<4xf32>) -> tensor<?x4xf32> {
  %w = nn.constant dense<1> : tensor<8x4xi8>
  %wd = nn.dequantize %w by <i8, scale = 0.25, zero_point = -3> : (tensor<8x4xi8>) -> tensor<8x4xf32>
  %y = nn.matmul %x, %wd, %b : (tensor<?x8xf32>, tensor<8x4xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  func.return %y : tensor<?x4xf32>
}

// -----

// Scales per column: the product is that of the integers without their zero points, scaled afterwards, then biased.
// CHECK-LABEL: @columns
// CHECK:         %y_weight = ascend.AscendAntiQuant %w scale 1.0 offset 0.0
// CHECK-NEXT:    %y_zero_point = nn.constant dense<{{\[\[}}3.000000e+00], [-4.000000e+00]]> : tensor<2x1xf32>
// CHECK-NEXT:    [[R:%.*]] = ascend.Sub %y_weight, %y_zero_point
// CHECK-NEXT:    %y_scale = nn.constant dense<[2.500000e-01, 5.000000e-01]> : tensor<2xf32>
// CHECK-NEXT:    %y_acc = ascend.BatchMatMulV2 %x, [[R]] adj_x2 true
// CHECK-NEXT:    %y_scaled = ascend.Mul %y_acc, %y_scale
// CHECK-NEXT:    %y = ascend.Add %y_scaled, %b
// REMARK:      [lower-to-ascend applied lower] "y": computed by ascend.Add
func.func @columns(%x: tensor<2x5x8xf32>, %b: tensor<2xf32>) -> tensor<2x5x2xf32> {
  %w = nn.constant dense<1> : tensor<2x8xi8>
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5], zero_point = [3, -4], axis = 0> : (tensor<2x8xi8>) -> tensor<2x8xf32>
  %y = nn.matmul %x, %wd, %b transpose_b : (tensor<2x5x8xf32>, tensor<2x8xf32>, tensor<2xf32>) -> tensor<2x5x2xf32>
  func.return %y : tensor<2x5x2xf32>
}

// -----

// Without zero points there is nothing to subtract.
// CHECK-LABEL: @symmetric
// CHECK:         %y_weight = ascend.AscendAntiQuant %w scale 1.0 offset 0.0
// CHECK-NOT:     ascend.Sub
// CHECK:         %y_acc = ascend.MatMulV2 %x, %y_weight
// CHECK-NEXT:    %y = ascend.Mul %y_acc, %y_scale
// REMARK:      [lower-to-ascend applied lower] "y": computed by ascend.Mul
func.func @symmetric(%x: tensor<3x8xf32>) -> tensor<3x2xf32> {
  %w = nn.constant dense<1> : tensor<8x2xi8>
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5], axis = 1> : (tensor<8x2xi8>) -> tensor<8x2xf32>
  %y = nn.matmul %x, %wd : (tensor<3x8xf32>, tensor<8x2xf32>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// -----

// float16, matrices: one operation, of int4 weights too.
// CHECK-LABEL: @half
// CHECK:         %y_antiquant_scale = nn.constant dense<[2.500000e-01, 5.000000e-01]> : tensor<2xf16>
// CHECK-NEXT:    %y_antiquant_offset = nn.constant dense<[-3.000000e+00, 4.000000e+00]> : tensor<2xf16>
// CHECK-NEXT:    %y = ascend.WeightQuantBatchMatmulV2 %x, %w, %y_antiquant_scale, %y_antiquant_offset, %b transpose_weight true
// CHECK:         %z = ascend.WeightQuantBatchMatmulV2 %y, %v, {{.*}} : (tensor<3x2xf16>, tensor<2x2xi4>, tensor<1xf16>, tensor<1xf16>) -> tensor<3x2xf16>
// REMARK:      [lower-to-ascend applied lower] "y": computed by ascend.WeightQuantBatchMatmulV2
func.func @half(%x: tensor<3x8xf16>, %b: tensor<2xf16>) -> tensor<3x2xf16> {
  %w = nn.constant dense<1> : tensor<2x8xi8>
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5], zero_point = [3, -4], axis = 0> : (tensor<2x8xi8>) -> tensor<2x8xf16>
  %y = nn.matmul %x, %wd, %b transpose_b : (tensor<3x8xf16>, tensor<2x8xf16>, tensor<2xf16>) -> tensor<3x2xf16>
  %v = nn.constant dense<1> : tensor<2x2xi4>
  %vd = nn.dequantize %v by <i4, scale = 0.5> : (tensor<2x2xi4>) -> tensor<2x2xf16>
  %z = nn.matmul %y, %vd : (tensor<3x2xf16>, tensor<2x2xf16>) -> tensor<3x2xf16>
  func.return %z : tensor<3x2xf16>
}

// -----

// float16 and batches of rows: one matrix, also where two sizes are known at run time only.
// CHECK-LABEL: @half_batches
// CHECK:         %y_rows = ascend.Reshape %x, {{.*}} : (tensor<?x?x8xf16>, tensor<2xi64>) -> tensor<?x8xf16>
// CHECK:         ascend.WeightQuantBatchMatmulV2 %y_rows, %w,
// CHECK:         %y_batch_sizes = ascend.Shape %x
// CHECK:         %y_shape = ascend.ConcatV2 %y_batch, %y_columns,
// CHECK-NEXT:    %y = ascend.Reshape {{.*}}, %y_shape
// REMARK:      [lower-to-ascend applied lower] "y": computed by ascend.Reshape
func.func @half_batches(%x: tensor<?x?x8xf16>) -> tensor<?x?x2xf16> {
  %w = nn.constant dense<1> : tensor<8x2xi8>
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5], zero_point = 3, axis = 1> : (tensor<8x2xi8>) -> tensor<8x2xf16>
  %y = nn.matmul %x, %wd : (tensor<?x?x8xf16>, tensor<8x2xf16>) -> tensor<?x?x2xf16>
  func.return %y : tensor<?x?x2xf16>
}

// -----

// A batch of weights: the real weight, by AscendAntiQuantV2.
// CHECK-LABEL: @one_matrix
// CHECK:         %y_weight = ascend.AscendAntiQuantV2 %w, %y_scale, %y_offset : (tensor<2x8x2xi8>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x8x2xf16>
// CHECK-NEXT:    %y = ascend.BatchMatMulV2 %x, %y_weight
// REMARK:      [lower-to-ascend missed one-matrix] "y": WeightQuantBatchMatmulV2 multiplies one matrix by another
func.func @one_matrix(%x: tensor<2x3x8xf16>) -> tensor<2x3x2xf16> {
  %w = nn.constant dense<1> : tensor<2x8x2xi8>
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5], zero_point = 3, axis = 2> : (tensor<2x8x2xi8>) -> tensor<2x8x2xf16>
  %y = nn.matmul %x, %wd : (tensor<2x3x8xf16>, tensor<2x8x2xf16>) -> tensor<2x3x2xf16>
  func.return %y : tensor<2x3x2xf16>
}

// -----

// A scale that float16 does not hold: the real weight is scaled in float32, here along its first axis.
// CHECK-LABEL: @scale_range
// CHECK:         %y_weight = ascend.AscendAntiQuant %c scale 1.0 offset 0.0 : (tensor<2x8xi8>) -> tensor<2x8xf32>
// CHECK:         %y_weight_1 = ascend.Mul %y_weight, %y_scale : (tensor<2x8xf32>, tensor<2x1xf32>) -> tensor<2x8xf32>
// CHECK-NEXT:    %y_weight_2 = ascend.Cast %y_weight_1 dst_type 1
// CHECK-NEXT:    %y = ascend.MatMulV2 %x, %y_weight_2 transpose_x2 true
// REMARK:      [lower-to-ascend missed scale-range] "y": a scale of its weight leaves the normal range of float16
func.func @scale_range(%x: tensor<3x8xf16>) -> tensor<3x2xf16> {
  %c = nn.constant dense<1> : tensor<2x8xi8>
  %w = nn.dequantize %c by <i8, scale = [1.0e-6, 0.5], axis = 0> : (tensor<2x8xi8>) -> tensor<2x8xf16>
  %y = nn.matmul %x, %w transpose_b : (tensor<3x8xf16>, tensor<2x8xf16>) -> tensor<3x2xf16>
  func.return %y : tensor<3x2xf16>
}

// -----

// int4 in float32 is stored as int8.
// CHECK-LABEL: @int4
// CHECK-NEXT:    %c = nn.constant dense<-4> : tensor<8x2xi8>
// CHECK-NEXT:    %y_weight = ascend.AscendAntiQuant %c scale 0.25 offset 1.0
// CHECK-NEXT:    %y = ascend.MatMulV2 %x, %y_weight
// REMARK:      [lower-to-ascend applied lower] "y": computed by ascend.MatMulV2
func.func @int4(%x: tensor<3x8xf32>) -> tensor<3x2xf32> {
  %c = nn.constant dense<-4> : tensor<8x2xi4>
  %w = nn.dequantize %c by <i4, scale = 0.25, zero_point = -1> : (tensor<8x2xi4>) -> tensor<8x2xf32>
  %y = nn.matmul %x, %w : (tensor<3x8xf32>, tensor<8x2xf32>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// -----

// int16.
// CHECK-LABEL: @int8_weight
// CHECK-NEXT:    %c = nn.constant dense<-7.500000e-01> : tensor<8x2xf32>
// CHECK-NEXT:    %y = ascend.MatMulV2 %x, %c
// REMARK:      [lower-to-ascend missed int8-weight] "y": its weight is i16, not i8 or i4
func.func @int8_weight(%x: tensor<3x8xf32>) -> tensor<3x2xf32> {
  %c = nn.constant dense<-4> : tensor<8x2xi16>
  %w = nn.dequantize %c by <i16, scale = 0.25, zero_point = -1> : (tensor<8x2xi16>) -> tensor<8x2xf32>
  %y = nn.matmul %x, %w : (tensor<3x8xf32>, tensor<8x2xf32>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// -----

// Scales per row.
// CHECK-LABEL: @channel_scales
// CHECK:         %y = ascend.MatMulV2 %x, %c
// REMARK:      [lower-to-ascend missed channel-scales] "y": its weight has scales along axis 0, not per output column
func.func @channel_scales(%x: tensor<3x2xf32>) -> tensor<3x4xf32> {
  %c = nn.constant dense<1> : tensor<2x4xi8>
  %w = nn.dequantize %c by <i8, scale = [0.25, 0.5], axis = 0> : (tensor<2x4xi8>) -> tensor<2x4xf32>
  %y = nn.matmul %x, %w : (tensor<3x2xf32>, tensor<2x4xf32>) -> tensor<3x4xf32>
  func.return %y : tensor<3x4xf32>
}

// -----

// CHECK-LABEL: @float_type
// CHECK:         %y = nn.matmul
// REMARK:      [lower-to-ascend missed float-type] "y": quantized weights go next to float32 or float16, not f64
func.func @float_type(%x: tensor<3x2xf64>) -> tensor<3x4xf64> {
  %c = nn.constant dense<1> : tensor<2x4xi8>
  %w = nn.dequantize %c by <i8, scale = 0.5> : (tensor<2x4xi8>) -> tensor<2x4xf64>
  %y = nn.matmul %x, %w : (tensor<3x2xf64>, tensor<2x4xf64>) -> tensor<3x4xf64>
  func.return %y : tensor<3x4xf64>
}

// -----

// A weight that is quantized next to a float input of something that is not a matrix product is the numbers that it stands for,
// in whatever order of axes.
// CHECK-LABEL: @other
// CHECK-NEXT:    %w.filter = nn.constant dense<{{.*}}> : tensor<1x1x3x2xf32>
// CHECK-NEXT:    %y = ascend.Conv2D %x, %w.filter
// REMARK:      [lower-to-ascend applied lower] "y": computed by ascend.Conv2D
func.func @other(%x: tensor<1x4x4x3xf32>) -> tensor<1x4x4x2xf32> {
  %w = nn.constant dense<1> : tensor<2x3x1x1xi8>
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5], zero_point = 2, axis = 0> : (tensor<2x3x1x1xi8>) -> tensor<2x3x1x1xf32>
  %y = nn.conv %x, %wd layout nhwc : (tensor<1x4x4x3xf32>, tensor<2x3x1x1xf32>) -> tensor<1x4x4x2xf32>
  func.return %y : tensor<1x4x4x2xf32>
}
