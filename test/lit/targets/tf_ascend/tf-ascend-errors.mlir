// One located line and a hint, status 1, no file.
// RUN: rm -f %t.pb
// RUN: not amct-opt %s -t tf-ascend -o %t.pb 2>&1 | filecheck %s
// RUN: not test -e %t.pb

// CHECK:      tf-ascend-errors.mlir:{{[0-9]+}}:3: error: 'ascend.AscendRequant' op has no form in TensorFlow
// CHECK-NEXT: hint: leave --fuse-requant out: ATC fuses by itself

func.func @main(%x: tensor<1x3xf32> {nn.name = "x"}) -> (tensor<1x2xi8> {nn.name = "y"}) {
  %w = nn.constant dense<1> : tensor<3x2xi8>
  %s = nn.constant dense<0.01> : tensor<1xf32>
  %q = ascend.AscendQuant %x scale 20.0 offset -9.0 : (tensor<1x3xf32>) -> tensor<1x3xi8>
  %a = ascend.MatMulV2 %q, %w offset_x -9 : (tensor<1x3xi8>, tensor<3x2xi8>) -> tensor<1x2xi32>
  %y = ascend.AscendRequant %a, %s offset 3.0 : (tensor<1x2xi32>, tensor<1xf32>) -> tensor<1x2xi8>
  func.return %y : tensor<1x2xi8>
}
