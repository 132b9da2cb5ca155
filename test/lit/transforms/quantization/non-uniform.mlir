// AMCT's table of non-uniform quantization: each row once with few levels, and once for each constraint that refuses.
// RUN: echo 'common_config { nuq_quantize { num_steps: 16 } }' > %t.cfg
// RUN: amct-opt %s --quantize='config=%t.cfg' --remarks=all 2>&1 >/dev/null | filecheck %s

// Asked of one layer, a refusal is an error.
// RUN: echo 'override_layer_configs { layer_name: "cdilated" calibration_config { nuq_quantize { } } }' > %t.cdilated.cfg
// RUN: not amct-opt %s --quantize='config=%t.cdilated.cfg' 2>&1 | filecheck %s --check-prefix DILATED-CAFFE
// RUN: echo 'override_layer_configs { layer_name: "dilated" calibration_config { nuq_quantize { } } }' > %t.dilated.cfg
// RUN: not amct-opt %s --quantize='config=%t.dilated.cfg' 2>&1 | filecheck %s --check-prefix DILATED-TF
// RUN: echo 'override_layer_configs { layer_name: "volume" calibration_config { nuq_quantize { } } }' > %t.volume.cfg
// RUN: not amct-opt %s --quantize='config=%t.volume.cfg' 2>&1 | filecheck %s --check-prefix PLANAR
// RUN: echo 'override_layer_configs { layer_name: "matmul" calibration_config { nuq_quantize { } } }' > %t.matmul.cfg
// RUN: not amct-opt %s --quantize='config=%t.matmul.cfg' 2>&1 | filecheck %s --check-prefix NO-ROW
// RUN: echo 'override_layer_configs { layer_name: "gemm-turned" calibration_config { nuq_quantize { } } }' > %t.gemm-turned.cfg
// RUN: not amct-opt %s --quantize='config=%t.gemm-turned.cfg' 2>&1 | filecheck %s --check-prefix TRANSPOSE

// Rules that table 1 has too leave the layer float.
// CHECK-DAG: [insert-observers missed filter-rank-4] "cvolume": its filter is of rank 5
// CHECK-DAG: [insert-observers missed transpose-false] "transposed": its transpose is true
// CHECK-DAG: [insert-observers missed axis-1] "other-axis": its axis is 2
// CHECK-DAG: [insert-observers missed transpose-false] "tf-turned": its transpose_a is true
// CHECK-DAG: [insert-observers missed not-in-table] "einsum": AMCT does not quantize Einsum layers
// CHECK-DAG: [insert-observers missed transpose-a-false] "gemm-turned": its transA is 1

// CHECK-DAG: [convert-observers applied quantized] "convolution": {{.*}} int8 weight per channel of 16 levels
// CHECK-DAG: [insert-observers missed dilation-1] "cdilated": its weight takes all levels: its dilations are [2]
// CHECK-DAG: [convert-observers applied quantized] "inner": {{.*}} int8 weight per tensor of 16 levels
// CHECK-DAG: [convert-observers applied quantized] "conv2d": {{.*}} int8 weight per channel of 16 levels
// CHECK-DAG: [insert-observers missed dilation-1] "dilated": its weight takes all levels: its dilations are [1, 2, 2, 1]
// CHECK-DAG: [convert-observers applied quantized] "tf-matmul": {{.*}} int8 weight per tensor of 16 levels
// CHECK-DAG: [convert-observers applied quantized] "conv": {{.*}} int8 weight per channel of 16 levels
// CHECK-DAG: [convert-observers applied quantized] "dilated-conv": {{.*}} int8 weight per channel of 16 levels
// CHECK-DAG: [insert-observers missed planar-filter] "volume": its weight takes all levels: its filter is of rank 5
// CHECK-DAG: [convert-observers applied quantized] "gemm": {{.*}} int8 weight per tensor of 16 levels
// CHECK-DAG: [insert-observers missed not-in-table] "matmul": its weight takes all levels: AMCT does not restrict the weights of MatMul layers to a few values

// DILATED-CAFFE: error: 'nn.conv' op cannot have weights of few levels: its dilations are [2]
// DILATED-TF: error: 'nn.conv' op cannot have weights of few levels: its dilations are [1, 2, 2, 1]
// PLANAR: error: 'nn.conv' op cannot have weights of few levels: its filter is of rank 5
// NO-ROW: error: 'nn.matmul' op cannot have weights of few levels: AMCT does not restrict the weights of MatMul layers to a few values
// TRANSPOSE: error: override_layer_configs names 'gemm-turned', which cannot be quantized: its transA is 1
func.func @main(%x: tensor<1x2x4x4xf32>, %v: tensor<1x1x4x4x4xf32>, %m: tensor<2x2xf32>) {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %vw = nn.constant dense<1.0> : tensor<1x1x1x1x1xf32>
  %mw = nn.constant dense<1.0> : tensor<2x2xf32>
  %0 = nn.conv %x, %w from <caffe, "Convolution", "convolution"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %1 = nn.conv %x, %w dilations [2, 2] from <caffe, "Convolution", "cdilated", {dilation = array<i64: 2>}> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %2 = nn.conv %v, %vw from <caffe, "Convolution", "cvolume"> : (tensor<1x1x4x4x4xf32>, tensor<1x1x1x1x1xf32>) -> tensor<1x1x4x4x4xf32>
  %3 = nn.matmul %m, %mw transpose_b from <caffe, "InnerProduct", "inner"> : tensor<2x2xf32>
  %4 = nn.matmul %m, %mw from <caffe, "InnerProduct", "transposed", {transpose = 1 : i64}> : tensor<2x2xf32>
  %5 = nn.matmul %m, %mw transpose_b from <caffe, "InnerProduct", "other-axis", {axis = 2 : i64}> : tensor<2x2xf32>
  %6 = nn.conv %x, %w from <tensorflow, "Conv2D", "conv2d"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %7 = nn.conv %x, %w dilations [2, 2] from <tensorflow, "Conv2D", "dilated", {dilations = array<i64: 1, 2, 2, 1>}> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %8 = nn.matmul %m, %mw from <tensorflow, "MatMul", "tf-matmul"> : tensor<2x2xf32>
  %9 = nn.matmul %m, %mw transpose_a from <tensorflow, "MatMul", "tf-turned", {transpose_a = 1 : i64}> : tensor<2x2xf32>
  %10 = nn.conv %x, %w from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %11 = nn.conv %x, %w dilations [2, 2] from <onnx, "Conv", "dilated-conv", {dilations = array<i64: 2, 2>}> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %12 = nn.conv %v, %vw from <onnx, "Conv", "volume"> : (tensor<1x1x4x4x4xf32>, tensor<1x1x1x1x1xf32>) -> tensor<1x1x4x4x4xf32>
  %13 = nn.matmul %m, %mw from <onnx, "Gemm", "gemm"> : tensor<2x2xf32>
  %14 = nn.matmul %m, %mw transpose_a from <onnx, "Gemm", "gemm-turned", {transA = 1 : i64}> : tensor<2x2xf32>
  %15 = nn.matmul %m, %mw from <onnx, "MatMul", "matmul"> : tensor<2x2xf32>
  %16 = nn.matmul %m, %mw from <onnx, "Einsum", "einsum"> : tensor<2x2xf32>
  func.return
}
