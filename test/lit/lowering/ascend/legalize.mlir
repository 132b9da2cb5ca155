// RUN: amct-opt %s --split-input-file --verify-diagnostics --lower-to-ascend --legalize-ascend --remarks=missed 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks
// RUN: amct-opt %s --split-input-file --verify-diagnostics --legalize-ascend 2>/dev/null | filecheck %s --check-prefix BEFORE

// Constants stay what they are.
// CHECK:       func.func @lowered
// CHECK-NEXT:    nn.constant
// CHECK-NEXT:    ascend.Add
// BEFORE:      legalize.mlir:13:3: error: 'nn.add' op is not of the ascend dialect
// BEFORE-NEXT:   hint: run --lower-to-ascend first
func.func @lowered(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %c = nn.constant dense<1.0> : tensor<3xf32>
  %y = nn.add %x, %c : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}

// -----

// REMARK:      [lower-to-ascend missed per-tensor-activation] "d"
// One error for each, with the reason why it was not lowered: AscendQuant has no scale per channel.
// CHECK:       error: 'nn.quantize' op is not of the ascend dialect
// CHECK-NEXT:    hint: {{.+}}
// CHECK-NEXT:  error: 'nn.dequantize' op is not of the ascend dialect
// CHECK-NEXT:    hint: {{.+}}
func.func @kept(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %q = nn.quantize %x by <i8, scale = [0.5, 1.0], axis = 0> : (tensor<2x3xf32>) -> tensor<2x3xi8>
  %d = nn.dequantize %q by <i8, scale = [0.5, 1.0], axis = 0> : (tensor<2x3xi8>) -> tensor<2x3xf32>
  func.return %d : tensor<2x3xf32>
}
