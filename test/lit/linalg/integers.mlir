// RUN: amct-opt %s --convert-to-linalg --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// The bound stands between product and sum, so that they are not contracted.
// CHECK-LABEL: @quant
// CHECK:         [[p:%\d+]] = arith.mulf %{{.*}}, %{{.*}} : f32
// CHECK:         [[b:%\d+]] = arith.maxnumf [[p]], %{{.*}} : f32
// CHECK:         [[s:%\d+]] = arith.addf [[b]], %{{.*}} : f32
// CHECK-NEXT:    [[r:%\d+]] = math.roundeven [[s]] : f32
// CHECK:         arith.maxnumf [[r]]
// CHECK:         arith.minnumf
// CHECK:         arith.fptosi %{{.*}} : f32 to i8
// REMARK:      [convert-to-linalg applied lower] "q": computed by linalg
func.func @quant(%x: tensor<?x3xf32>) -> tensor<?x3xi8> {
  %q = ascend.AscendQuant %x scale 12.5 offset -3.0 : (tensor<?x3xf32>) -> tensor<?x3xi8>
  func.return %q : tensor<?x3xi8>
}

// -----

// Padding is the zero point, and sums start from the bias minus what the zero point contributes: 5 - 2 * (1 + 3) = -3. Channels are last.
// CHECK-LABEL: @convolution
// CHECK:         [[fill:%\d+]] = arith.constant 2 : i8
// CHECK:         tensor.pad %{{.*}} low[0, 0, 1, 0] high[0, 0, 0, 0]
// CHECK:         tensor.yield [[fill]] : i8
// CHECK:         arith.constant dense<-3> : tensor<1xi32>
// CHECK:         linalg.conv_2d_nhwc_hwcf {{.*}} ins(%{{.*}} : tensor<1x4x5x1xi8>, tensor<1x2x1x1xi8>) outs(%{{.*}} : tensor<1x4x4x1xi32>)
// CHECK:         arith.sitofp %{{.*}} : i32 to f32
func.func @convolution(%x: tensor<1x1x4x4xi8>) -> tensor<1x1x4x4xf32> {
  %w = nn.constant dense<[[[[1, 3]]]]> : tensor<1x1x1x2xi8>
  %b = nn.constant dense<5> : tensor<1xi32>
  %scale = nn.constant dense<0.5> : tensor<1xf32>
  %acc = ascend.Conv2D %x, %w, %b strides [1, 1, 1, 1] pads [0, 0, 1, 0] data_format "NCHW" offset_x 2 : (tensor<1x1x4x4xi8>, tensor<1x1x1x2xi8>, tensor<1xi32>) -> tensor<1x1x4x4xi32>
  %y = ascend.AscendDequant %acc, %scale : (tensor<1x1x4x4xi32>, tensor<1xf32>) -> tensor<1x1x4x4xf32>
  func.return %y : tensor<1x1x4x4xf32>
}

// -----

// int16 by int8. Sums start from 5 + 32768 * (1 + 3) = 131077.
// CHECK-LABEL: @wide_convolution
// CHECK:         arith.constant dense<131077> : tensor<1xi32>
// CHECK:         arith.extsi %{{.*}} : i16 to i32
// CHECK-NEXT:    arith.extsi %{{.*}} : i8 to i32
// CHECK-NEXT:    arith.muli
func.func @wide_convolution(%x: tensor<1x1x4x4xi16>) -> tensor<1x1x4x3xf32> {
  %w = nn.constant dense<[[[[1, 3]]]]> : tensor<1x1x1x2xi8>
  %b = nn.constant dense<5> : tensor<1xi32>
  %scale = nn.constant dense<0.5> : tensor<1xf32>
  %acc = ascend.Conv2D %x, %w, %b strides [1, 1, 1, 1] pads [0, 0, 0, 0] data_format "NCHW" offset_x -32768 : (tensor<1x1x4x4xi16>, tensor<1x1x1x2xi8>, tensor<1xi32>) -> tensor<1x1x4x3xi32>
  %y = ascend.AscendDequant %acc, %scale : (tensor<1x1x4x3xi32>, tensor<1xf32>) -> tensor<1x1x4x3xf32>
  func.return %y : tensor<1x1x4x3xf32>
}

// -----

// Sums of int16 that may leave int32 would wrap around: 65535 * 127 * 259.
// CHECK-LABEL: @wide_sums
// CHECK:         ascend.MatMulV2
// REMARK:      [convert-to-linalg missed int32-sums] "acc": its sums may reach 2155642755, beyond int32, in which linalg wraps around
func.func @wide_sums(%x: tensor<1x259xi16>) -> tensor<1x1xf32> {
  %w = nn.constant dense<127> : tensor<259x1xi8>
  %scale = nn.constant dense<0.5> : tensor<1xf32>
  %acc = ascend.MatMulV2 %x, %w offset_x -32768 : (tensor<1x259xi16>, tensor<259x1xi8>) -> tensor<1x1xi32>
  %y = ascend.AscendDequant %acc, %scale : (tensor<1x1xi32>, tensor<1xf32>) -> tensor<1x1xf32>
  func.return %y : tensor<1x1xf32>
}

// -----

