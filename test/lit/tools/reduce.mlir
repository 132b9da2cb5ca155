// RUN: amct reduce %s --command '! grep -q nn.sigmoid {}' -o %t | filecheck %s
// RUN: filecheck %s --check-prefix=TEXT < %t.mlir
// RUN: amct-opt %t.onnx | filecheck %s --check-prefix=TEXT
// RUN: amct reduce %s --command 'amct-opt {} --no-such-pass' -o %t | filecheck %s --check-prefix=ANY
// RUN: not amct reduce %s --command 'amct-opt {}' -o %t 2>&1 | filecheck %s --check-prefix=FINE
// RUN: not amct reduce %t.onnx --command 'false {}' --input-shape x:1,4 -o %t 2>&1 | filecheck %s --check-prefix=ONNX

// As few operations, as small, as make the command fail the same way; written as module text and as ONNX.

// CHECK: 1 of 4 operations, after {{[0-9]+}} runs of the command, still fail: status 1
// CHECK: written: {{.*}}.mlir, {{.*}}.onnx
// TEXT: func.func @main(%{{.*}}: tensor<1x1xf32>
// TEXT-NEXT: nn.sigmoid
// TEXT-NEXT: func.return
// ANY: 1 of 4 operations, {{.*}} still fail: status 2
// FINE: reduce.mlir: error: the command does not fail on this model
// ONNX: error: an ONNX model is reduced as it is: it takes no options of how it is read

func.func @main(%x: tensor<2x4xf32>) -> tensor<2x3xf32> {
  %w = nn.constant dense<0.25> : tensor<4x3xf32>
  %y = nn.relu %x from <onnx, "Relu", "first"> : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %z = nn.matmul %y, %w from <onnx, "MatMul", "second"> : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  %u = nn.sigmoid %z from <onnx, "Sigmoid", "third"> : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %v = nn.abs %u from <onnx, "Abs", "fourth"> : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %v : tensor<2x3xf32>
}
