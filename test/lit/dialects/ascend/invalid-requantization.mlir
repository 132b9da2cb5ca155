// RUN: CONSTANTS | amct-opt - --split-input-file --verify-diagnostics | filecheck %s

// CONSTANT: %s = nn.constant dense<5.000000e-01> : tensor<4xf32>

// One part per rule of what goes from integers to integers.

// AscendRequant takes accumulators.
// CHECK: error: 'ascend.AscendRequant' op x is of i16, AscendRequant takes i32
func.func @main(%x: tensor<1x4x8x2xi16>) {
  %y = ascend.AscendRequant %x, %s : (tensor<1x4x8x2xi16>, tensor<4xf32>) -> tensor<1x4x8x2xi8>
  func.return
}

// -----

// Scales are float32 here.
// CHECK: error: 'ascend.AscendRequant' op req_scale is of f16, AscendRequant takes f32
func.func @main(%x: tensor<1x4x8x2xi32>) {
  %s = nn.constant dense<1.0> : tensor<4xf16>
  %y = ascend.AscendRequant %x, %s : (tensor<1x4x8x2xi32>, tensor<4xf16>) -> tensor<1x4x8x2xi8>
  func.return
}

// -----

// One, or one per channel.
// CHECK: error: 'ascend.AscendRequant' op channels of x and req_scale length differ: 4 and 3
func.func @main(%x: tensor<1x4x8x2xi32>) {
  %s = nn.constant dense<1.0> : tensor<3xf32>
  %y = ascend.AscendRequant %x, %s : (tensor<1x4x8x2xi32>, tensor<3xf32>) -> tensor<1x4x8x2xi8>
  func.return
}

// -----

// In a vector, or of the rank of x.
// CHECK: error: 'ascend.AscendRequant' op req_scale must be of rank 1 or 4, not 2
func.func @main(%x: tensor<1x4x8x2xi32>) {
  %s = nn.constant dense<1.0> : tensor<1x4xf32>
  %y = ascend.AscendRequant %x, %s : (tensor<1x4x8x2xi32>, tensor<1x4xf32>) -> tensor<1x4x8x2xi8>
  func.return
}

// -----

// Along one axis.
// CHECK: error: 'ascend.AscendRequant' op req_scale [1, 4, 8, 1] has more than one size above 1
func.func @main(%x: tensor<1x4x8x2xi32>) {
  %s = nn.constant dense<1.0> : tensor<1x4x8x1xf32>
  %y = ascend.AscendRequant %x, %s : (tensor<1x4x8x2xi32>, tensor<1x4x8x1xf32>) -> tensor<1x4x8x2xi8>
  func.return
}

// -----

// Known when compiling.
// CHECK: error: 'ascend.AscendRequant' op req_scale must be a constant
func.func @main(%x: tensor<1x4x8x2xi32>, %s: tensor<4xf32>) {
  %y = ascend.AscendRequant %x, %s : (tensor<1x4x8x2xi32>, tensor<4xf32>) -> tensor<1x4x8x2xi8>
  func.return
}

// -----

// An offset is an int8 value.
// CHECK: error: 'ascend.AscendRequant' op offset 128 is not an integer in [-128, 127]
func.func @main(%x: tensor<1x4x8x2xi32>) {
  %y = ascend.AscendRequant %x, %s offset 128.0 : (tensor<1x4x8x2xi32>, tensor<4xf32>) -> tensor<1x4x8x2xi8>
  func.return
}

// -----

// An integer.
// CHECK: error: 'ascend.AscendRequant' op offset 0.5 is not an integer in [-128, 127]
func.func @main(%x: tensor<1x4x8x2xi32>) {
  %y = ascend.AscendRequant %x, %s offset 0.5 : (tensor<1x4x8x2xi32>, tensor<4xf32>) -> tensor<1x4x8x2xi8>
  func.return
}

// -----

// The result is int8.
// CHECK: error: 'ascend.AscendRequant' op result is declared tensor<1x4x8x2xi16>, operands and properties give tensor<1x4x8x2xi8>
func.func @main(%x: tensor<1x4x8x2xi32>) {
  %y = ascend.AscendRequant %x, %s : (tensor<1x4x8x2xi32>, tensor<4xf32>) -> tensor<1x4x8x2xi16>
  func.return
}

// -----

// AscendDequantS16 takes accumulators.
// CHECK: error: 'ascend.AscendDequantS16' op x0 is of i8, AscendDequantS16 takes i32
func.func @main(%x: tensor<1x4x8x2xi8>) {
  %y = ascend.AscendDequantS16 %x, %s : (tensor<1x4x8x2xi8>, tensor<4xf32>) -> tensor<1x4x8x2xi16>
  func.return
}

// -----

