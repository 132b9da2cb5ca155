// RUN: ROUNDTRIP | filecheck %s

// Transposed convolutions of TensorFlow and Caffe.

// Both sizes that a stride of 2 allows.
// CHECK-LABEL: func.func @backprop(
func.func @backprop(%f: tensor<3x3x2x4xf32>, %g: tensor<1x4x4x4xf32>, %h: tensor<3x3x2x4xi8>, %q: tensor<?x4x4x4xi8>) {
  // CHECK-NEXT: %z = nn.constant dense<[1, 10, 9, 2]> : tensor<4xi32>
  %z = nn.constant dense<[1, 10, 9, 2]> : tensor<4xi32>
  // CHECK-NEXT: %n = nn.constant dense<0> : tensor<4xi32>
  %n = nn.constant dense<0> : tensor<4xi32>
  // CHECK-NEXT: %a = ascend.Conv2DBackpropInput %z, %f, %g strides [1, 2, 2, 1] pads [0, 0, 0, 0] : (tensor<4xi32>, tensor<3x3x2x4xf32>, tensor<1x4x4x4xf32>) -> tensor<1x10x9x2xf32>
  %a = ascend.Conv2DBackpropInput %z, %f, %g strides [1, 2, 2, 1] pads [0, 0, 0, 0] : (tensor<4xi32>, tensor<3x3x2x4xf32>, tensor<1x4x4x4xf32>) -> tensor<1x10x9x2xf32>
  // CHECK-NEXT: %b = ascend.Conv2DBackpropInput %n, %h, %q strides [1, 2, 2, 1] pads [0, 0, 0, 0] : (tensor<4xi32>, tensor<3x3x2x4xi8>, tensor<?x4x4x4xi8>) -> tensor<?x9x9x2xi32>
  %b = ascend.Conv2DBackpropInput %n, %h, %q strides [1, 2, 2, 1] pads [0, 0, 0, 0] : (tensor<4xi32>, tensor<3x3x2x4xi8>, tensor<?x4x4x4xi8>) -> tensor<?x9x9x2xi32>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @deconvolution(
func.func @deconvolution(%x: tensor<1x4x5x6xi8>, %w: tensor<4x1x3x3xi8>, %b: tensor<2xi32>, %h: tensor<1x4x5x6xf16>, %v: tensor<4x2x3x3xf16>) {
  // CHECK-NEXT: %a = ascend.Deconvolution %x, %w, %b strides [2, 2] pads [1, 1, 1, 1] groups 2 offset_x -5 : (tensor<1x4x5x6xi8>, tensor<4x1x3x3xi8>, tensor<2xi32>) -> tensor<1x2x9x11xi32>
  %a = ascend.Deconvolution %x, %w, %b strides [2, 2] pads [1, 1, 1, 1] groups 2 offset_x -5 : (tensor<1x4x5x6xi8>, tensor<4x1x3x3xi8>, tensor<2xi32>) -> tensor<1x2x9x11xi32>
  // CHECK-NEXT: %c = ascend.Deconvolution %h, %v dilations [1, 1, 2, 2] : (tensor<1x4x5x6xf16>, tensor<4x2x3x3xf16>) -> tensor<1x2x9x10xf16>
  %c = ascend.Deconvolution %h, %v dilations [1, 1, 2, 2] : (tensor<1x4x5x6xf16>, tensor<4x2x3x3xf16>) -> tensor<1x2x9x10xf16>
  // CHECK-NEXT: func.return
  func.return
}
