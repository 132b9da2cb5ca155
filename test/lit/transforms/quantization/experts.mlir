// RUN: amct-opt %s --profile=qdq --insert-observers="weight-only=true weight-bits=4 group-size=16" --convert-observers --remarks=all 2>&1 | filecheck %s
// RUN: amct-opt %s --profile=qdq --insert-observers="weight-only=true" --convert-observers 2>&1 | filecheck %s --check-prefix CHANNELS
// RUN: amct-opt %s --profile=ascend --insert-observers="weight-only=true" --remarks=all 2>&1 | filecheck %s --check-prefix ASCEND
// RUN: amct-opt %s --profile=qdq --insert-observers="weight-only=true weight-format=mxfp8" --remarks=all 2>&1 | filecheck %s --check-prefix FORMAT
// RUN: amct-opt %s --profile=qdq --insert-observers --remarks=all 2>&1 | filecheck %s --check-prefix INPUTS

// The weights of experts are picked by token, and products multiply by them, from either side and turned or not.
// CHECK-DAG: [insert-observers applied weight-only] "up": the weights of its 2 experts are quantized by themselves
// CHECK-DAG: [convert-observers applied quantized] "up": int4 weight per group of 16, alone
// CHECK-DAG: [insert-observers missed weight-constant] "up_product": its weight is computed at run time: it is picked from experts (up)
// CHECK-DAG: [insert-observers missed not-in-profile] "other": profile qdq does not quantize this operation
// CHECK-LABEL: func.func @main
// CHECK: nn.dequantize {{.*}} axis = 1, block = 16> : (tensor<2x32x8xi4>) -> tensor<2x32x8xf32>
// CHECK: nn.dequantize {{.*}} axis = 2, block = 16> : (tensor<2x8x32xi4>) -> tensor<2x8x32xf32>

// A scale for each output channel of each expert: a group of all input channels.
// CHANNELS-LABEL: func.func @main
// CHANNELS: nn.dequantize {{.*}} axis = 1, block = 32> : (tensor<2x32x8xi8>) -> tensor<2x32x8xf32>
// CHANNELS: nn.dequantize {{.*}} axis = 2, block = 32> : (tensor<2x8x32xi8>) -> tensor<2x8x32xf32>

// ASCEND: [insert-observers missed picked-integers] "up": this target reads what is picked at run time as floats: use profile qdq
// FORMAT: [insert-observers missed picked-integers] "up": the weights of experts become integers, not mxfp8
// INPUTS: [insert-observers missed not-in-profile] "up": profile qdq does not quantize this operation
func.func @main(%x: tensor<3x1x32xf32>, %z: tensor<3x32x1xf32>, %i: tensor<3xi64>) {
  %a = nn.constant dense<0.5> : tensor<2x32x8xf32>
  %b = nn.constant dense<0.25> : tensor<2x8x32xf32>
  %0 = nn.gather %a, %i from <onnx, "Gather", "up"> : (tensor<2x32x8xf32>, tensor<3xi64>) -> tensor<3x32x8xf32>
  %1 = nn.matmul %x, %0 from <onnx, "MatMul", "up_product"> : (tensor<3x1x32xf32>, tensor<3x32x8xf32>) -> tensor<3x1x8xf32>
  %2 = nn.transpose %0 perm [0, 2, 1] : (tensor<3x32x8xf32>) -> tensor<3x8x32xf32>
  %3 = nn.matmul %2, %z from <onnx, "MatMul", "turned"> : (tensor<3x8x32xf32>, tensor<3x32x1xf32>) -> tensor<3x8x1xf32>
  %4 = nn.gather %b, %i from <onnx, "Gather", "down"> : (tensor<2x8x32xf32>, tensor<3xi64>) -> tensor<3x8x32xf32>
  %5 = nn.matmul %4, %z from <onnx, "MatMul", "down_product"> : (tensor<3x8x32xf32>, tensor<3x32x1xf32>) -> tensor<3x8x1xf32>
  %6 = nn.gather %b, %i from <onnx, "Gather", "other"> : (tensor<2x8x32xf32>, tensor<3xi64>) -> tensor<3x8x32xf32>
  %7 = nn.relu %6 : (tensor<3x8x32xf32>) -> tensor<3x8x32xf32>
  func.return
}
