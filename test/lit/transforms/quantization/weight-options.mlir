// AMCT's table 3: the options of weights, alone and next to a quantized input.
// RUN: amct-opt %s --quantize='weight-only=true channel-wise=true weight-asymmetric=true' --remarks=all 2>&1 >/dev/null | filecheck %s
// RUN: amct-opt %s --quantize='weight-only=true channel-wise=true weight-asymmetric=true' 2>/dev/null | filecheck %s --check-prefix IR
// RUN: amct-opt %s --quantize='channel-wise=true weight-asymmetric=true' --remarks=all 2>&1 >/dev/null | filecheck %s --check-prefix BESIDE

// Asked of one layer, or of a type that never has it, what the table refuses is an error.
// RUN: echo 'override_layer_configs { layer_name: "gemm" calibration_config { arq_quantize { channel_wise: true } } }' > %t.MatMulV2-CHANNELS.cfg
// RUN: not amct-opt %s --quantize='config=%t.MatMulV2-CHANNELS.cfg' 2>&1 | filecheck %s --check-prefix MatMulV2-CHANNELS
// RUN: echo 'override_layer_configs { layer_name: "gemm" calibration_config { arq_quantize { asymmetric: true } } }' > %t.MatMulV2-OFFSET.cfg
// RUN: not amct-opt %s --quantize='config=%t.MatMulV2-OFFSET.cfg' 2>&1 | filecheck %s --check-prefix MatMulV2-OFFSET
// RUN: echo 'override_layer_configs { layer_name: "matmul" calibration_config { arq_quantize { channel_wise: true } } }' > %t.BatchMatMulV2-CHANNELS.cfg
// RUN: not amct-opt %s --quantize='config=%t.BatchMatMulV2-CHANNELS.cfg' 2>&1 | filecheck %s --check-prefix BatchMatMulV2-CHANNELS
// RUN: echo 'override_layer_configs { layer_name: "matmul" calibration_config { arq_quantize { asymmetric: true } } }' > %t.BatchMatMulV2-OFFSET.cfg
// RUN: not amct-opt %s --quantize='config=%t.BatchMatMulV2-OFFSET.cfg' 2>&1 | filecheck %s --check-prefix BatchMatMulV2-OFFSET
// RUN: echo 'override_layer_configs { layer_name: "pooling" calibration_config { arq_quantize { channel_wise: true } } }' > %t.Pooling-CHANNELS.cfg
// RUN: not amct-opt %s --quantize='config=%t.Pooling-CHANNELS.cfg' 2>&1 | filecheck %s --check-prefix Pooling-CHANNELS
// RUN: echo 'override_layer_configs { layer_name: "pooling" calibration_config { arq_quantize { asymmetric: true } } }' > %t.Pooling-OFFSET.cfg
// RUN: not amct-opt %s --quantize='config=%t.Pooling-OFFSET.cfg' 2>&1 | filecheck %s --check-prefix Pooling-OFFSET
// RUN: echo 'override_layer_configs { layer_name: "avg-pool" calibration_config { arq_quantize { channel_wise: true } } }' > %t.AvgPool-CHANNELS.cfg
// RUN: not amct-opt %s --quantize='config=%t.AvgPool-CHANNELS.cfg' 2>&1 | filecheck %s --check-prefix AvgPool-CHANNELS
// RUN: echo 'override_layer_configs { layer_name: "avg-pool" calibration_config { arq_quantize { asymmetric: true } } }' > %t.AvgPool-OFFSET.cfg
// RUN: not amct-opt %s --quantize='config=%t.AvgPool-OFFSET.cfg' 2>&1 | filecheck %s --check-prefix AvgPool-OFFSET
// RUN: echo 'override_layer_configs { layer_name: "average" calibration_config { arq_quantize { channel_wise: true } } }' > %t.AvgPoolV2-CHANNELS.cfg
// RUN: not amct-opt %s --quantize='config=%t.AvgPoolV2-CHANNELS.cfg' 2>&1 | filecheck %s --check-prefix AvgPoolV2-CHANNELS
// RUN: echo 'override_layer_configs { layer_name: "average" calibration_config { arq_quantize { asymmetric: true } } }' > %t.AvgPoolV2-OFFSET.cfg
// RUN: not amct-opt %s --quantize='config=%t.AvgPoolV2-OFFSET.cfg' 2>&1 | filecheck %s --check-prefix AvgPoolV2-OFFSET
// RUN: echo 'override_layer_configs { layer_name: "pooling" calibration_config { weight_compress_only: true } }' > %t.Pooling-ALONE.cfg
// RUN: not amct-opt %s --quantize='config=%t.Pooling-ALONE.cfg' 2>&1 | filecheck %s --check-prefix Pooling-ALONE
// RUN: echo 'override_layer_configs { layer_name: "avg-pool" calibration_config { weight_compress_only: true } }' > %t.AvgPool-ALONE.cfg
// RUN: not amct-opt %s --quantize='config=%t.AvgPool-ALONE.cfg' 2>&1 | filecheck %s --check-prefix AvgPool-ALONE
// RUN: echo 'override_layer_configs { layer_name: "average" calibration_config { weight_compress_only: true } }' > %t.AvgPoolV2-ALONE.cfg
// RUN: not amct-opt %s --quantize='config=%t.AvgPoolV2-ALONE.cfg' 2>&1 | filecheck %s --check-prefix AvgPoolV2-ALONE
// RUN: echo 'override_layer_configs { layer_name: "conv" calibration_config { weight_compress_only: true } }' > %t.CONV-ALONE.cfg
// RUN: not amct-opt %s --quantize='config=%t.CONV-ALONE.cfg' 2>&1 | filecheck %s --check-prefix CONV-ALONE
// RUN: echo 'override_layer_types { layer_type: "Conv" calibration_config { weight_compress_only: true } }' > %t.CONV-TYPE.cfg
// RUN: not amct-opt %s --quantize='config=%t.CONV-TYPE.cfg' 2>&1 | filecheck %s --check-prefix CONV-TYPE

