// RUN: VERIFY_DIAGNOSTICS | filecheck %s

// One part per rule of pooling.

// Pooling is of rank 4.
// CHECK: error: 'ascend.MaxPoolV3' op x must be of rank 4 (NCHW), not 3
func.func @main(%x: tensor<1x4x9xf32>) {
  %y = ascend.MaxPoolV3 %x ksize [1, 1, 2, 2] strides [1, 1, 1, 1] : (tensor<1x4x9xf32>) -> tensor<1x4x8x7xf32>
  func.return
}

// -----

// A window has one entry per axis.
// CHECK: error: 'ascend.MaxPoolV3' op ksize has 2 entries, expected 4 (NCHW)
func.func @main(%x: tensor<1x4x9x8xf32>) {
  %y = ascend.MaxPoolV3 %x ksize [2, 2] strides [1, 1, 1, 1] : (tensor<1x4x9x8xf32>) -> tensor<1x4x8x7xf32>
  func.return
}

// -----

// It lies in space.
// CHECK: error: 'ascend.MaxPoolV3' op ksize [1, 2, 2, 2] must be 1 on N and C (NCHW)
func.func @main(%x: tensor<1x4x9x8xf32>) {
  %y = ascend.MaxPoolV3 %x ksize [1, 2, 2, 2] strides [1, 1, 1, 1] : (tensor<1x4x9x8xf32>) -> tensor<1x4x8x7xf32>
  func.return
}

// -----

// It has a limit on each axis.
// CHECK: error: 'ascend.MaxPoolV3' op window size 256 is not in [1, 255]
func.func @main(%x: tensor<1x4x9x8xf32>) {
  %y = ascend.MaxPoolV3 %x ksize [1, 1, 256, 1] strides [1, 1, 1, 1] : (tensor<1x4x9x8xf32>) -> tensor<1x4x8x7xf32>
  func.return
}

// -----

// And in all.
// CHECK: error: 'ascend.MaxPoolV3' op a window of 256 elements, at most 255 are possible
func.func @main(%x: tensor<1x4x9x8xf32>) {
  %y = ascend.MaxPoolV3 %x ksize [1, 1, 16, 16] strides [1, 1, 1, 1] : (tensor<1x4x9x8xf32>) -> tensor<1x4x8x7xf32>
  func.return
}

// -----

// Strides have one too.
// CHECK: error: 'ascend.MaxPoolV3' op stride 64 is not in [1, 63]
func.func @main(%x: tensor<1x4x9x8xf32>) {
  %y = ascend.MaxPoolV3 %x ksize [1, 1, 2, 2] strides [1, 1, 64, 1] : (tensor<1x4x9x8xf32>) -> tensor<1x4x8x7xf32>
  func.return
}

// -----

// Padding is smaller than the window.
// CHECK: error: 'ascend.MaxPoolV3' op pads 0 and 2 must be smaller than the window of 2
func.func @main(%x: tensor<1x4x9x8xf32>) {
  %y = ascend.MaxPoolV3 %x ksize [1, 1, 2, 2] strides [1, 1, 1, 1] pads [0, 2, 0, 0] : (tensor<1x4x9x8xf32>) -> tensor<1x4x8x7xf32>
  func.return
}

// -----

// A known way to pad.
// CHECK: error: 'ascend.MaxPoolV3' op padding_mode 'FULL' is not one of CALCULATED, SAME, VALID
func.func @main(%x: tensor<1x4x9x8xf32>) {
  %y = ascend.MaxPoolV3 %x ksize [1, 1, 2, 2] strides [1, 1, 1, 1] padding_mode "FULL" : (tensor<1x4x9x8xf32>) -> tensor<1x4x8x7xf32>
  func.return
}

// -----

// A known data format.
// CHECK: error: 'ascend.MaxPoolV3' op data_format 'ND' is not one of NCHW, NHWC
func.func @main(%x: tensor<1x4x9x8xf32>) {
  %y = ascend.MaxPoolV3 %x ksize [1, 1, 2, 2] strides [1, 1, 1, 1] data_format "ND" : (tensor<1x4x9x8xf32>) -> tensor<1x4x8x7xf32>
  func.return
}

// -----

// The window fits.
// CHECK: error: 'ascend.MaxPoolV3' op window of 10 exceeds the padded size 9
func.func @main(%x: tensor<1x4x9x8xf32>) {
  %y = ascend.MaxPoolV3 %x ksize [1, 1, 10, 1] strides [1, 1, 1, 1] : (tensor<1x4x9x8xf32>) -> tensor<1x4x8x7xf32>
  func.return
}

