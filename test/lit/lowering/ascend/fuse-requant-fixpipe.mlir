// RUN: CONSTANTS | amct-opt - '--fuse-requant=chip="310b"' --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks
// RUN: CONSTANTS | amct-opt - --fuse-requant=chip=a2 --split-input-file | filecheck %s
// RUN: CONSTANTS | amct-opt - '--fuse-requant=chip="950"' --split-input-file --remarks=all 2>%t.remarks | filecheck %s --check-prefix DUAL
// RUN: filecheck %s --check-prefix DUAL-REMARK < %t.remarks

// CONSTANT: %w = nn.constant dense<1> : tensor<2x2x1x1xi8>
// CONSTANT: %s = nn.constant dense<0.075> : tensor<1xf32>

// 0.075 * 4 without its last 13 bits.
// CHECK-LABEL: @convolution
// CHECK:         nn.constant dense<0.299804688> : tensor<1xf32>
// CHECK:         ascend.AscendRequant %acc, {{%[a-z_]+}} offset -3.0 relu_flag true
// DUAL-LABEL:  @convolution
// DUAL:          ascend.AscendRequant
func.func @convolution(%x: tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xi8> {
  %acc = ascend.Conv2D %x, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<1x2x4x4xi8>, tensor<2x2x1x1xi8>) -> tensor<1x2x4x4xi32>
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  %r = ascend.Relu %y : tensor<1x2x4x4xf32>
  %q = ascend.AscendQuant %r scale 4.0 offset -3.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  func.return %q : tensor<1x2x4x4xi8>
}

// -----

// CHECK-LABEL: @static_sizes
// CHECK:         ascend.AscendDequant
// REMARK:      [fuse-requant missed static-sizes] "q": a size is not known before run time
func.func @static_sizes(%x: tensor<?x2x4x4xi8>) -> tensor<?x2x4x4xi8> {
  %acc = ascend.Conv2D %x, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<?x2x4x4xi8>, tensor<2x2x1x1xi8>) -> tensor<?x2x4x4xi32>
  %y = ascend.AscendDequant %acc, %s : (tensor<?x2x4x4xi32>, tensor<1xf32>) -> tensor<?x2x4x4xf32>
  %q = ascend.AscendQuant %y scale 4.0 offset -3.0 : (tensor<?x2x4x4xf32>) -> tensor<?x2x4x4xi8>
  func.return %q : tensor<?x2x4x4xi8>
}

// -----

// A matrix product on 310B and A2; 950 does it for Conv2D.
// CHECK-LABEL: @product
// CHECK:         ascend.AscendRequant
// DUAL-LABEL:  @product
// DUAL:          ascend.AscendQuant
// DUAL-REMARK: [fuse-requant missed cube-before] "q": y is not after Conv2D
func.func @product(%x: tensor<3x4xi8>) -> tensor<3x2xi8> {
  %w = nn.constant dense<1> : tensor<4x2xi8>
  %acc = ascend.MatMulV2 %x, %w : (tensor<3x4xi8>, tensor<4x2xi8>) -> tensor<3x2xi32>
  %y = ascend.AscendDequant %acc, %s : (tensor<3x2xi32>, tensor<1xf32>) -> tensor<3x2xf32>
  %q = ascend.AscendQuant %y scale 4.0 offset -3.0 : (tensor<3x2xf32>) -> tensor<3x2xi8>
  func.return %q : tensor<3x2xi8>
}

// -----

// CHECK-LABEL: @cube_before
// CHECK:         ascend.AscendDequant
// REMARK:      [fuse-requant missed cube-before] "q": y is not after a cube operation
func.func @cube_before(%acc: tensor<1x2x4x4xi32>) -> tensor<1x2x4x4xi8> {
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  %q = ascend.AscendQuant %y scale 4.0 offset -3.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  func.return %q : tensor<1x2x4x4xi8>
}

// -----

// Reals and integers of one convolution: two results on 950 only.
// CHECK-LABEL: @two_readers
// CHECK:         ascend.AscendQuant
// REMARK:      [fuse-requant missed dequant-used-once] "q": the result of y has 2 uses
// DUAL-LABEL:  @two_readers
// DUAL:          ascend.AscendDequant
// DUAL:          ascend.AscendRequant
func.func @two_readers(%x: tensor<1x2x4x4xi8>) -> (tensor<1x2x4x4xi8>, tensor<1x2x4x4xf32>) {
  %acc = ascend.Conv2D %x, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<1x2x4x4xi8>, tensor<2x2x1x1xi8>) -> tensor<1x2x4x4xi32>
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  %q = ascend.AscendQuant %y scale 4.0 offset -3.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  func.return %q, %y : tensor<1x2x4x4xi8>, tensor<1x2x4x4xf32>
}

// -----

// DUAL-LABEL:  @three_readers
// DUAL:          ascend.AscendQuant
// DUAL-REMARK: [fuse-requant missed dequant-used-once] "q": the result of y has 3 readers
func.func @three_readers(%x: tensor<1x2x4x4xi8>) -> (tensor<1x2x4x4xi8>, tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) {
  %acc = ascend.Conv2D %x, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<1x2x4x4xi8>, tensor<2x2x1x1xi8>) -> tensor<1x2x4x4xi32>
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  %q = ascend.AscendQuant %y scale 4.0 offset -3.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  %t = ascend.Tanh %y : tensor<1x2x4x4xf32>
  %u = ascend.Sigmoid %y : tensor<1x2x4x4xf32>
  func.return %q, %t, %u : tensor<1x2x4x4xi8>, tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>
}
