// RUN: amct-opt %s --split-input-file --verify-diagnostics --canonicalize | filecheck %s

// Each part is a module of its own: an error in one, located in the whole file, does not hide the next.

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @first
func.func @first(%x: tensor<2xf32>) -> tensor<2xf32> {
  func.return %x : tensor<2xf32>
}

// CHECK:       // -----
// CHECK-NEXT:  {{.*}}split-input-file.mlir:17:16: error: %z is used but not defined

// -----

func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = nn.relu %z : tensor<2xf32>
  func.return %y : tensor<2xf32>
}

// -----

// CHECK:       // -----
// CHECK-NEXT:  builtin.module {
// CHECK-NEXT:    func.func @first
func.func @first(%x: tensor<2xf32>) -> tensor<2xf32> {
  func.return %x : tensor<2xf32>
}
