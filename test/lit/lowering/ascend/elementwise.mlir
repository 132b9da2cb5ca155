// RUN: amct-opt %s --lower-to-ascend --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// CHECK-LABEL: @unary
// CHECK-NEXT:    %v0 = ascend.Relu %x : tensor<?x3x4x4xf32>
// CHECK-NEXT:    %v1 = ascend.Relu6 %v0 : tensor<?x3x4x4xf32>
// CHECK-NEXT:    %v2 = ascend.Sigmoid %v1 : tensor<?x3x4x4xf32>
// CHECK-NEXT:    %v3 = ascend.Tanh %v2 : tensor<?x3x4x4xf32>
// CHECK-NEXT:    %v4 = ascend.HardSwish %v3 : tensor<?x3x4x4xf32>
// CHECK-NEXT:    %v5 = ascend.Softplus %v4 : tensor<?x3x4x4xf32>
// CHECK-NEXT:    %v6 = ascend.Mish %v5 : tensor<?x3x4x4xf32>
// CHECK-NEXT:    %v7 = ascend.Erf %v6 : tensor<?x3x4x4xf32>
// CHECK-NEXT:    %v8 = ascend.Exp %v7 : tensor<?x3x4x4xf32>
// CHECK-NEXT:    %v9 = ascend.Sqrt %v8 : tensor<?x3x4x4xf32>
// CHECK-NEXT:    %v10 = ascend.Rsqrt %v9 : tensor<?x3x4x4xf32>
// CHECK-NEXT:    %v11 = ascend.Reciprocal %v10 : tensor<?x3x4x4xf32>
// CHECK-NEXT:    %v12 = ascend.Neg %v11 : tensor<?x3x4x4xf32>
// CHECK-NEXT:    %v13 = ascend.Abs %v12 : tensor<?x3x4x4xf32>
// CHECK-NEXT:    %v14 = ascend.Gelu %v13 : tensor<?x3x4x4xf32>
// REMARK:      [lower-to-ascend applied lower] "v0": computed by ascend.Relu
func.func @unary(%x: tensor<?x3x4x4xf32>) -> tensor<?x3x4x4xf32> {
  %v0 = nn.relu %x : tensor<?x3x4x4xf32>
  %v1 = nn.relu6 %v0 : tensor<?x3x4x4xf32>
  %v2 = nn.sigmoid %v1 : tensor<?x3x4x4xf32>
  %v3 = nn.tanh %v2 : tensor<?x3x4x4xf32>
  %v4 = nn.hard_swish %v3 : tensor<?x3x4x4xf32>
  %v5 = nn.softplus %v4 : tensor<?x3x4x4xf32>
  %v6 = nn.mish %v5 : tensor<?x3x4x4xf32>
  %v7 = nn.erf %v6 : tensor<?x3x4x4xf32>
  %v8 = nn.exp %v7 : tensor<?x3x4x4xf32>
  %v9 = nn.sqrt %v8 : tensor<?x3x4x4xf32>
  %v10 = nn.rsqrt %v9 : tensor<?x3x4x4xf32>
  %v11 = nn.reciprocal %v10 : tensor<?x3x4x4xf32>
  %v12 = nn.neg %v11 : tensor<?x3x4x4xf32>
  %v13 = nn.abs %v12 : tensor<?x3x4x4xf32>
  %v14 = nn.gelu %v13 : tensor<?x3x4x4xf32>
  func.return %v14 : tensor<?x3x4x4xf32>
}

// -----

// CHECK-LABEL: @parameters
// CHECK-NEXT:    %a = ascend.LeakyRelu %x negative_slope 0.2
// CHECK-NEXT:    %b = ascend.Elu %a alpha 0.5
// CHECK-NEXT:    %c = ascend.HardSigmoid %b alpha 0.2 :
// CHECK-NEXT:    %d = ascend.Cast %c dst_type 1 : {{.*}} -> tensor<?x3x4x4xf16>
// REMARK:      [lower-to-ascend applied lower] "a"
func.func @parameters(%x: tensor<?x3x4x4xf32>) -> tensor<?x3x4x4xf16> {
  %a = nn.leaky_relu %x alpha 0.2 : tensor<?x3x4x4xf32>
  %b = nn.elu %a alpha 0.5 : tensor<?x3x4x4xf32>
  %c = nn.hard_sigmoid %b : tensor<?x3x4x4xf32>
  %d = nn.cast %c : (tensor<?x3x4x4xf32>) -> tensor<?x3x4x4xf16>
  func.return %d : tensor<?x3x4x4xf16>
}

