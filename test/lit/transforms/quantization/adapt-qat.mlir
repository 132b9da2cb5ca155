// RUN: amct-opt %s --adapt-qat --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// As PyTorch exports it: uint8 data, a float weight that is quantized in the graph, a float bias.
// uint8 becomes int8, zero points move by 128. 1.0 / 0.5 = 2 and -0.25 / 0.125 = -2; the bias is in units of
// 0.25 * 0.5 = 0.125 and 0.25 * 0.125 = 0.03125: 1.0 is 8, -1.0 is -32.
// CHECK-LABEL: @pytorch
// CHECK-DAG:   nn.constant dense<{{\[\[\[\[}}2]]], {{\[\[\[}}-2]]]]> : tensor<2x1x1x1xi8>
// CHECK-DAG:   nn.constant dense<[8, -32]> : tensor<2xi32>
// CHECK-DAG:   nn.quantize %x by <i8, scale = 0.25, zero_point = -125>
// CHECK-DAG:   nn.dequantize {{.*}} by <i8, scale = 0.25, zero_point = -125>
// CHECK-DAG:   nn.dequantize {{.*}} by <i8, scale = [0.5, 0.125], axis = 0>
// CHECK-DAG:   nn.dequantize {{.*}} by <i32, scale = [0.125, 0.03125], axis = 0>
// CHECK:       nn.conv
// REMARK:      [adapt-qat applied quantized] "conv1": as it was trained
func.func @pytorch(%x: tensor<1x1x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = nn.constant dense<[[[[1.0]]], [[[-0.25]]]]> : tensor<2x1x1x1xf32>
  %b = nn.constant dense<[1.0, -1.0]> : tensor<2xf32>
  %xq = nn.quantize %x by <ui8, scale = 0.25, zero_point = 3> : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xui8>
  %xd = nn.dequantize %xq by <ui8, scale = 0.25, zero_point = 3> : (tensor<1x1x4x4xui8>) -> tensor<1x1x4x4xf32>
  %wq = nn.quantize %w by <i8, scale = [0.5, 0.125], axis = 0> : (tensor<2x1x1x1xf32>) -> tensor<2x1x1x1xi8>
  %wd = nn.dequantize %wq by <i8, scale = [0.5, 0.125], axis = 0> : (tensor<2x1x1x1xi8>) -> tensor<2x1x1x1xf32>
  %y = nn.conv %xd, %wd, %b from <onnx, "Conv", "conv1"> : (tensor<1x1x4x4xf32>, tensor<2x1x1x1xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// The weight of a linear layer, transposed after its quantization.
// CHECK-LABEL: @transposed
// CHECK:       nn.constant dense<{{\[\[}}1, 3], [2, 4]]> : tensor<2x2xi8>
// CHECK-NOT:   nn.transpose
// REMARK:      [adapt-qat applied quantized] "fc": as it was trained
func.func @transposed(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = nn.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>
  %xq = nn.quantize %x by <i8, scale = 0.25> : (tensor<1x2xf32>) -> tensor<1x2xi8>
  %xd = nn.dequantize %xq by <i8, scale = 0.25> : (tensor<1x2xi8>) -> tensor<1x2xf32>
  %wd = nn.dequantize %w by <i8, scale = 0.5> : (tensor<2x2xi8>) -> tensor<2x2xf32>
  %t = nn.transpose %wd perm [1, 0] : tensor<2x2xf32>
  %y = nn.matmul %xd, %t from <onnx, "MatMul", "fc"> : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %y : tensor<1x2xf32>
}

// -----

// Quantization moves after what only moves elements: x is quantized once, where the layer takes it.
// CHECK-LABEL: @passive
// CHECK:       [[F:%.*]] = nn.flatten %x
// CHECK:       [[Q:%.*]] = nn.quantize [[F]] by <i8, scale = 0.25>
// CHECK-NEXT:  [[D:%.*]] = nn.dequantize [[Q]] by <i8, scale = 0.25>
// CHECK:       nn.matmul [[D]]
// REMARK:      [adapt-qat applied quantized] "fc": as it was trained
func.func @passive(%x: tensor<1x2x1x1xf32>) -> tensor<1x2xf32> {
  %w = nn.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>
  %xq = nn.quantize %x by <i8, scale = 0.25> : (tensor<1x2x1x1xf32>) -> tensor<1x2x1x1xi8>
  %xd = nn.dequantize %xq by <i8, scale = 0.25> : (tensor<1x2x1x1xi8>) -> tensor<1x2x1x1xf32>
  %f = nn.flatten %xd axis 1 : (tensor<1x2x1x1xf32>) -> tensor<1x2xf32>
  %wd = nn.dequantize %w by <i8, scale = 0.5> : (tensor<2x2xi8>) -> tensor<2x2xf32>
  %y = nn.matmul %f, %wd from <onnx, "MatMul", "fc"> : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %y : tensor<1x2xf32>
}

// -----

// REMARK: [adapt-qat missed quantized-data] "conv1": its weight is quantized, its data is not
// CHECK-LABEL: @quantized_data
// CHECK-NEXT:  [[W:%.*]] = nn.constant dense<5.000000e-01> : tensor<1x1x1x1xf32>
// CHECK-NEXT:  nn.conv %x, [[W]]
func.func @quantized_data(%x: tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32> {
  %w = nn.constant dense<1> : tensor<1x1x1x1xi8>
  %wd = nn.dequantize %w by <i8, scale = 0.5> : (tensor<1x1x1x1xi8>) -> tensor<1x1x1x1xf32>
  %y = nn.conv %x, %wd from <onnx, "Conv", "conv1"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  func.return %y : tensor<1x1x4x4xf32>
}

// -----

// REMARK: [adapt-qat missed quantized-weight] "conv1": its data is quantized, its weight is not
func.func @quantized_weight(%x: tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32> {
  %w = nn.constant dense<1.0> : tensor<1x1x1x1xf32>
  %xq = nn.quantize %x by <i8, scale = 0.25> : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xi8>
  %xd = nn.dequantize %xq by <i8, scale = 0.25> : (tensor<1x1x4x4xi8>) -> tensor<1x1x4x4xf32>
  %y = nn.conv %xd, %w from <onnx, "Conv", "conv1"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  func.return %y : tensor<1x1x4x4xf32>
}

// -----

// REMARK: [adapt-qat missed integer-data] "conv1": its data is i32, not of 8 or 16 bits
func.func @integer_data(%x: tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32> {
  %w = nn.constant dense<1> : tensor<1x1x1x1xi8>
  %xq = nn.quantize %x by <i32, scale = 0.25> : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xi32>
  %xd = nn.dequantize %xq by <i32, scale = 0.25> : (tensor<1x1x4x4xi32>) -> tensor<1x1x4x4xf32>
  %wd = nn.dequantize %w by <i8, scale = 0.5> : (tensor<1x1x1x1xi8>) -> tensor<1x1x1x1xf32>
  %y = nn.conv %xd, %wd from <onnx, "Conv", "conv1"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  func.return %y : tensor<1x1x4x4xf32>
}

// -----

// uint16 becomes int16, smaller by 32768.
// CHECK-LABEL: @uint16_data
// CHECK:         nn.quantize %x by <i16, scale = 0.25, zero_point = -32668> {{.*}}-> tensor<1x1x4x4xi16>
// REMARK: [adapt-qat applied quantized] "conv16": as it was trained
func.func @uint16_data(%x: tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32> {
  %w = nn.constant dense<1> : tensor<1x1x1x1xi8>
  %xq = nn.quantize %x by <ui16, scale = 0.25, zero_point = 100> : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xui16>
  %xd = nn.dequantize %xq by <ui16, scale = 0.25, zero_point = 100> : (tensor<1x1x4x4xui16>) -> tensor<1x1x4x4xf32>
  %wd = nn.dequantize %w by <i8, scale = 0.5> : (tensor<1x1x1x1xi8>) -> tensor<1x1x1x1xf32>
  %y = nn.conv %xd, %wd from <onnx, "Conv", "conv16"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  func.return %y : tensor<1x1x4x4xf32>
}

// -----

// REMARK: [adapt-qat missed per-tensor-data] "conv1": its data has more than one scale
func.func @per_tensor_data(%x: tensor<1x2x4x4xf32>) -> tensor<1x1x4x4xf32> {
  %w = nn.constant dense<1> : tensor<1x2x1x1xi8>
  %xq = nn.quantize %x by <i8, scale = [0.25, 0.5], axis = 1> : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  %xd = nn.dequantize %xq by <i8, scale = [0.25, 0.5], axis = 1> : (tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xf32>
  %wd = nn.dequantize %w by <i8, scale = 0.5> : (tensor<1x2x1x1xi8>) -> tensor<1x2x1x1xf32>
  %y = nn.conv %xd, %wd from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<1x2x1x1xf32>) -> tensor<1x1x4x4xf32>
  func.return %y : tensor<1x1x4x4xf32>
}

// -----

// REMARK: [adapt-qat missed constant-weight] "conv1": its weight is computed at run time
func.func @constant_weight(%x: tensor<1x1x4x4xf32>, %w: tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32> {
  %xq = nn.quantize %x by <i8, scale = 0.25> : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xi8>
  %xd = nn.dequantize %xq by <i8, scale = 0.25> : (tensor<1x1x4x4xi8>) -> tensor<1x1x4x4xf32>
  %wq = nn.quantize %w by <i8, scale = 0.5> : (tensor<1x1x1x1xf32>) -> tensor<1x1x1x1xi8>
  %wd = nn.dequantize %wq by <i8, scale = 0.5> : (tensor<1x1x1x1xi8>) -> tensor<1x1x1x1xf32>
  %y = nn.conv %xd, %wd from <onnx, "Conv", "conv1"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  func.return %y : tensor<1x1x4x4xf32>
}

// -----

// REMARK: [adapt-qat missed int8-weight] "conv1": its weight is i16, not i8 or ui8
func.func @int8_weight(%x: tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32> {
  %w = nn.constant dense<1> : tensor<1x1x1x1xi16>
  %xq = nn.quantize %x by <i8, scale = 0.25> : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xi8>
  %xd = nn.dequantize %xq by <i8, scale = 0.25> : (tensor<1x1x4x4xi8>) -> tensor<1x1x4x4xf32>
  %wd = nn.dequantize %w by <i16, scale = 0.5> : (tensor<1x1x1x1xi16>) -> tensor<1x1x1x1xf32>
  %y = nn.conv %xd, %wd from <onnx, "Conv", "conv1"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  func.return %y : tensor<1x1x4x4xf32>
}

// -----

// uint8 with a zero point of 128 is symmetric int8; with another one it is not.
// REMARK: [adapt-qat missed symmetric-weight] "conv1": its weight has zero points that are not 0
func.func @symmetric_weight(%x: tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32> {
  %w = nn.constant dense<1> : tensor<1x1x1x1xui8>
  %xq = nn.quantize %x by <i8, scale = 0.25> : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xi8>
  %xd = nn.dequantize %xq by <i8, scale = 0.25> : (tensor<1x1x4x4xi8>) -> tensor<1x1x4x4xf32>
  %wd = nn.dequantize %w by <ui8, scale = 0.5, zero_point = 127> : (tensor<1x1x1x1xui8>) -> tensor<1x1x1x1xf32>
  %y = nn.conv %xd, %wd from <onnx, "Conv", "conv1"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  func.return %y : tensor<1x1x4x4xf32>
}

// -----

// REMARK: [adapt-qat missed matrix-weight] "mm": its weight is of rank 3, not 2
func.func @matrix_weight(%x: tensor<1x2x2xf32>) -> tensor<1x2x1xf32> {
  %w = nn.constant dense<1> : tensor<1x2x1xi8>
  %xq = nn.quantize %x by <i8, scale = 0.25> : (tensor<1x2x2xf32>) -> tensor<1x2x2xi8>
  %xd = nn.dequantize %xq by <i8, scale = 0.25> : (tensor<1x2x2xi8>) -> tensor<1x2x2xf32>
  %wd = nn.dequantize %w by <i8, scale = 0.5> : (tensor<1x2x1xi8>) -> tensor<1x2x1xf32>
  %y = nn.matmul %xd, %wd from <onnx, "MatMul", "mm"> : (tensor<1x2x2xf32>, tensor<1x2x1xf32>) -> tensor<1x2x1xf32>
  func.return %y : tensor<1x2x1xf32>
}

// -----

// REMARK: [adapt-qat missed per-tensor-weight] "mm": its weight has a scale per channel, as only convolutions may
func.func @per_tensor_weight(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = nn.constant dense<1> : tensor<2x2xi8>
  %xq = nn.quantize %x by <i8, scale = 0.25> : (tensor<1x2xf32>) -> tensor<1x2xi8>
  %xd = nn.dequantize %xq by <i8, scale = 0.25> : (tensor<1x2xi8>) -> tensor<1x2xf32>
  %wd = nn.dequantize %w by <i8, scale = [0.5, 0.25], axis = 1> : (tensor<2x2xi8>) -> tensor<2x2xf32>
  %y = nn.matmul %xd, %wd from <onnx, "Gemm", "mm"> : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %y : tensor<1x2xf32>
}

// -----

// REMARK: [adapt-qat missed channel-scales] "conv1": its weight has scales along axis 1, not per output channel
func.func @channel_scales(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = nn.constant dense<1> : tensor<2x2x1x1xi8>
  %xq = nn.quantize %x by <i8, scale = 0.25> : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  %xd = nn.dequantize %xq by <i8, scale = 0.25> : (tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xf32>
  %wd = nn.dequantize %w by <i8, scale = [0.5, 0.25], axis = 1> : (tensor<2x2x1x1xi8>) -> tensor<2x2x1x1xf32>
  %y = nn.conv %xd, %wd from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// 3e8 / (0.25 * 0.5) does not fit into int32.
// REMARK: [adapt-qat analysis int32-bias] "conv1": its bias does not fit into int32 at the accumulators' scales and stays float
func.func @int32_bias(%x: tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32> {
  %w = nn.constant dense<1> : tensor<1x1x1x1xi8>
  %b = nn.constant dense<3.0e+08> : tensor<1xf32>
  %xq = nn.quantize %x by <i8, scale = 0.25> : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xi8>
  %xd = nn.dequantize %xq by <i8, scale = 0.25> : (tensor<1x1x4x4xi8>) -> tensor<1x1x4x4xf32>
  %wd = nn.dequantize %w by <i8, scale = 0.5> : (tensor<1x1x1x1xi8>) -> tensor<1x1x1x1xf32>
  %y = nn.conv %xd, %wd, %b from <onnx, "Conv", "conv1"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>, tensor<1xf32>) -> tensor<1x1x4x4xf32>
  func.return %y : tensor<1x1x4x4xf32>
}

// -----

// REMARK: [adapt-qat analysis int8-output] {{.*}} an output of uint8 becomes one of int8, smaller by 128
// CHECK-LABEL: @int8_output
// CHECK-SAME:  -> tensor<2xi8>
// CHECK:       nn.quantize %x by <i8, scale = 0.25, zero_point = -118>
func.func @int8_output(%x: tensor<2xf32>) -> tensor<2xui8> {
  %q = nn.quantize %x by <ui8, scale = 0.25, zero_point = 10> : (tensor<2xf32>) -> tensor<2xui8>
  func.return %q : tensor<2xui8>
}

// -----

// Something other than a dequantize reads the integers.
// REMARK: [adapt-qat missed signed-integers] {{.*}} its uint8 result is taken by more than dequantize
// CHECK-LABEL: @signed_integers
// CHECK:       nn.quantize %x by <ui8, scale = 0.25, zero_point = 10>
func.func @signed_integers(%x: tensor<2xf32>) -> tensor<2xui8> {
  %q = nn.quantize %x by <ui8, scale = 0.25, zero_point = 10> : (tensor<2xf32>) -> tensor<2xui8>
  %r = nn.transpose %q perm [0] : tensor<2xui8>
  func.return %r : tensor<2xui8>
}

// -----

// What no operator computes in integers stays float, on a rounded weight: there is no Conv3DTranspose, and Conv3D has no offset_x.
// CHECK-LABEL: @float_operators
// CHECK-DAG:   nn.constant dense<-1.000000e+00> : tensor<1x1x1x1x1xf32>
// CHECK-DAG:   nn.constant dense<1.000000e+00> : tensor<1x1x1x1x1xf32>
// CHECK-NOT:   i32
// CHECK:       nn.conv_transpose
// CHECK:       nn.conv
// REMARK:      [adapt-qat missed integer-operator] "up":
// REMARK:      [adapt-qat missed integer-operator] "volume":
func.func @float_operators(%x: tensor<1x1x4x4x4xf32>) -> tensor<1x1x4x4x4xf32> {
  %w = nn.constant dense<2> : tensor<1x1x1x1x1xi8>
  %v = nn.constant dense<-2> : tensor<1x1x1x1x1xi8>
  %b = nn.constant dense<1.0> : tensor<1xf32>
  %xq = nn.quantize %x by <i8, scale = 0.25> : (tensor<1x1x4x4x4xf32>) -> tensor<1x1x4x4x4xi8>
  %xd = nn.dequantize %xq by <i8, scale = 0.25> : (tensor<1x1x4x4x4xi8>) -> tensor<1x1x4x4x4xf32>
  %wd = nn.dequantize %w by <i8, scale = 0.5> : (tensor<1x1x1x1x1xi8>) -> tensor<1x1x1x1x1xf32>
  %vd = nn.dequantize %v by <i8, scale = 0.5> : (tensor<1x1x1x1x1xi8>) -> tensor<1x1x1x1x1xf32>
  %u = nn.conv_transpose %xd, %wd, %b from <onnx, "ConvTranspose", "up"> : (tensor<1x1x4x4x4xf32>, tensor<1x1x1x1x1xf32>, tensor<1xf32>) -> tensor<1x1x4x4x4xf32>
  %uq = nn.quantize %u by <i8, scale = 0.25, zero_point = 3> : (tensor<1x1x4x4x4xf32>) -> tensor<1x1x4x4x4xi8>
  %ud = nn.dequantize %uq by <i8, scale = 0.25, zero_point = 3> : (tensor<1x1x4x4x4xi8>) -> tensor<1x1x4x4x4xf32>
  %y = nn.conv %ud, %vd, %b from <onnx, "Conv", "volume"> : (tensor<1x1x4x4x4xf32>, tensor<1x1x1x1x1xf32>, tensor<1xf32>) -> tensor<1x1x4x4x4xf32>
  func.return %y : tensor<1x1x4x4x4xf32>
}

// -----

// Factors after a layer: scales times 2 and 0.5, and the sign of a negative factor in the integers; the shift is the bias.
// The bias is in units of 0.25 * 1.0 and 0.25 * 0.25: 1.0 is 4 and 16.
// CHECK-LABEL: @factors
// CHECK-DAG:   nn.constant dense<{{\[\[\[\[}}2]]], {{\[\[\[}}3]]]]> : tensor<2x1x1x1xi8>
// CHECK-DAG:   nn.constant dense<[4, 16]> : tensor<2xi32>
// CHECK-DAG:   nn.dequantize {{.*}} by <i8, scale = [1.0, 0.25], axis = 0>
// CHECK-NOT:   nn.mul
// CHECK-NOT:   nn.add
// REMARK:      [adapt-qat applied channel-factors] {{.*}}: into the scales and the bias of conv1
func.func @factors(%x: tensor<1x1x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = nn.constant dense<[[[[2]]], [[[-3]]]]> : tensor<2x1x1x1xi8>
  %k = nn.constant dense<[[[2.0]], [[-0.5]]]> : tensor<2x1x1xf32>
  %c = nn.constant dense<1.0> : tensor<1xf32>
  %xq = nn.quantize %x by <i8, scale = 0.25> : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xi8>
  %xd = nn.dequantize %xq by <i8, scale = 0.25> : (tensor<1x1x4x4xi8>) -> tensor<1x1x4x4xf32>
  %wd = nn.dequantize %w by <i8, scale = 0.5> : (tensor<2x1x1x1xi8>) -> tensor<2x1x1x1xf32>
  %y = nn.conv %xd, %wd from <onnx, "Conv", "conv1"> : (tensor<1x1x4x4xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x4x4xf32>
  %m = nn.mul %y, %k from <onnx, "Mul", "mul1"> : (tensor<1x2x4x4xf32>, tensor<2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %a = nn.add %m, %c from <onnx, "Add", "add1"> : (tensor<1x2x4x4xf32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  func.return %a : tensor<1x2x4x4xf32>
}

// -----

// An integer without a negative cannot change its sign.
// CHECK-LABEL: @no_negative
// CHECK:       nn.mul
// REMARK:      [adapt-qat missed channel-factors] "mul1": a factor is negative, and the weight has integers without a negative
func.func @no_negative(%x: tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32> {
  %w = nn.constant dense<[[[[-128]]]]> : tensor<1x1x1x1xi8>
  %k = nn.constant dense<-2.0> : tensor<1xf32>
  %xq = nn.quantize %x by <i8, scale = 0.25> : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xi8>
  %xd = nn.dequantize %xq by <i8, scale = 0.25> : (tensor<1x1x4x4xi8>) -> tensor<1x1x4x4xf32>
  %wd = nn.dequantize %w by <i8, scale = 0.5> : (tensor<1x1x1x1xi8>) -> tensor<1x1x1x1xf32>
  %y = nn.conv %xd, %wd from <onnx, "Conv", "conv1"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %m = nn.mul %y, %k from <onnx, "Mul", "mul1"> : (tensor<1x1x4x4xf32>, tensor<1xf32>) -> tensor<1x1x4x4xf32>
  func.return %m : tensor<1x1x4x4xf32>
}

// -----

// A scale that underflows would be 0.
// CHECK-LABEL: @underflow
// CHECK:       nn.mul
// REMARK:      [adapt-qat missed channel-factors] "mul1": scales times its factors leave the range of float32
func.func @underflow(%x: tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32> {
  %w = nn.constant dense<[[[[2]]]]> : tensor<1x1x1x1xi8>
  %k = nn.constant dense<1.0e-30> : tensor<1xf32>
  %xq = nn.quantize %x by <i8, scale = 0.25> : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xi8>
  %xd = nn.dequantize %xq by <i8, scale = 0.25> : (tensor<1x1x4x4xi8>) -> tensor<1x1x4x4xf32>
  %wd = nn.dequantize %w by <i8, scale = 1.0e-20> : (tensor<1x1x1x1xi8>) -> tensor<1x1x1x1xf32>
  %y = nn.conv %xd, %wd from <onnx, "Conv", "conv1"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %m = nn.mul %y, %k from <onnx, "Mul", "mul1"> : (tensor<1x1x4x4xf32>, tensor<1xf32>) -> tensor<1x1x4x4xf32>
  func.return %m : tensor<1x1x4x4xf32>
}
