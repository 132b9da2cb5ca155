// RUN: amct-opt %s --lower-to-ascend --split-input-file | filecheck %s
// RUN: amct-opt %s --lower-to-ascend --split-input-file --remarks=all 2>&1 >/dev/null | filecheck %s --check-prefix REMARK

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

// Of a batch norm too.
// CHECK-LABEL: @norm_channels_second
// CHECK:         %y = nn.
// REMARK:      [lower-to-ascend missed channels-second] "y": BNInfer normalizes axis 1
func.func @norm_channels_second(%x: tensor<?x3x4x4xf32>, %s: tensor<4xf32>) -> tensor<?x3x4x4xf32> {
  %y = nn.batch_norm %x, %s, %s, %s, %s layout nhwc : (tensor<?x3x4x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x3x4x4xf32>
  func.return %y : tensor<?x3x4x4xf32>
}
