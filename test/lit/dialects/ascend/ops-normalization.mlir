// RUN: ROUNDTRIP | filecheck %s

// Normalizations and softmax.

// CHECK-LABEL: func.func @normalization(
func.func @normalization(%x: tensor<?x3x8x8xf16>, %s: tensor<3xf32>) {
  // CHECK-NEXT: %bn = ascend.BNInfer %x, %s, %s, %s, %s epsilon 1.0e-05 : (tensor<?x3x8x8xf16>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<?x3x8x8xf16>
  %bn = ascend.BNInfer %x, %s, %s, %s, %s epsilon 1.0e-05 : (tensor<?x3x8x8xf16>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<?x3x8x8xf16>
  // CHECK-NEXT: %lrn = ascend.LRN %x depth_radius 2 bias 2.0 alpha 2.0e-05 beta 0.75 : tensor<?x3x8x8xf16>
  %lrn = ascend.LRN %x depth_radius 2 bias 2.0 alpha 2.0e-05 beta 0.75 : tensor<?x3x8x8xf16>
  // CHECK-NEXT: %default = ascend.LRN %x : tensor<?x3x8x8xf16>
  %default = ascend.LRN %x : tensor<?x3x8x8xf16>
  // CHECK-NEXT: %softmax = ascend.SoftmaxV2 %x : tensor<?x3x8x8xf16>
  %softmax = ascend.SoftmaxV2 %x : tensor<?x3x8x8xf16>
  // CHECK-NEXT: %channels = ascend.SoftmaxV2 %x axes [1] : tensor<?x3x8x8xf16>
  %channels = ascend.SoftmaxV2 %x axes [1] : tensor<?x3x8x8xf16>
  // CHECK-NEXT: %log = ascend.LogSoftmaxV2 %x axes [1] : tensor<?x3x8x8xf16>
  %log = ascend.LogSoftmaxV2 %x axes [1] : tensor<?x3x8x8xf16>
  // CHECK-NEXT: func.return
  func.return
}