// -----

// CHECK-LABEL: @binary
// CHECK-NEXT:    %a = ascend.Add %x, %s
// CHECK-NEXT:    %b = ascend.Sub %a, %s
// CHECK-NEXT:    %c = ascend.Mul %b, %s
// CHECK-NEXT:    %d = ascend.RealDiv %c, %s
// CHECK-NEXT:    %e = ascend.Minimum %d, %s
// CHECK-NEXT:    %f = ascend.Maximum %e, %s
// CHECK-NEXT:    %g = ascend.Pow %f, %s
// REMARK:      [lower-to-ascend applied lower] "a"
func.func @binary(%x: tensor<?x3x4x4xf32>, %s: tensor<3x1x1xf32>) -> tensor<?x3x4x4xf32> {
  %a = nn.add %x, %s : (tensor<?x3x4x4xf32>, tensor<3x1x1xf32>) -> tensor<?x3x4x4xf32>
  %b = nn.sub %a, %s : (tensor<?x3x4x4xf32>, tensor<3x1x1xf32>) -> tensor<?x3x4x4xf32>
  %c = nn.mul %b, %s : (tensor<?x3x4x4xf32>, tensor<3x1x1xf32>) -> tensor<?x3x4x4xf32>
  %d = nn.div %c, %s : (tensor<?x3x4x4xf32>, tensor<3x1x1xf32>) -> tensor<?x3x4x4xf32>
  %e = nn.min %d, %s : (tensor<?x3x4x4xf32>, tensor<3x1x1xf32>) -> tensor<?x3x4x4xf32>
  %f = nn.max %e, %s : (tensor<?x3x4x4xf32>, tensor<3x1x1xf32>) -> tensor<?x3x4x4xf32>
  %g = nn.pow %f, %s : (tensor<?x3x4x4xf32>, tensor<3x1x1xf32>) -> tensor<?x3x4x4xf32>
  func.return %g : tensor<?x3x4x4xf32>
}

// -----

// Bounds become operands; 0 and 6 are Relu6, an absent bound is infinite, for integers the end of the type.
// CHECK-LABEL: @clip
// CHECK-NEXT:    %a = ascend.Relu6 %x
// CHECK-NEXT:    %b_min = nn.constant dense<-1.500000e+00> : tensor<f32>
// CHECK-NEXT:    %b_max = nn.constant dense<"0x0000807F"> : tensor<f32>
// CHECK-NEXT:    %b = ascend.ClipByValue %a, %b_min, %b_max
// CHECK-NEXT:    %i_min = nn.constant dense<-128> : tensor<i8>
// CHECK-NEXT:    %i_max = nn.constant dense<7> : tensor<i8>
// CHECK-NEXT:    %i = ascend.ClipByValue %y, %i_min, %i_max
// REMARK:      [lower-to-ascend applied lower] "a": computed by ascend.Relu6
func.func @clip(%x: tensor<?x3x4x4xf32>, %y: tensor<4xi8>) -> (tensor<?x3x4x4xf32>, tensor<4xi8>) {
  %a = nn.clip %x min 0.0 max 6.0 : tensor<?x3x4x4xf32>
  %b = nn.clip %a min -1.5 : tensor<?x3x4x4xf32>
  %i = nn.clip %y max 7.0 : tensor<4xi8>
  func.return %b, %i : tensor<?x3x4x4xf32>, tensor<4xi8>
}

// -----

