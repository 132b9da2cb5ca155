// RUN: amct-opt %s --lower-to-ascend --split-input-file --remarks=missed 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// ONNX: by scales, or by sizes, which are written out.
// CHECK-LABEL: @resize
// CHECK:         nn.constant dense<[1.000000e+00, 1.000000e+00, 2.000000e+00, 3.000000e+00]> : tensor<4xf32>
// CHECK:         %y = ascend.Resize %x, %{{.*}}, %{{.*}} coordinate_transformation_mode "asymmetric" nearest_mode "floor"
// CHECK:         nn.constant dense<[1, 2, 4, 5]> : tensor<4xi64>
// CHECK:         %z = ascend.Resize %x, %{{.*}}, %{{.*}} mode "cubic"
func.func @resize(%x: tensor<1x2x8x6xf32>) -> (tensor<1x2x16x18xf32>, tensor<1x2x4x5xf32>) {
  %y = nn.resize %x scales [1.0, 1.0, 2.0, 3.0] coordinates asymmetric nearest floor : (tensor<1x2x8x6xf32>) -> tensor<1x2x16x18xf32>
  %z = nn.resize %x sizes [0, 0, 4, 5] mode cubic : (tensor<1x2x8x6xf32>) -> tensor<1x2x4x5xf32>
  func.return %y, %z : tensor<1x2x16x18xf32>, tensor<1x2x4x5xf32>
}

// -----

// TensorFlow's names, where it is TensorFlow's: bilinear, and the nearest element.
// CHECK-LABEL: @resize_image
// CHECK:         %y = ascend.ResizeBilinearV2 %x, %{{.*}} half_pixel_centers true from
// CHECK:         %z = ascend.ResizeNearestNeighborV2 %x, %{{.*}} align_corners true from
func.func @resize_image(%x: tensor<?x8x6x2xf32>) -> (tensor<?x4x5x2xf32>, tensor<?x4x5x2xf32>) {
  %y = nn.resize %x sizes [0, 4, 5, 0] mode linear from <tensorflow, "ResizeBilinear", "y"> : (tensor<?x8x6x2xf32>) -> tensor<?x4x5x2xf32>
  %z = nn.resize %x sizes [0, 4, 5, 0] coordinates align_corners nearest round_prefer_ceil from <tensorflow, "ResizeNearestNeighbor", "z"> : (tensor<?x8x6x2xf32>) -> tensor<?x4x5x2xf32>
  func.return %y, %z : tensor<?x4x5x2xf32>, tensor<?x4x5x2xf32>
}

// -----

// A size that stays, and is not known, is not a size to Resize.
// CHECK-LABEL: @unknown_size
// CHECK:         nn.resize
// REMARK:      [lower-to-ascend missed known-sizes] "y": Resize wants all sizes, and one that stays is not known
func.func @unknown_size(%x: tensor<?x2x8x6xf32>) -> tensor<?x2x4x5xf32> {
  %y = nn.resize %x sizes [0, 0, 4, 5] : (tensor<?x2x8x6xf32>) -> tensor<?x2x4x5xf32>
  func.return %y : tensor<?x2x4x5xf32>
}

// -----

// CHECK-LABEL: @rank_3
// CHECK:         nn.resize
// REMARK:      [lower-to-ascend missed spatial-rank] "y": Resize takes tensors of rank 4
func.func @rank_3(%x: tensor<1x2x8xf32>) -> tensor<1x2x4xf32> {
  %y = nn.resize %x sizes [0, 0, 4] : (tensor<1x2x8xf32>) -> tensor<1x2x4xf32>
  func.return %y : tensor<1x2x4xf32>
}

// -----

// CHECK-LABEL: @symmetric
// CHECK:         nn.resize
// REMARK:      [lower-to-ascend missed coordinates] "y": Resize does not know half_pixel_symmetric
func.func @symmetric(%x: tensor<1x2x8x6xf32>) -> tensor<1x2x4x5xf32> {
  %y = nn.resize %x sizes [0, 0, 4, 5] coordinates half_pixel_symmetric : (tensor<1x2x8x6xf32>) -> tensor<1x2x4x5xf32>
  func.return %y : tensor<1x2x4x5xf32>
}

// -----

// CHECK-LABEL: @cubic_steps
// CHECK:         nn.resize
// REMARK:      [lower-to-ascend missed cubic-steps] "y": Resize computes cubic weights for every position
func.func @cubic_steps(%x: tensor<1x2x8x6xf32>) -> tensor<1x2x4x5xf32> {
  %y = nn.resize %x sizes [0, 0, 4, 5] mode cubic cubic_steps 1024 : (tensor<1x2x8x6xf32>) -> tensor<1x2x4x5xf32>
  func.return %y : tensor<1x2x4x5xf32>
}

// -----

// CHECK-LABEL: @blocks
// CHECK:         %a = ascend.DepthToSpace %x mode "CRD" block_size 2 data_format "NCHW"
// CHECK-NEXT:    %b = ascend.SpaceToDepth %a block_size 2 data_format "NCHW"
func.func @blocks(%x: tensor<?x8x4x6xf32>) -> tensor<?x8x4x6xf32> {
  %a = nn.depth_to_space %x block 2 mode crd : (tensor<?x8x4x6xf32>) -> tensor<?x2x8x12xf32>
  %b = nn.space_to_depth %a block 2 : (tensor<?x2x8x12xf32>) -> tensor<?x8x4x6xf32>
  func.return %b : tensor<?x8x4x6xf32>
}

// -----

// Begins and ends in pairs.
// CHECK-LABEL: @batch
// CHECK:         nn.constant dense<{{\[\[}}1, 0], [0, 1]]> : tensor<2x2xi64>
// CHECK:         %a = ascend.SpaceToBatchND %x
// CHECK:         %b = ascend.BatchToSpaceND %a
func.func @batch(%x: tensor<1x3x5x2xf32>) -> tensor<1x3x5x2xf32> {
  %a = nn.space_to_batch %x layout nhwc block [2, 3] pads [1, 0, 0, 1] : (tensor<1x3x5x2xf32>) -> tensor<6x2x2x2xf32>
  %b = nn.batch_to_space %a layout nhwc block [2, 3] crops [1, 0, 0, 1] : (tensor<6x2x2x2xf32>) -> tensor<1x3x5x2xf32>
  func.return %b : tensor<1x3x5x2xf32>
}

// -----

// CHECK-LABEL: @channels_second
// CHECK:         nn.space_to_batch
// REMARK:      [lower-to-ascend missed channels-last] "a": its blocks are of the axes from 1 on, which are the channels here
func.func @channels_second(%x: tensor<1x2x4x6xf32>) -> tensor<4x2x2x3xf32> {
  %a = nn.space_to_batch %x block [2, 2] pads [0, 0, 0, 0] : (tensor<1x2x4x6xf32>) -> tensor<4x2x2x3xf32>
  func.return %a : tensor<4x2x2x3xf32>
}
