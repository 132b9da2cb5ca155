// RUN: VERIFY_DIAGNOSTICS | filecheck %s

// One part per rule of the transposed convolutions of TensorFlow and Caffe.

// The size is known when compiling.
// CHECK: error: 'ascend.Conv2DBackpropInput' op input_size must be a constant
func.func @main(%z: tensor<4xi32>, %f: tensor<3x3x2x4xf32>, %g: tensor<1x4x4x4xf32>) {
  %y = ascend.Conv2DBackpropInput %z, %f, %g strides [1, 2, 2, 1] pads [0, 0, 0, 0] : (tensor<4xi32>, tensor<3x3x2x4xf32>, tensor<1x4x4x4xf32>) -> tensor<1x9x8x2xf32>
  func.return
}

// -----

// A size that gives x.
// CHECK: error: 'ascend.Conv2DBackpropInput' op input_size 8 is not in [9, 10], which the geometry allows
func.func @main(%f: tensor<3x3x2x4xf32>, %g: tensor<1x4x4x4xf32>) {
  %z = nn.constant dense<[1, 9, 8, 2]> : tensor<4xi32>
  %y = ascend.Conv2DBackpropInput %z, %f, %g strides [1, 2, 2, 1] pads [0, 0, 0, 0] : (tensor<4xi32>, tensor<3x3x2x4xf32>, tensor<1x4x4x4xf32>) -> tensor<1x9x8x2xf32>
  func.return
}

// -----

// Four numbers.
// CHECK: error: 'ascend.Conv2DBackpropInput' op input_size must hold 4 integers
func.func @main(%f: tensor<3x3x2x4xf32>, %g: tensor<1x4x4x4xf32>) {
  %z = nn.constant dense<[9, 9]> : tensor<2xi32>
  %y = ascend.Conv2DBackpropInput %z, %f, %g strides [1, 2, 2, 1] pads [0, 0, 0, 0] : (tensor<2xi32>, tensor<3x3x2x4xf32>, tensor<1x4x4x4xf32>) -> tensor<1x9x8x2xf32>
  func.return
}

// -----

// The channels are those of the filter.
// CHECK: error: 'ascend.Conv2DBackpropInput' op input_size and the size that the geometry gives differ: 3 and 2
func.func @main(%f: tensor<3x3x2x4xf32>, %g: tensor<1x4x4x4xf32>) {
  %z = nn.constant dense<[1, 9, 9, 3]> : tensor<4xi32>
  %y = ascend.Conv2DBackpropInput %z, %f, %g strides [1, 2, 2, 1] pads [0, 0, 0, 0] : (tensor<4xi32>, tensor<3x3x2x4xf32>, tensor<1x4x4x4xf32>) -> tensor<1x9x8x2xf32>
  func.return
}

// -----

// int32, not int64.
// CHECK: error: 'ascend.Conv2DBackpropInput' op input_size is of i64, Conv2DBackpropInput takes i32
func.func @main(%f: tensor<3x3x2x4xf32>, %g: tensor<1x4x4x4xf32>) {
  %z = nn.constant dense<[1, 9, 9, 2]> : tensor<4xi64>
  %y = ascend.Conv2DBackpropInput %z, %f, %g strides [1, 2, 2, 1] pads [0, 0, 0, 0] : (tensor<4xi64>, tensor<3x3x2x4xf32>, tensor<1x4x4x4xf32>) -> tensor<1x9x8x2xf32>
  func.return
}

// -----

// The channels of both operands.
// CHECK: error: 'ascend.Conv2DBackpropInput' op channels of x and of filter differ: 4 and 3
func.func @main(%f: tensor<3x3x2x3xf32>, %g: tensor<1x4x4x4xf32>) {
  %z = nn.constant dense<0> : tensor<4xi32>
  %y = ascend.Conv2DBackpropInput %z, %f, %g strides [1, 2, 2, 1] pads [0, 0, 0, 0] : (tensor<4xi32>, tensor<3x3x2x3xf32>, tensor<1x4x4x4xf32>) -> tensor<1x9x8x2xf32>
  func.return
}

// -----

// Operands of one row.
// CHECK: error: 'ascend.Conv2DBackpropInput' op x is of f32, filter of f16: they must be equal
func.func @main(%f: tensor<3x3x2x4xf16>, %g: tensor<1x4x4x4xf32>) {
  %z = nn.constant dense<0> : tensor<4xi32>
  %y = ascend.Conv2DBackpropInput %z, %f, %g strides [1, 2, 2, 1] pads [0, 0, 0, 0] : (tensor<4xi32>, tensor<3x3x2x4xf16>, tensor<1x4x4x4xf32>) -> tensor<1x9x8x2xf32>
  func.return
}

