// Conditions of conversion that are errors: each function but the last breaks the one that it is called like.
// RUN: amct-opt %s --balance-channels --convert-observers --shift-accumulators --split-input-file --verify-diagnostics | filecheck %s

// CHECK: conversion-errors.mlir:{{.*}}: error: 'nn.matmul' op has sums in units of 1e-30 times 1e-30, which is not a normal float32 number
func.func @normal_sums(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = nn.constant dense<1.0> : tensor<2x2xf32>
  %o = nn.observe %x as "a:0" by "minmax" gives <i8, scale = 1.0e-30> : tensor<1x2xf32>
  %a = nn.matmul %o, %w from <onnx, "Gemm", "a"> {nn.plan = #nn.plan<input, weight by <i8, scale = 1.0e-30>>} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %a : tensor<1x2xf32>
}

// -----

// 1 / (1e-6 * 1e-6) is 1e12.
// CHECK: conversion-errors.mlir:{{.*}}: error: 'nn.matmul' op has a bias that does not fit into int32 at the record's scales
func.func @bias_fits(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = nn.constant dense<1.0> : tensor<2x2xf32>
  %b = nn.constant dense<1.0> : tensor<2xf32>
  %o = nn.observe %x as "a:0" by "minmax" gives <i8, scale = 1.0e-6> : tensor<1x2xf32>
  %a = nn.matmul %o, %w, %b from <onnx, "Gemm", "a"> {nn.plan = #nn.plan<input, weight by <i8, scale = 1.0e-6>>} : (tensor<1x2xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<1x2xf32>
  func.return %a : tensor<1x2xf32>
}

// -----

// CHECK: conversion-errors.mlir:{{.*}}: error: 'nn.opaque' op has a plan for one weight, where W and R are quantized together
func.func @both_weights(%x: tensor<4x1x2xf32>) -> tensor<4x1x1x1xf32> {
  %w = nn.constant dense<1.0> : tensor<1x3x2xf32>
  %r = nn.constant dense<1.0> : tensor<1x3x1xf32>
  %0 = nn.opaque %x, %w, %r framework "onnx" op_type "GRU" version 14 attrs {hidden_size = 1 : i64} from <onnx, "GRU", "gru"> {nn.plan = #nn.plan<weight i8>} : (tensor<4x1x2xf32>, tensor<1x3x2xf32>, tensor<1x3x1xf32>) -> tensor<4x1x1x1xf32>
  func.return %0 : tensor<4x1x1x1xf32>
}

// -----

// CHECK: conversion-errors.mlir:{{.*}}: error: 'nn.opaque' op has sums in units of {{.*}}, which is not a normal float32 number
func.func @normal_sums(%x: tensor<4x1x2xf32>, %h: tensor<1x1x1xf32>) -> tensor<4x1x1x1xf32> {
  %w = nn.constant dense<1.0> : tensor<1x3x2xf32>
  %r = nn.constant dense<1.0> : tensor<1x3x1xf32>
  %o = nn.observe %x as "gru:0" by "minmax" gives <i8, scale = 1.0e-30> : tensor<4x1x2xf32>
  %s = nn.observe %h as "gru:5" by "minmax" gives <i8, scale = 0.5> : tensor<1x1x1xf32>
  %0 = nn.opaque %o, %w, %r, %s framework "onnx" op_type "GRU" version 14 present [1, 1, 1, 0, 0, 1] attrs {hidden_size = 1 : i64} from <onnx, "GRU", "gru"> {nn.plan = #nn.plan<input, weight by <i8, scale = 1.0e-30>, weight i8>} : (tensor<4x1x2xf32>, tensor<1x3x2xf32>, tensor<1x3x1xf32>, tensor<1x1x1xf32>) -> tensor<4x1x1x1xf32>
  func.return %0 : tensor<4x1x1x1xf32>
}

// -----

// CHECK: conversion-errors.mlir:{{.*}}: error: 'nn.opaque' op has a bias that does not fit into int32 at the record's scales
func.func @biases_fit(%x: tensor<4x1x2xf32>, %h: tensor<1x1x1xf32>) -> tensor<4x1x1x1xf32> {
  %w = nn.constant dense<1.0> : tensor<1x3x2xf32>
  %r = nn.constant dense<1.0> : tensor<1x3x1xf32>
  %b = nn.constant dense<1.0> : tensor<1x6xf32>
  %o = nn.observe %x as "gru:0" by "minmax" gives <i8, scale = 1.0e-6> : tensor<4x1x2xf32>
  %s = nn.observe %h as "gru:5" by "minmax" gives <i8, scale = 0.5> : tensor<1x1x1xf32>
  %0 = nn.opaque %o, %w, %r, %b, %s framework "onnx" op_type "GRU" version 14 present [1, 1, 1, 1, 0, 1] attrs {hidden_size = 1 : i64} from <onnx, "GRU", "gru"> {nn.plan = #nn.plan<input, weight by <i8, scale = 1.0e-6>, weight i8>} : (tensor<4x1x2xf32>, tensor<1x3x2xf32>, tensor<1x3x1xf32>, tensor<1x6xf32>, tensor<1x1x1xf32>) -> tensor<4x1x1x1xf32>
  func.return %0 : tensor<4x1x1x1xf32>
}

// -----

// CHECK: conversion-errors.mlir:{{.*}}: error: 'nn.matmul' op has a plan to be balanced, which needs a constant weight and an input from outside
func.func @weighted(%x: tensor<1x2xf32>, %w: tensor<2x2xf32>) -> tensor<1x2xf32> {
  %a = nn.matmul %x, %w from <onnx, "Gemm", "a"> {nn.plan = #nn.plan<input, balance [2.0, 2.0]>} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %a : tensor<1x2xf32>
}

// -----

// CHECK: conversion-errors.mlir:{{.*}}: error: 'nn.matmul' op has a plan with 1 factors for 2 input channels
func.func @factor_count(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = nn.constant dense<1.0> : tensor<2x2xf32>
  %a = nn.matmul %x, %w from <onnx, "Gemm", "a"> {nn.plan = #nn.plan<input, balance [2.0]>} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %a : tensor<1x2xf32>
}

// -----

// CHECK: conversion-errors.mlir:{{.*}}: error: 'nn.matmul' op has a plan with 3 shifts for 2 channels
func.func @shift_count(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = nn.constant dense<1.0> : tensor<2x2xf32>
  %o = nn.observe %x as "a:0" by "minmax" gives <i8, scale = 0.5> : tensor<1x2xf32>
  %a = nn.matmul %o, %w from <onnx, "Gemm", "a"> {nn.plan = #nn.plan<input, weight i8, shift [3, 4, 5]>} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %a : tensor<1x2xf32>
}

// -----

// What they accept: one factor for each input channel, shifts for each output channel, a bias within int32.
// CHECK: func.func @accepted
// CHECK: nn.shift_accumulator
// CHECK: nn.constant dense<8> : tensor<1x6xi32>
func.func @accepted(%x: tensor<1x2xf32>, %t: tensor<4x1x2xf32>, %h: tensor<1x1x1xf32>) -> (tensor<1x2xf32>, tensor<4x1x1x1xf32>) {
  %m = nn.constant dense<1.0> : tensor<2x2xf32>
  %i = nn.observe %x as "a:0" by "minmax" gives <i8, scale = 0.5> : tensor<1x2xf32>
  %a = nn.matmul %i, %m from <onnx, "Gemm", "a"> {nn.plan = #nn.plan<input, weight i8, balance [2.0, 4.0], shift [3, 4]>} : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %w = nn.constant dense<1.0> : tensor<1x3x2xf32>
  %r = nn.constant dense<1.0> : tensor<1x3x1xf32>
  %b = nn.constant dense<1.0> : tensor<1x6xf32>
  %o = nn.observe %t as "gru:0" by "minmax" gives <i8, scale = 0.5> : tensor<4x1x2xf32>
  %s = nn.observe %h as "gru:5" by "minmax" gives <i8, scale = 0.5> : tensor<1x1x1xf32>
  %0 = nn.opaque %o, %w, %r, %b, %s framework "onnx" op_type "GRU" version 14 present [1, 1, 1, 1, 0, 1] attrs {hidden_size = 1 : i64} from <onnx, "GRU", "gru"> {nn.plan = #nn.plan<input, weight by <i8, scale = 0.25>, weight by <i8, scale = 0.25>>} : (tensor<4x1x2xf32>, tensor<1x3x2xf32>, tensor<1x3x1xf32>, tensor<1x6xf32>, tensor<1x1x1xf32>) -> tensor<4x1x1x1xf32>
  func.return %a, %0 : tensor<1x2xf32>, tensor<4x1x1x1xf32>
}
