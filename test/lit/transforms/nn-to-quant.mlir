// RUN: amct-opt %s --nn-to-quant | filecheck %s
// RUN: amct-opt %s --nn-to-quant --quant-to-nn | filecheck %s --check-prefix BACK
// RUN: amct-opt %s --nn-to-quant --remarks=missed 2>&1 >%t | filecheck %s --check-prefix REMARK

// A pair is two casts; what quant has no word for stays as attributes.
// CHECK-LABEL: @pair
// BACK-LABEL:  @pair
func.func @pair(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
  // CHECK-NEXT: %q = quant.qcast %x {nn.source = #nn<params_source data>, nn.group = "g0", nn.origin = #nn.origin<onnx, "QuantizeLinear", "ql">} : tensor<?x2xf32> to tensor<?x2x!quant.uniform<i8:f32, 0.0235294122248888:-128>>
  // BACK-NEXT:  %q = nn.quantize %x by <i8, scale = 0.023529412, zero_point = -128> given data group "g0" from <onnx, "QuantizeLinear", "ql"> : (tensor<?x2xf32>) -> tensor<?x2xi8>
  %q = nn.quantize %x by <i8, scale = 0.023529412, zero_point = -128> given data group "g0" from <onnx, "QuantizeLinear", "ql"> : (tensor<?x2xf32>) -> tensor<?x2xi8>
  // CHECK-NEXT: %y = quant.dcast %q : tensor<?x2x!quant.uniform<i8:f32, 0.0235294122248888:-128>> to tensor<?x2xf32>
  // BACK-NEXT:  %y = nn.dequantize %q by <i8, scale = 0.023529412, zero_point = -128>
  %y = nn.dequantize %q by <i8, scale = 0.023529412, zero_point = -128> : (tensor<?x2xi8>) -> tensor<?x2xf32>
  func.return %y : tensor<?x2xf32>
}

// Integers that are computed with are stored ones. Per axis, weights in the text.
// CHECK-LABEL: @storage
// BACK-LABEL:  @storage
func.func @storage(%x: tensor<2x2xf32>) -> (tensor<4xf32>, tensor<2x2xf32>) {
  // CHECK-NEXT: %q = quant.qcast
  // CHECK-NEXT: [[S:%.*]] = quant.scast %q
  // CHECK-NEXT: %r = nn.reshape [[S]]
  // CHECK-NEXT: [[R:%.*]] = quant.scast %r : tensor<4xi8> to tensor<4x!quant.uniform<i8:f32, 0.5>>
  // CHECK-NEXT: quant.dcast [[R]]
  // BACK-NEXT: %q = nn.quantize
  // BACK-NEXT: %r = nn.reshape %q
  // BACK-NEXT: %a = nn.dequantize %r
  %q = nn.quantize %x by <i8, scale = 0.5> : (tensor<2x2xf32>) -> tensor<2x2xi8>
  %r = nn.reshape %q to [4] : (tensor<2x2xi8>) -> tensor<4xi8>
  %a = nn.dequantize %r by <i8, scale = 0.5> : (tensor<4xi8>) -> tensor<4xf32>
  // CHECK: quant.scast %w : tensor<2x2xi8> to tensor<2x2x!quant.uniform<i8:f32:0, {0.5, 0.25:3}>>
  // BACK: %b = nn.dequantize %w by <i8, scale = [0.5, 0.25], zero_point = [0, 3], axis = 0>
  %w = nn.constant dense<[[1, 2], [-3, 4]]> : tensor<2x2xi8>
  %b = nn.dequantize %w by <i8, scale = [0.5, 0.25], zero_point = [0, 3], axis = 0> : (tensor<2x2xi8>) -> tensor<2x2xf32>
  func.return %a, %b : tensor<4xf32>, tensor<2x2xf32>
}

