// RUN: amct-opt %s --quant-to-nn --split-input-file --remarks=none --verify-diagnostics | filecheck %s
// RUN: amct-opt %s --quant-to-nn --split-input-file --remarks=missed --verify-diagnostics 2>&1 >%t | filecheck %s --check-prefix REMARK

// What others write: zero points, unsigned storage, decimals that float32 does not hold (scales are rounded to it).
// CHECK-LABEL: @others
func.func @others(%x: tensor<4x2xf32>, %w: tensor<4x2xi8>) -> (tensor<4x2xf32>, tensor<4x2xf32>) {
  // CHECK-NEXT: %q = nn.quantize %x by <ui8, scale = 0.1, zero_point = 128> : {{.*}} -> tensor<4x2xui8>
  %q = quant.qcast %x : tensor<4x2xf32> to tensor<4x2x!quant.uniform<u8:f32, 0.1:128>>
  // CHECK-NEXT: %y = nn.dequantize %q by <ui8, scale = 0.1, zero_point = 128> : {{.*}} -> tensor<4x2xf32>
  %y = quant.dcast %q : tensor<4x2x!quant.uniform<u8:f32, 0.1:128>> to tensor<4x2xf32>
  // CHECK-NEXT: %b = nn.dequantize %w by <i8, scale = [0.5, 0.25], axis = 1>
  %s = quant.scast %w : tensor<4x2xi8> to tensor<4x2x!quant.uniform<i8:f32:1, {0.5, 0.25}>>
  %b = quant.dcast %s : tensor<4x2x!quant.uniform<i8:f32:1, {0.5, 0.25}>> to tensor<4x2xf32>
  func.return %y, %b : tensor<4x2xf32>, tensor<4x2xf32>
}

// -----
// The bits of unsigned integers are used as signless ones.
// CHECK-LABEL: @bits
func.func @bits(%x: tensor<2xf32>, %w: tensor<2xi8>) -> (tensor<2xi8>, tensor<2xf32>) {
  // CHECK-NEXT: %q = nn.quantize
  // CHECK-NEXT: [[B:%.*]] = builtin.unrealized_conversion_cast %q : tensor<2xui8> to tensor<2xi8>
  %q = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<u8:f32, 0.5>>
  %s = quant.scast %q : tensor<2x!quant.uniform<u8:f32, 0.5>> to tensor<2xi8>
  // CHECK-NEXT: [[U:%.*]] = builtin.unrealized_conversion_cast %w : tensor<2xi8> to tensor<2xui8>
  // CHECK-NEXT: nn.dequantize [[U]]
  %t = quant.scast %w : tensor<2xi8> to tensor<2x!quant.uniform<u8:f32, 0.5>>
  %y = quant.dcast %t : tensor<2x!quant.uniform<u8:f32, 0.5>> to tensor<2xf32>
  // CHECK-NEXT: func.return [[B]]
  func.return %s, %y : tensor<2xi8>, tensor<2xf32>
}

// -----
// REMARK: remark: [quant-to-nn missed narrow-range] "q": nn has all of i8, not -127 to 127
// CHECK-LABEL: @narrow
func.func @narrow(%x: tensor<2xf32>) -> tensor<2xf32> {
  // CHECK-NEXT: quant.qcast
  // CHECK-NEXT: quant.dcast
  %q = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<i8<-127:127>:f32, 0.5>>
  %y = quant.dcast %q : tensor<2x!quant.uniform<i8<-127:127>:f32, 0.5>> to tensor<2xf32>
  func.return %y : tensor<2xf32>
}

// -----
// REMARK: remark: [quant-to-nn missed only-casts] "y": its quantized value comes from outside, not from a cast
// REMARK: remark: [quant-to-nn missed only-casts] "r": its quantized value goes to func.return, not to a cast
// CHECK-LABEL: @computed
func.func @computed(%q: tensor<2x!quant.uniform<i8:f32, 0.5>>, %x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2x!quant.uniform<i8:f32, 0.5>>) {
  // CHECK-NEXT: quant.dcast %q
  %y = quant.dcast %q : tensor<2x!quant.uniform<i8:f32, 0.5>> to tensor<2xf32>
  // CHECK-NEXT: quant.qcast %x
  %r = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32, 0.5>>
  func.return %y, %r : tensor<2xf32>, tensor<2x!quant.uniform<i8:f32, 0.5>>
}

// -----
// REMARK: remark: [quant-to-nn missed parameters] "q": zero points must lie in [-128, 127]
// CHECK-LABEL: @zero_point
func.func @zero_point(%x: tensor<2xf32>) -> tensor<2xf32> {
  %q = quant.qcast %x : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32, 0.5:200>>
  %y = quant.dcast %q : tensor<2x!quant.uniform<i8:f32, 0.5:200>> to tensor<2xf32>
  func.return %y : tensor<2xf32>
}

// -----
// REMARK: remark: [quant-to-nn missed storage-type] "q": nn.quantize gives integers, not f8E4M3FN
// REMARK: remark: [quant-to-nn missed blocks] "b": nn has blocks along one axis, with scales for each index of the others
// CHECK-LABEL: @stored
func.func @stored(%x: tensor<4x2xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>) {
  %q = quant.qcast %x : tensor<4x2xf32> to tensor<4x2x!quant.uniform<f8E4M3FN:f32, 0.5>>
  // CHECK: quant.dcast
  %y = quant.dcast %q : tensor<4x2x!quant.uniform<f8E4M3FN:f32, 0.5>> to tensor<4x2xf32>
  %b = quant.qcast %x : tensor<4x2xf32> to tensor<4x2x!quant.uniform<i8:f32:{0:2, 1:2}, {{0.5}, {1.0}}>>
  // CHECK: quant.dcast
  %z = quant.dcast %b : tensor<4x2x!quant.uniform<i8:f32:{0:2, 1:2}, {{0.5}, {1.0}}>> to tensor<4x2xf32>
  func.return %y, %z : tensor<4x2xf32>, tensor<4x2xf32>
}

// -----
// CHECK: error: 'quant.qcast' op has no meaning in nn: 3 : i64 should be of base attribute string
func.func @attributes(%x: tensor<2xf32>) {
  %q = quant.qcast %x {nn.group = 3 : i64} : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32, 0.5>>
  func.return
}
