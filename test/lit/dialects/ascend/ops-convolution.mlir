// RUN: ROUNDTRIP | filecheck %s

// Convolutions of the matrix engine: every attribute once, absent ones at their defaults.

// CHECK-LABEL: func.func @conv2d(
func.func @conv2d(%x: tensor<1x4x8x8xi8>, %w: tensor<6x2x3x3xi8>, %b: tensor<6xi32>, %f: tensor<1x4x8x8xf32>, %k: tensor<6x4x3x3xf32>) {
  // CHECK-NEXT: %plain = ascend.Conv2D %f, %k strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  %plain = ascend.Conv2D %f, %k strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  // CHECK-NEXT: %all = ascend.Conv2D %x, %w, %b groups 2 strides [1, 1, 2, 1] pads [1, 0, 0, 2] dilations [1, 1, 1, 2] data_format "NCHW" offset_x -128 from <onnx, "Conv", "stem/conv"> : (tensor<1x4x8x8xi8>, tensor<6x2x3x3xi8>, tensor<6xi32>) -> tensor<1x6x4x6xi32>
  %all = ascend.Conv2D %x, %w, %b groups 2 strides [1, 1, 2, 1] pads [1, 0, 0, 2] dilations [1, 1, 1, 2] data_format "NCHW" offset_x -128 from <onnx, "Conv", "stem/conv"> : (tensor<1x4x8x8xi8>, tensor<6x2x3x3xi8>, tensor<6xi32>) -> tensor<1x6x4x6xi32>
  // CHECK-NEXT: func.return
  func.return
}