// CHECK-LABEL: @prelu
// CHECK-NEXT:    %y_slope = nn.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00]> : tensor<3xf32>
// CHECK-NEXT:    %y = ascend.PRelu %x, %y_slope
// REMARK:      [lower-to-ascend applied lower] "y"
func.func @prelu(%x: tensor<?x3x4x4xf32>) -> tensor<?x3x4x4xf32> {
  %s = nn.constant dense<[[[1.0]], [[2.0]], [[3.0]]]> : tensor<3x1x1xf32>
  %y = nn.prelu %x, %s : (tensor<?x3x4x4xf32>, tensor<3x1x1xf32>) -> tensor<?x3x4x4xf32>
  func.return %y : tensor<?x3x4x4xf32>
}

// -----

// Slopes along another axis.
// CHECK-LABEL: @channel_slope
// CHECK:         %y = nn.
// REMARK:      [lower-to-ascend missed channel-slope] "y": PRelu has one slope, or one per channel of axis 1
func.func @channel_slope(%x: tensor<?x3x4x4xf32>) -> tensor<?x3x4x4xf32> {
  %s = nn.constant dense<1.0> : tensor<4xf32>
  %y = nn.prelu %x, %s : (tensor<?x3x4x4xf32>, tensor<4xf32>) -> tensor<?x3x4x4xf32>
  func.return %y : tensor<?x3x4x4xf32>
}

// -----

// A slope computed at run time.
// CHECK-LABEL: @constant_slope
// CHECK:         %y = nn.
// REMARK:      [lower-to-ascend missed constant-slope] "y": its slope is computed at run time
func.func @constant_slope(%x: tensor<?x3x4x4xf32>, %s: tensor<3x1x1xf32>) -> tensor<?x3x4x4xf32> {
  %y = nn.prelu %x, %s : (tensor<?x3x4x4xf32>, tensor<3x1x1xf32>) -> tensor<?x3x4x4xf32>
  func.return %y : tensor<?x3x4x4xf32>
}

// -----

// Integers.
// CHECK-LABEL: @float_division
// CHECK:         %y = nn.
// REMARK:      [lower-to-ascend missed float-type] "y": RealDiv does not truncate integers
func.func @float_division(%x: tensor<4xi32>) -> tensor<4xi32> {
  %y = nn.div %x, %x : tensor<4xi32>
  func.return %y : tensor<4xi32>
}

// -----

// The other GELU, step by step, in float32.
// CHECK-LABEL: @gelu_by_tanh
// CHECK:         %y_cast = ascend.Cast %x dst_type 0
// CHECK-NEXT:    %y_mul = ascend.Mul %y_cast, %y_cast
// CHECK-NEXT:    %y_mul_1 = ascend.Mul %y_mul, %y_number
// CHECK-NEXT:    %y_add = ascend.Add %y_mul_1, %y_number
// CHECK-NEXT:    %y_mul_2 = ascend.Mul %y_add, %y_cast
// CHECK-NEXT:    %y_mul_3 = ascend.Mul %y_mul_2, %y_number
// CHECK-NEXT:    %y_tanh = ascend.Tanh %y_mul_3
// CHECK-NEXT:    %y_add_1 = ascend.Add %y_tanh, %y_number
// CHECK-NEXT:    %y_mul_4 = ascend.Mul %y_add_1, %y_cast
// CHECK-NEXT:    %y_mul_5 = ascend.Mul %y_mul_4, %y_number
// CHECK-NEXT:    %y = ascend.Cast %y_mul_5 dst_type 1
func.func @gelu_by_tanh(%x: tensor<?x3xf16>) -> tensor<?x3xf16> {
  %y = nn.gelu %x tanh_approximation : tensor<?x3xf16>
  func.return %y : tensor<?x3xf16>
}

// -----

// What Ascend IR lacks, by the steps of its expansion.
// CHECK-LABEL: @hard_shrink
// CHECK:         %y_abs = ascend.Abs %x
// CHECK-NEXT:    %y_compare = ascend.Greater %y_abs, %y_number
// CHECK-NEXT:    %y = ascend.Select %y_compare, %x, %y_number_1
func.func @hard_shrink(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %y = nn.hard_shrink %x lambd 0.25 : tensor<2x8xf32>
  func.return %y : tensor<2x8xf32>
}

