// RUN: ROUNDTRIP | filecheck %s

// Weights that are quantized by themselves or with offsets, scales per channel of activations.

// CHECK-LABEL: func.func @weight_quant(
func.func @weight_quant(%w: tensor<4x3x3x3xi8>, %o: tensor<4x1x1x1xi8>) {
  // CHECK-NEXT: %a = ascend.AscendWeightQuant %w, %o : (tensor<4x3x3x3xi8>, tensor<4x1x1x1xi8>) -> tensor<4x3x3x3xi8>
  %a = ascend.AscendWeightQuant %w, %o : (tensor<4x3x3x3xi8>, tensor<4x1x1x1xi8>) -> tensor<4x3x3x3xi8>
  // CHECK-NEXT: %b = ascend.AscendWeightQuant %w, %o dst_type 29 : (tensor<4x3x3x3xi8>, tensor<4x1x1x1xi8>) -> tensor<4x3x3x3xi4>
  %b = ascend.AscendWeightQuant %w, %o dst_type 29 : (tensor<4x3x3x3xi8>, tensor<4x1x1x1xi8>) -> tensor<4x3x3x3xi4>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @quant(
func.func @quant(%x: tensor<?x4xf16>, %s: tensor<4xf16>, %one: tensor<1xf16>) {
  // CHECK-NEXT: %a = ascend.AscendQuantV2 %x, %s : (tensor<?x4xf16>, tensor<4xf16>) -> tensor<?x4xi8>
  %a = ascend.AscendQuantV2 %x, %s : (tensor<?x4xf16>, tensor<4xf16>) -> tensor<?x4xi8>
  // CHECK-NEXT: %b = ascend.AscendQuantV2 %x, %one, %one sqrt_mode true round_mode "floor" dst_type 29 axis 0 : (tensor<?x4xf16>, tensor<1xf16>, tensor<1xf16>) -> tensor<?x4xi4>
  %b = ascend.AscendQuantV2 %x, %one, %one sqrt_mode true round_mode "floor" dst_type 29 axis 0 : (tensor<?x4xf16>, tensor<1xf16>, tensor<1xf16>) -> tensor<?x4xi4>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @anti_quant(
func.func @anti_quant(%x: tensor<2x4xi8>, %i: tensor<2x4xi4>, %s: tensor<4xf32>, %b: tensor<4xbf16>) {
  // CHECK-NEXT: %a = ascend.AscendAntiQuantV2 %x, %s : (tensor<2x4xi8>, tensor<4xf32>) -> tensor<2x4xf16>
  %a = ascend.AscendAntiQuantV2 %x, %s : (tensor<2x4xi8>, tensor<4xf32>) -> tensor<2x4xf16>
  // CHECK-NEXT: %c = ascend.AscendAntiQuantV2 %i, %b, %b dst_type 27 sqrt_mode true : (tensor<2x4xi4>, tensor<4xbf16>, tensor<4xbf16>) -> tensor<2x4xbf16>
  %c = ascend.AscendAntiQuantV2 %i, %b, %b dst_type 27 sqrt_mode true : (tensor<2x4xi4>, tensor<4xbf16>, tensor<4xbf16>) -> tensor<2x4xbf16>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @matmul(
func.func @matmul(%x: tensor<?x8xf16>, %t: tensor<8x2xbf16>, %w: tensor<8x4xi8>, %i: tensor<4x8xi4>, %s: tensor<4xf16>, %g: tensor<3x4xbf16>, %b: tensor<4xf32>) {
  // CHECK-NEXT: %a = ascend.WeightQuantBatchMatmulV2 %x, %w, %s, %s : (tensor<?x8xf16>, tensor<8x4xi8>, tensor<4xf16>, tensor<4xf16>) -> tensor<?x4xf16>
  %a = ascend.WeightQuantBatchMatmulV2 %x, %w, %s, %s : (tensor<?x8xf16>, tensor<8x4xi8>, tensor<4xf16>, tensor<4xf16>) -> tensor<?x4xf16>
  // CHECK-NEXT: %c = ascend.WeightQuantBatchMatmulV2 %t, %i, %g, %g, %b transpose_x true transpose_weight true antiquant_group_size 3 : (tensor<8x2xbf16>, tensor<4x8xi4>, tensor<3x4xbf16>, tensor<3x4xbf16>, tensor<4xf32>) -> tensor<2x4xbf16>
  %c = ascend.WeightQuantBatchMatmulV2 %t, %i, %g, %g, %b transpose_x true transpose_weight true antiquant_group_size 3 : (tensor<8x2xbf16>, tensor<4x8xi4>, tensor<3x4xbf16>, tensor<3x4xbf16>, tensor<4xf32>) -> tensor<2x4xbf16>
  // CHECK-NEXT: func.return
  func.return
}
