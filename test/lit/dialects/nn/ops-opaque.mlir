// RUN: ROUNDTRIP | filecheck %s

// Operators of the source framework, carried with everything they had.

// CHECK-LABEL: func.func @main(
func.func @main(%x: tensor<4xf32>, %k: tensor<i64>) {
  // CHECK-NEXT: %i = nn.opaque %x framework "onnx" op_type "NonZero" version 13 : (tensor<4xf32>) -> tensor<1x?xi64>
  %i = nn.opaque %x framework "onnx" op_type "NonZero" version 13 : (tensor<4xf32>) -> tensor<1x?xi64>
  // CHECK-NEXT: %v, %j = nn.opaque %x, %k framework "onnx" op_type "TopK" domain "ai.onnx.ml" present [1, 0, 1] attrs {axis = -1 : i64, largest = 1 : i64} from <onnx, "TopK", "top"> : (tensor<4xf32>, tensor<i64>) -> (tensor<?xf32>, tensor<?xi64>)
  %v, %j = nn.opaque %x, %k framework "onnx" op_type "TopK" domain "ai.onnx.ml" present [1, 0, 1] attrs {axis = -1 : i64, largest = 1 : i64} from <onnx, "TopK", "top"> : (tensor<4xf32>, tensor<i64>) -> (tensor<?xf32>, tensor<?xi64>)
  // CHECK-NEXT: %c = nn.opaque framework "tensorflow" op_type "RandomUniform" : () -> tensor<4xf32>
  %c = nn.opaque framework "tensorflow" op_type "RandomUniform" : () -> tensor<4xf32>
  // CHECK-NEXT: %d = nn.opaque framework "tensorflow" op_type "X" attrs {T = f32, b = true, l = {{\[\]}}, n = array<i64: 1>, r = #nn.reals<[0.5]>, s = #nn.shape<[1, ?]>, u = [#nn.shape<*>, #nn.shape<{{\[\]}}>]} : () -> tensor<4xf32>
  %d = nn.opaque framework "tensorflow" op_type "X" attrs {T = f32, b = true, l = [], n = array<i64: 1>, r = #nn.reals<[0.5]>, s = #nn.shape<[1, ?]>, u = [#nn.shape<*>, #nn.shape<[]>]} : () -> tensor<4xf32>
  // CHECK-NEXT: nn.opaque %x framework "onnx" op_type "Sink" : (tensor<4xf32>) -> ()
  nn.opaque %x framework "onnx" op_type "Sink" : (tensor<4xf32>) -> ()
  // CHECK-NEXT: func.return
  func.return
}

// control flow is carried whole, its graph as bytes
// CHECK-LABEL: @graph
// CHECK: nn.opaque %c, %x framework "onnx" op_type "If" version 17 graph <dense<[1, 2, 3]> : tensor<3xui8>> : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
func.func @graph(%c: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %y = nn.opaque %c, %x framework "onnx" op_type "If" version 17 graph <dense<[1, 2, 3]> : tensor<3xui8>> : (tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}
