// RUN: VERIFY_DIAGNOSTICS | filecheck %s

// One part per rule of the convolutions and of all cube operations.

// The element type has no row.
// CHECK: error: 'ascend.Conv2D' op x is of i32, Conv2D takes i8, i16, f16, bf16, f32
func.func @main(%x: tensor<1x4x8x8xi32>, %w: tensor<6x4x3x3xi32>) {
  %y = ascend.Conv2D %x, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<1x4x8x8xi32>, tensor<6x4x3x3xi32>) -> tensor<1x6x6x6xi32>
  func.return
}

// -----

// The filter next to int16 is int8.
// CHECK: error: 'ascend.Conv2D' op x is of i16, filter of i16: it must be i8
func.func @main(%x: tensor<1x4x8x8xi16>, %w: tensor<6x4x3x3xi16>) {
  %y = ascend.Conv2D %x, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<1x4x8x8xi16>, tensor<6x4x3x3xi16>) -> tensor<1x6x6x6xi32>
  func.return
}

// -----

// Three-dimensional convolutions have no row for int16.
// CHECK: error: 'ascend.Conv3D' op x is of i16, Conv3D takes i8, f16, bf16, f32
func.func @main(%x: tensor<1x4x8x8x8xi16>, %w: tensor<6x4x3x3x3xi8>) {
  %y = ascend.Conv3D %x, %w strides [1, 1, 1, 1, 1] pads [0, 0, 0, 0, 0, 0] data_format "NCDHW" : (tensor<1x4x8x8x8xi16>, tensor<6x4x3x3x3xi8>) -> tensor<1x6x6x6x6xi32>
  func.return
}

// -----

// x and filter have one type.
// CHECK: error: 'ascend.Conv2D' op x is of i8, filter of f32: they must be equal
func.func @main(%x: tensor<1x4x8x8xi8>, %w: tensor<6x4x3x3xf32>) {
  %y = ascend.Conv2D %x, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<1x4x8x8xi8>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xi32>
  func.return
}

// -----

// The bias of int8 operands is int32.
// CHECK: error: 'ascend.Conv2D' op bias next to i8 operands is of f32, Conv2D takes i32
func.func @main(%x: tensor<1x4x8x8xi8>, %w: tensor<6x4x3x3xi8>, %b: tensor<6xf32>) {
  %y = ascend.Conv2D %x, %w, %b strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<1x4x8x8xi8>, tensor<6x4x3x3xi8>, tensor<6xf32>) -> tensor<1x6x6x6xi32>
  func.return
}

// -----

// offset_x is an int8 number.
// CHECK: error: 'ascend.Conv2D' op offset_x 128 is not in [-128, 127]
func.func @main(%x: tensor<1x4x8x8xi8>, %w: tensor<6x4x3x3xi8>) {
  %y = ascend.Conv2D %x, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" offset_x 128 : (tensor<1x4x8x8xi8>, tensor<6x4x3x3xi8>) -> tensor<1x6x6x6xi32>
  func.return
}

// -----

// Next to int16 it is an int16 number.
// CHECK: error: 'ascend.Conv2D' op offset_x -32769 is not in [-32768, 32767]
func.func @main(%x: tensor<1x4x8x8xi16>, %w: tensor<6x4x3x3xi8>) {
  %y = ascend.Conv2D %x, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" offset_x -32769 : (tensor<1x4x8x8xi16>, tensor<6x4x3x3xi8>) -> tensor<1x6x6x6xi32>
  func.return
}

// -----

// offset_x is for integers.
// CHECK: error: 'ascend.Conv2D' op offset_x is for integer operands
func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  %y = ascend.Conv2D %x, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" offset_x 1 : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

