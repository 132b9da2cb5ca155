// RUN: amct-opt %s --infer-shapes='input-shape=data:2x3x8x?;x:0:5' | filecheck %s
// RUN: amct-opt %s --infer-shapes='input-shape=dat:2x3x8x8' --verify-diagnostics | filecheck %s --check-prefix UNKNOWN
// RUN: amct-opt %s --infer-shapes='input-shape=data:2x4x8x8' --verify-diagnostics | filecheck %s --check-prefix DECLARED
// RUN: amct-opt %s --infer-shapes='input-shape=data:2x3x8' --verify-diagnostics | filecheck %s --check-prefix RANK
// RUN: amct-opt %s --infer-shapes='input-shape=data:2x3x?x?;ids:3x5' --verify-diagnostics | filecheck %s --check-prefix NAMED
// RUN: amct-opt %s --infer-shapes='input-shape=data:2xax8x8' --verify-diagnostics | filecheck %s --check-prefix MALFORMED
// RUN: amct-opt %s --infer-shapes='input-shape=ids:1x5;ids:1x5' --verify-diagnostics | filecheck %s --check-prefix TWICE
// RUN: amct-opt %s -p 'infer-shapes{input-shape="ids:4x16"}' | filecheck %s --check-prefix PIPELINE

// The batch is set through its name in both inputs; `?` leaves a size open; the last colon separates the name.
// CHECK:      @main(%data: tensor<2x3x8x?xf32>
// CHECK-SAME: %ids: tensor<2x?xi64>
// CHECK-SAME: %x: tensor<5xf32> {nn.name = "x:0"}
// CHECK-SAME: -> (tensor<2x3x8x?xf32>, tensor<2x?xi64>, tensor<5xf32>)
// CHECK:      nn.relu %data : tensor<2x3x8x?xf32>

// PIPELINE: @main(%data: tensor<4x3x?x?xf32> {{.*}}, %ids: tensor<4x16xi64>

// UNKNOWN:      infer-shapes-input-shape.mlir:{{[0-9]+}}:1: error: the model has no input dat
// UNKNOWN-NEXT: hint: the inputs are data, ids, x:0
// DECLARED:     error: input 'data': declared and given sizes differ: 3 and 4
// RANK:         error: input 'data': declared and given sizes differ in rank: [?, 3, ?, ?] and [2, 3, 8]
// NAMED:        error: input 'ids': sizes of dimension 'N' differ: 2 and 3
// MALFORMED:    error: --infer-shapes: input-shape: 'data:2xax8x8' is malformed
// TWICE:        error: --infer-shapes: input-shape: 'ids' is given twice
func.func @main(
    %data: tensor<?x3x?x?xf32> {nn.name = "data", nn.dims = ["N", "", "", ""]},
    %ids: tensor<?x?xi64> {nn.name = "ids", nn.dims = ["N", ""]},
    %x: tensor<?xf32> {nn.name = "x:0"}) -> (tensor<?x3x?x?xf32>, tensor<?x?xi64>, tensor<?xf32>) {
  %r = nn.relu %data : tensor<?x3x?x?xf32>
  %i = nn.abs %ids : tensor<?x?xi64>
  %y = nn.relu %x : tensor<?xf32>
  func.return %r, %i, %y : tensor<?x3x?x?xf32>, tensor<?x?xi64>, tensor<?xf32>
}
