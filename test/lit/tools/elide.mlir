// RUN: amct-opt %s --elide 16 2> %t.err | filecheck %s
// RUN: filecheck %s --check-prefix NOTE --input-file %t.err
// RUN: amct-opt %s | amct-opt - | filecheck %s --check-prefix WHOLE

// CHECK: nn.constant #nn.external<"large", tensor<8xf32>, "32 bytes">
// CHECK-NEXT: nn.constant #nn.external<"small", tensor<4xf32>, "0x0000803F0000803F0000803F0000803F">
// NOTE: note: arrays printed by their size: 1; files (-o) and pipes get their bytes
// WHOLE: "0x0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F"
func.func @main(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<4xf32>) {
  %large = nn.constant #nn.external<"large", tensor<8xf32>, "0x0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F">
  %small = nn.constant #nn.external<"small", tensor<4xf32>, "0x0000803F0000803F0000803F0000803F">
  %y = nn.add %x, %large : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  func.return %y, %small : tensor<8xf32>, tensor<4xf32>
}