// int8 operands give int32.
// CHECK: error: 'ascend.Conv2D' op result is declared tensor<1x6x6x6xf32>, operands and properties give tensor<1x6x6x6xi32>
func.func @main(%x: tensor<1x4x8x8xi8>, %w: tensor<6x4x3x3xi8>) {
  %y = ascend.Conv2D %x, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<1x4x8x8xi8>, tensor<6x4x3x3xi8>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

// The result has the size of the geometry.
// CHECK: error: 'ascend.Conv2D' op result is declared tensor<1x6x8x8xf32>, operands and properties give tensor<1x6x6x6xf32>
func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  %y = ascend.Conv2D %x, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x8x8xf32>
  func.return
}

// -----

// A data format that the operation does not know.
// CHECK: error: 'ascend.Conv2D' op data_format 'NCDHW' is not one of NCHW, NHWC
func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  %y = ascend.Conv2D %x, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCDHW" : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

// x has the rank of the data format.
// CHECK: error: 'ascend.Conv2D' op x must be of rank 4 (NCHW), not 3
func.func @main(%x: tensor<1x4x8xf32>, %w: tensor<6x4x3x3xf32>) {
  %y = ascend.Conv2D %x, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<1x4x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

// So has the filter.
// CHECK: error: 'ascend.Conv2D' op filter must be of rank 4, not 3
func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3xf32>) {
  %y = ascend.Conv2D %x, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<1x4x8x8xf32>, tensor<6x4x3xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

// Lists have one entry per axis.
// CHECK: error: 'ascend.Conv2D' op strides has 2 entries, expected 4 (NCHW)
func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  %y = ascend.Conv2D %x, %w strides [1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

// There are no strides over batch and channels.
// CHECK: error: 'ascend.Conv2D' op strides [1, 2, 1, 1] must be 1 on N and C (NCHW)
func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  %y = ascend.Conv2D %x, %w strides [1, 2, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

// Pads have two entries per spatial axis.
// CHECK: error: 'ascend.Conv2D' op pads has 2 entries, expected 4: begin and end of each spatial axis
func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  %y = ascend.Conv2D %x, %w strides [1, 1, 1, 1] pads [0, 0] data_format "NCHW" : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

// The height has a limit.
// CHECK: error: 'ascend.Conv2D' op height 100001 is not in [1, 100000]
func.func @main(%x: tensor<1x4x100001x8xf32>, %w: tensor<6x4x3x3xf32>) {
  %y = ascend.Conv2D %x, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<1x4x100001x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

// So has the width.
// CHECK: error: 'ascend.Conv2D' op width 4097 is not in [1, 4096]
func.func @main(%x: tensor<1x4x8x4097xf32>, %w: tensor<6x4x3x3xf32>) {
  %y = ascend.Conv2D %x, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<1x4x8x4097xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

// So has the kernel.
// CHECK: error: 'ascend.Conv2D' op kernel 256 is not in [1, 255]
func.func @main(%x: tensor<1x4x8x300xf32>, %w: tensor<6x4x3x256xf32>) {
  %y = ascend.Conv2D %x, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<1x4x8x300xf32>, tensor<6x4x3x256xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

// So have strides.
// CHECK: error: 'ascend.Conv2D' op stride 64 is not in [1, 63]
func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  %y = ascend.Conv2D %x, %w strides [1, 1, 64, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

// So have dilations.
// CHECK: error: 'ascend.Conv2D' op dilation 256 is not in [1, 255]
func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  %y = ascend.Conv2D %x, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] dilations [1, 1, 1, 256] data_format "NCHW" : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

// So have pads.
// CHECK: error: 'ascend.Conv2D' op pad 256 is not in [0, 255]
func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  %y = ascend.Conv2D %x, %w strides [1, 1, 1, 1] pads [256, 0, 0, 0] data_format "NCHW" : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

// Groups are positive.
// CHECK: error: 'ascend.Conv2D' op groups must be at least 1, not 0
func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  %y = ascend.Conv2D %x, %w groups 0 strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

// Groups share the channels of x.
// CHECK: error: 'ascend.Conv2D' op channels of x and of filter x groups differ: 4 and 8
func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  %y = ascend.Conv2D %x, %w groups 2 strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

// Groups divide the channels of x.
// CHECK: error: 'ascend.Conv2D' op 5 input channels are not divisible by 2 groups
func.func @main(%x: tensor<1x5x8x8xf32>, %w: tensor<6x?x3x3xf32>) {
  %y = ascend.Conv2D %x, %w groups 2 strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<1x5x8x8xf32>, tensor<6x?x3x3xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

// Groups divide the output channels.
// CHECK: error: 'ascend.Conv2D' op 5 output channels are not divisible by 2 groups
func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<5x2x3x3xf32>) {
  %y = ascend.Conv2D %x, %w groups 2 strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<1x4x8x8xf32>, tensor<5x2x3x3xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

// A bias is a vector.
// CHECK: error: 'ascend.Conv2D' op bias must be of rank 1
func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>, %b: tensor<1x6xf32>) {
  %y = ascend.Conv2D %x, %w, %b strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>, tensor<1x6xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

// A bias has one number per output channel.
// CHECK: error: 'ascend.Conv2D' op bias length and output channels differ: 4 and 6
func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>, %b: tensor<4xf32>) {
  %y = ascend.Conv2D %x, %w, %b strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>, tensor<4xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

// The window fits.
// CHECK: error: 'ascend.Conv2D' op window of 3 exceeds the padded size 2
func.func @main(%x: tensor<1x4x2x8xf32>, %w: tensor<6x4x3x3xf32>) {
  %y = ascend.Conv2D %x, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<1x4x2x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

// An int32 result is dequantized.
// CHECK: error: 'ascend.Conv2D' op its int32 result feeds 'ascend.Relu', AscendDequant must follow
func.func @main(%x: tensor<1x4x8x8xi8>, %w: tensor<6x4x1x1xi8>) {
  %y = ascend.Conv2D %x, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<1x4x8x8xi8>, tensor<6x4x1x1xi8>) -> tensor<1x6x8x8xi32>
  %z = ascend.Relu %y : tensor<1x6x8x8xi32>
  func.return
}

// -----

// offset_x of Conv3D is reserved.
// CHECK: error: 'ascend.Conv3D' op offset_x is reserved: it must be 0
func.func @main(%x: tensor<1x2x5x5x5xi8>, %w: tensor<3x2x2x2x2xi8>) {
  %y = ascend.Conv3D %x, %w strides [1, 1, 1, 1, 1] pads [0, 0, 0, 0, 0, 0] data_format "NCDHW" offset_x 1 : (tensor<1x2x5x5x5xi8>, tensor<3x2x2x2x2xi8>) -> tensor<1x3x4x4x4xi32>
  func.return
}

// -----

// int8 operands are not dilated along the depth.
// CHECK: error: 'ascend.Conv3D' op int8 operands need a dilation of 1 along the depth
func.func @main(%x: tensor<1x2x5x5x5xi8>, %w: tensor<3x2x2x2x2xi8>) {
  %y = ascend.Conv3D %x, %w strides [1, 1, 1, 1, 1] pads [0, 0, 0, 0, 0, 0] data_format "NCDHW" dilations [1, 1, 2, 1, 1] : (tensor<1x2x5x5x5xi8>, tensor<3x2x2x2x2xi8>) -> tensor<1x3x4x4x4xi32>
  func.return
}

// -----

// A depthwise filter is [kh, kw, C, multiplier].
// CHECK: error: 'ascend.DepthwiseConv2D' op channels of x and of filter differ: 4 and 3
func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<3x3x3x2xf32>) {
  %y = ascend.DepthwiseConv2D %x, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<1x4x8x8xf32>, tensor<3x3x3x2xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

// Its bias has one number per output channel.
// CHECK: error: 'ascend.DepthwiseConv2D' op bias length and output channels differ: 4 and 8
func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<3x3x4x2xf32>, %b: tensor<4xf32>) {
  %y = ascend.DepthwiseConv2D %x, %w, %b strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<1x4x8x8xf32>, tensor<3x3x4x2xf32>, tensor<4xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

// A transposed convolution is not dilated.
// CHECK: error: 'ascend.Conv2DTranspose' op dilations [1, 1, 2, 1] must be 1
func.func @main(%x: tensor<1x4x5x5xf32>, %w: tensor<4x3x3x3xf32>, %s: tensor<4xi64>) {
  %y = ascend.Conv2DTranspose %s, %x, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] dilations [1, 1, 2, 1] data_format "NCHW" : (tensor<4xi64>, tensor<1x4x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x3x7x7xf32>
  func.return
}

// -----

// The first axis of its filter is that of the channels of x.
// CHECK: error: 'ascend.Conv2DTranspose' op channels of x and of filter differ: 4 and 2
func.func @main(%x: tensor<1x4x5x5xf32>, %w: tensor<2x3x3x3xf32>, %s: tensor<4xi64>) {
  %y = ascend.Conv2DTranspose %s, %x, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<4xi64>, tensor<1x4x5x5xf32>, tensor<2x3x3x3xf32>) -> tensor<1x3x7x7xf32>
  func.return
}

// -----

// Groups divide them.
// CHECK: error: 'ascend.Conv2DTranspose' op 4 input channels are not divisible by 3 groups
func.func @main(%x: tensor<1x4x5x5xf32>, %w: tensor<4x3x3x3xf32>, %s: tensor<4xi64>) {
  %y = ascend.Conv2DTranspose %s, %x, %w groups 3 strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<4xi64>, tensor<1x4x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x3x7x7xf32>
  func.return
}

// -----

// Output padding concerns space.
// CHECK: error: 'ascend.Conv2DTranspose' op output_padding [0, 1, 0, 0] must be 0 on N and C (NCHW)
func.func @main(%x: tensor<1x4x5x5xf32>, %w: tensor<4x3x3x3xf32>, %s: tensor<4xi64>) {
  %y = ascend.Conv2DTranspose %s, %x, %w output_padding [0, 1, 0, 0] strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<4xi64>, tensor<1x4x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x3x7x7xf32>
  func.return
}

// -----

// Something is left.
// CHECK: error: 'ascend.Conv2DTranspose' op pads cut off all of the output: [0, 7]
func.func @main(%x: tensor<1x4x5x5xf32>, %w: tensor<4x3x3x3xf32>, %s: tensor<4xi64>) {
  %y = ascend.Conv2DTranspose %s, %x, %w strides [1, 1, 1, 1] pads [4, 3, 0, 0] data_format "NCHW" : (tensor<4xi64>, tensor<1x4x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x3x7x7xf32>
  func.return
}

// -----

// input_size holds integers.
// CHECK: error: 'ascend.Conv2DTranspose' op input_size is of f32, Conv2DTranspose takes i32, i64
func.func @main(%x: tensor<1x4x5x5xf32>, %w: tensor<4x3x3x3xf32>, %s: tensor<4xf32>) {
  %y = ascend.Conv2DTranspose %s, %x, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<4xf32>, tensor<1x4x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x3x7x7xf32>
  func.return
}

// -----

// One per axis.
// CHECK: error: 'ascend.Conv2DTranspose' op input_size must hold 4 integers
func.func @main(%x: tensor<1x4x5x5xf32>, %w: tensor<4x3x3x3xf32>, %s: tensor<2xi64>) {
  %y = ascend.Conv2DTranspose %s, %x, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<2xi64>, tensor<1x4x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x3x7x7xf32>
  func.return
}

// -----

// They are the sizes of the result, where not 0.
// CHECK: error: 'ascend.Conv2DTranspose' op input_size and the size that the geometry gives differ: 8 and 7
func.func @main(%x: tensor<1x4x5x5xf32>, %w: tensor<4x3x3x3xf32>) {
  %s = nn.constant dense<[0, 3, 8, 7]> : tensor<4xi64>
  %y = ascend.Conv2DTranspose %s, %x, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<4xi64>, tensor<1x4x5x5xf32>, tensor<4x3x3x3xf32>) -> tensor<1x3x7x7xf32>
  func.return
}