// Another scale on the same integers: no cast joins the two.
// CHECK-LABEL: @rescaled
// BACK-LABEL:  @rescaled
func.func @rescaled(%x: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK: [[S:%.*]] = quant.scast %q : tensor<2x!quant.uniform<i8:f32, 0.5>> to tensor<2xi8>
  // CHECK-NEXT: quant.scast [[S]] : tensor<2xi8> to tensor<2x!quant.uniform<i8:f32, 0.25>>
  // BACK: %y = nn.dequantize %q by <i8, scale = 0.25>
  %q = nn.quantize %x by <i8, scale = 0.5> : (tensor<2xf32>) -> tensor<2xi8>
  %y = nn.dequantize %q by <i8, scale = 0.25> : (tensor<2xi8>) -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}

// Unsigned integers have signless storage upstream. A pair needs none.
// CHECK-LABEL: @unsigned
// BACK-LABEL:  @unsigned
func.func @unsigned(%x: tensor<2xf32>) -> (tensor<2xui8>, tensor<2xf32>) {
  // CHECK: [[S:%.*]] = quant.scast %q : tensor<2x!quant.uniform<u8:f32, 0.5:128>> to tensor<2xi8>
  // CHECK-NEXT: builtin.unrealized_conversion_cast [[S]] : tensor<2xi8> to tensor<2xui8>
  // CHECK-NEXT: quant.dcast %q
  // BACK-NEXT: %q = nn.quantize
  // BACK-NEXT: %y = nn.dequantize %q by <ui8, scale = 0.5, zero_point = 128>
  // BACK-NEXT: func.return %q, %y
  %q = nn.quantize %x by <ui8, scale = 0.5, zero_point = 128> : (tensor<2xf32>) -> tensor<2xui8>
  %y = nn.dequantize %q by <ui8, scale = 0.5, zero_point = 128> : (tensor<2xui8>) -> tensor<2xf32>
  func.return %q, %y : tensor<2xui8>, tensor<2xf32>
}

// Weights in groups are sub-channel, if the groups are whole.
// CHECK-LABEL: @groups
// BACK-LABEL:  @groups
func.func @groups(%w: tensor<4x2xi4>, %v: tensor<3x2xi4>) -> (tensor<4x2xf32>, tensor<3x2xf32>) {
  // CHECK: quant.scast %w : tensor<4x2xi4> to tensor<4x2x!quant.uniform<i4:f32:{0:2, 1:1}, {{\{\{}}0.5, 0.25}, {1.0, 2.0}}>>
  // CHECK-NEXT: quant.dcast
  // BACK: nn.dequantize %w by <i4, scale = [0.5, 0.25, 1.0, 2.0], axis = 0, block = 2>
  %x = nn.dequantize %w by <i4, scale = [0.5, 0.25, 1.0, 2.0], axis = 0, block = 2> : (tensor<4x2xi4>) -> tensor<4x2xf32>
  // REMARK: remark: [nn-to-quant missed blocks] "y": quant has blocks of one size: the last one along axis 0 has 1 elements, not 2
  %y = nn.dequantize %v by <i4, scale = [0.5, 0.25, 1.0, 2.0], axis = 0, block = 2> : (tensor<3x2xi4>) -> tensor<3x2xf32>
  func.return %x, %y : tensor<4x2xf32>, tensor<3x2xf32>
}

// What upstream has no type for stays.
// CHECK-LABEL: @left
func.func @left(%h: tensor<2xf16>, %w: tensor<2xi48>) -> (tensor<2xi8>, tensor<2xf32>) {
  // CHECK: nn.quantize
  // REMARK: remark: [nn-to-quant missed scale-range] "q": quant has no scale 1e-10 for f16
  %q = nn.quantize %h by <i8, scale = 1.0e-10> : (tensor<2xf16>) -> tensor<2xi8>
  // CHECK: nn.dequantize
  // REMARK: remark: [nn-to-quant missed storage-bits] "b": quant stores at most 32 bits, not i48
  %b = nn.dequantize %w by <i48, scale = 0.5> : (tensor<2xi48>) -> tensor<2xf32>
  func.return %q, %b : tensor<2xi8>, tensor<2xf32>
}