// The default data format is NHWC, its filter [kh, kw, cin/groups, cout]; sizes may be unknown.
// CHECK-LABEL: func.func @conv2d_channels_last(
func.func @conv2d_channels_last(%x: tensor<?x?x9x4xf16>, %w: tensor<3x3x4x6xf16>, %b: tensor<6xf32>) {
  // CHECK-NEXT: %half = ascend.Conv2D %x, %w strides [1, 1, 1, 1] pads [1, 1, 1, 1] : (tensor<?x?x9x4xf16>, tensor<3x3x4x6xf16>) -> tensor<?x?x9x6xf16>
  %half = ascend.Conv2D %x, %w strides [1, 1, 1, 1] pads [1, 1, 1, 1] : (tensor<?x?x9x4xf16>, tensor<3x3x4x6xf16>) -> tensor<?x?x9x6xf16>
  // CHECK-NEXT: %wide = ascend.Conv2D %x, %w, %b strides [1, 2, 2, 1] pads [1, 1, 1, 1] : (tensor<?x?x9x4xf16>, tensor<3x3x4x6xf16>, tensor<6xf32>) -> tensor<?x?x5x6xf32>
  %wide = ascend.Conv2D %x, %w, %b strides [1, 2, 2, 1] pads [1, 1, 1, 1] : (tensor<?x?x9x4xf16>, tensor<3x3x4x6xf16>, tensor<6xf32>) -> tensor<?x?x5x6xf32>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @conv3d(
func.func @conv3d(%x: tensor<1x2x5x6x7xi8>, %w: tensor<4x2x2x2x2xi8>, %b: tensor<4xi32>, %l: tensor<1x5x6x7x2xbf16>, %k: tensor<2x2x2x2x4xbf16>) {
  // CHECK-NEXT: %first = ascend.Conv3D %x, %w, %b data_format "NCDHW" strides [1, 1, 2, 1, 1] pads [1, 0, 0, 0, 0, 2] : (tensor<1x2x5x6x7xi8>, tensor<4x2x2x2x2xi8>, tensor<4xi32>) -> tensor<1x4x3x5x8xi32>
  %first = ascend.Conv3D %x, %w, %b data_format "NCDHW" strides [1, 1, 2, 1, 1] pads [1, 0, 0, 0, 0, 2] : (tensor<1x2x5x6x7xi8>, tensor<4x2x2x2x2xi8>, tensor<4xi32>) -> tensor<1x4x3x5x8xi32>
  // CHECK-NEXT: %last = ascend.Conv3D %l, %k dilations [1, 2, 1, 1, 1] strides [1, 1, 1, 1, 1] pads [0, 0, 0, 0, 0, 0] : (tensor<1x5x6x7x2xbf16>, tensor<2x2x2x2x4xbf16>) -> tensor<1x3x5x6x4xbf16>
  %last = ascend.Conv3D %l, %k dilations [1, 2, 1, 1, 1] strides [1, 1, 1, 1, 1] pads [0, 0, 0, 0, 0, 0] : (tensor<1x5x6x7x2xbf16>, tensor<2x2x2x2x4xbf16>) -> tensor<1x3x5x6x4xbf16>
  // CHECK-NEXT: func.return
  func.return
}

// Filter [kh, kw, C, multiplier]: output channel c * multiplier + m.
// CHECK-LABEL: func.func @depthwise(
func.func @depthwise(%x: tensor<1x8x8x3xi8>, %w: tensor<3x3x3x2xi8>, %b: tensor<6xi32>) {
  // CHECK-NEXT: %y = ascend.DepthwiseConv2D %x, %w, %b strides [1, 1, 1, 1] pads [1, 1, 1, 1] offset_x 5 : (tensor<1x8x8x3xi8>, tensor<3x3x3x2xi8>, tensor<6xi32>) -> tensor<1x8x8x6xi32>
  %y = ascend.DepthwiseConv2D %x, %w, %b strides [1, 1, 1, 1] pads [1, 1, 1, 1] offset_x 5 : (tensor<1x8x8x3xi8>, tensor<3x3x3x2xi8>, tensor<6xi32>) -> tensor<1x8x8x6xi32>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @transposed(
func.func @transposed(%x: tensor<?x4x5x5xi8>, %w: tensor<4x3x3x3xi8>, %b: tensor<6xi32>, %l: tensor<1x5x5x4xf32>, %k: tensor<3x3x3x4xf32>) {
  // CHECK-NEXT: %size = nn.constant dense<0> : tensor<4xi64>
  %size = nn.constant dense<0> : tensor<4xi64>
  // CHECK-NEXT: %given = nn.constant dense<[1, 11, 12, 3]> : tensor<4xi32>
  %given = nn.constant dense<[1, 11, 12, 3]> : tensor<4xi32>
  // CHECK-NEXT: %first = ascend.Conv2DTranspose %size, %x, %w, %b groups 2 output_padding [0, 0, 1, 0] strides [1, 1, 2, 2] pads [1, 0, 0, 1] data_format "NCHW" offset_x 3 : (tensor<4xi64>, tensor<?x4x5x5xi8>, tensor<4x3x3x3xi8>, tensor<6xi32>) -> tensor<?x6x11x10xi32>
  %first = ascend.Conv2DTranspose %size, %x, %w, %b groups 2 output_padding [0, 0, 1, 0] strides [1, 1, 2, 2] pads [1, 0, 0, 1] data_format "NCHW" offset_x 3 : (tensor<4xi64>, tensor<?x4x5x5xi8>, tensor<4x3x3x3xi8>, tensor<6xi32>) -> tensor<?x6x11x10xi32>
  // CHECK-NEXT: %last = ascend.Conv2DTranspose %given, %l, %k output_padding [0, 0, 1, 0] strides [1, 2, 2, 1] pads [0, 0, 0, 0] : (tensor<4xi32>, tensor<1x5x5x4xf32>, tensor<3x3x3x4xf32>) -> tensor<1x11x12x3xf32>
  %last = ascend.Conv2DTranspose %given, %l, %k output_padding [0, 0, 1, 0] strides [1, 2, 2, 1] pads [0, 0, 0, 0] : (tensor<4xi32>, tensor<1x5x5x4xf32>, tensor<3x3x3x4xf32>) -> tensor<1x11x12x3xf32>
  // CHECK-NEXT: func.return
  func.return
}
