// RUN: VERIFY_DIAGNOSTICS | filecheck %s

// One part per rule of normalizations by their own mean and variance.

// gamma has the sizes of the last axes.
// CHECK: error: 'ascend.LayerNorm' op sizes of x from axis 2 on and of gamma differ: 8 and 7
func.func @main(%x: tensor<2x5x8xf32>, %g: tensor<7xf32>, %b: tensor<8xf32>) {
  %y, %m, %v = ascend.LayerNorm %x, %g, %b begin_norm_axis 2 begin_params_axis 2 : (tensor<2x5x8xf32>, tensor<7xf32>, tensor<8xf32>) -> (tensor<2x5x8xf32>, tensor<2x5x1xf32>, tensor<2x5x1xf32>)
  func.return
}

// -----

// beta too.
// CHECK: error: 'ascend.LayerNorm' op sizes of x from axis 2 on and of beta differ: 8 and 7
func.func @main(%x: tensor<2x5x8xf32>, %g: tensor<8xf32>, %b: tensor<7xf32>) {
  %y, %m, %v = ascend.LayerNorm %x, %g, %b begin_norm_axis 2 begin_params_axis 2 : (tensor<2x5x8xf32>, tensor<8xf32>, tensor<7xf32>) -> (tensor<2x5x8xf32>, tensor<2x5x1xf32>, tensor<2x5x1xf32>)
  func.return
}

// -----

// An axis of x.
// CHECK: error: 'ascend.LayerNorm' op begin_norm_axis 3 is out of range for rank 3
func.func @main(%x: tensor<2x5x8xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>) {
  %y, %m, %v = ascend.LayerNorm %x, %g, %b begin_norm_axis 3 begin_params_axis 2 : (tensor<2x5x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x5x8xf32>, tensor<2x5x1xf32>, tensor<2x5x1xf32>)
  func.return
}

// -----

// For the parameters too.
// CHECK: error: 'ascend.LayerNorm' op begin_params_axis 3 is out of range for rank 3
func.func @main(%x: tensor<2x5x8xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>) {
  %y, %m, %v = ascend.LayerNorm %x, %g, %b begin_norm_axis 2 begin_params_axis 3 : (tensor<2x5x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x5x8xf32>, tensor<2x5x1xf32>, tensor<2x5x1xf32>)
  func.return
}

// -----

// Of one type.
// CHECK: error: 'ascend.LayerNorm' op element types differ: f32, f16
func.func @main(%x: tensor<2x5x8xf32>, %g: tensor<8xf16>, %b: tensor<8xf16>) {
  %y, %m, %v = ascend.LayerNorm %x, %g, %b begin_norm_axis 2 begin_params_axis 2 : (tensor<2x5x8xf32>, tensor<8xf16>, tensor<8xf16>) -> (tensor<2x5x8xf32>, tensor<2x5x1xf32>, tensor<2x5x1xf32>)
  func.return
}

// -----

// Moments keep the axes.
// CHECK: error: 'ascend.LayerNorm' op result #1 is declared tensor<2x5xf32>, operands and properties give tensor<2x5x1xf32>
func.func @main(%x: tensor<2x5x8xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>) {
  %y, %m, %v = ascend.LayerNorm %x, %g, %b begin_norm_axis 2 begin_params_axis 2 : (tensor<2x5x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x5x8xf32>, tensor<2x5xf32>, tensor<2x5x1xf32>)
  func.return
}

// -----

// x has the axes of the format.
// CHECK: error: 'ascend.InstanceNorm' op x must be of rank 5 (NDHWC), not 4
func.func @main(%x: tensor<2x4x3x5xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>) {
  %y, %m, %v = ascend.InstanceNorm %x, %g, %b : (tensor<2x4x3x5xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x3x5xf32>, tensor<2x4x1x1xf32>, tensor<2x4x1x1xf32>)
  func.return
}

// -----

