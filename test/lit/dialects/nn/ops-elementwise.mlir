// RUN: ROUNDTRIP | filecheck %s

// Activations, arithmetic, comparison.

// CHECK-LABEL: func.func @activations(
func.func @activations(%x: tensor<?x3xf32>, %s: tensor<3xf32>) {
  // CHECK-NEXT: %relu = nn.relu %x : tensor<?x3xf32>
  %relu = nn.relu %x : tensor<?x3xf32>
  // CHECK-NEXT: %relu6 = nn.relu6 %x : tensor<?x3xf32>
  %relu6 = nn.relu6 %x : tensor<?x3xf32>
  // CHECK-NEXT: %clip = nn.clip %x : tensor<?x3xf32>
  %clip = nn.clip %x : tensor<?x3xf32>
  // CHECK-NEXT: %bound = nn.clip %x min -0.1 max 16777217.0 : tensor<?x3xf32>
  %bound = nn.clip %x min -0.1 max 16777217.0 : tensor<?x3xf32>
  // CHECK-NEXT: %open = nn.clip %x min -inf max inf : tensor<?x3xf32>
  %open = nn.clip %x min -inf max inf : tensor<?x3xf32>
  // CHECK-NEXT: %leaky = nn.leaky_relu %x : tensor<?x3xf32>
  %leaky = nn.leaky_relu %x : tensor<?x3xf32>
  // CHECK-NEXT: %leakier = nn.leaky_relu %x alpha 0.2 : tensor<?x3xf32>
  %leakier = nn.leaky_relu %x alpha 0.2 : tensor<?x3xf32>
  // CHECK-NEXT: %prelu = nn.prelu %x, %s : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  %prelu = nn.prelu %x, %s : (tensor<?x3xf32>, tensor<3xf32>) -> tensor<?x3xf32>
  // CHECK-NEXT: %elu = nn.elu %x alpha 0.5 : tensor<?x3xf32>
  %elu = nn.elu %x alpha 0.5 : tensor<?x3xf32>
  // CHECK-NEXT: %selu = nn.selu %x alpha 1.5 gamma 1.25 : tensor<?x3xf32>
  %selu = nn.selu %x alpha 1.5 gamma 1.25 : tensor<?x3xf32>
  // CHECK-NEXT: %hard = nn.hard_sigmoid %x alpha 0.1666667 beta 0.4 : tensor<?x3xf32>
  %hard = nn.hard_sigmoid %x alpha 0.1666667 beta 0.4 : tensor<?x3xf32>
  // CHECK-NEXT: %shrunk = nn.hard_shrink %x lambd 0.25 : tensor<?x3xf32>
  %shrunk = nn.hard_shrink %x lambd 0.25 : tensor<?x3xf32>
  // CHECK-NEXT: %swish = nn.hard_swish %x : tensor<?x3xf32>
  %swish = nn.hard_swish %x : tensor<?x3xf32>
  // CHECK-NEXT: %gelu = nn.gelu %x : tensor<?x3xf32>
  %gelu = nn.gelu %x : tensor<?x3xf32>
  // CHECK-NEXT: %fast = nn.gelu %x tanh_approximation : tensor<?x3xf32>
  %fast = nn.gelu %x tanh_approximation : tensor<?x3xf32>
  // CHECK-NEXT: %sigmoid = nn.sigmoid %x : tensor<?x3xf32>
  %sigmoid = nn.sigmoid %x : tensor<?x3xf32>
  // CHECK-NEXT: %tanh = nn.tanh %x : tensor<?x3xf32>
  %tanh = nn.tanh %x : tensor<?x3xf32>
  // CHECK-NEXT: %softplus = nn.softplus %x : tensor<?x3xf32>
  %softplus = nn.softplus %x : tensor<?x3xf32>
  // CHECK-NEXT: %softsign = nn.softsign %x : tensor<?x3xf32>
  %softsign = nn.softsign %x : tensor<?x3xf32>
  // CHECK-NEXT: %mish = nn.mish %x : tensor<?x3xf32>
  %mish = nn.mish %x : tensor<?x3xf32>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @unary(
func.func @unary(%x: tensor<2xbf16>, %b: tensor<2xi1>) {
  // CHECK-NEXT: %sin = nn.sin %x : tensor<2xbf16>
  %sin = nn.sin %x : tensor<2xbf16>
  // CHECK-NEXT: %cos = nn.cos %x : tensor<2xbf16>
  %cos = nn.cos %x : tensor<2xbf16>
  // CHECK-NEXT: %erf = nn.erf %x : tensor<2xbf16>
  %erf = nn.erf %x : tensor<2xbf16>
  // CHECK-NEXT: %exp = nn.exp %x : tensor<2xbf16>
  %exp = nn.exp %x : tensor<2xbf16>
  // CHECK-NEXT: %log = nn.log %x : tensor<2xbf16>
  %log = nn.log %x : tensor<2xbf16>
  // CHECK-NEXT: %sqrt = nn.sqrt %x : tensor<2xbf16>
  %sqrt = nn.sqrt %x : tensor<2xbf16>
  // CHECK-NEXT: %rsqrt = nn.rsqrt %x : tensor<2xbf16>
  %rsqrt = nn.rsqrt %x : tensor<2xbf16>
  // CHECK-NEXT: %reciprocal = nn.reciprocal %x : tensor<2xbf16>
  %reciprocal = nn.reciprocal %x : tensor<2xbf16>
  // CHECK-NEXT: %neg = nn.neg %x : tensor<2xbf16>
  %neg = nn.neg %x : tensor<2xbf16>
  // CHECK-NEXT: %abs = nn.abs %x : tensor<2xbf16>
  %abs = nn.abs %x : tensor<2xbf16>
  // CHECK-NEXT: %floor = nn.floor %x : tensor<2xbf16>
  %floor = nn.floor %x : tensor<2xbf16>
  // CHECK-NEXT: %ceil = nn.ceil %x : tensor<2xbf16>
  %ceil = nn.ceil %x : tensor<2xbf16>
  // CHECK-NEXT: %round = nn.round %x : tensor<2xbf16>
  %round = nn.round %x : tensor<2xbf16>
  // CHECK-NEXT: %not = nn.not %b : tensor<2xi1>
  %not = nn.not %b : tensor<2xi1>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @binary(
func.func @binary(%x: tensor<?x1x3xf32>, %y: tensor<4x?xf32>, %n: tensor<3xi64>, %b: tensor<2x1xi1>, %s: tensor<f32>) {
  // CHECK-NEXT: %add = nn.add %x, %y : (tensor<?x1x3xf32>, tensor<4x?xf32>) -> tensor<?x4x3xf32>
  %add = nn.add %x, %y : (tensor<?x1x3xf32>, tensor<4x?xf32>) -> tensor<?x4x3xf32>
  // CHECK-NEXT: %sub = nn.sub %x, %x : tensor<?x1x3xf32>
  %sub = nn.sub %x, %x : tensor<?x1x3xf32>
  // CHECK-NEXT: %mul = nn.mul %s, %x : (tensor<f32>, tensor<?x1x3xf32>) -> tensor<?x1x3xf32>
  %mul = nn.mul %s, %x : (tensor<f32>, tensor<?x1x3xf32>) -> tensor<?x1x3xf32>
  // CHECK-NEXT: %div = nn.div %n, %n : tensor<3xi64>
  %div = nn.div %n, %n : tensor<3xi64>
  // CHECK-NEXT: %min = nn.min %x, %s : (tensor<?x1x3xf32>, tensor<f32>) -> tensor<?x1x3xf32>
  %min = nn.min %x, %s : (tensor<?x1x3xf32>, tensor<f32>) -> tensor<?x1x3xf32>
  // CHECK-NEXT: %max = nn.max %s, %s : tensor<f32>
  %max = nn.max %s, %s : tensor<f32>
  // CHECK-NEXT: %pow = nn.pow %x, %n : (tensor<?x1x3xf32>, tensor<3xi64>) -> tensor<?x1x3xf32>
  %pow = nn.pow %x, %n : (tensor<?x1x3xf32>, tensor<3xi64>) -> tensor<?x1x3xf32>
  // CHECK-NEXT: %and = nn.and %b, %b : tensor<2x1xi1>
  %and = nn.and %b, %b : tensor<2x1xi1>
  // CHECK-NEXT: %or = nn.or %b, %b : tensor<2x1xi1>
  %or = nn.or %b, %b : tensor<2x1xi1>
  // CHECK-NEXT: %eq = nn.compare %n, %n predicate eq : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi1>
  %eq = nn.compare %n, %n predicate eq : (tensor<3xi64>, tensor<3xi64>) -> tensor<3xi1>
  // CHECK-NEXT: %ne = nn.compare %s, %x predicate ne : (tensor<f32>, tensor<?x1x3xf32>) -> tensor<?x1x3xi1>
  %ne = nn.compare %s, %x predicate ne : (tensor<f32>, tensor<?x1x3xf32>) -> tensor<?x1x3xi1>
  // CHECK-NEXT: %where = nn.where %b, %s, %x : (tensor<2x1xi1>, tensor<f32>, tensor<?x1x3xf32>) -> tensor<?x2x3xf32>
  %where = nn.where %b, %s, %x : (tensor<2x1xi1>, tensor<f32>, tensor<?x1x3xf32>) -> tensor<?x2x3xf32>
  // CHECK-NEXT: %cast = nn.cast %n : (tensor<3xi64>) -> tensor<3xui8>
  %cast = nn.cast %n : (tensor<3xi64>) -> tensor<3xui8>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @predicates(
func.func @predicates(%x: tensor<f16>) {
  // CHECK-NEXT: %lt = nn.compare %x, %x predicate lt : (tensor<f16>, tensor<f16>) -> tensor<i1>
  %lt = nn.compare %x, %x predicate lt : (tensor<f16>, tensor<f16>) -> tensor<i1>
  // CHECK-NEXT: %le = nn.compare %x, %x predicate le : (tensor<f16>, tensor<f16>) -> tensor<i1>
  %le = nn.compare %x, %x predicate le : (tensor<f16>, tensor<f16>) -> tensor<i1>
  // CHECK-NEXT: %gt = nn.compare %x, %x predicate gt : (tensor<f16>, tensor<f16>) -> tensor<i1>
  %gt = nn.compare %x, %x predicate gt : (tensor<f16>, tensor<f16>) -> tensor<i1>
  // CHECK-NEXT: %ge = nn.compare %x, %x predicate ge : (tensor<f16>, tensor<f16>) -> tensor<i1>
  %ge = nn.compare %x, %x predicate ge : (tensor<f16>, tensor<f16>) -> tensor<i1>
  // CHECK-NEXT: func.return
  func.return
}