// -----

// MaxPoolV3 gives the type of x.
// CHECK: error: 'ascend.MaxPoolV3' op result is declared tensor<1x4x8x7xf16>, operands and properties give tensor<1x4x8x7xf32>
func.func @main(%x: tensor<1x4x9x8xf32>) {
  %y = ascend.MaxPoolV3 %x ksize [1, 1, 2, 2] strides [1, 1, 1, 1] : (tensor<1x4x9x8xf32>) -> tensor<1x4x8x7xf16>
  func.return
}

// -----

// AvgPoolV2 averages floats, or sums int8.
// CHECK: error: 'ascend.AvgPoolV2' op x is of i32, AvgPoolV2 takes f16, f32, bf16, f64, i8
func.func @main(%x: tensor<1x4x9x8xi32>) {
  %y = ascend.AvgPoolV2 %x ksize [1, 1, 2, 2] strides [1, 1, 1, 1] : (tensor<1x4x9x8xi32>) -> tensor<1x4x8x7xi32>
  func.return
}

// -----

// offset_x is for int8.
// CHECK: error: 'ascend.AvgPoolV2' op offset_x is for integer x
func.func @main(%x: tensor<1x4x9x8xf32>) {
  %y = ascend.AvgPoolV2 %x offset_x 1 ksize [1, 1, 2, 2] strides [1, 1, 1, 1] : (tensor<1x4x9x8xf32>) -> tensor<1x4x8x7xf32>
  func.return
}

// -----

// It is an int8 number.
// CHECK: error: 'ascend.AvgPoolV2' op offset_x -129 is not in [-128, 127]
func.func @main(%x: tensor<1x4x9x8xi8>) {
  %y = ascend.AvgPoolV2 %x offset_x -129 ksize [1, 1, 2, 2] strides [1, 1, 1, 1] : (tensor<1x4x9x8xi8>) -> tensor<1x4x8x7xi32>
  func.return
}

// -----

// The divisor is the count.
// CHECK: error: 'ascend.AvgPoolV2' op divisor_override must be 0
func.func @main(%x: tensor<1x4x9x8xf32>) {
  %y = ascend.AvgPoolV2 %x divisor_override 3 ksize [1, 1, 2, 2] strides [1, 1, 1, 1] : (tensor<1x4x9x8xf32>) -> tensor<1x4x8x7xf32>
  func.return
}

// -----

// Sums are dequantized.
// CHECK: error: 'ascend.AvgPoolV2' op its int32 result feeds 'ascend.Add', AscendDequant must follow
func.func @main(%x: tensor<1x4x9x8xi8>) {
  %y = ascend.AvgPoolV2 %x ksize [1, 1, 2, 2] strides [1, 1, 1, 1] : (tensor<1x4x9x8xi8>) -> tensor<1x4x8x7xi32>
  %z = ascend.Add %y, %y : tensor<1x4x8x7xi32>
  func.return
}

// -----

// TensorFlow pads in two ways.
// CHECK: error: 'ascend.MaxPool' op padding 'CALCULATED' is not one of SAME, VALID
func.func @main(%x: tensor<1x9x8x4xf32>) {
  %y = ascend.MaxPool %x ksize [1, 2, 2, 1] strides [1, 1, 1, 1] padding "CALCULATED" : (tensor<1x9x8x4xf32>) -> tensor<1x9x8x4xf32>
  func.return
}

// -----

// MaxPool takes no bfloat16.
// CHECK: error: 'ascend.MaxPool' op x is of bf16, MaxPool takes f16, f32, f64, i8, i16, i32, i64, ui8, ui16
func.func @main(%x: tensor<1x9x8x4xbf16>) {
  %y = ascend.MaxPool %x ksize [1, 2, 2, 1] strides [1, 1, 1, 1] padding "SAME" : (tensor<1x9x8x4xbf16>) -> tensor<1x9x8x4xbf16>
  func.return
}

// -----

// Channels last.
// CHECK: error: 'ascend.MaxPool' op ksize [1, 1, 2, 2] must be 1 on N and C (NHWC)
func.func @main(%x: tensor<1x9x8x4xf32>) {
  %y = ascend.MaxPool %x ksize [1, 1, 2, 2] strides [1, 1, 1, 1] padding "SAME" : (tensor<1x9x8x4xf32>) -> tensor<1x9x8x4xf32>
  func.return
}

// -----

