// RUN: VERIFY_DIAGNOSTICS | filecheck %s

// One part per rule of the quantization steps.

// Floats are quantized.
// CHECK: error: 'ascend.AscendQuant' op x is of i32, AscendQuant takes f16, f32
func.func @main(%x: tensor<2x3xi32>) {
  %y = ascend.AscendQuant %x scale 1.0 offset 0.0 : (tensor<2x3xi32>) -> tensor<2x3xi8>
  func.return
}

// -----

// A scale is positive.
// CHECK: error: 'ascend.AscendQuant' op scale must be positive and finite
func.func @main(%x: tensor<2x3xf32>) {
  %y = ascend.AscendQuant %x scale 0.0 offset 0.0 : (tensor<2x3xf32>) -> tensor<2x3xi8>
  func.return
}

// -----

// And finite.
// CHECK: error: 'ascend.AscendQuant' op scale must be positive and finite
func.func @main(%x: tensor<2x3xf32>) {
  %y = ascend.AscendQuant %x scale inf offset 0.0 : (tensor<2x3xf32>) -> tensor<2x3xi8>
  func.return
}

// -----

// An offset is a value of the type.
// CHECK: error: 'ascend.AscendQuant' op offset 128 is not in [-128, 127]
func.func @main(%x: tensor<2x3xf32>) {
  %y = ascend.AscendQuant %x scale 1.0 offset 128.0 : (tensor<2x3xf32>) -> tensor<2x3xi8>
  func.return
}

// -----

// Of int4 too.
// CHECK: error: 'ascend.AscendQuant' op offset -9 is not in [-8, 7]
func.func @main(%x: tensor<2x4xf32>) {
  %y = ascend.AscendQuant %x dst_type 29 scale 1.0 offset -9.0 : (tensor<2x4xf32>) -> tensor<2x4xi4>
  func.return
}

// -----

// Of int16 too.
// CHECK: error: 'ascend.AscendQuant' op offset 32768 is not in [-32768, 32767]
func.func @main(%x: tensor<2x4xf32>) {
  %y = ascend.AscendQuant %x dst_type 6 scale 1.0 offset 32768.0 : (tensor<2x4xf32>) -> tensor<2x4xi16>
  func.return
}

// -----

// The type is int8, int16 or int4.
// CHECK: error: 'ascend.AscendQuant' op dst_type 3 is not 2 (int8), 6 (int16) or 29 (int4)
func.func @main(%x: tensor<2x3xf32>) {
  %y = ascend.AscendQuant %x dst_type 3 scale 1.0 offset 0.0 : (tensor<2x3xf32>) -> tensor<2x3xi8>
  func.return
}

// -----

// int4 values are packed in pairs.
// CHECK: error: 'ascend.AscendQuant' op int4 needs an even last size
func.func @main(%x: tensor<2x3xf32>) {
  %y = ascend.AscendQuant %x dst_type 29 scale 1.0 offset 0.0 : (tensor<2x3xf32>) -> tensor<2x3xi4>
  func.return
}

// -----

// A known way to round.
// CHECK: error: 'ascend.AscendQuant' op round_mode 'Hybrid' is not one of Round, Floor, Ceil, Trunc
func.func @main(%x: tensor<2x3xf32>) {
  %y = ascend.AscendQuant %x round_mode "Hybrid" scale 1.0 offset 0.0 : (tensor<2x3xf32>) -> tensor<2x3xi8>
  func.return
}

// -----

// No scalars.
// CHECK: error: 'ascend.AscendQuant' op x must be of rank 1 to 8, not 0
func.func @main(%x: tensor<f32>) {
  %y = ascend.AscendQuant %x scale 1.0 offset 0.0 : (tensor<f32>) -> tensor<i8>
  func.return
}

// -----

// The result has the type of dst_type.
// CHECK: error: 'ascend.AscendQuant' op result is declared tensor<2x3xi4>, operands and properties give tensor<2x3xi8>
func.func @main(%x: tensor<2x3xf32>) {
  %y = ascend.AscendQuant %x scale 1.0 offset 0.0 : (tensor<2x3xf32>) -> tensor<2x3xi4>
  func.return
}

