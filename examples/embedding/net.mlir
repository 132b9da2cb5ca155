// Two dialects in one module: a network in nn, and a helper in arith, which only xDSL's own passes know.
func.func @main(%x: tensor<?x4xf32> {nn.name = "x"}) -> (tensor<?x2xf32> {nn.name = "y"}) {
  %w = nn.constant dense<[[1.0, -2.0], [0.5, 3.0], [-1.5, 0.25], [0.0, 1.0]]> : tensor<4x2xf32>
  %k = nn.constant dense<[2.0, 0.5]> : tensor<2xf32>
  %0 = nn.matmul %x, %w from <onnx, "MatMul", "fc"> : (tensor<?x4xf32>, tensor<4x2xf32>) -> tensor<?x2xf32>
  %1 = nn.mul %0, %k from <onnx, "Mul", "scale"> : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
  %2 = nn.relu %1 from <onnx, "Relu", "relu"> : tensor<?x2xf32>
  func.return %2 : tensor<?x2xf32>
}

func.func @offset(%i: index) -> index {
  %c4 = arith.constant 4 : index
  %a = arith.muli %i, %c4 : index
  %b = arith.muli %i, %c4 : index
  %c = arith.addi %a, %b : index
  func.return %c : index
}
