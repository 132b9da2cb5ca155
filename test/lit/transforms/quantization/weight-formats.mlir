// RUN: amct-opt %s --profile=qdq --insert-observers="weight-only=true weight-format=mxfp4" --remarks=all 2>&1 | filecheck %s
// RUN: amct-opt %s --profile=qdq --insert-observers="weight-only=true weight-format=mxfp4" --convert-observers --remarks=all 2>&1 | filecheck %s --check-prefix STORED
// RUN: amct-opt %s --profile=qdq --insert-observers="weight-only=true weight-format=nvfp4" --convert-observers 2>&1 | filecheck %s --check-prefix NVFP4
// RUN: amct-opt %s --profile=qdq --insert-observers="weight-only=true weight-format=fp8-e4m3" --convert-observers --remarks=all 2>&1 | filecheck %s --check-prefix FP8
// RUN: amct-opt %s --profile=ascend --insert-observers="weight-only=true weight-format=mxfp4" --remarks=missed 2>&1 | filecheck %s --check-prefix ASCEND
// RUN: amct-opt %s --profile=qdq --insert-observers="activation-format=fp8-e4m3" --remarks=all 2>&1 | filecheck %s --check-prefix INPUTS
// RUN: not amct-opt %s --insert-observers=weight-format=mxfp4 2>&1 | filecheck %s --check-prefix ALONE
// RUN: not amct-opt %s --insert-observers="weight-only=true weight-format=mxfp6" 2>&1 | filecheck %s --check-prefix NAMES
// RUN: not amct-opt %s --insert-observers="weight-only=true weight-format=mxfp4 weight-bits=4" 2>&1 | filecheck %s --check-prefix BITS

// A scale for each output channel and 32 input channels, which are axis 0, or 1 of a transposed weight; the last group may be shorter.
// CHECK-DAG: [insert-observers applied weight-only] "fc": its input stays float, its weight is quantized by itself
// CHECK-DAG: [insert-observers missed matrix-weight] "batch": its second operand is of rank 3
// CHECK-DAG: [insert-observers missed weight-constant] "computed": its weight is computed at run time
// CHECK-DAG: [insert-observers missed weight-compress-only] "conv": only weights are quantized, and it has no weight that can be quantized by itself
// CHECK-DAG: [insert-observers missed number-format] "gru": its weights become int8, not mxfp4: recurrent layers have weights of integers only
// CHECK-LABEL: func.func @main
// CHECK: from <onnx, "MatMul", "fc"> {nn.plan = #nn.plan<weight "mxfp4" axis 0 block 32>}
// CHECK: from <onnx, "Gemm", "turned"> {nn.plan = #nn.plan<weight "mxfp4" axis 1 block 32>}
// CHECK: from <onnx, "MatMul", "batch"> {nn.plan = #nn.plan<float "matrix-weight">}

// STORED-DAG: [convert-observers applied quantized] "fc": mxfp4 weight per group of 32, alone
// STORED-LABEL: func.func @main
// STORED: nn.constant dense<2.500000e-01> : tensor<2x2xf8E8M0FNU>
// STORED: nn.dequantize_float {{.*}} axis 0 block 32 : (tensor<40x2xf4E2M1FN>, tensor<2x2xf8E8M0FNU>) -> tensor<40x2xf32>
// STORED: nn.dequantize_float {{.*}} axis 1 block 32 : (tensor<2x40xf4E2M1FN>, tensor<2x2xf8E8M0FNU>) -> tensor<2x40xf32>

// NVFP4: nn.dequantize_float {{.*}} : (tensor<3x2xf8E4M3FN>, tensor<f32>) -> tensor<3x2xf32>
// NVFP4: nn.dequantize_float {{.*}} axis 0 block 16 : (tensor<40x2xf4E2M1FN>, tensor<3x2xf32>) -> tensor<40x2xf32>

// FP8-DAG: [convert-observers applied quantized] "fc": fp8-e4m3 weight per channel, alone
// FP8-DAG: [convert-observers applied quantized] "batch": fp8-e4m3 weight per tensor, alone
// FP8-DAG: [convert-observers applied quantized] "conv": fp8-e4m3 weight per channel, alone
// FP8: nn.dequantize_float {{.*}} axis 1 : (tensor<40x2xf8E4M3FN>, tensor<2xf32>) -> tensor<40x2xf32>

// INPUTS-DAG: [insert-observers applied weight-only] "fc": its weight is quantized by itself
// INPUTS-DAG: [insert-observers analysis input-format] "fc": its input becomes fp8-e4m3, observed by minmax
// INPUTS-LABEL: func.func @main
// INPUTS: %[[X:.*]] = nn.observe %x as "fc:0" by "minmax" symmetric number_format "fp8-e4m3" : tensor<3x40xf32>
// INPUTS: nn.matmul %[[X]], %w from <onnx, "MatMul", "fc"> {nn.plan = #nn.plan<weight "fp8-e4m3" axis 1>}
// INPUTS: nn.matmul %[[X]], %t transpose_b from <onnx, "Gemm", "turned">

// ASCEND: [insert-observers missed integer-weight] "fc": this target takes weights of integers, not of floats of 8 or 4 bits: use profile qdq, or weight-bits
// ALONE: error: weight-format applies to weights that are quantized by themselves
// ALONE-NEXT: hint: give weight-only=true
// NAMES: error:{{.*}}weight-format{{.*}}mxfp6
// BITS: error: mxfp4 has bits and groups of its own, and no zero points
func.func @main(%x: tensor<3x40xf32>, %b: tensor<2x3x40xf32>, %s: tensor<4x1x2xf32>, %i: tensor<1x2x4x4xf32>) {
  %k = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %w = nn.constant dense<1.0> : tensor<40x2xf32>
  %t = nn.constant dense<0.5> : tensor<2x40xf32>
  %v = nn.constant dense<1.0> : tensor<2x40x2xf32>
  %g = nn.constant dense<[[[1.0, -2.0], [0.5, 0.25], [4.0, 3.0]]]> : tensor<1x3x2xf32>
  %r = nn.constant dense<[[[1.0], [0.5], [4.0]]]> : tensor<1x3x1xf32>
  %0 = nn.matmul %x, %w from <onnx, "MatMul", "fc"> : (tensor<3x40xf32>, tensor<40x2xf32>) -> tensor<3x2xf32>
  %1 = nn.matmul %x, %t transpose_b from <onnx, "Gemm", "turned"> : (tensor<3x40xf32>, tensor<2x40xf32>) -> tensor<3x2xf32>
  %2 = nn.matmul %b, %v from <onnx, "MatMul", "batch"> : (tensor<2x3x40xf32>, tensor<2x40x2xf32>) -> tensor<2x3x2xf32>
  %3 = nn.matmul %x, %x transpose_b from <onnx, "Gemm", "computed"> : (tensor<3x40xf32>, tensor<3x40xf32>) -> tensor<3x3xf32>
  %4 = nn.conv %i, %k from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %5 = nn.opaque %s, %g, %r framework "onnx" op_type "GRU" version 14 attrs {hidden_size = 1 : i64} from <onnx, "GRU", "gru"> : (tensor<4x1x2xf32>, tensor<1x3x2xf32>, tensor<1x3x1xf32>) -> tensor<4x1x1x1xf32>
  func.return
}