// -----

// AscendAntiQuant takes int8.
// CHECK: error: 'ascend.AscendAntiQuant' op x is of i32, AscendAntiQuant takes i8
func.func @main(%x: tensor<2x3xi32>) {
  %y = ascend.AscendAntiQuant %x scale 1.0 offset 0.0 : (tensor<2x3xi32>) -> tensor<2x3xf32>
  func.return
}

// -----

// Its scale is positive.
// CHECK: error: 'ascend.AscendAntiQuant' op scale must be positive and finite
func.func @main(%x: tensor<2x3xi8>) {
  %y = ascend.AscendAntiQuant %x scale -1.0 offset 0.0 : (tensor<2x3xi8>) -> tensor<2x3xf32>
  func.return
}

// -----

// It gives float32 or float16.
// CHECK: error: 'ascend.AscendAntiQuant' op dtype 2 is neither 0 (float32) nor 1 (float16)
func.func @main(%x: tensor<2x3xi8>) {
  %y = ascend.AscendAntiQuant %x dtype 2 scale 1.0 offset 0.0 : (tensor<2x3xi8>) -> tensor<2x3xf32>
  func.return
}

// -----

// AscendDequant takes int32.
// CHECK: error: 'ascend.AscendDequant' op x is of i8, AscendDequant takes i32
func.func @main(%x: tensor<1x4x8x8xi8>) {
  %s = nn.constant dense<1.0> : tensor<4xf32>
  %y = ascend.AscendDequant %x, %s : (tensor<1x4x8x8xi8>, tensor<4xf32>) -> tensor<1x4x8x8xf32>
  func.return
}

// -----

// Its scales are float32 here.
// CHECK: error: 'ascend.AscendDequant' op deq_scale is of f16, AscendDequant takes f32
func.func @main(%x: tensor<1x4x8x8xi32>) {
  %s = nn.constant dense<1.0> : tensor<4xf16>
  %y = ascend.AscendDequant %x, %s : (tensor<1x4x8x8xi32>, tensor<4xf16>) -> tensor<1x4x8x8xf32>
  func.return
}

// -----

// One, or one per channel.
// CHECK: error: 'ascend.AscendDequant' op channels of x and deq_scale length differ: 4 and 3
func.func @main(%x: tensor<1x4x8x8xi32>) {
  %s = nn.constant dense<1.0> : tensor<3xf32>
  %y = ascend.AscendDequant %x, %s : (tensor<1x4x8x8xi32>, tensor<3xf32>) -> tensor<1x4x8x8xf32>
  func.return
}

// -----

// In a vector, or of the rank of x.
// CHECK: error: 'ascend.AscendDequant' op deq_scale must be of rank 1 or 4, not 2
func.func @main(%x: tensor<1x4x8x8xi32>) {
  %s = nn.constant dense<1.0> : tensor<1x4xf32>
  %y = ascend.AscendDequant %x, %s : (tensor<1x4x8x8xi32>, tensor<1x4xf32>) -> tensor<1x4x8x8xf32>
  func.return
}

// -----

// Along one axis.
// CHECK: error: 'ascend.AscendDequant' op deq_scale [1, 4, 8, 1] has more than one size above 1
func.func @main(%x: tensor<1x4x8x8xi32>) {
  %s = nn.constant dense<1.0> : tensor<1x4x8x1xf32>
  %y = ascend.AscendDequant %x, %s : (tensor<1x4x8x8xi32>, tensor<1x4x8x1xf32>) -> tensor<1x4x8x8xf32>
  func.return
}

// -----

// Known when compiling.
// CHECK: error: 'ascend.AscendDequant' op deq_scale must be a constant
func.func @main(%x: tensor<1x4x8x8xi32>, %s: tensor<4xf32>) {
  %y = ascend.AscendDequant %x, %s : (tensor<1x4x8x8xi32>, tensor<4xf32>) -> tensor<1x4x8x8xf32>
  func.return
}

