// What ONNX writes in another form, or computes otherwise, is told.
// RUN: amct-opt %s -t onnx -o %t.onnx --remarks=all 2>&1 | filecheck %s

// CHECK: [convert-layout applied layout] "z": nn.max_pool takes its input as nchw
// CHECK: [onnx analysis cubic-steps] "y": ONNX computes cubic weights where elements lie
func.func @main(%x: tensor<1x1x4x4xf32>) -> (tensor<1x1x7x7xf32>, tensor<1x1x4x4xf32>) {
  %y = nn.resize %x sizes [1, 1, 7, 7] mode cubic cubic_steps 1024 : (tensor<1x1x4x4xf32>) -> tensor<1x1x7x7xf32>
  %z = nn.max_pool %x kernel [1, 1] layout nhwc : tensor<1x1x4x4xf32>
  func.return %y, %z : tensor<1x1x7x7xf32>, tensor<1x1x4x4xf32>
}