// √: the weight per channel and with zero points, its input float; n/a: float.
// CHECK-DAG: [insert-observers applied weight-only] "gemm": its input stays float, its weight is quantized by itself
// CHECK-DAG: [convert-observers applied quantized] "gemm": int8 weight per channel, asymmetric, alone
// CHECK-DAG: [convert-observers applied quantized] "matmul": int8 weight per channel, asymmetric, alone
// CHECK-DAG: [convert-observers applied quantized] "tf-matmul": int8 weight per channel, asymmetric, alone
// CHECK-DAG: [convert-observers applied quantized] "batched": int8 weight per channel, asymmetric, alone
// CHECK-DAG: [insert-observers missed weight-constant] "computed": its weight is computed at run time
// CHECK-DAG: [insert-observers missed weight-compress-only] "pooling": only weights are quantized, and it has no weight that can be quantized by itself
// CHECK-DAG: [insert-observers missed weight-compress-only] "avg-pool"
// CHECK-DAG: [insert-observers missed weight-compress-only] "average"
// CHECK-DAG: [insert-observers missed weight-compress-only] "conv"
// CHECK-DAG: [insert-observers missed weight-compress-only] "inner"

// IR:     %mw{{.*}} = nn.dequantize %mw.i8 by <i8, scale = [0.007843138, 0.003921569], zero_point = [127, -128], axis = 1> : (tensor<2x2xi8>) -> tensor<2x2xf32>
// IR-NOT: nn.quantize
// IR:     nn.matmul %m, %mw_1 from <onnx, "Gemm", "gemm">

// ×: the default, and a remark.
// BESIDE-DAG: [insert-observers analysis configuration] "gemm": not as the configuration has it: does not support channel_wise: its weight has one scale; cannot have an asymmetric weight: only weights that are quantized by themselves have zero points
// BESIDE-DAG: [insert-observers analysis configuration] "matmul": not as the configuration has it: does not support channel_wise: its weight has one scale; cannot have an asymmetric weight
// BESIDE-DAG: [insert-observers analysis configuration] "tf-matmul": not as the configuration has it: does not support channel_wise: its weight has one scale; cannot have an asymmetric weight
// BESIDE-DAG: [insert-observers analysis configuration] "batched": not as the configuration has it: does not support channel_wise: its weight has one scale; cannot have an asymmetric weight
// BESIDE-DAG: [insert-observers analysis configuration] "conv": not as the configuration has it: cannot have an asymmetric weight
// BESIDE-DAG: [convert-observers applied quantized] "gemm": {{.*}}; int8 weight per tensor
// BESIDE-DAG: [convert-observers applied quantized] "matmul": {{.*}}; int8 weight per tensor
// BESIDE-DAG: [convert-observers applied quantized] "conv": {{.*}}; int8 weight per channel
// BESIDE-DAG: [convert-observers applied quantized] "pooling"
// BESIDE-DAG: [convert-observers applied quantized] "avg-pool"
// BESIDE-DAG: [convert-observers applied quantized] "average"

