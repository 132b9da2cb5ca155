// RUN: ROUNDTRIP | filecheck %s

// CHECK-LABEL: func.func @main
func.func @main() -> (tensor<2xf32>) {
  // CHECK: %c = nn.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
  %c = nn.constant dense<[1.0, 2.0]> : tensor<2xf32>
  func.return %c : tensor<2xf32>
}
