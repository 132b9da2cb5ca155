// RUN: ROUNDTRIP | filecheck %s

// Quantization points, and the steps to integers and back.

// CHECK-LABEL: func.func @points(
func.func @points(%x: tensor<?x3xf32>) {
  // CHECK-NEXT: %plain = nn.observe %x as "conv1:0" by "min-max" : tensor<?x3xf32>
  %plain = nn.observe %x as "conv1:0" by "min-max" : tensor<?x3xf32>
  // CHECK-NEXT: %wanted = nn.observe %x as "fc:0" by "ifmr" bits 4 symmetric group "g3" master : tensor<?x3xf32>
  %wanted = nn.observe %x as "fc:0" by "ifmr" bits 4 symmetric group "g3" master : tensor<?x3xf32>
  // CHECK-NEXT: %together = nn.observe %x as "add:0" by "ifmr" group "g4" joint fp16_scale : tensor<?x3xf32>
  %together = nn.observe %x as "add:0" by "ifmr" group "g4" joint fp16_scale : tensor<?x3xf32>
  // CHECK-NEXT: %seen = nn.observe %x as "a \"b\"\\c:0" by "min-max" range [-2.5, 3.75] gives <i8, scale = 0.024509804, zero_point = -26> given data : tensor<?x3xf32>
  %seen = nn.observe %x as "a \"b\"\\c:0" by "min-max" range [-2.5, 3.75] gives <i8, scale = 0.024509804, zero_point = -26> given data : tensor<?x3xf32>
  // CHECK-NEXT: %guess = nn.observe %x as "层:0" by "min-max" range [0.0, 1.0] gives <ui8, scale = 0.003921569> given synthetic : tensor<?x3xf32>
  %guess = nn.observe %x as "层:0" by "min-max" range [0.0, 1.0] gives <ui8, scale = 0.003921569> given synthetic : tensor<?x3xf32>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @steps(
func.func @steps(%x: tensor<?x3xf32>, %h: tensor<2xf16>) {
  // CHECK-NEXT: %q = nn.quantize %x by <i8, scale = 0.1, zero_point = -128> given user group "g3" master : (tensor<?x3xf32>) -> tensor<?x3xi8>
  %q = nn.quantize %x by <i8, scale = 0.1, zero_point = -128> given user group "g3" master : (tensor<?x3xf32>) -> tensor<?x3xi8>
  // CHECK-NEXT: %d = nn.dequantize %q by <i8, scale = 0.1, zero_point = -128> : (tensor<?x3xi8>) -> tensor<?x3xf32>
  %d = nn.dequantize %q by <i8, scale = 0.1, zero_point = -128> : (tensor<?x3xi8>) -> tensor<?x3xf32>
  // CHECK-NEXT: %c = nn.quantize %x by <i4, scale = [0.1, 1.0e-08, 16777216.0], zero_point = [-8, 0, 7], axis = 1> given record : (tensor<?x3xf32>) -> tensor<?x3xi4>
  %c = nn.quantize %x by <i4, scale = [0.1, 1.0e-08, 16777216.0], zero_point = [-8, 0, 7], axis = 1> given record : (tensor<?x3xf32>) -> tensor<?x3xi4>
  // CHECK-NEXT: %r = nn.dequantize %c by <i4, scale = [0.1, 1.0e-08, 16777216.0], zero_point = [-8, 0, 7], axis = 1> bits 3 levels [-4, 0, 3] : (tensor<?x3xi4>) -> tensor<?x3xf32>
  %r = nn.dequantize %c by <i4, scale = [0.1, 1.0e-08, 16777216.0], zero_point = [-8, 0, 7], axis = 1> bits 3 levels [-4, 0, 3] : (tensor<?x3xi4>) -> tensor<?x3xf32>
  // CHECK-NEXT: %w = nn.constant dense<7> : tensor<3x2xi32>
  %w = nn.constant dense<7> : tensor<3x2xi32>
  // CHECK-NEXT: %b = nn.dequantize %w by <i32, scale = "ops-quantization.safetensors#fc.weight.scale", zero_point = 3, axis = 0> : (tensor<3x2xi32>) -> tensor<3x2xf32>
  %b = nn.dequantize %w by <i32, scale = "fc.weight.scale", zero_point = 3, axis = 0> : (tensor<3x2xi32>) -> tensor<3x2xf32>
  // CHECK-NEXT: %half = nn.quantize %h by <ui8, scale = 0.5, zero_point = 128> : (tensor<2xf16>) -> tensor<2xui8>
  %half = nn.quantize %h by <ui8, scale = 0.5, zero_point = 128> : (tensor<2xf16>) -> tensor<2xui8>
  // CHECK-NEXT: %back = nn.dequantize %half by <ui8, scale = 0.5, zero_point = 128> : (tensor<2xui8>) -> tensor<2xf16>
  %back = nn.dequantize %half by <ui8, scale = 0.5, zero_point = 128> : (tensor<2xui8>) -> tensor<2xf16>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @sums(
func.func @sums(%x: tensor<?x2x?xf32>, %h: tensor<2xf16>) {
  // CHECK-NEXT: %each = nn.shift_accumulator %x of <i32, scale = [0.005, 1.0e-08], axis = 1> by [1, 16] : tensor<?x2x?xf32>
  %each = nn.shift_accumulator %x of <i32, scale = [0.005, 1.0e-08], axis = 1> by [1, 16] : tensor<?x2x?xf32>
  // CHECK-NEXT: %all = nn.shift_accumulator %x of <i32, scale = [0.5, 0.25], axis = 1> by [3] : tensor<?x2x?xf32>
  %all = nn.shift_accumulator %x of <i32, scale = [0.5, 0.25], axis = 1> by [3] : tensor<?x2x?xf32>
  // CHECK-NEXT: %half = nn.shift_accumulator %h of <i32, scale = 0.5> by [2] : tensor<2xf16>
  %half = nn.shift_accumulator %h of <i32, scale = 0.5> by [2] : tensor<2xf16>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: @number_formats
func.func @number_formats(%a: tensor<?x3xf8E5M2>, %s: tensor<f32>, %m: tensor<40x2xf4E2M1FN>, %p: tensor<2x2xf8E8M0FNU>, %f: tensor<3x2xf8E4M3FN>) {
  // CHECK-NEXT: %one = nn.dequantize_float %a, %s : (tensor<?x3xf8E5M2>, tensor<f32>) -> tensor<?x3xf32>
  %one = nn.dequantize_float %a, %s : (tensor<?x3xf8E5M2>, tensor<f32>) -> tensor<?x3xf32>
  // CHECK-NEXT: %powers = nn.dequantize_float %m, %p axis 0 block 32 : (tensor<40x2xf4E2M1FN>, tensor<2x2xf8E8M0FNU>) -> tensor<40x2xf32>
  %powers = nn.dequantize_float %m, %p axis 0 block 32 : (tensor<40x2xf4E2M1FN>, tensor<2x2xf8E8M0FNU>) -> tensor<40x2xf32>
  // CHECK-NEXT: %scales = nn.dequantize_float %f, %s : (tensor<3x2xf8E4M3FN>, tensor<f32>) -> tensor<3x2xf32>
  %scales = nn.dequantize_float %f, %s : (tensor<3x2xf8E4M3FN>, tensor<f32>) -> tensor<3x2xf32>
  // CHECK-NEXT: %made = nn.quantize_float %scales, %s : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf8E4M3FN>
  %made = nn.quantize_float %scales, %s : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf8E4M3FN>
  // CHECK-NEXT: %watched = nn.observe %scales as "fc:0" by "minmax" symmetric number_format "fp8-e5m2" : tensor<3x2xf32>
  %watched = nn.observe %scales as "fc:0" by "minmax" symmetric number_format "fp8-e5m2" : tensor<3x2xf32>
  // CHECK-NEXT: %scaled = nn.dequantize_float %m, %scales axis 0 block 16 : (tensor<40x2xf4E2M1FN>, tensor<3x2xf32>) -> tensor<40x2xf16>
  %scaled = nn.dequantize_float %m, %scales axis 0 block 16 : (tensor<40x2xf4E2M1FN>, tensor<3x2xf32>) -> tensor<40x2xf16>
  func.return
}