// MatMulV2-CHANNELS: .cfg: error: layer 'gemm' (Gemm) does not support channel_wise: its weight has one scale
// MatMulV2-OFFSET: .cfg: error: layer 'gemm' (Gemm) cannot have an asymmetric weight: only weights that are quantized by themselves have zero points
// BatchMatMulV2-CHANNELS: .cfg: error: layer 'matmul' (MatMul) does not support channel_wise: its weight has one scale
// BatchMatMulV2-OFFSET: .cfg: error: layer 'matmul' (MatMul) cannot have an asymmetric weight: only weights that are quantized by themselves have zero points
// Pooling-CHANNELS: .cfg: error: layer 'pooling' (Pooling) does not support channel_wise: its weight has one scale
// Pooling-OFFSET: .cfg: error: layer 'pooling' (Pooling) cannot have an asymmetric weight: only weights that are quantized by themselves have zero points
// AvgPool-CHANNELS: .cfg: error: layer 'avg-pool' (AvgPool) does not support channel_wise: its weight has one scale
// AvgPool-OFFSET: .cfg: error: layer 'avg-pool' (AvgPool) cannot have an asymmetric weight: only weights that are quantized by themselves have zero points
// AvgPoolV2-CHANNELS: .cfg: error: layer 'average' (AveragePool) does not support channel_wise: its weight has one scale
// AvgPoolV2-OFFSET: .cfg: error: layer 'average' (AveragePool) cannot have an asymmetric weight: only weights that are quantized by themselves have zero points
// Pooling-ALONE: .cfg: error: layer 'pooling' (Pooling) has no weight that can be quantized by itself
// AvgPool-ALONE: .cfg: error: layer 'avg-pool' (AvgPool) has no weight that can be quantized by itself
// AvgPoolV2-ALONE: .cfg: error: layer 'average' (AveragePool) has no weight that can be quantized by itself
// CONV-ALONE: .cfg: error: layer 'conv' (Conv) has no weight that can be quantized by itself
// CONV-TYPE: .cfg: error: layer 'conv' (Conv) has no weight that can be quantized by itself
func.func @main(%x: tensor<1x2x4x4xf32>, %m: tensor<2x2xf32>, %b: tensor<3x2x2xf32>) {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %mw = nn.constant dense<[[-2.0, 1.0], [-1.0, 0.5]]> : tensor<2x2xf32>
  %0 = nn.matmul %m, %mw from <onnx, "Gemm", "gemm"> : tensor<2x2xf32>
  %1 = nn.matmul %b, %mw from <onnx, "MatMul", "matmul"> : (tensor<3x2x2xf32>, tensor<2x2xf32>) -> tensor<3x2x2xf32>
  %2 = nn.matmul %m, %mw from <tensorflow, "MatMul", "tf-matmul"> : tensor<2x2xf32>
  %3 = nn.matmul %b, %mw from <tensorflow, "BatchMatMulV2", "batched"> : (tensor<3x2x2xf32>, tensor<2x2xf32>) -> tensor<3x2x2xf32>
  %4 = nn.matmul %m, %m from <onnx, "MatMul", "computed"> : tensor<2x2xf32>
  %5 = nn.average_pool %x kernel [2, 2] from <caffe, "Pooling", "pooling"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x3x3xf32>
  %6 = nn.average_pool %x kernel [2, 2] from <tensorflow, "AvgPool", "avg-pool"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x3x3xf32>
  %7 = nn.average_pool %x kernel [2, 2] from <onnx, "AveragePool", "average"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x3x3xf32>
  %8 = nn.conv %x, %w from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %9 = nn.matmul %m, %mw transpose_b from <caffe, "InnerProduct", "inner"> : tensor<2x2xf32>
  func.return
}
