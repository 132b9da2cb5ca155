// One case for each condition.
// RUN: amct-opt %s --rotate --remarks=all 2>&1 >/dev/null | filecheck %s

// CHECK-DAG: [rotate missed writer] "norm.writer": 'nn.tanh' tanh writes it, which is neither a linear layer, an embedding nor an addition of these
// CHECK-DAG: [rotate missed graph-output] "norm.output": it is an output of the model
// CHECK-DAG: [rotate missed reader] "norm.reader": 'nn.relu' relu reads it, which is not a linear layer
// CHECK-DAG: [rotate missed float32] "norm.half": f16 would round what is rotated
// CHECK-DAG: [rotate missed constant-bias] "norm.bias": the bias of biased is computed at run time
// CHECK-DAG: [rotate missed size] "norm.three": no Hadamard matrix of 3 channels is known
// CHECK-DAG: [rotate missed stream] "norm.shape": 'nn.add' offset adds something of another shape to it
// CHECK-DAG: [rotate missed scale] "norm.scale": 'nn.mul' rows does not scale channels
// CHECK-DAG: [rotate missed reader] "read": the values of heads, split, are read elsewhere as well
// CHECK-DAG: [rotate missed heads] "all": its 8 inputs are not all heads of 2 side by side
// CHECK-DAG: [rotate missed values] "active": 'nn.sigmoid' sigmoid gives it values, which is not a linear layer
func.func @main(%i: tensor<2xi64>, %x: tensor<1x2x4xf32>, %p: tensor<1x2x2x2xf32>, %b: tensor<4xf32>)
    -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf16>, tensor<2x4xf32>, tensor<2x3xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<1x2x4xf32>, tensor<1x1x4xf32>, tensor<1x2x4xf32>, tensor<1x2x2x2xf32>, tensor<2x4xf32>, tensor<1x2x4xf32>) {
  %t = nn.constant dense<1.0> : tensor<3x4xf32>
  %w = nn.constant dense<1.0> : tensor<4x4xf32>
  %half = nn.constant dense<1.0> : tensor<4x4xf16>
  %three = nn.constant dense<1.0> : tensor<3x3xf32>
  %w8 = nn.constant dense<1.0> : tensor<8x4xf32>
  %o = nn.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %r = nn.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32>

  %e1 = nn.gather %t, %i : (tensor<3x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %x1 = nn.tanh %e1 from <onnx, "Tanh", "tanh"> : tensor<2x4xf32>
  %s1 = nn.mul %x1, %x1 : tensor<2x4xf32>
  %m1 = nn.reduce_mean %s1 axes [-1] keepdims : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %n1 = nn.div %x1, %m1 from <onnx, "Div", "norm.writer"> : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %y1 = nn.matmul %n1, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>

  %x2 = nn.gather %t, %i : (tensor<3x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %s2 = nn.mul %x2, %x2 : tensor<2x4xf32>
  %m2 = nn.reduce_mean %s2 axes [-1] keepdims : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %n2 = nn.div %x2, %m2 from <onnx, "Div", "norm.output"> : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %y2 = nn.matmul %n2, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>

  %x3 = nn.gather %t, %i : (tensor<3x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %s3 = nn.mul %x3, %x3 : tensor<2x4xf32>
  %m3 = nn.reduce_mean %s3 axes [-1] keepdims : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %n3 = nn.div %x3, %m3 from <onnx, "Div", "norm.reader"> : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %a3 = nn.relu %n3 from <onnx, "Relu", "relu"> : tensor<2x4xf32>
  %y3 = nn.matmul %a3, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>

  %x4 = nn.gather %half, %i : (tensor<4x4xf16>, tensor<2xi64>) -> tensor<2x4xf16>
  %s4 = nn.mul %x4, %x4 : tensor<2x4xf16>
  %m4 = nn.reduce_mean %s4 axes [-1] keepdims : (tensor<2x4xf16>) -> tensor<2x1xf16>
  %n4 = nn.div %x4, %m4 from <onnx, "Div", "norm.half"> : (tensor<2x4xf16>, tensor<2x1xf16>) -> tensor<2x4xf16>
  %y4 = nn.matmul %n4, %half : (tensor<2x4xf16>, tensor<4x4xf16>) -> tensor<2x4xf16>

  %x5 = nn.gather %t, %i : (tensor<3x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %s5 = nn.mul %x5, %x5 : tensor<2x4xf32>
  %m5 = nn.reduce_mean %s5 axes [-1] keepdims : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %n5 = nn.div %x5, %m5 from <onnx, "Div", "norm.bias"> : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %y5 = nn.matmul %n5, %w, %b from <onnx, "MatMul", "biased"> : (tensor<2x4xf32>, tensor<4x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>

  %x6 = nn.gather %three, %i : (tensor<3x3xf32>, tensor<2xi64>) -> tensor<2x3xf32>
  %s6 = nn.mul %x6, %x6 : tensor<2x3xf32>
  %m6 = nn.reduce_mean %s6 axes [-1] keepdims : (tensor<2x3xf32>) -> tensor<2x1xf32>
  %n6 = nn.div %x6, %m6 from <onnx, "Div", "norm.three"> : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  %y6 = nn.matmul %n6, %three : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>

  %e7 = nn.gather %t, %i : (tensor<3x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %x7 = nn.add %e7, %o from <onnx, "Add", "offset"> : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %s7 = nn.mul %x7, %x7 : tensor<2x4xf32>
  %m7 = nn.reduce_mean %s7 axes [-1] keepdims : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %n7 = nn.div %x7, %m7 from <onnx, "Div", "norm.shape"> : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %y7 = nn.matmul %n7, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>

  %x8 = nn.gather %t, %i : (tensor<3x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %s8 = nn.mul %x8, %x8 : tensor<2x4xf32>
  %m8 = nn.reduce_mean %s8 axes [-1] keepdims : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %n8 = nn.div %x8, %m8 from <onnx, "Div", "norm.scale"> : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %a8 = nn.mul %n8, %r from <onnx, "Mul", "rows"> : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %y8 = nn.matmul %a8, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>

  %l9 = nn.matmul %x, %w : (tensor<1x2x4xf32>, tensor<4x4xf32>) -> tensor<1x2x4xf32>
  %h9 = nn.reshape %l9 to [1, 2, 2, 2] from <onnx, "Reshape", "split"> : (tensor<1x2x4xf32>) -> tensor<1x2x2x2xf32>
  %v9 = nn.transpose %h9 perm [0, 2, 1, 3] : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %a9 = nn.matmul %p, %v9 : (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %c9 = nn.transpose %a9 perm [0, 2, 1, 3] : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %j9 = nn.reshape %c9 to [1, 2, 4] : (tensor<1x2x2x2xf32>) -> tensor<1x2x4xf32>
  %y9 = nn.matmul %j9, %w from <onnx, "MatMul", "read"> : (tensor<1x2x4xf32>, tensor<4x4xf32>) -> tensor<1x2x4xf32>

  %l10 = nn.matmul %x, %w : (tensor<1x2x4xf32>, tensor<4x4xf32>) -> tensor<1x2x4xf32>
  %h10 = nn.reshape %l10 to [1, 2, 2, 2] : (tensor<1x2x4xf32>) -> tensor<1x2x2x2xf32>
  %a10 = nn.matmul %p, %h10 : (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %c10 = nn.transpose %a10 perm [0, 2, 1, 3] : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %j10 = nn.reshape %c10 to [1, 1, 8] : (tensor<1x2x2x2xf32>) -> tensor<1x1x8xf32>
  %y10 = nn.matmul %j10, %w8 from <onnx, "MatMul", "all"> : (tensor<1x1x8xf32>, tensor<8x4xf32>) -> tensor<1x1x4xf32>

  %l11 = nn.matmul %x, %w : (tensor<1x2x4xf32>, tensor<4x4xf32>) -> tensor<1x2x4xf32>
  %h11 = nn.reshape %l11 to [1, 2, 2, 2] : (tensor<1x2x4xf32>) -> tensor<1x2x2x2xf32>
  %g11 = nn.sigmoid %h11 from <onnx, "Sigmoid", "sigmoid"> : tensor<1x2x2x2xf32>
  %a11 = nn.matmul %p, %g11 : (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %c11 = nn.transpose %a11 perm [0, 2, 1, 3] : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %j11 = nn.reshape %c11 to [1, 2, 4] : (tensor<1x2x2x2xf32>) -> tensor<1x2x4xf32>
  %y11 = nn.matmul %j11, %w from <onnx, "MatMul", "active"> : (tensor<1x2x4xf32>, tensor<4x4xf32>) -> tensor<1x2x4xf32>

  // Nothing is wrong with a stream of its own, and with the values of these heads.
  %x12 = nn.gather %t, %i : (tensor<3x4xf32>, tensor<2xi64>) -> tensor<2x4xf32>
  %s12 = nn.mul %x12, %x12 : tensor<2x4xf32>
  %m12 = nn.reduce_mean %s12 axes [-1] keepdims : (tensor<2x4xf32>) -> tensor<2x1xf32>
  %n12 = nn.div %x12, %m12 : (tensor<2x4xf32>, tensor<2x1xf32>) -> tensor<2x4xf32>
  %a12 = nn.mul %n12, %o : (tensor<2x4xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  %y12 = nn.matmul %a12, %w : (tensor<2x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>

  %l13 = nn.matmul %x, %w : (tensor<1x2x4xf32>, tensor<4x4xf32>) -> tensor<1x2x4xf32>
  %h13 = nn.reshape %l13 to [1, 2, 2, 2] : (tensor<1x2x4xf32>) -> tensor<1x2x2x2xf32>
  %v13 = nn.transpose %h13 perm [0, 2, 1, 3] : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %a13 = nn.matmul %p, %v13 : (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %c13 = nn.transpose %a13 perm [0, 2, 1, 3] : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %j13 = nn.reshape %c13 to [1, 2, 4] : (tensor<1x2x2x2xf32>) -> tensor<1x2x4xf32>
  %y13 = nn.matmul %j13, %w : (tensor<1x2x4xf32>, tensor<4x4xf32>) -> tensor<1x2x4xf32>
  func.return %y1, %x2, %y2, %y3, %y4, %y5, %y6, %y7, %y8, %y9, %y10, %y11, %h9, %y12, %y13 : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf16>, tensor<2x4xf32>, tensor<2x3xf32>, tensor<2x4xf32>, tensor<2x4xf32>, tensor<1x2x4xf32>, tensor<1x1x4xf32>, tensor<1x2x4xf32>, tensor<1x2x2x2xf32>, tensor<2x4xf32>, tensor<1x2x4xf32>
}
