// RUN: amct-opt %s --lower-to-ascend --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// ONNX Gemm, TensorFlow MatMul: MatMulV2 with its bias.
// CHECK-LABEL: @gemm
// CHECK:         %fc_acc = ascend.MatMulV2 %q, %w, %b transpose_x2 true offset_x -3 from <onnx, "Gemm", "fc"> : (tensor<?x8xi8>, tensor<4x8xi8>, tensor<4xi32>) -> tensor<?x4xi32>
// CHECK-NEXT:    %fc_deq_scale = nn.constant dense<1.250000e-01> : tensor<1xf32>
// CHECK-NEXT:    %fc = ascend.AscendDequant %fc_acc, %fc_deq_scale from <onnx, "Gemm", "fc"> : (tensor<?x4xi32>, tensor<1xf32>) -> tensor<?x4xf32>
// REMARK:      [lower-to-ascend applied lower] "fc"
func.func @gemm(%x: tensor<?x8xf32>) -> tensor<?x4xf32> {
  %w = nn.constant dense<1> : tensor<4x8xi8>
  %wd = nn.dequantize %w by <i8, scale = 0.25> : (tensor<4x8xi8>) -> tensor<4x8xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<?x8xf32>) -> tensor<?x8xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<?x8xi8>) -> tensor<?x8xf32>
  %b = nn.constant dense<7> : tensor<4xi32>
  %bd = nn.dequantize %b by <i32, scale = 0.125> : (tensor<4xi32>) -> tensor<4xf32>
  %fc = nn.matmul %d, %wd, %bd transpose_b from <onnx, "Gemm", "fc"> : (tensor<?x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<?x4xf32>
  func.return %fc : tensor<?x4xf32>
}

// -----

// ONNX MatMul: BatchMatMulV2. Scales per column of a product of rank 3 are of that rank; a float bias is added at the end.
// CHECK-LABEL: @batched
// CHECK:         %y_acc = ascend.BatchMatMulV2 %q, %w offset_x -3 from <onnx, "MatMul", "m">
// CHECK-NEXT:    %y_deq_scale = nn.constant dense<{{\[\[\[}}1.250000e-01, 2.500000e-01]]]> : tensor<1x1x2xf32>
// CHECK-NEXT:    %y_deq = ascend.AscendDequant %y_acc, %y_deq_scale
// CHECK-NEXT:    %y = ascend.Add %y_deq, %f from <onnx, "MatMul", "m">
// REMARK:      [lower-to-ascend applied lower] "m": computed by ascend.Add
func.func @batched(%x: tensor<2x5x8xf32>, %f: tensor<2xf32>) -> tensor<2x5x2xf32> {
  %w = nn.constant dense<1> : tensor<8x2xi8>
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5], axis = 1> : (tensor<8x2xi8>) -> tensor<8x2xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<2x5x8xf32>) -> tensor<2x5x8xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<2x5x8xi8>) -> tensor<2x5x8xf32>
  %y = nn.matmul %d, %wd, %f from <onnx, "MatMul", "m"> : (tensor<2x5x8xf32>, tensor<8x2xf32>, tensor<2xf32>) -> tensor<2x5x2xf32>
  func.return %y : tensor<2x5x2xf32>
}

// -----

// Two activations: float.
// CHECK-LABEL: @activations
// CHECK-NEXT:    %s = ascend.BatchMatMulV2 %a, %a adj_x2 true : ({{.*}}) -> tensor<2x4x4xf32>
// CHECK-NEXT:    %y = ascend.MatMulV2 %m, %m transpose_x1 true
// REMARK:      [lower-to-ascend applied lower] "s"
func.func @activations(%a: tensor<2x4x8xf32>, %m: tensor<3x3xf32>) -> (tensor<2x4x4xf32>, tensor<3x3xf32>) {
  %s = nn.matmul %a, %a transpose_b : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x4xf32>
  %y = nn.matmul %m, %m transpose_a : tensor<3x3xf32>
  func.return %s, %y : tensor<2x4x4xf32>, tensor<3x3xf32>
}

// -----

