// RUN: amct-opt %s --check --fuse-bias --canonicalize -o /dev/null 2>&1 | filecheck %s
// RUN: not amct-opt %s --check=none.npz --fuse-bias 2>&1 | filecheck %s --check-prefix=DATA

// Every pass runs next to the module before it, on synthetic inputs if none are given.

// CHECK: note: --check: 2 passes kept their numbers in 2 runs of synthetic inputs
// DATA: none.npz: error: there is no such file
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x3xf32> {
  %w = nn.constant dense<0.25> : tensor<4x3xf32>
  %b = nn.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %y = nn.matmul %x, %w from <onnx, "MatMul", "fc"> : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  %z = nn.add %y, %b from <onnx, "Add", "bias"> : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  func.return %z : tensor<2x3xf32>
}
