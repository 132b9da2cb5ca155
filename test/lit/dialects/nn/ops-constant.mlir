// RUN: ROUNDTRIP | filecheck %s

// Constants: small ones in the text, arrays next to it.

// CHECK-LABEL: func.func @types(
func.func @types() {
  // CHECK-NEXT: %f64 = nn.constant dense<1.000000e-01> : tensor<f64>
  %f64 = nn.constant dense<1.000000e-01> : tensor<f64>
  // CHECK-NEXT: %f32 = nn.constant dense<[-0.000000e+00, 1.000000e+00]> : tensor<2xf32>
  %f32 = nn.constant dense<[-0.000000e+00, 1.000000e+00]> : tensor<2xf32>
  // CHECK-NEXT: %f16 = nn.constant dense<[5.960460e-08, 6.550400e+04]> : tensor<2xf16>
  %f16 = nn.constant dense<[5.960460e-08, 6.550400e+04]> : tensor<2xf16>
  // CHECK-NEXT: %bf16 = nn.constant dense<1.000000e+00> : tensor<2x2xbf16>
  %bf16 = nn.constant dense<1.000000e+00> : tensor<2x2xbf16>
  // CHECK-NEXT: %i1 = nn.constant dense<[true, false]> : tensor<2xi1>
  %i1 = nn.constant dense<[true, false]> : tensor<2xi1>
  // CHECK-NEXT: %i2 = nn.constant dense<[-2, 1]> : tensor<2xi2>
  %i2 = nn.constant dense<[-2, 1]> : tensor<2xi2>
  // CHECK-NEXT: %i4 = nn.constant dense<[-8, 7]> : tensor<2xi4>
  %i4 = nn.constant dense<[-8, 7]> : tensor<2xi4>
  // CHECK-NEXT: %i8 = nn.constant dense<[-128, 127]> : tensor<2xi8>
  %i8 = nn.constant dense<[-128, 127]> : tensor<2xi8>
  // CHECK-NEXT: %ui8 = nn.constant dense<[0, 255]> : tensor<2xui8>
  %ui8 = nn.constant dense<[0, 255]> : tensor<2xui8>
  // CHECK-NEXT: %i64 = nn.constant dense<[-9223372036854775808, 9223372036854775807]> : tensor<2xi64>
  %i64 = nn.constant dense<[-9223372036854775808, 9223372036854775807]> : tensor<2xi64>
  // CHECK-NEXT: %empty = nn.constant dense<> : tensor<0x3xf32>
  %empty = nn.constant dense<> : tensor<0x3xf32>
  // CHECK-NEXT: func.return
  func.return
}

// Decimals only where each number survives them: infinities, zeros of both signs and large numbers.
// CHECK-LABEL: func.func @exact(
func.func @exact() {
  // CHECK-NEXT: %inf = nn.constant dense<"0x0000807F000080FF0000C07F"> : tensor<3xf32>
  %inf = nn.constant dense<"0x0000807F000080FF0000C07F"> : tensor<3xf32>
  // CHECK-NEXT: %zeros = nn.constant dense<"0x0000000000000080"> : tensor<2xf32>
  %zeros = nn.constant dense<"0x0000000000000080"> : tensor<2xf32>
  // CHECK-NEXT: %large = nn.constant dense<[1.67772150e+07, 1.000000e+10]> : tensor<2xf32>
  %large = nn.constant dense<[1.67772150e+07, 1.000000e+10]> : tensor<2xf32>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @external(
func.func @external() {
  // CHECK-NEXT: %here = nn.constant #nn.external<"ops-constant.safetensors#conv1.weight", tensor<64x3x7x7xf32>>
  %here = nn.constant #nn.external<"conv1.weight", tensor<64x3x7x7xf32>>
  // CHECK-NEXT: %there = nn.constant #nn.external<"backbone.safetensors#conv1.weight", tensor<2xi8>>
  %there = nn.constant #nn.external<"backbone.safetensors#conv1.weight", tensor<2xi8>>
  // CHECK-NEXT: %bytes = nn.constant #nn.external<"folded", tensor<2xf32>, "0x0000803F00000040"> {note = "kept"}
  %bytes = nn.constant #nn.external<"folded", tensor<2xf32>, "0x0000803F00000040"> {note = "kept"}
  // CHECK-NEXT: %scalar = nn.constant #nn.external<"scalar", tensor<f32>, "0x0000803F">
  %scalar = nn.constant #nn.external<"scalar", tensor<f32>, "0x0000803F">
  // CHECK-NEXT: %none = nn.constant #nn.external<"none", tensor<0x4xf64>, "0x">
  %none = nn.constant #nn.external<"none", tensor<0x4xf64>, "0x">
  // CHECK-NEXT: %name = nn.constant #nn.external<"层/\"w\"\\\0A", tensor<1xui8>, "0xFF">
  %name = nn.constant #nn.external<"层/\"w\"\\\0A", tensor<1xui8>, "0xFF">
  // CHECK-NEXT: func.return
  func.return
}
