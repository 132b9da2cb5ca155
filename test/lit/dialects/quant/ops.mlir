// RUN: amct-opt %s | filecheck %s
// RUN: ROUNDTRIP | filecheck %s
// RUN: xdsl-opt %s | filecheck %s

// CHECK-LABEL: @casts
func.func @casts(%x: tensor<?x2xf32>, %h: tensor<4xf16>) {
  // CHECK: quant.qcast %x : tensor<?x2xf32> to tensor<?x2x!quant.uniform<i8:f32, 0.0235294122248888:-128>>
  %a = quant.qcast %x : tensor<?x2xf32> to tensor<?x2x!quant.uniform<i8:f32, 0.023529412224888802:-128>>
  // CHECK-NEXT: quant.scast %{{.*}} {note = "kept"} : tensor<?x2x!quant.uniform<i8:f32, 0.0235294122248888:-128>> to tensor<?x2xi8>
  %b = quant.scast %a {note = "kept"} : tensor<?x2x!quant.uniform<i8:f32, 0.023529412224888802:-128>> to tensor<?x2xi8>
  // Per axis; a zero point of 0 is left out.
  // CHECK-NEXT: tensor<?x2x!quant.uniform<i8:f32:1, {1.0e-05, 0.1:3}>>
  %c = quant.scast %b : tensor<?x2xi8> to tensor<?x2x!quant.uniform<i8:f32:1, {1.0e-5:0, 0.1:3}>>
  // CHECK-NEXT: quant.dcast
  %d = quant.dcast %c : tensor<?x2x!quant.uniform<i8:f32:1, {1.0e-5, 0.1:3}>> to tensor<?x2xf32>
  // Unsigned integers, part of a range, bits of a float64: 0x3FB999999999999A is 0.1.
  // CHECK-NEXT: tensor<4x!quant.uniform<u8<1:255>:f16, 0.1>>
  %e = quant.qcast %h : tensor<4xf16> to tensor<4x!quant.uniform<u8<1:255>:f16, 0x3FB999999999999A>>
  // Unsigned integers are stored as signless ones.
  // CHECK-NEXT: to tensor<4xi8>
  %f = quant.scast %e : tensor<4x!quant.uniform<u8<1:255>:f16, 0.1>> to tensor<4xi8>
  func.return
}
