// RUN: ROUNDTRIP | filecheck %s

// Images at another size, and blocks of space.

// CHECK-LABEL: func.func @resize(
func.func @resize(%x: tensor<1x4x6x8xf32>, %l: tensor<?x4x6x8xf16>) {
  // CHECK-NEXT: %s = nn.constant dense<[8, 12]> : tensor<2xi32>
  %s = nn.constant dense<[8, 12]> : tensor<2xi32>
  // CHECK-NEXT: %a = ascend.ResizeBilinearV2 %l, %s dtype 1 align_corners true : (tensor<?x4x6x8xf16>, tensor<2xi32>) -> tensor<?x8x12x8xf16>
  %a = ascend.ResizeBilinearV2 %l, %s dtype 1 align_corners true : (tensor<?x4x6x8xf16>, tensor<2xi32>) -> tensor<?x8x12x8xf16>
  // CHECK-NEXT: %c = ascend.ResizeNearestNeighborV2 %x, %s half_pixel_centers true data_format "NCHW" : (tensor<1x4x6x8xf32>, tensor<2xi32>) -> tensor<1x4x8x12xf32>
  %c = ascend.ResizeNearestNeighborV2 %x, %s half_pixel_centers true data_format "NCHW" : (tensor<1x4x6x8xf32>, tensor<2xi32>) -> tensor<1x4x8x12xf32>
  // CHECK-NEXT: %sc = nn.constant dense<[1.000000e+00, 1.000000e+00, 2.000000e+00, 5.000000e-01]> : tensor<4xf32>
  %sc = nn.constant dense<[1.000000e+00, 1.000000e+00, 2.000000e+00, 5.000000e-01]> : tensor<4xf32>
  // CHECK-NEXT: %no = nn.constant dense<> : tensor<0xi64>
  %no = nn.constant dense<> : tensor<0xi64>
  // CHECK-NEXT: %d = ascend.Resize %x, %sc, %no coordinate_transformation_mode "asymmetric" mode "linear" : (tensor<1x4x6x8xf32>, tensor<4xf32>, tensor<0xi64>) -> tensor<1x4x12x4xf32>
  %d = ascend.Resize %x, %sc, %no coordinate_transformation_mode "asymmetric" mode "linear" : (tensor<1x4x6x8xf32>, tensor<4xf32>, tensor<0xi64>) -> tensor<1x4x12x4xf32>
  // CHECK-NEXT: %si = nn.constant dense<[1, 4, 3, 5]> : tensor<4xi64>
  %si = nn.constant dense<[1, 4, 3, 5]> : tensor<4xi64>
  // CHECK-NEXT: %nf = nn.constant dense<> : tensor<0xf32>
  %nf = nn.constant dense<> : tensor<0xf32>
  // CHECK-NEXT: %e = ascend.Resize %x, %nf, %si cubic_coeff_a -0.5 exclude_outside 1 mode "cubic" nearest_mode "floor" : (tensor<1x4x6x8xf32>, tensor<0xf32>, tensor<4xi64>) -> tensor<1x4x3x5xf32>
  %e = ascend.Resize %x, %nf, %si cubic_coeff_a -0.5 exclude_outside 1 mode "cubic" nearest_mode "floor" : (tensor<1x4x6x8xf32>, tensor<0xf32>, tensor<4xi64>) -> tensor<1x4x3x5xf32>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @blocks(
func.func @blocks(%x: tensor<1x4x6x8xf32>, %y: tensor<4x4x6x8xi8>) {
  // CHECK-NEXT: %a = ascend.DepthToSpace %x block_size 2 : (tensor<1x4x6x8xf32>) -> tensor<1x8x12x2xf32>
  %a = ascend.DepthToSpace %x block_size 2 : (tensor<1x4x6x8xf32>) -> tensor<1x8x12x2xf32>
  // CHECK-NEXT: %c = ascend.DepthToSpace %x mode "CRD" block_size 2 data_format "NCHW" : (tensor<1x4x6x8xf32>) -> tensor<1x1x12x16xf32>
  %c = ascend.DepthToSpace %x mode "CRD" block_size 2 data_format "NCHW" : (tensor<1x4x6x8xf32>) -> tensor<1x1x12x16xf32>
  // CHECK-NEXT: %d = ascend.SpaceToDepth %x block_size 2 : (tensor<1x4x6x8xf32>) -> tensor<1x2x3x32xf32>
  %d = ascend.SpaceToDepth %x block_size 2 : (tensor<1x4x6x8xf32>) -> tensor<1x2x3x32xf32>
  // CHECK-NEXT: %b = nn.constant dense<2> : tensor<2xi64>
  %b = nn.constant dense<2> : tensor<2xi64>
  // CHECK-NEXT: %p = nn.constant dense<[[0, 2], [1, 0]]> : tensor<2x2xi64>
  %p = nn.constant dense<[[0, 2], [1, 0]]> : tensor<2x2xi64>
  // CHECK-NEXT: %e = ascend.BatchToSpaceND %y, %b, %p : (tensor<4x4x6x8xi8>, tensor<2xi64>, tensor<2x2xi64>) -> tensor<1x6x11x8xi8>
  %e = ascend.BatchToSpaceND %y, %b, %p : (tensor<4x4x6x8xi8>, tensor<2xi64>, tensor<2x2xi64>) -> tensor<1x6x11x8xi8>
  // CHECK-NEXT: %q = nn.constant dense<[[0, 2], [1, 1]]> : tensor<2x2xi64>
  %q = nn.constant dense<[[0, 2], [1, 1]]> : tensor<2x2xi64>
  // CHECK-NEXT: %f = ascend.SpaceToBatchND %x, %b, %q : (tensor<1x4x6x8xf32>, tensor<2xi64>, tensor<2x2xi64>) -> tensor<4x3x4x8xf32>
  %f = ascend.SpaceToBatchND %x, %b, %q : (tensor<1x4x6x8xf32>, tensor<2xi64>, tensor<2x2xi64>) -> tensor<4x3x4x8xf32>
  // CHECK-NEXT: func.return
  func.return
}