// A known format.
// CHECK: error: 'ascend.InstanceNorm' op data_format 'ND' is not one of NDHWC, NCDHW, NHWC, NCHW
func.func @main(%x: tensor<2x4x3x5xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>) {
  %y, %m, %v = ascend.InstanceNorm %x, %g, %b data_format "ND" : (tensor<2x4x3x5xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x3x5xf32>, tensor<2x4x1x1xf32>, tensor<2x4x1x1xf32>)
  func.return
}

// -----

// gamma per channel.
// CHECK: error: 'ascend.InstanceNorm' op channels and gamma length differ: 4 and 3
func.func @main(%x: tensor<2x4x3x5xf32>, %g: tensor<3xf32>, %b: tensor<4xf32>) {
  %y, %m, %v = ascend.InstanceNorm %x, %g, %b data_format "NCHW" : (tensor<2x4x3x5xf32>, tensor<3xf32>, tensor<4xf32>) -> (tensor<2x4x3x5xf32>, tensor<2x4x1x1xf32>, tensor<2x4x1x1xf32>)
  func.return
}

// -----

// In a vector.
// CHECK: error: 'ascend.InstanceNorm' op beta must be of rank 1, not 2
func.func @main(%x: tensor<2x4x3x5xf32>, %g: tensor<4xf32>, %b: tensor<1x4xf32>) {
  %y, %m, %v = ascend.InstanceNorm %x, %g, %b data_format "NCHW" : (tensor<2x4x3x5xf32>, tensor<4xf32>, tensor<1x4xf32>) -> (tensor<2x4x3x5xf32>, tensor<2x4x1x1xf32>, tensor<2x4x1x1xf32>)
  func.return
}

// -----

// InstanceNorm takes no bfloat16.
// CHECK: error: 'ascend.InstanceNorm' op x is of bf16, InstanceNorm takes f16, f32
func.func @main(%x: tensor<2x4x3x5xbf16>, %g: tensor<4xf32>, %b: tensor<4xf32>) {
  %y, %m, %v = ascend.InstanceNorm %x, %g, %b data_format "NCHW" : (tensor<2x4x3x5xbf16>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x3x5xf32>, tensor<2x4x1x1xf32>, tensor<2x4x1x1xf32>)
  func.return
}

// -----

// Groups of channels.
// CHECK: error: 'ascend.GroupNorm' op 4 channels are not divisible into 3 groups
func.func @main(%x: tensor<2x4x3x5xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>) {
  %y, %m, %v = ascend.GroupNorm %x, %g, %b num_groups 3 data_format "NCHW" : (tensor<2x4x3x5xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x3x5xf32>, tensor<2x4x1x1xf32>, tensor<2x4x1x1xf32>)
  func.return
}

// -----

// One group at least.
// CHECK: error: 'ascend.GroupNorm' op 4 channels are not divisible into 0 groups
func.func @main(%x: tensor<2x4x3x5xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>) {
  %y, %m, %v = ascend.GroupNorm %x, %g, %b num_groups 0 data_format "NCHW" : (tensor<2x4x3x5xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x3x5xf32>, tensor<2x4x1x1xf32>, tensor<2x4x1x1xf32>)
  func.return
}

// -----

// gamma per channel.
// CHECK: error: 'ascend.GroupNorm' op channels and gamma length differ: 5 and 4
func.func @main(%x: tensor<2x4x3x5xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>) {
  %y, %m, %v = ascend.GroupNorm %x, %g, %b num_groups 1 : (tensor<2x4x3x5xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x3x5xf32>, tensor<2x4x1x1xf32>, tensor<2x4x1x1xf32>)
  func.return
}

// -----

// A known format.
// CHECK: error: 'ascend.GroupNorm' op data_format 'NCDHW' is not one of NCHW, NHWC
func.func @main(%x: tensor<2x4x3x5xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>) {
  %y, %m, %v = ascend.GroupNorm %x, %g, %b num_groups 2 data_format "NCDHW" : (tensor<2x4x3x5xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<2x4x3x5xf32>, tensor<2x4x1x1xf32>, tensor<2x4x1x1xf32>)
  func.return
}
