// RUN: amct-opt %s --fold-constants=max-elements=3 --remarks=missed 2>&1 | filecheck %s

// A result over the limit is folded only when it takes less memory than its operands.
// CHECK:      [fold-constants missed max-elements] "grown": its 8 elements exceed the limit of 3
// CHECK:      %grown = nn.expand
// CHECK:      %shrunk = nn.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00, 4.000000e+00]>
// CHECK:      %small = nn.constant dense<[-1.000000e+00, -2.000000e+00]>
func.func @main() -> (tensor<4x2xf32>, tensor<4xf32>, tensor<2xf32>) {
  %a = nn.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %b = nn.constant dense<[1.0, 2.0, 3.0, 4.0, 5.0]> : tensor<5xf32>
  %grown = nn.expand %a to [4, 2] : (tensor<2xf32>) -> tensor<4x2xf32>
  %shrunk = nn.slice %b starts [0] ends [4] : (tensor<5xf32>) -> tensor<4xf32>
  %small = nn.neg %a : tensor<2xf32>
  func.return %grown, %shrunk, %small : tensor<4x2xf32>, tensor<4xf32>, tensor<2xf32>
}