// A kernel of one element reads a part of x instead of taking steps; a weight per group.
// CHECK-LABEL: @steps
// CHECK:         linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, (d1 * 2), (d2 * 2), d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>]{{.*}} outs(%{{.*}} : tensor<1x3x2x4xf32>)
// CHECK:         linalg.conv_2d_nhwgc_gfhwc {strides = dense<1> : tensor<2xi64>, {{.*}}} ins(%{{.*}}, %{{.*}} : tensor<1x3x2x2x2xf32>, tensor<2x1x1x1x2xf32>
func.func @steps(%x: tensor<1x4x5x4xf32>, %w: tensor<2x2x1x1xf32>) -> tensor<1x2x3x2xf32> {
  %y = nn.conv %x, %w strides [2, 2] groups 2 : (tensor<1x4x5x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x3x2xf32>
  func.return %y : tensor<1x2x3x2xf32>
}

// -----

// Integers are sliced.
// CHECK-LABEL: @integer_steps
// CHECK:         tensor.extract_slice %{{.*}}[0, 0, 0, 0] [1, 3, 2, 1] [1, 2, 2, 1] : tensor<1x5x4x1xi8> to tensor<1x3x2x1xi8>
func.func @integer_steps(%x: tensor<1x1x5x4xi8>) -> tensor<1x1x3x2xf32> {
  %w = nn.constant dense<3> : tensor<1x1x1x1xi8>
  %scale = nn.constant dense<0.5> : tensor<1xf32>
  %acc = ascend.Conv2D %x, %w strides [1, 1, 2, 2] pads [0, 0, 0, 0] data_format "NCHW" : (tensor<1x1x5x4xi8>, tensor<1x1x1x1xi8>) -> tensor<1x1x3x2xi32>
  %y = ascend.AscendDequant %acc, %scale : (tensor<1x1x3x2xi32>, tensor<1xf32>) -> tensor<1x1x3x2xf32>
  func.return %y : tensor<1x1x3x2xf32>
}

// -----

// CHECK-LABEL: @unsigned
// CHECK-SAME:    tensor<4xf32>) -> tensor<4xi8>
// CHECK:         arith.fptoui %{{.*}} : f32 to i8
func.func @unsigned(%x: tensor<4xf32>) -> tensor<4xui8> {
  %q = nn.quantize %x by <ui8, scale = 0.5, zero_point = 128> : (tensor<4xf32>) -> tensor<4xui8>
  func.return %q : tensor<4xui8>
}

// -----

// What stays reads what it read, and its accumulators are not read by others.
// CHECK-LABEL: @stays
// CHECK:         nn.resize
// REMARK:      [convert-to-linalg missed dynamic] "p": it resamples an axis of unknown size
func.func @stays(%x: tensor<1x1x?x4xf32>) -> tensor<1x1x?x8xf32> {
  %r = nn.relu %x : tensor<1x1x?x4xf32>
  %p = nn.resize %r scales [1.0, 1.0, 2.0, 2.0] mode linear : (tensor<1x1x?x4xf32>) -> tensor<1x1x?x8xf32>
  %y = nn.relu %p : tensor<1x1x?x8xf32>
  func.return %y : tensor<1x1x?x8xf32>
}

// -----

// Unknown sizes that may differ broadcast or not: nobody knows before the run.
// CHECK-LABEL: @broadcast
// CHECK:         nn.add
// REMARK:      [convert-to-linalg missed broadcast] "y": the unknown sizes of axis 0 may differ, and broadcast
func.func @broadcast(%a: tensor<?x3xf32>, %b: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %y = nn.add %a, %b : tensor<?x3xf32>
  func.return %y : tensor<?x3xf32>
}

// -----

// Here they are the same: both go back to the batch of x.
// CHECK-LABEL: @same_batch
// CHECK-NOT:     nn.add
// CHECK:         arith.addf
func.func @same_batch(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %a = nn.relu %x : tensor<?x3xf32>
  %b = nn.sigmoid %x : tensor<?x3xf32>
  %y = nn.add %a, %b : tensor<?x3xf32>
  func.return %y : tensor<?x3xf32>
}

// -----

// A transposed convolution is a convolution of x with gaps of the zero point, 3, by the flipped kernel, without a stride.
// CHECK-LABEL: @transposed
// CHECK:         tensor.expand_shape %x {{.*}} into tensor<1x1x2x1x2x1xi8>
// CHECK:         [[fill:%\d+]] = arith.constant 3 : i8
// CHECK:         tensor.pad %{{.*}} low[0, 0, 0, 0, 0, 0] high[0, 0, 0, 1, 0, 1]
// CHECK:         tensor.yield [[fill]] : i8
// CHECK:         tensor.collapse_shape
// CHECK:         arith.constant dense<-30> : tensor<1xi32>
// CHECK:         %filter = arith.constant dense<{{.*4.*3.*2.*1.*}}> : tensor<2x2x1x1xi8>
// CHECK:         linalg.conv_2d_nhwc_hwcf
func.func @transposed(%x: tensor<1x1x2x2xi8>) -> tensor<1x1x4x4xf32> {
  %size = nn.constant dense<[0, 0, 0, 0]> : tensor<4xi32>
  %w = nn.constant dense<[[[[1, 2], [3, 4]]]]> : tensor<1x1x2x2xi8>
  %scale = nn.constant dense<0.5> : tensor<1xf32>
  %acc = ascend.Conv2DTranspose %size, %x, %w strides [1, 1, 2, 2] pads [0, 0, 0, 0] data_format "NCHW" offset_x 3 : (tensor<4xi32>, tensor<1x1x2x2xi8>, tensor<1x1x2x2xi8>) -> tensor<1x1x4x4xi32>
  %y = ascend.AscendDequant %acc, %scale : (tensor<1x1x4x4xi32>, tensor<1xf32>) -> tensor<1x1x4x4xf32>
  func.return %y : tensor<1x1x4x4xf32>
}
