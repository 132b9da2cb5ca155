// RUN: amct-opt %s --profile=qdq --insert-observers="weight-only=true weight-bits=4 group-size=16" --remarks=all 2>&1 | filecheck %s
// RUN: amct-opt %s --profile=qdq --insert-observers="weight-only=true weight-bits=4 group-size=16" --convert-observers --remarks=all 2>&1 | filecheck %s --check-prefix INTEGERS
// RUN: amct-opt %s --profile=qdq --insert-observers="weight-only=true weight-bits=2 group-size=16" --remarks=all 2>&1 | filecheck %s --check-prefix TWO
// RUN: amct-opt %s --profile=qdq --insert-observers="weight-only=true weight-bits=2 group-size=16" --convert-observers --remarks=all 2>&1 | filecheck %s --check-prefix TWO-INTEGERS
// RUN: amct-opt %s --insert-observers="weight-only=true weight-bits=2 group-size=16" --remarks=missed 2>&1 | filecheck %s --check-prefix ASCEND
// RUN: not amct-opt %s --profile=qdq --insert-observers="weight-only=true weight-bits=2" 2>&1 | filecheck %s --check-prefix CHANNEL
// RUN: not amct-opt %s --profile=qdq --insert-observers="weight-only=true layer-weight-bits=fc:2" 2>&1 | filecheck %s --check-prefix LAYER
// RUN: not amct-opt %s --insert-observers=group-size=16 2>&1 | filecheck %s --check-prefix ALONE
// RUN: not amct-opt %s --insert-observers="weight-only=true group-size=48" 2>&1 | filecheck %s --check-prefix SIZES
// RUN: not amct-opt %s --insert-observers="weight-only=true group-size=16 channel-wise=false" 2>&1 | filecheck %s --check-prefix CHANNELS

// A scale for each output channel and 16 input channels, which are axis 0, or 1 of a transposed weight; the last group may be shorter.
// CHECK-DAG: [insert-observers applied weight-only] "fc": its input stays float, its weight is quantized by itself
// CHECK-DAG: [insert-observers applied weight-only] "turned"
// CHECK-DAG: [insert-observers missed matrix-weight] "batch": its weight has a scale for each channel, not for each group: its second operand is of rank 3
// CHECK-DAG: [insert-observers missed weight-constant] "computed": its weight is computed at run time
// CHECK-DAG: [insert-observers missed weight-compress-only] "conv": only weights are quantized, and it has no weight that can be quantized by itself
// CHECK-DAG: [insert-observers missed matrix-weight] "gru": its weights have a scale for each row, not for each group: they are not matrices
// CHECK-LABEL: func.func @main
// CHECK: from <onnx, "MatMul", "fc"> {nn.plan = #nn.plan<weight i4 axis 0 block 16 search>}
// CHECK: from <onnx, "Gemm", "turned"> {nn.plan = #nn.plan<weight i4 axis 1 block 16 search>}
// CHECK: from <onnx, "MatMul", "batch"> {nn.plan = #nn.plan<weight i4 axis 2>}

// INTEGERS-DAG: [convert-observers applied quantized] "fc": int4 weight per group of 16, alone
// INTEGERS-DAG: [convert-observers applied quantized] "batch": int4 weight per channel, alone
// INTEGERS-LABEL: func.func @main
// INTEGERS: nn.dequantize {{.*}} by <i4, scale = [0.14285715, 0.14285715, 0.14285715, 0.14285715, 0.14285715, 0.14285715], axis = 0, block = 16> : (tensor<40x2xi4>) -> tensor<40x2xf32>
// INTEGERS: nn.dequantize {{.*}} axis = 1, block = 16> : (tensor<2x40xi4>) -> tensor<2x40xf32>

// 2 bits are for groups: weights that cannot have them have 8.
// TWO-LABEL: func.func @main
// TWO: from <onnx, "MatMul", "fc"> {nn.plan = #nn.plan<weight i2 axis 0 block 16 search>}
// TWO: from <onnx, "Gemm", "turned"> {nn.plan = #nn.plan<weight i2 axis 1 block 16 search>}
// TWO: from <onnx, "MatMul", "batch"> {nn.plan = #nn.plan<weight i8 axis 2>}
// TWO: from <onnx, "GRU", "gru"> {nn.plan = #nn.plan<weight i8 axis 1, weight i8 axis 1>}
// TWO-INTEGERS-DAG: [convert-observers applied quantized] "fc": int2 weight per group of 16, alone
// TWO-INTEGERS-DAG: [convert-observers applied quantized] "batch": int8 weight per channel, alone
// TWO-INTEGERS: nn.dequantize %w.i2 by <i2, scale = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0], axis = 0, block = 16> : (tensor<40x2xi2>) -> tensor<40x2xf32>
// ASCEND: [insert-observers missed integer-weight] "fc": this target takes weights of 3 bits or more: use profile qdq, or weight-bits
// CHANNEL: error: quant_bits 2 needs group_size: 4 integers are too few for all weights of an output channel
// CHANNEL-NEXT: hint: give weight-only=true group-size=32
// LAYER: error: layer_weight_bits gives 'fc' 2 bits, but quant_bits 2 needs group_size
// LAYER-NEXT: hint: give weight-only=true group-size=32

// ALONE: error: group-size applies to weights that are quantized by themselves
// ALONE-NEXT: hint: give weight-only=true
// SIZES: error:{{.*}}group-size{{.*}}48
// CHANNELS: error: group_size gives each output channel scales of its own: channel_wise cannot be false
func.func @main(%x: tensor<3x40xf32>, %b: tensor<2x3x40xf32>, %i: tensor<1x2x4x4xf32>, %s: tensor<4x1x2xf32>) {
  %w = nn.constant dense<1.0> : tensor<40x2xf32>
  %t = nn.constant dense<0.5> : tensor<2x40xf32>
  %v = nn.constant dense<1.0> : tensor<2x40x2xf32>
  %k = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
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