// -----

// dtype is 0 or 1.
// CHECK: error: 'ascend.AscendDequant' op dtype 27 is neither 0 (float32) nor 1 (float16)
func.func @main(%x: tensor<1x4x8x8xi32>) {
  %s = nn.constant dense<1.0> : tensor<4xf32>
  %y = ascend.AscendDequant %x, %s dtype 27 : (tensor<1x4x8x8xi32>, tensor<4xf32>) -> tensor<1x4x8x8xf32>
  func.return
}

// -----

// The result has that type.
// CHECK: error: 'ascend.AscendDequant' op result is declared tensor<1x4x8x8xf16>, operands and properties give tensor<1x4x8x8xf32>
func.func @main(%x: tensor<1x4x8x8xi32>) {
  %s = nn.constant dense<1.0> : tensor<4xf32>
  %y = ascend.AscendDequant %x, %s : (tensor<1x4x8x8xi32>, tensor<4xf32>) -> tensor<1x4x8x8xf16>
  func.return
}

// -----

// A shift is a number of bits.
// CHECK: error: 'ascend.AscendDequant' op shift_n 17 is not in [0, 16]
func.func @main(%x: tensor<1x4x8x2xi32>) {
  %s = nn.constant dense<5.000000e-01> : tensor<4xf32>
  %y = ascend.AscendDequant %x, %s shift_n [17] : (tensor<1x4x8x2xi32>, tensor<4xf32>) -> tensor<1x4x8x2xf32>
  func.return
}

// -----

// No shift at all is said by leaving it out.
// CHECK: error: 'ascend.AscendDequant' op shift_n has no number above 0
func.func @main(%x: tensor<1x4x8x2xi32>) {
  %s = nn.constant dense<5.000000e-01> : tensor<4xf32>
  %y = ascend.AscendDequant %x, %s shift_n [0] : (tensor<1x4x8x2xi32>, tensor<4xf32>) -> tensor<1x4x8x2xf32>
  func.return
}

// -----

// One per scale.
// CHECK: error: 'ascend.AscendDequant' op shift_n has 3 entries for 4 scales
func.func @main(%x: tensor<1x4x8x2xi32>) {
  %s = nn.constant dense<5.000000e-01> : tensor<4xf32>
  %y = ascend.AscendDequant %x, %s shift_n [1, 2, 3] : (tensor<1x4x8x2xi32>, tensor<4xf32>) -> tensor<1x4x8x2xf32>
  func.return
}

// -----

// 2^N is a factor of one scale.
// CHECK: error: 'ascend.AscendDequant' op shift_n and sqrt_mode exclude each other
func.func @main(%x: tensor<1x4x8x2xi32>) {
  %s = nn.constant dense<5.000000e-01> : tensor<4xf32>
  %y = ascend.AscendDequant %x, %s sqrt_mode true shift_n [1] : (tensor<1x4x8x2xi32>, tensor<4xf32>) -> tensor<1x4x8x2xf32>
  func.return
}

// -----

// CHECK: error: 'ascend.AscendQuant' op fakequant_precision_mode 'FAST' is not one of DEFAULT, FORCE_FP16_QUANT
func.func @main(%x: tensor<2x4xf32>) {
  %y = ascend.AscendQuant %x scale 2.0 offset 1.0 fakequant_precision_mode "FAST" : (tensor<2x4xf32>) -> tensor<2x4xi8>
  func.return
}

// -----

// AMCT's arithmetic has no square root.
// CHECK: error: 'ascend.AscendDequant' op FORCE_FP16_QUANT and sqrt_mode exclude each other
func.func @main(%x: tensor<1x4x8x2xi32>) {
  %s = nn.constant dense<5.000000e-01> : tensor<4xf32>
  %y = ascend.AscendDequant %x, %s sqrt_mode true fakequant_precision_mode "FORCE_FP16_QUANT" : (tensor<1x4x8x2xi32>, tensor<4xf32>) -> tensor<1x4x8x2xf32>
  func.return
}