// Scales per row of the weight.
// CHECK-LABEL: @channel_scales
// CHECK:         %y = ascend.MatMulV2 %d, %w
// REMARK:      [lower-to-ascend missed channel-scales] "y": its weight has scales along axis 0, not per output column
func.func @channel_scales(%x: tensor<3x2xf32>) -> tensor<3x4xf32> {
  %w = nn.constant dense<1> : tensor<2x4xi8>
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5], axis = 0> : (tensor<2x4xi8>) -> tensor<2x4xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<3x2xf32>) -> tensor<3x2xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<3x2xi8>) -> tensor<3x2xf32>
  %y = nn.matmul %d, %wd : (tensor<3x2xf32>, tensor<2x4xf32>) -> tensor<3x4xf32>
  func.return %y : tensor<3x4xf32>
}

// -----

// A vector is a matrix of one row, or of one column.
// CHECK-LABEL: @vectors
// CHECK:         %y_row = ascend.Unsqueeze %x axes [0]
// CHECK-NEXT:    %y_acc = ascend.MatMulV2 %y_row, %w : (tensor<1x8xf32>, tensor<8x4xf32>) -> tensor<1x4xf32>
// CHECK-NEXT:    %y = ascend.Squeeze %y_acc axis [0]
// CHECK:         %z_column = ascend.Unsqueeze %x axes [1]
// CHECK-NEXT:    %z_acc = ascend.BatchMatMulV2 %b, %z_column : (tensor<2x3x8xf32>, tensor<8x1xf32>) -> tensor<2x3x1xf32>
// CHECK-NEXT:    %z = ascend.Squeeze %z_acc axis [2]
// CHECK:         %i = ascend.Squeeze %{{.*}} axis [0, 1]
// CHECK:         ascend.AscendQuant
// CHECK:         ascend.MatMulV2 %{{.*}}, %k : (tensor<1x8xi8>, tensor<8x4xi8>) -> tensor<1x4xi32>
// CHECK:         ascend.AscendDequant
// CHECK-NEXT:    %p = ascend.Squeeze
func.func @vectors(%x: tensor<8xf32>, %w: tensor<8x4xf32>, %b: tensor<2x3x8xf32>) -> (tensor<4xf32>, tensor<2x3xf32>, tensor<f32>, tensor<4xf32>) {
  %y = nn.matmul %x, %w : (tensor<8xf32>, tensor<8x4xf32>) -> tensor<4xf32>
  %z = nn.matmul %b, %x : (tensor<2x3x8xf32>, tensor<8xf32>) -> tensor<2x3xf32>
  %i = nn.matmul %x, %x : (tensor<8xf32>, tensor<8xf32>) -> tensor<f32>
  %q = nn.quantize %x by <i8, scale = 0.5> : (tensor<8xf32>) -> tensor<8xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5> : (tensor<8xi8>) -> tensor<8xf32>
  %k = nn.constant dense<1> : tensor<8x4xi8>
  %kd = nn.dequantize %k by <i8, scale = 0.25> : (tensor<8x4xi8>) -> tensor<8x4xf32>
  %p = nn.matmul %d, %kd : (tensor<8xf32>, tensor<8x4xf32>) -> tensor<4xf32>
  func.return %y, %z, %i, %p : tensor<4xf32>, tensor<2x3xf32>, tensor<f32>, tensor<4xf32>
}

// -----

// CHECK-LABEL: @bias_add
// CHECK-NEXT:    %y = ascend.BiasAdd %x, %b data_format "NCHW"
// CHECK-NEXT:    %z = ascend.BiasAdd %y, %c :
// REMARK:      [lower-to-ascend applied lower] "y"
func.func @bias_add(%x: tensor<1x3x4x5xf32>, %b: tensor<3xf32>, %c: tensor<5xf32>) -> tensor<1x3x4x5xf32> {
  %y = nn.bias_add %x, %b : (tensor<1x3x4x5xf32>, tensor<3xf32>) -> tensor<1x3x4x5xf32>
  %z = nn.bias_add %y, %c layout nhwc : (tensor<1x3x4x5xf32>, tensor<5xf32>) -> tensor<1x3x4x5xf32>
  func.return %z : tensor<1x3x4x5xf32>
}