// -----

// A type that the operation does not take.
// CHECK-LABEL: @type_set
// CHECK:         %y = nn.
// REMARK:      [lower-to-ascend missed ascend-constraint] "y": x is of i64, Relu6 takes f16, f32, i32, bf16
func.func @type_set(%x: tensor<4xi64>) -> tensor<4xi64> {
  %y = nn.relu6 %x : tensor<4xi64>
  func.return %y : tensor<4xi64>
}

// -----

// Two types.
// CHECK-LABEL: @mixed_types
// CHECK:         %y = nn.
// REMARK:      [lower-to-ascend missed ascend-constraint] "y": element types differ: f32, i32
func.func @mixed_types(%x: tensor<4xf32>, %e: tensor<4xi32>) -> tensor<4xf32> {
  %y = nn.pow %x, %e : (tensor<4xf32>, tensor<4xi32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// -----

// CHECK-LABEL: @selu
// CHECK:         %y = ascend.Selu %x : tensor<?x3x4x4xf32>
func.func @selu(%x: tensor<?x3x4x4xf32>) -> tensor<?x3x4x4xf32> {
  %y = nn.selu %x : tensor<?x3x4x4xf32>
  func.return %y : tensor<?x3x4x4xf32>
}

// -----

// Other constants have no operation.
// CHECK-LABEL: @other_selu
// CHECK:         %y = nn.selu
// REMARK:      [lower-to-ascend missed selu-constants] "y": Selu has the constants of its definition only
func.func @other_selu(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = nn.selu %x alpha 1.0 : tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// -----

// CHECK-LABEL: @where
// CHECK:         %y = ascend.Select %c, %a, %b : (tensor<4x1xi1>, tensor<4xf32>, tensor<f32>) -> tensor<4x4xf32>
func.func @where(%c: tensor<4x1xi1>, %a: tensor<4xf32>, %b: tensor<f32>) -> tensor<4x4xf32> {
  %y = nn.where %c, %a, %b : (tensor<4x1xi1>, tensor<4xf32>, tensor<f32>) -> tensor<4x4xf32>
  func.return %y : tensor<4x4xf32>
}

// -----

// Logic, comparisons, functions.
// CHECK-LABEL: @functions
// CHECK-NEXT:    %a = ascend.Softsign %x
// CHECK-NEXT:    %b = ascend.Rint %a
// CHECK-NEXT:    %c = ascend.GreaterEqual %b, %x
// CHECK-NEXT:    %d = ascend.LogicalNot %c
// REMARK:      [lower-to-ascend applied lower] "a": computed by ascend.Softsign
func.func @functions(%x: tensor<?x3xf32>) -> tensor<?x3xi1> {
  %a = nn.softsign %x : tensor<?x3xf32>
  %b = nn.round %a : tensor<?x3xf32>
  %c = nn.compare %b, %x predicate ge : (tensor<?x3xf32>, tensor<?x3xf32>) -> tensor<?x3xi1>
  %d = nn.not %c : tensor<?x3xi1>
  func.return %d : tensor<?x3xi1>
}

// -----

// What is carried has no counterpart, nor has a point without parameters.
// CHECK-LABEL: @no_ascend_op
// CHECK:         %y = nn.
// CHECK-NEXT:    %z = nn.
// REMARK-DAG:  [lower-to-ascend missed no-ascend-op] "y": no ascend operation stands for nn.opaque
// REMARK-DAG:  [lower-to-ascend missed no-ascend-op] "conv1": no ascend operation stands for nn.observe
func.func @no_ascend_op(%x: tensor<4xf32>) -> (tensor<1x?xi64>, tensor<4xf32>) {
  %y = nn.opaque %x framework "onnx" op_type "NonZero" version 13 : (tensor<4xf32>) -> tensor<1x?xi64>
  %z = nn.observe %x as "conv1:input" by "minmax" : tensor<4xf32>
  func.return %y, %z : tensor<1x?xi64>, tensor<4xf32>
}
