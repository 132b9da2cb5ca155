// RUN: ROUNDTRIP | filecheck %s

// Normalizations by their own mean and variance.

// CHECK-LABEL: func.func @layer(
func.func @layer(%x: tensor<2x5x8xf32>, %g: tensor<8xf32>, %b: tensor<8xf32>) {
  // CHECK-NEXT: %y, %m, %v = ascend.LayerNorm %x, %g, %b begin_norm_axis -1 begin_params_axis 2 epsilon 0.5 : (tensor<2x5x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x5x8xf32>, tensor<2x5x1xf32>, tensor<2x5x1xf32>)
  %y, %m, %v = ascend.LayerNorm %x, %g, %b begin_norm_axis -1 begin_params_axis 2 epsilon 0.5 : (tensor<2x5x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<2x5x8xf32>, tensor<2x5x1xf32>, tensor<2x5x1xf32>)
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @instance(
func.func @instance(%x: tensor<2x3x5x4xf16>, %g: tensor<4xf16>, %b: tensor<4xf16>) {
  // CHECK-NEXT: %y, %m, %v = ascend.InstanceNorm %x, %g, %b data_format "NHWC" : (tensor<2x3x5x4xf16>, tensor<4xf16>, tensor<4xf16>) -> (tensor<2x3x5x4xf16>, tensor<2x1x1x4xf16>, tensor<2x1x1x4xf16>)
  %y, %m, %v = ascend.InstanceNorm %x, %g, %b data_format "NHWC" : (tensor<2x3x5x4xf16>, tensor<4xf16>, tensor<4xf16>) -> (tensor<2x3x5x4xf16>, tensor<2x1x1x4xf16>, tensor<2x1x1x4xf16>)
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @group(
func.func @group(%x: tensor<?x4x3x5xf32>, %g: tensor<4xf32>, %b: tensor<4xf32>) {
  // CHECK-NEXT: %y, %m, %v = ascend.GroupNorm %x, %g, %b num_groups 2 data_format "NCHW" eps 0.001 is_training false : (tensor<?x4x3x5xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<?x4x3x5xf32>, tensor<?x2xf32>, tensor<?x2xf32>)
  %y, %m, %v = ascend.GroupNorm %x, %g, %b num_groups 2 data_format "NCHW" eps 0.001 is_training false : (tensor<?x4x3x5xf32>, tensor<4xf32>, tensor<4xf32>) -> (tensor<?x4x3x5xf32>, tensor<?x2xf32>, tensor<?x2xf32>)
  // CHECK-NEXT: func.return
  func.return
}