// AvgPool averages floats, or sums int8.
// CHECK: error: 'ascend.AvgPool' op x is of i32, AvgPool takes f16, f32, bf16, f64, i8
func.func @main(%x: tensor<1x9x8x4xi32>) {
  %y = ascend.AvgPool %x ksize [1, 2, 2, 1] strides [1, 1, 1, 1] padding "SAME" : (tensor<1x9x8x4xi32>) -> tensor<1x9x8x4xf32>
  func.return
}

// -----

// offset_x is for int8.
// CHECK: error: 'ascend.AvgPool' op offset_x is for integer x
func.func @main(%x: tensor<1x9x8x4xf32>) {
  %y = ascend.AvgPool %x ksize [1, 2, 2, 1] strides [1, 1, 1, 1] padding "SAME" offset_x 1 : (tensor<1x9x8x4xf32>) -> tensor<1x9x8x4xf32>
  func.return
}

// -----

// Sums are dequantized.
// CHECK: error: 'ascend.AvgPool' op its int32 result feeds 'ascend.Add', AscendDequant must follow
func.func @main(%x: tensor<1x9x8x4xi8>) {
  %y = ascend.AvgPool %x ksize [1, 2, 2, 1] strides [1, 1, 1, 1] padding "SAME" : (tensor<1x9x8x4xi8>) -> tensor<1x9x8x4xi32>
  %z = ascend.Add %y, %y : tensor<1x9x8x4xi32>
  func.return
}

// -----

// Pooling: the largest element or the mean.
// CHECK: error: 'ascend.Pooling' op mode 2 is not in [0, 1]
func.func @main(%x: tensor<1x4x9x8xf32>) {
  %y = ascend.Pooling %x mode 2 : (tensor<1x4x9x8xf32>) -> tensor<1x4x9x8xf32>
  func.return
}

// -----

// Rounding up or down.
// CHECK: error: 'ascend.Pooling' op ceil_mode 2 is not in [0, 1]
func.func @main(%x: tensor<1x4x9x8xf32>) {
  %y = ascend.Pooling %x ceil_mode 2 : (tensor<1x4x9x8xf32>) -> tensor<1x4x9x8xf32>
  func.return
}

// -----

// No dilation.
// CHECK: error: 'ascend.Pooling' op dilation [2, 2, 1, 1] must be 1
func.func @main(%x: tensor<1x4x9x8xf32>) {
  %y = ascend.Pooling %x dilation [2, 2, 1, 1] : (tensor<1x4x9x8xf32>) -> tensor<1x4x9x8xf32>
  func.return
}

// -----

// Two numbers for the window.
// CHECK: error: 'ascend.Pooling' op window has 4 entries, expected 2 (H, W)
func.func @main(%x: tensor<1x4x9x8xf32>) {
  %y = ascend.Pooling %x window [1, 1, 2, 2] : (tensor<1x4x9x8xf32>) -> tensor<1x4x9x8xf32>
  func.return
}

// -----

// Two for the stride.
// CHECK: error: 'ascend.Pooling' op stride has 1 entries, expected 2 (H, W)
func.func @main(%x: tensor<1x4x9x8xf32>) {
  %y = ascend.Pooling %x stride [1] : (tensor<1x4x9x8xf32>) -> tensor<1x4x9x8xf32>
  func.return
}

// -----

// Four for the padding.
// CHECK: error: 'ascend.Pooling' op pads has 2 entries, expected 4: begin and end of each spatial axis
func.func @main(%x: tensor<1x4x9x8xf32>) {
  %y = ascend.Pooling %x pad [0, 0] : (tensor<1x4x9x8xf32>) -> tensor<1x4x9x8xf32>
  func.return
}

// -----

// The largest int8 element is found by MaxPool.
// CHECK: error: 'ascend.Pooling' op int8 x is for mode 1, the mean
func.func @main(%i: tensor<1x4x9x8xi8>) {
  %y = ascend.Pooling %i : (tensor<1x4x9x8xi8>) -> tensor<1x4x9x8xi32>
  func.return
}

// -----

// Caffe has channels second.
// CHECK: error: 'ascend.Pooling' op data_format 'NHWC' is not one of NCHW
func.func @main(%x: tensor<1x4x9x8xf32>) {
  %y = ascend.Pooling %x data_format "NHWC" : (tensor<1x4x9x8xf32>) -> tensor<1x4x9x8xf32>
  func.return
}

// -----

// Pooling takes no bfloat16.
// CHECK: error: 'ascend.Pooling' op x is of bf16, Pooling takes f16, f32, i8
func.func @main(%x: tensor<1x4x9x8xbf16>) {
  %y = ascend.Pooling %x : (tensor<1x4x9x8xbf16>) -> tensor<1x4x9x8xbf16>
  func.return
}
