// RUN: VERIFY_DIAGNOSTICS | filecheck %s

// One part per rule of resizing and of blocks.

// A size is known when compiling.
// CHECK: error: 'ascend.ResizeBilinearV2' op size must be a constant
func.func @main(%x: tensor<1x4x6x8xf32>, %s: tensor<2xi32>) {
  %y = ascend.ResizeBilinearV2 %x, %s : (tensor<1x4x6x8xf32>, tensor<2xi32>) -> tensor<1x4x6x8xf32>
  func.return
}

// -----

// Two positive numbers.
// CHECK: error: 'ascend.ResizeBilinearV2' op size [8, 0] must hold two positive numbers
func.func @main(%x: tensor<1x4x6x8xf32>) {
  %s = nn.constant dense<[8, 0]> : tensor<2xi32>
  %y = ascend.ResizeBilinearV2 %x, %s : (tensor<1x4x6x8xf32>, tensor<2xi32>) -> tensor<1x4x6x8xf32>
  func.return
}

// -----

// Of int32.
// CHECK: error: 'ascend.ResizeBilinearV2' op size is of i64, ResizeBilinearV2 takes i32
func.func @main(%x: tensor<1x4x6x8xf32>) {
  %s = nn.constant dense<[8, 8]> : tensor<2xi64>
  %y = ascend.ResizeBilinearV2 %x, %s : (tensor<1x4x6x8xf32>, tensor<2xi64>) -> tensor<1x4x6x8xf32>
  func.return
}

// -----

// y is as x.
// CHECK: error: 'ascend.ResizeBilinearV2' op dtype 0 must be the number of f16, the type of x
func.func @main(%x: tensor<1x4x6x8xf16>) {
  %s = nn.constant dense<[8, 12]> : tensor<2xi32>
  %y = ascend.ResizeBilinearV2 %x, %s : (tensor<1x4x6x8xf16>, tensor<2xi32>) -> tensor<1x4x6x8xf32>
  func.return
}

// -----

// Images.
// CHECK: error: 'ascend.ResizeNearestNeighborV2' op x must be of rank 4 (NHWC), not 3
func.func @main(%x: tensor<4x6x8xf32>) {
  %s = nn.constant dense<[8, 12]> : tensor<2xi32>
  %y = ascend.ResizeNearestNeighborV2 %x, %s : (tensor<4x6x8xf32>, tensor<2xi32>) -> tensor<1x4x6x8xf32>
  func.return
}

// -----

// One way to place elements.
// CHECK: error: 'ascend.ResizeNearestNeighborV2' op align_corners and half_pixel_centers exclude each other
func.func @main(%x: tensor<1x4x6x8xf32>) {
  %s = nn.constant dense<[8, 12]> : tensor<2xi32>
  %y = ascend.ResizeNearestNeighborV2 %x, %s align_corners true half_pixel_centers true : (tensor<1x4x6x8xf32>, tensor<2xi32>) -> tensor<1x4x6x8xf32>
  func.return
}

// -----

// A known format.
// CHECK: error: 'ascend.ResizeNearestNeighborV2' op data_format 'ND' is not one of NCHW, NHWC
func.func @main(%x: tensor<1x4x6x8xf32>) {
  %s = nn.constant dense<[8, 12]> : tensor<2xi32>
  %y = ascend.ResizeNearestNeighborV2 %x, %s data_format "ND" : (tensor<1x4x6x8xf32>, tensor<2xi32>) -> tensor<1x4x6x8xf32>
  func.return
}

// -----

// Resize takes images.
// CHECK: error: 'ascend.Resize' op x must be of rank 4, not 3
func.func @main(%x: tensor<4x6x8xf32>) {
  %sc = nn.constant dense<[1.000000e+00, 1.000000e+00, 2.000000e+00, 5.000000e-01]> : tensor<4xf32>
  %no = nn.constant dense<> : tensor<0xi64>
  %y = ascend.Resize %x, %sc, %no : (tensor<4x6x8xf32>, tensor<4xf32>, tensor<0xi64>) -> tensor<1x4x6x8xf32>
  func.return
}

