// RUN: ROUNDTRIP | filecheck %s

// Activations, arithmetic, cast.

// CHECK-LABEL: func.func @unary(
func.func @unary(%x: tensor<?x3xf32>) {
  // CHECK-NEXT: %relu = ascend.Relu %x : tensor<?x3xf32>
  %relu = ascend.Relu %x : tensor<?x3xf32>
  // CHECK-NEXT: %relu6 = ascend.Relu6 %x : tensor<?x3xf32>
  %relu6 = ascend.Relu6 %x : tensor<?x3xf32>
  // CHECK-NEXT: %elu = ascend.Elu %x : tensor<?x3xf32>
  %elu = ascend.Elu %x : tensor<?x3xf32>
  // CHECK-NEXT: %sigmoid = ascend.Sigmoid %x : tensor<?x3xf32>
  %sigmoid = ascend.Sigmoid %x : tensor<?x3xf32>
  // CHECK-NEXT: %tanh = ascend.Tanh %x : tensor<?x3xf32>
  %tanh = ascend.Tanh %x : tensor<?x3xf32>
  // CHECK-NEXT: %hardswish = ascend.HardSwish %x : tensor<?x3xf32>
  %hardswish = ascend.HardSwish %x : tensor<?x3xf32>
  // CHECK-NEXT: %gelu = ascend.Gelu %x : tensor<?x3xf32>
  %gelu = ascend.Gelu %x : tensor<?x3xf32>
  // CHECK-NEXT: %softplus = ascend.Softplus %x : tensor<?x3xf32>
  %softplus = ascend.Softplus %x : tensor<?x3xf32>
  // CHECK-NEXT: %mish = ascend.Mish %x : tensor<?x3xf32>
  %mish = ascend.Mish %x : tensor<?x3xf32>
  // CHECK-NEXT: %erf = ascend.Erf %x : tensor<?x3xf32>
  %erf = ascend.Erf %x : tensor<?x3xf32>
  // CHECK-NEXT: %exp = ascend.Exp %x : tensor<?x3xf32>
  %exp = ascend.Exp %x : tensor<?x3xf32>
  // CHECK-NEXT: %sqrt = ascend.Sqrt %x : tensor<?x3xf32>
  %sqrt = ascend.Sqrt %x : tensor<?x3xf32>
  // CHECK-NEXT: %rsqrt = ascend.Rsqrt %x : tensor<?x3xf32>
  %rsqrt = ascend.Rsqrt %x : tensor<?x3xf32>
  // CHECK-NEXT: %reciprocal = ascend.Reciprocal %x : tensor<?x3xf32>
  %reciprocal = ascend.Reciprocal %x : tensor<?x3xf32>
  // CHECK-NEXT: %neg = ascend.Neg %x : tensor<?x3xf32>
  %neg = ascend.Neg %x : tensor<?x3xf32>
  // CHECK-NEXT: %abs = ascend.Abs %x : tensor<?x3xf32>
  %abs = ascend.Abs %x : tensor<?x3xf32>
  // CHECK-NEXT: %hardsigmoid = ascend.HardSigmoid %x : tensor<?x3xf32>
  %hardsigmoid = ascend.HardSigmoid %x : tensor<?x3xf32>
  // CHECK-NEXT: %leaky = ascend.LeakyRelu %x negative_slope 0.2 : tensor<?x3xf32>
  %leaky = ascend.LeakyRelu %x negative_slope 0.2 : tensor<?x3xf32>
  // CHECK-NEXT: %elus = ascend.Elu %x alpha 1.5 scale 1.25 : tensor<?x3xf32>
  %elus = ascend.Elu %x alpha 1.5 scale 1.25 : tensor<?x3xf32>
  // CHECK-NEXT: %hard = ascend.HardSigmoid %x alpha 0.2 beta 0.4 : tensor<?x3xf32>
  %hard = ascend.HardSigmoid %x alpha 0.2 beta 0.4 : tensor<?x3xf32>
  // CHECK-NEXT: %cast = ascend.Cast %x dst_type 3 : (tensor<?x3xf32>) -> tensor<?x3xi32>
  %cast = ascend.Cast %x dst_type 3 : (tensor<?x3xf32>) -> tensor<?x3xi32>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @several(
func.func @several(%x: tensor<?x3x4xf32>, %y: tensor<4xf32>, %s: tensor<3xf32>) {
  // CHECK-NEXT: %low = nn.constant dense<-1.000000e+00> : tensor<f32>
  %low = nn.constant dense<-1.000000e+00> : tensor<f32>
  // CHECK-NEXT: %high = nn.constant dense<1.000000e+00> : tensor<1xf32>
  %high = nn.constant dense<1.000000e+00> : tensor<1xf32>
  // CHECK-NEXT: %add = ascend.Add %x, %y : (tensor<?x3x4xf32>, tensor<4xf32>) -> tensor<?x3x4xf32>
  %add = ascend.Add %x, %y : (tensor<?x3x4xf32>, tensor<4xf32>) -> tensor<?x3x4xf32>
  // CHECK-NEXT: %sub = ascend.Sub %x, %y : (tensor<?x3x4xf32>, tensor<4xf32>) -> tensor<?x3x4xf32>
  %sub = ascend.Sub %x, %y : (tensor<?x3x4xf32>, tensor<4xf32>) -> tensor<?x3x4xf32>
  // CHECK-NEXT: %mul = ascend.Mul %x, %y : (tensor<?x3x4xf32>, tensor<4xf32>) -> tensor<?x3x4xf32>
  %mul = ascend.Mul %x, %y : (tensor<?x3x4xf32>, tensor<4xf32>) -> tensor<?x3x4xf32>
  // CHECK-NEXT: %realdiv = ascend.RealDiv %x, %y : (tensor<?x3x4xf32>, tensor<4xf32>) -> tensor<?x3x4xf32>
  %realdiv = ascend.RealDiv %x, %y : (tensor<?x3x4xf32>, tensor<4xf32>) -> tensor<?x3x4xf32>
  // CHECK-NEXT: %maximum = ascend.Maximum %x, %y : (tensor<?x3x4xf32>, tensor<4xf32>) -> tensor<?x3x4xf32>
  %maximum = ascend.Maximum %x, %y : (tensor<?x3x4xf32>, tensor<4xf32>) -> tensor<?x3x4xf32>
  // CHECK-NEXT: %minimum = ascend.Minimum %x, %y : (tensor<?x3x4xf32>, tensor<4xf32>) -> tensor<?x3x4xf32>
  %minimum = ascend.Minimum %x, %y : (tensor<?x3x4xf32>, tensor<4xf32>) -> tensor<?x3x4xf32>
  // CHECK-NEXT: %pow = ascend.Pow %x, %y : (tensor<?x3x4xf32>, tensor<4xf32>) -> tensor<?x3x4xf32>
  %pow = ascend.Pow %x, %y : (tensor<?x3x4xf32>, tensor<4xf32>) -> tensor<?x3x4xf32>
  // CHECK-NEXT: %prelu = ascend.PRelu %x, %s : (tensor<?x3x4xf32>, tensor<3xf32>) -> tensor<?x3x4xf32>
  %prelu = ascend.PRelu %x, %s : (tensor<?x3x4xf32>, tensor<3xf32>) -> tensor<?x3x4xf32>
  // CHECK-NEXT: %clip = ascend.ClipByValue %x, %low, %high : (tensor<?x3x4xf32>, tensor<f32>, tensor<1xf32>) -> tensor<?x3x4xf32>
  %clip = ascend.ClipByValue %x, %low, %high : (tensor<?x3x4xf32>, tensor<f32>, tensor<1xf32>) -> tensor<?x3x4xf32>
  // CHECK-NEXT: func.return
  func.return
}
