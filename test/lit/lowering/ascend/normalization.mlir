// RUN: amct-opt %s --lower-to-ascend --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// LRN: ONNX divides alpha by the number of channels, Ascend IR does not.
// CHECK-LABEL: @normalization
// CHECK-NEXT:    %a = ascend.BNInfer %x, %s, %s, %s, %s epsilon 1.0e-05
// CHECK-NEXT:    %b = ascend.LRN %a depth_radius 2 bias 2.0 alpha 0.1 beta 0.75
// CHECK-NEXT:    %c = ascend.SoftmaxV2 %b axes [1]
// CHECK-NEXT:    %d = ascend.LogSoftmaxV2 %c :
// REMARK:      [lower-to-ascend applied lower] "a"
func.func @normalization(%x: tensor<?x3x4x4xf32>, %s: tensor<3xf32>) -> tensor<?x3x4x4xf32> {
  %a = nn.batch_norm %x, %s, %s, %s, %s : (tensor<?x3x4x4xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<?x3x4x4xf32>
  %b = nn.lrn %a size 5 alpha 0.5 bias 2.0 : tensor<?x3x4x4xf32>
  %c = nn.softmax %b axis 1 : tensor<?x3x4x4xf32>
  %d = nn.log_softmax %c : tensor<?x3x4x4xf32>
  func.return %d : tensor<?x3x4x4xf32>
}

// -----

// An even number of channels has no centre.
// CHECK-LABEL: @odd_size
// CHECK:         %y = nn.
// REMARK:      [lower-to-ascend missed odd-size] "y": LRN takes as many channels on either side
func.func @odd_size(%x: tensor<?x3x4x4xf32>) -> tensor<?x3x4x4xf32> {
  %y = nn.lrn %x size 4 : tensor<?x3x4x4xf32>
  func.return %y : tensor<?x3x4x4xf32>
}

// -----

// Channels last.
// CHECK-LABEL: @channels_second
// CHECK:         %y = nn.
// REMARK:      [lower-to-ascend missed channels-second] "y": LRN normalizes across axis 1
func.func @channels_second(%x: tensor<?x3x4x4xf32>) -> tensor<?x3x4x4xf32> {
  %y = nn.lrn %x layout nhwc size 3 : tensor<?x3x4x4xf32>
  func.return %y : tensor<?x3x4x4xf32>
}

// -----

// A batch norm becomes a product and a sum.
// CHECK-LABEL: @norm_channels_last
// CHECK-NEXT:    %y_factor = nn.constant dense<2.000000e+00> : tensor<4xf32>
// CHECK-NEXT:    %y_scaled = ascend.Mul %x, %y_factor
// CHECK-NEXT:    %y_shift = nn.constant dense<-4.000000e+00> : tensor<4xf32>
// CHECK-NEXT:    %y = ascend.Add %y_scaled, %y_shift
// REMARK:      [lower-to-ascend applied lower] "y": computed by ascend.Add
func.func @norm_channels_last(%x: tensor<?x3x4x4xf32>) -> tensor<?x3x4x4xf32> {
  %s = nn.constant dense<4.0> : tensor<4xf32>
  %o = nn.constant dense<2.0> : tensor<4xf32>
  %m = nn.constant dense<3.0> : tensor<4xf32>
  %v = nn.constant dense<3.75> : tensor<4xf32>
  %y = nn.batch_norm %x, %s, %o, %m, %v layout nhwc epsilon 0.25 : (tensor<?x3x4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x3x4x4xf32>
  func.return %y : tensor<?x3x4x4xf32>
}

// -----

// Only of constants.
// CHECK-LABEL: @norm_channels_second
// CHECK:         %y = nn.
// REMARK:      [lower-to-ascend missed channels-second] "y": BNInfer normalizes axis 1, and its parameters are computed at run time
func.func @norm_channels_second(%x: tensor<?x3x4x4xf32>, %s: tensor<4xf32>) -> tensor<?x3x4x4xf32> {
  %y = nn.batch_norm %x, %s, %s, %s, %s layout nhwc : (tensor<?x3x4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x3x4x4xf32>
  func.return %y : tensor<?x3x4x4xf32>
}

// -----

// And of finite numbers.
// CHECK-LABEL: @finite_fold
// CHECK:         %y = nn.
// REMARK:      [lower-to-ascend missed finite-fold] "y": its factors or shifts are NaN or Inf
func.func @finite_fold(%x: tensor<?x3x4x4xf32>) -> tensor<?x3x4x4xf32> {
  %s = nn.constant dense<4.0> : tensor<4xf32>
  %v = nn.constant dense<-1.0> : tensor<4xf32>
  %y = nn.batch_norm %x, %s, %s, %s, %v layout nhwc : (tensor<?x3x4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x3x4x4xf32>
  func.return %y : tensor<?x3x4x4xf32>
}