// -----

// Known when compiling.
// CHECK: error: 'ascend.Resize' op scales and sizes must be constants
func.func @main(%x: tensor<1x4x6x8xf32>, %sc: tensor<4xf32>, %no: tensor<0xi64>) {
  %y = ascend.Resize %x, %sc, %no : (tensor<1x4x6x8xf32>, tensor<4xf32>, tensor<0xi64>) -> tensor<1x4x6x8xf32>
  func.return
}

// -----

// Scales or sizes.
// CHECK: error: 'ascend.Resize' op 4 scales and 4 sizes, expected 4 of one and none of the other
func.func @main(%x: tensor<1x4x6x8xf32>) {
  %sc = nn.constant dense<[1.000000e+00, 1.000000e+00, 2.000000e+00, 5.000000e-01]> : tensor<4xf32>
  %si = nn.constant dense<1> : tensor<4xi64>
  %y = ascend.Resize %x, %sc, %si : (tensor<1x4x6x8xf32>, tensor<4xf32>, tensor<4xi64>) -> tensor<1x4x6x8xf32>
  func.return
}

// -----

// Positive ones.
// CHECK: error: 'ascend.Resize' op scales and sizes must be positive and finite
func.func @main(%x: tensor<1x4x6x8xf32>) {
  %sc = nn.constant dense<0.0> : tensor<4xf32>
  %no = nn.constant dense<> : tensor<0xi64>
  %y = ascend.Resize %x, %sc, %no : (tensor<1x4x6x8xf32>, tensor<4xf32>, tensor<0xi64>) -> tensor<1x4x6x8xf32>
  func.return
}

// -----

// A known mode.
// CHECK: error: 'ascend.Resize' op mode 'area' is not one of nearest, linear, cubic
func.func @main(%x: tensor<1x4x6x8xf32>) {
  %sc = nn.constant dense<[1.000000e+00, 1.000000e+00, 2.000000e+00, 5.000000e-01]> : tensor<4xf32>
  %no = nn.constant dense<> : tensor<0xi64>
  %y = ascend.Resize %x, %sc, %no mode "area" : (tensor<1x4x6x8xf32>, tensor<4xf32>, tensor<0xi64>) -> tensor<1x4x6x8xf32>
  func.return
}

// -----

// A known way to place elements.
// CHECK: error: 'ascend.Resize' op coordinate_transformation_mode 'tf_crop_and_resize' is not one of half_pixel, pytorch_half_pixel, align_corners, asymmetric
func.func @main(%x: tensor<1x4x6x8xf32>) {
  %sc = nn.constant dense<[1.000000e+00, 1.000000e+00, 2.000000e+00, 5.000000e-01]> : tensor<4xf32>
  %no = nn.constant dense<> : tensor<0xi64>
  %y = ascend.Resize %x, %sc, %no coordinate_transformation_mode "tf_crop_and_resize" : (tensor<1x4x6x8xf32>, tensor<4xf32>, tensor<0xi64>) -> tensor<1x4x6x8xf32>
  func.return
}

// -----

// A known way to round.
// CHECK: error: 'ascend.Resize' op nearest_mode 'simple' is not one of round_prefer_floor, round_prefer_ceil, floor, ceil
func.func @main(%x: tensor<1x4x6x8xf32>) {
  %sc = nn.constant dense<[1.000000e+00, 1.000000e+00, 2.000000e+00, 5.000000e-01]> : tensor<4xf32>
  %no = nn.constant dense<> : tensor<0xi64>
  %y = ascend.Resize %x, %sc, %no nearest_mode "simple" : (tensor<1x4x6x8xf32>, tensor<4xf32>, tensor<0xi64>) -> tensor<1x4x6x8xf32>
  func.return
}

// -----