// -----

// Sums are dequantized.
// CHECK: error: 'ascend.Deconvolution' op its int32 result feeds 'ascend.Add', AscendDequant must follow
func.func @main(%x: tensor<1x4x5x6xi8>, %w: tensor<4x2x3x3xi8>) {
  %y = ascend.Deconvolution %x, %w : (tensor<1x4x5x6xi8>, tensor<4x2x3x3xi8>) -> tensor<1x2x7x8xi32>
  %s = ascend.Add %y, %y : tensor<1x2x7x8xi32>
  func.return
}

// -----

// Two strides.
// CHECK: error: 'ascend.Deconvolution' op strides has 4 entries, expected 2 (H, W)
func.func @main(%x: tensor<1x4x5x6xf32>, %w: tensor<4x2x3x3xf32>) {
  %y = ascend.Deconvolution %x, %w strides [1, 1, 1, 1] : (tensor<1x4x5x6xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x9x8xf32>
  func.return
}

// -----

// Channels second.
// CHECK: error: 'ascend.Deconvolution' op data_format 'NHWC' is not one of NCHW
func.func @main(%x: tensor<1x4x5x6xf32>, %w: tensor<4x2x3x3xf32>) {
  %y = ascend.Deconvolution %x, %w data_format "NHWC" : (tensor<1x4x5x6xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x9x8xf32>
  func.return
}

// -----

// No bfloat16.
// CHECK: error: 'ascend.Deconvolution' op x is of bf16, Deconvolution takes i8, f16, f32
func.func @main(%x: tensor<1x4x5x6xbf16>, %w: tensor<4x2x3x3xbf16>) {
  %y = ascend.Deconvolution %x, %w : (tensor<1x4x5x6xbf16>, tensor<4x2x3x3xbf16>) -> tensor<1x4x9x8xf32>
  func.return
}

// -----

// A bias per channel.
// CHECK: error: 'ascend.Deconvolution' op bias length and output channels differ: 3 and 2
func.func @main(%x: tensor<1x4x5x6xf32>, %w: tensor<4x2x3x3xf32>, %b: tensor<3xf32>) {
  %y = ascend.Deconvolution %x, %w, %b : (tensor<1x4x5x6xf32>, tensor<4x2x3x3xf32>, tensor<3xf32>) -> tensor<1x4x9x8xf32>
  func.return
}

// -----

// float16 gives float16.
// CHECK: error: 'ascend.Deconvolution' op result is declared tensor<1x2x7x8xf32>, operands and properties give tensor<1x2x7x8xf16>
func.func @main(%x: tensor<1x4x5x6xf16>, %w: tensor<4x2x3x3xf16>) {
  %y = ascend.Deconvolution %x, %w : (tensor<1x4x5x6xf16>, tensor<4x2x3x3xf16>) -> tensor<1x2x7x8xf32>
  func.return
}

// -----

// Groups of channels.
// CHECK: error: 'ascend.Deconvolution' op 4 input channels are not divisible by 3 groups
func.func @main(%x: tensor<1x4x5x6xf32>, %w: tensor<4x2x3x3xf32>) {
  %y = ascend.Deconvolution %x, %w groups 3 : (tensor<1x4x5x6xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x9x8xf32>
  func.return
}

// -----

// Not beyond what the device takes.
// CHECK: error: 'ascend.Deconvolution' op size times stride 4160 is not in [1, 4096]
func.func @main(%x: tensor<1x4x130x6xf32>, %w: tensor<4x2x3x3xf32>) {
  %y = ascend.Deconvolution %x, %w strides [32, 1] : (tensor<1x4x130x6xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x9x8xf32>
  func.return
}

// -----

// Something is left.
// CHECK: error: 'ascend.Deconvolution' op pads cut off all of the output: [-1, 8]
func.func @main(%x: tensor<1x4x5x6xf32>, %w: tensor<4x2x3x3xf32>) {
  %y = ascend.Deconvolution %x, %w pads [4, 4, 0, 0] : (tensor<1x4x5x6xf32>, tensor<4x2x3x3xf32>) -> tensor<1x4x9x8xf32>
  func.return
}
