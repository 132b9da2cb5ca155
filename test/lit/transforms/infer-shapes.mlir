// RUN: amct-opt %s --infer-shapes --split-input-file --verify-diagnostics | filecheck %s

// Sizes that the operands imply replace `?`, down to the function's type; names of dimensions stay.
// CHECK-LABEL: @chain
// CHECK-SAME:  tensor<?x3x?x8xf32> {nn.dims = ["N", "", "", ""]}
// CHECK-SAME:  -> (tensor<?x4x?x8xf32> {nn.name = "y"})
// CHECK:       nn.conv {{.*}} -> tensor<?x4x?x8xf32>
// CHECK-NEXT:  nn.relu %c : tensor<?x4x?x8xf32>
// CHECK-NEXT:  func.return %r : tensor<?x4x?x8xf32>
func.func @chain(%x: tensor<?x3x?x8xf32> {nn.dims = ["N", "", "", ""]}) -> (tensor<?x?x?x?xf32> {nn.name = "y"}) {
  %w = nn.constant dense<1.0> : tensor<4x3x1x1xf32>
  %c = nn.conv %x, %w : (tensor<?x3x?x8xf32>, tensor<4x3x1x1xf32>) -> tensor<?x?x?x?xf32>
  %r = nn.relu %c : tensor<?x?x?x?xf32>
  func.return %r : tensor<?x?x?x?xf32>
}

// -----

// What is declared more exactly than it can be inferred stays.
// CHECK-LABEL: @declared
// CHECK:       nn.relu %x : (tensor<?x?xf32>) -> tensor<?x7xf32>
// CHECK-NEXT:  nn.abs %r : tensor<?x7xf32>
func.func @declared(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %r = nn.relu %x : (tensor<?x?xf32>) -> tensor<?x7xf32>
  %a = nn.abs %r : (tensor<?x7xf32>) -> tensor<?x?xf32>
  func.return %a : tensor<?x?xf32>
}

// -----

// The region of a fused operation is refined with its inputs.
// CHECK-LABEL: @fused
// CHECK:       nn.fused "ReLUAbs" ({{.*}}) : (tensor<2x5xf32>) -> tensor<2x5xf32> {
// CHECK-NEXT:    nn.relu {{.*}} : tensor<2x5xf32>
// CHECK-NEXT:    nn.abs {{.*}} : tensor<2x5xf32>
func.func @fused(%x: tensor<2x5xf32>) -> tensor<?x?xf32> {
  %t = nn.neg %x : (tensor<2x5xf32>) -> tensor<?x?xf32>
  %f = nn.fused "ReLUAbs" (%a = %t) : (tensor<?x?xf32>) -> tensor<?x?xf32> {
    %r = nn.relu %a : tensor<?x?xf32>
    %b = nn.abs %r : tensor<?x?xf32>
    nn.yield %b : tensor<?x?xf32>
  }
  func.return %f : tensor<?x?xf32>
}

// -----

// A size that only contradicts after its operand is known is an error at the operation.
// CHECK: infer-shapes.mlir:{{[0-9]+}}:3: error: 'nn.reshape' op [3, 4] has 12 elements, [2, 7] has 14
func.func @contradiction(%x: tensor<3x4xf32>) -> tensor<2x7xf32> {
  %a = nn.abs %x : (tensor<3x4xf32>) -> tensor<?x?xf32>
  // the reshape is legal as long as the sizes of its operand are not known
  %r = nn.reshape %a to [2, 7] : (tensor<?x?xf32>) -> tensor<2x7xf32>
  func.return %r : tensor<2x7xf32>
}

// -----

// The same where the declared result is what contradicts.
// CHECK: error: 'nn.transpose' op result is declared tensor<3x4xf32>, operands and properties give tensor<4x3xf32>
func.func @declared_contradiction(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %a = nn.abs %x : (tensor<3x4xf32>) -> tensor<?x?xf32>
  %r = nn.transpose %a perm [1, 0] : (tensor<?x?xf32>) -> tensor<3x4xf32>
  func.return %r : tensor<3x4xf32>
}