// A flag.
// CHECK: error: 'ascend.Resize' op exclude_outside must be 0 or 1
func.func @main(%x: tensor<1x4x6x8xf32>) {
  %sc = nn.constant dense<[1.000000e+00, 1.000000e+00, 2.000000e+00, 5.000000e-01]> : tensor<4xf32>
  %no = nn.constant dense<> : tensor<0xi64>
  %y = ascend.Resize %x, %sc, %no exclude_outside 2 : (tensor<1x4x6x8xf32>, tensor<4xf32>, tensor<0xi64>) -> tensor<1x4x6x8xf32>
  func.return
}

// -----

// Nothing lies outside.
// CHECK: error: 'ascend.Resize' op extrapolation_value must be 0
func.func @main(%x: tensor<1x4x6x8xf32>) {
  %sc = nn.constant dense<[1.000000e+00, 1.000000e+00, 2.000000e+00, 5.000000e-01]> : tensor<4xf32>
  %no = nn.constant dense<> : tensor<0xi64>
  %y = ascend.Resize %x, %sc, %no extrapolation_value 1.0 : (tensor<1x4x6x8xf32>, tensor<4xf32>, tensor<0xi64>) -> tensor<1x4x6x8xf32>
  func.return
}

// -----

// A block has a size.
// CHECK: error: 'ascend.DepthToSpace' op block_size must be at least 2, not 1
func.func @main(%x: tensor<1x4x6x8xf32>) {
  %y = ascend.DepthToSpace %x block_size 1 : (tensor<1x4x6x8xf32>) -> tensor<1x4x6x8xf32>
  func.return
}

// -----

// A known order.
// CHECK: error: 'ascend.DepthToSpace' op mode 'DRC' is not one of DCR, CRD
func.func @main(%x: tensor<1x4x6x8xf32>) {
  %y = ascend.DepthToSpace %x mode "DRC" block_size 2 : (tensor<1x4x6x8xf32>) -> tensor<1x4x6x8xf32>
  func.return
}

// -----

// Of space.
// CHECK: error: 'ascend.SpaceToDepth' op sizes [4, 6] are not divisible by 4
func.func @main(%x: tensor<1x4x6x8xf32>) {
  %y = ascend.SpaceToDepth %x block_size 4 : (tensor<1x4x6x8xf32>) -> tensor<1x4x6x8xf32>
  func.return
}

// -----

// Images.
// CHECK: error: 'ascend.SpaceToDepth' op input must be of rank 4, not 3
func.func @main(%x: tensor<4x6x8xf32>) {
  %y = ascend.SpaceToDepth %x block_size 2 : (tensor<4x6x8xf32>) -> tensor<1x4x6x8xf32>
  func.return
}

// -----

// Blocks are known when compiling.
// CHECK: error: 'ascend.SpaceToBatchND' op block_shape and paddings must be constants
func.func @main(%x: tensor<1x4x6x8xf32>, %b: tensor<2xi64>, %p: tensor<2x2xi64>) {
  %y = ascend.SpaceToBatchND %x, %b, %p : (tensor<1x4x6x8xf32>, tensor<2xi64>, tensor<2x2xi64>) -> tensor<1x4x6x8xf32>
  func.return
}

// -----

// They are axes of x.
// CHECK: error: 'ascend.SpaceToBatchND' op block_shape has 4 entries for x of rank 4
func.func @main(%x: tensor<1x4x6x8xf32>) {
  %b = nn.constant dense<2> : tensor<4xi64>
  %p = nn.constant dense<0> : tensor<4x2xi64>
  %y = ascend.SpaceToBatchND %x, %b, %p : (tensor<1x4x6x8xf32>, tensor<4xi64>, tensor<4x2xi64>) -> tensor<1x4x6x8xf32>
  func.return
}

// -----

// Two borders of each.
// CHECK: error: 'ascend.SpaceToBatchND' op block_shape must be positive, paddings not negative, a begin and an end per block axis
func.func @main(%x: tensor<1x4x6x8xf32>) {
  %b = nn.constant dense<2> : tensor<2xi64>
  %p = nn.constant dense<0> : tensor<1x2xi64>
  %y = ascend.SpaceToBatchND %x, %b, %p : (tensor<1x4x6x8xf32>, tensor<2xi64>, tensor<1x2xi64>) -> tensor<1x4x6x8xf32>
  func.return
}
