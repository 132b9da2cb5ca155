// RUN: amct-opt %s --split-input-file --verify-diagnostics --legalize-ascend --chip 910b --remarks=all 2>%t.910b | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.910b
// RUN: amct-opt %s --split-input-file --verify-diagnostics --legalize-ascend --chip 950 --remarks=all 2>/dev/null | filecheck %s --check-prefix OTHER
// RUN: amct-opt %s --split-input-file --verify-diagnostics --legalize-ascend --chip 310p 2>&1 >/dev/null | filecheck %s --check-prefix NOTHING
// RUN: amct-opt %s --split-input-file --legalize-ascend | filecheck %s --check-prefix NONE

// AscendDequant gives float16 on the chip: a Cast follows. The Relu has a kernel, of the convolution no rows are known.
// REMARK:      note: chip 910b: the element types of these operators are not known: Conv2D
// REMARK:      [legalize-ascend applied chip-kernel] {{.*}} chip 910b computes AscendDequant i32 ui64 -> f16
// CHECK:       %[[y:.+]] = ascend.AscendDequant {{.*}} dtype 1 {{.*}} -> tensor<1x4x8x8xf16>
// CHECK-NEXT:  %[[z:.+]] = ascend.Cast %[[y]] dst_type 0
// CHECK-NEXT:  ascend.Relu %[[z]] : tensor<1x4x8x8xf32>
// OTHER:       ascend.AscendDequant {{.*}} -> tensor<1x4x8x8xf32>
// OTHER-NEXT:  ascend.Relu
// NOTHING:     note: chip 310p: nothing is known about its kernels
// NONE:        ascend.AscendDequant {{.*}} -> tensor<1x4x8x8xf32>
func.func @float16(%x: tensor<1x3x8x8xf32>, %w: tensor<4x3x1x1xi8>) -> tensor<1x4x8x8xf32> {
  %q = ascend.AscendQuant %x scale 50.0 offset 0.0 : (tensor<1x3x8x8xf32>) -> tensor<1x3x8x8xi8>
  %acc = ascend.Conv2D %q, %w strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<1x3x8x8xi8>, tensor<4x3x1x1xi8>) -> tensor<1x4x8x8xi32>
  %s = nn.constant dense<0.5> : tensor<1xf32>
  %y = ascend.AscendDequant %acc, %s : (tensor<1x4x8x8xi32>, tensor<1xf32>) -> tensor<1x4x8x8xf32>
  %r = ascend.Relu %y : tensor<1x4x8x8xf32>
  func.return %r : tensor<1x4x8x8xf32>
}

// -----

// CHECK:       error: 'ascend.AscendQuant' op chip 910b has no AscendQuant of f32 -> i16; rows: f16 -> i8; f32 -> i8; f16 -> i4; f32 -> i4
// REMARK:      [legalize-ascend missed chip-kernel] {{.*}} chip 910b has no AscendQuant of f32 -> i16
// OTHER:       error: 'ascend.AscendQuant' op chip 950 has no AscendQuant of f32 -> i16
func.func @int16(%x: tensor<2x4xf32>) -> tensor<2x4xi16> {
  %q = ascend.AscendQuant %x scale 50.0 offset 0.0 dst_type 6 : (tensor<2x4xf32>) -> tensor<2x4xi16>
  func.return %q : tensor<2x4xi16>
}

// -----

// int8 of Conv2DTranspose is Conv2DTransposeD there, which the graph compiler makes of it; int16 is neither.
// CHECK:       error: 'ascend.Conv2DTranspose' op chip 910b has no Conv2DTranspose of i64 i16 i8 -> i32
// CHECK-NOT:   error
func.func @transposed(%x: tensor<1x3x8x8xi8>, %wide: tensor<1x3x8x8xi16>, %w: tensor<3x4x2x2xi8>) -> (tensor<1x4x16x16xf32>, tensor<1x4x16x16xf32>) {
  %size = nn.constant dense<0> : tensor<4xi64>
  %s = nn.constant dense<0.5> : tensor<1xf32>
  %y = ascend.Conv2DTranspose %size, %x, %w strides [1, 1, 2, 2] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<4xi64>, tensor<1x3x8x8xi8>, tensor<3x4x2x2xi8>) -> tensor<1x4x16x16xi32>
  %z = ascend.Conv2DTranspose %size, %wide, %w strides [1, 1, 2, 2] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<4xi64>, tensor<1x3x8x8xi16>, tensor<3x4x2x2xi8>) -> tensor<1x4x16x16xi32>
  %y.f = ascend.AscendDequant %y, %s : (tensor<1x4x16x16xi32>, tensor<1xf32>) -> tensor<1x4x16x16xf32>
  %z.f = ascend.AscendDequant %z, %s : (tensor<1x4x16x16xi32>, tensor<1xf32>) -> tensor<1x4x16x16xf32>
  func.return %y.f, %z.f : tensor<1x4x16x16xf32>, tensor<1x4x16x16xf32>
}