// Its scales are known when compiling.
// CHECK: error: 'ascend.AscendDequantS16' op deq_scale must be a constant
func.func @main(%x: tensor<1x4x8x2xi32>, %s: tensor<4xf32>) {
  %y = ascend.AscendDequantS16 %x, %s : (tensor<1x4x8x2xi32>, tensor<4xf32>) -> tensor<1x4x8x2xi16>
  func.return
}

// -----

// Its scales are along the channels.
// CHECK: error: 'ascend.AscendDequantS16' op channels of x and deq_scale length differ: 4 and 3
func.func @main(%x: tensor<1x4x8x2xi32>) {
  %s = nn.constant dense<1.0> : tensor<3xf32>
  %y = ascend.AscendDequantS16 %x, %s : (tensor<1x4x8x2xi32>, tensor<3xf32>) -> tensor<1x4x8x2xi16>
  func.return
}

// -----

// Its bias is int16.
// CHECK: error: 'ascend.AscendDequantS16' op x1 is of i32, AscendDequantS16 takes i16
func.func @main(%x: tensor<1x4x8x2xi32>, %b: tensor<4xi32>) {
  %y = ascend.AscendDequantS16 %x, %s, %b : (tensor<1x4x8x2xi32>, tensor<4xf32>, tensor<4xi32>) -> tensor<1x4x8x2xi16>
  func.return
}

// -----

// One per channel.
// CHECK: error: 'ascend.AscendDequantS16' op channels of x and x1 length differ: 4 and 2
func.func @main(%x: tensor<1x4x8x2xi32>, %b: tensor<2xi16>) {
  %y = ascend.AscendDequantS16 %x, %s, %b : (tensor<1x4x8x2xi32>, tensor<4xf32>, tensor<2xi16>) -> tensor<1x4x8x2xi16>
  func.return
}

// -----

// The result is int16.
// CHECK: error: 'ascend.AscendDequantS16' op result is declared tensor<1x4x8x2xi8>, operands and properties give tensor<1x4x8x2xi16>
func.func @main(%x: tensor<1x4x8x2xi32>) {
  %y = ascend.AscendDequantS16 %x, %s : (tensor<1x4x8x2xi32>, tensor<4xf32>) -> tensor<1x4x8x2xi8>
  func.return
}

// -----

// AscendRequantS16 takes int16.
// CHECK: error: 'ascend.AscendRequantS16' op x0 is of i32, AscendRequantS16 takes i16
func.func @main(%x: tensor<1x4x8x2xi32>) {
  %y, %z = ascend.AscendRequantS16 %x, %s : (tensor<1x4x8x2xi32>, tensor<4xf32>) -> (tensor<1x4x8x2xi8>, tensor<1x4x8x2xi16>)
  func.return
}

// -----

// Its scales are known when compiling.
// CHECK: error: 'ascend.AscendRequantS16' op req_scale must be a constant
func.func @main(%x: tensor<1x4x8x2xi16>, %s: tensor<4xf32>) {
  %y, %z = ascend.AscendRequantS16 %x, %s : (tensor<1x4x8x2xi16>, tensor<4xf32>) -> (tensor<1x4x8x2xi8>, tensor<1x4x8x2xi16>)
  func.return
}

// -----

// Its scales are along the channels.
// CHECK: error: 'ascend.AscendRequantS16' op channels of x and req_scale length differ: 4 and 3
func.func @main(%x: tensor<1x4x8x2xi16>) {
  %s = nn.constant dense<1.0> : tensor<3xf32>
  %y, %z = ascend.AscendRequantS16 %x, %s : (tensor<1x4x8x2xi16>, tensor<3xf32>) -> (tensor<1x4x8x2xi8>, tensor<1x4x8x2xi16>)
  func.return
}

// -----

// Both operands of an addition are of one shape.
// CHECK: error: 'ascend.AscendRequantS16' op shapes of x0 and x1 differ: 8 and 7
func.func @main(%x: tensor<1x4x8x2xi16>, %b: tensor<1x4x7x2xi16>) {
  %y, %z = ascend.AscendRequantS16 %x, %s, %b : (tensor<1x4x8x2xi16>, tensor<4xf32>, tensor<1x4x7x2xi16>) -> (tensor<1x4x8x2xi8>, tensor<1x4x8x2xi16>)
  func.return
}

// -----

// The sum is asked for.
// CHECK: error: 'ascend.AscendRequantS16' op y1 is used, which needs dual_output
func.func @main(%x: tensor<1x4x8x2xi16>) {
  %y, %z = ascend.AscendRequantS16 %x, %s : (tensor<1x4x8x2xi16>, tensor<4xf32>) -> (tensor<1x4x8x2xi8>, tensor<1x4x8x2xi16>)
  %v, %w = ascend.AscendRequantS16 %z, %s : (tensor<1x4x8x2xi16>, tensor<4xf32>) -> (tensor<1x4x8x2xi8>, tensor<1x4x8x2xi16>)
  func.return
}
