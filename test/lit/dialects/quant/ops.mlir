// RUN: amct-opt %s | filecheck %s
// RUN: ROUNDTRIP | filecheck %s
// RUN: xdsl-opt %s | filecheck %s

// CHECK-LABEL: @casts
func.func @casts(%x: tensor<?x2xf32>, %h: tensor<4xf16>, %w: tensor<4x2xf32>) {
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
  // Scales of blocks, floats that are stored, types without scales, and ranges.
  // CHECK-NEXT: tensor<4x2x!quant.uniform<i4:f32:{0:2, 1:1}, {{\{\{}}0.5, 0.25:3}, {1.0, 2.0}}>>
  %g = quant.qcast %w : tensor<4x2xf32> to tensor<4x2x!quant.uniform<i4:f32:{0:2, 1:1}, {{0.5, 0.25:3}, {1.0, 2.0:0}}>>
  // CHECK-NEXT: quant.dcast
  %i = quant.dcast %g : tensor<4x2x!quant.uniform<i4:f32:{0:2, 1:1}, {{0.5, 0.25:3}, {1.0, 2.0}}>> to tensor<4x2xf32>
  // CHECK-NEXT: quant.qcast
  %j = quant.qcast %h : tensor<4xf16> to tensor<4x!quant.uniform<f8E4M3FN<-448:448>:f16, 0.5>>
  // CHECK-NEXT: quant.dcast %{{.*}} : tensor<4x!quant.uniform<f8E4M3FN:f16, 0.5>> to tensor<4xf16>
  %k = quant.dcast %j : tensor<4x!quant.uniform<f8E4M3FN:f16, 0.5>> to tensor<4xf16>
  func.return
}

// CHECK: @types(tensor<4x!quant.any<i8<-8:7>:f32>>, tensor<4x!quant.any<u8>>, tensor<4x!quant.calibrated<f32<-0.998:1.2321>>>, tensor<4x!quant.uniform<f8E5M2<-1:1>:f32, 2.0:3>>)
func.func private @types(tensor<4x!quant.any<i8<-8:7>:f32>>, tensor<4x!quant.any<u8<0:255>>>, tensor<4x!quant.calibrated<f32<-0.998:1.2321>>>, tensor<4x!quant.uniform<f8E5M2<-1:1>:f32, 2.0:3>>) -> ()
