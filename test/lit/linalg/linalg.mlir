// RUN: mkdir -p %t
// RUN: amct-opt %s -t linalg -o %t/p.mlir
// RUN: filecheck %s --check-prefix PARAMETERS < %t/p.mlir
// RUN: amct-opt %s --convert-to-linalg -o %t/c.mlir
// RUN: cmp %t/p.mlir %t/c.mlir
// RUN: amct-opt %s -t 'linalg{weights=resources}' -o %t/r.mlir
// RUN: filecheck %s --check-prefix RESOURCES < %t/r.mlir

// PARAMETERS:      util.global private @weight = #flow.parameter.named<"model"::"weight"> : tensor<5x4xf32>
// PARAMETERS:      func.func @main(%x: tensor<2x5xf32>) -> tensor<2x4xf32>
// PARAMETERS:      %weight = util.global.load @weight : tensor<5x4xf32>
// PARAMETERS:      linalg.matmul

// RESOURCES:       arith.constant dense_resource<weight> : tensor<5x4xf32>
// RESOURCES:       dialect_resources
// RESOURCES:       weight: "0x400000000000803F
func.func @main(%x: tensor<2x5xf32> {nn.name = "x"}) -> (tensor<2x4xf32> {nn.name = "y"}) {
  %weight = nn.constant #nn.external<"weight", tensor<5x4xf32>, "0x0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F0000803F">
  %y = nn.matmul %x, %weight : (tensor<2x5xf32>, tensor<5x4xf32>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}
