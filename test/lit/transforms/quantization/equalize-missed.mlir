// One case for each condition.
// RUN: amct-opt %s --equalize='skip-layers=inner' --remarks=all 2>&1 >/dev/null | filecheck %s

// CHECK-DAG: [equalize missed constant-weight] "computed": the weight of computed is not a constant of floats
// CHECK-DAG: [equalize missed constant-bias] "bias": its bias is computed at run time
// CHECK-DAG: [equalize missed float16] "half": its numbers are of float16, which scaling could take out of range
// CHECK-DAG: [equalize missed channels] "vector": its weight is a vector: it has no output channels
// CHECK-DAG: [equalize missed graph-output] "output": its result is an output of the model
// CHECK-DAG: [equalize missed region] "bounded": 'nn.relu6' six bounds it inside a fused region
// CHECK-DAG: [equalize missed homogeneous] "summed": 'nn.add' sum reads its result, and does not scale with it
// CHECK-DAG: [equalize missed homogeneous] "weights": 'nn.conv' reading reads its result, and does not scale with it
// CHECK-DAG: [equalize missed homogeneous] "observed": 'nn.observe' {{.*}} reads its result, and does not scale with it
// CHECK-DAG: [equalize missed channels] "mixed": 'nn.reduce_mean' mean does not keep its channels apart
// CHECK-DAG: [equalize missed channels] "across": product reads it along another axis than its channels
// CHECK-DAG: [equalize missed constant-weight] "into": the weight of computed is not a constant of floats
// CHECK-DAG: [equalize missed region] "into-region": inner reads what its fused region computes
// CHECK-DAG: [equalize missed reader] "unread": nothing reads its result
// CHECK-DAG: [equalize missed channels] "norm": it normalizes over several axes
// CHECK-DAG: [equalize missed constant-weight] "norm2": its factors are not constants of floats
// CHECK-DAG: [equalize missed product] "gate": the other operand of a product is divided, which its readers read
// CHECK-DAG: [equalize missed no-gain] "even": no factors make its readers' errors a fifth smaller
// CHECK-DAG: [equalize missed exact] "tiny": its numbers times powers of two leave the range of their type
func.func @main(%x: tensor<1x2x2x2xf32>, %v: tensor<2x2x1x1xf32>, %c: tensor<2xf32>, %h: tensor<1x2x2x2xf16>, %n: tensor<2x2x2xf32>)
    -> (tensor<1x2x2x2xf32>, tensor<2xf32>, tensor<1x2x2x2xf32>, tensor<1x2x2x2xf16>, tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %wh = nn.constant dense<1.0> : tensor<2x2x1x1xf16>
  %u = nn.constant dense<1.0> : tensor<2xf32>
  %m = nn.constant dense<1.0> : tensor<2x2xf32>

  %into = nn.conv %x, %w from <onnx, "Conv", "into"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %computed = nn.conv %into, %v from <onnx, "Conv", "computed"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %bias = nn.conv %x, %w, %c from <onnx, "Conv", "bias"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %half = nn.conv %h, %wh from <onnx, "Conv", "half"> : (tensor<1x2x2x2xf16>, tensor<2x2x1x1xf16>) -> tensor<1x2x2x2xf16>
  %flat = nn.reshape %x to [4, 2] : (tensor<1x2x2x2xf32>) -> tensor<4x2xf32>
  %vector = nn.matmul %flat, %u from <onnx, "MatMul", "vector"> : (tensor<4x2xf32>, tensor<2xf32>) -> tensor<4xf32>
  %output = nn.conv %x, %w from <onnx, "Conv", "output"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>

  %bounded = nn.conv %x, %w from <onnx, "Conv", "bounded"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %six = nn.fused "ReluRelu" (%p = %bounded) : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
    %r6 = nn.relu6 %p from <onnx, "Clip", "six"> : tensor<1x2x2x2xf32>
    %r = nn.relu %r6 from <onnx, "Relu", "after"> : tensor<1x2x2x2xf32>
    nn.yield %r : tensor<1x2x2x2xf32>
  }
  %six.out = nn.conv %six, %w from <onnx, "Conv", "six.out"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %summed = nn.conv %x, %w from <onnx, "Conv", "summed"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %sum.in = nn.conv %summed, %w from <onnx, "Conv", "sum.in"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %sum = nn.add %summed, %sum.in from <onnx, "Add", "sum"> : tensor<1x2x2x2xf32>
  %weights = nn.conv %x, %w from <onnx, "Conv", "weights"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %reading = nn.conv %x, %weights from <onnx, "Conv", "reading"> : (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) -> tensor<1x1x1x1xf32>
  %observed = nn.conv %x, %w from <onnx, "Conv", "observed"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %o = nn.observe %observed as "observed:0" by "minmax" : tensor<1x2x2x2xf32>
  %o.out = nn.conv %o, %w from <onnx, "Conv", "o.out"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>

  %mixed = nn.conv %x, %w from <onnx, "Conv", "mixed"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %mean = nn.reduce_mean %mixed axes [1] from <onnx, "ReduceMean", "mean"> : (tensor<1x2x2x2xf32>) -> tensor<1x2x2xf32>
  %mixed.out = nn.matmul %mean, %m from <onnx, "MatMul", "mixed.out"> : (tensor<1x2x2xf32>, tensor<2x2xf32>) -> tensor<1x2x2xf32>
  %across = nn.conv %x, %w from <onnx, "Conv", "across"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %product = nn.matmul %across, %m from <onnx, "MatMul", "product"> : (tensor<1x2x2x2xf32>, tensor<2x2xf32>) -> tensor<1x2x2x2xf32>
  %unread = nn.conv %x, %w from <onnx, "Conv", "unread"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %f = nn.fused "ConvConv2d" (%p = %x, %q = %w) : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32> {
    %r = nn.conv %p, %q from <onnx, "Conv", "into-region"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
    %s = nn.conv %r, %q from <onnx, "Conv", "inner"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
    nn.yield %s : tensor<1x2x2x2xf32>
  }
  %norm = nn.layer_norm %n, %m axis 1 from <onnx, "LayerNormalization", "norm"> : (tensor<2x2x2xf32>, tensor<2x2xf32>) -> tensor<2x2x2xf32>
  %norm.out = nn.matmul %norm, %m from <onnx, "MatMul", "norm.out"> : (tensor<2x2x2xf32>, tensor<2x2xf32>) -> tensor<2x2x2xf32>
  %norm2 = nn.layer_norm %n, %c from <onnx, "LayerNormalization", "norm2"> : (tensor<2x2x2xf32>, tensor<2xf32>) -> tensor<2x2x2xf32>
  %norm2.out = nn.matmul %norm2, %m from <onnx, "MatMul", "norm2.out"> : (tensor<2x2x2xf32>, tensor<2x2xf32>) -> tensor<2x2x2xf32>

  %up = nn.conv %x, %w from <onnx, "Conv", "up"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %gate = nn.conv %x, %w from <onnx, "Conv", "gate"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %gated = nn.mul %up, %gate : tensor<1x2x2x2xf32>
  %down = nn.conv %gated, %w from <onnx, "Conv", "down"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %even = nn.conv %x, %w from <onnx, "Conv", "even"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %even.out = nn.conv %even, %w from <onnx, "Conv", "even.out"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %a = nn.constant dense<[[[[1.0e-3]], [[1.0e-40]]], [[[64.0]], [[1.0e-40]]]]> : tensor<2x2x1x1xf32>
  %b = nn.constant dense<[[[[1.0]], [[1.0e-4]]]]> : tensor<1x2x1x1xf32>
  %tiny = nn.conv %x, %a from <onnx, "Conv", "tiny"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %tiny.out = nn.conv %tiny, %b from <onnx, "Conv", "tiny.out"> : (tensor<1x2x2x2xf32>, tensor<1x2x1x1xf32>) -> tensor<1x1x2x2xf32>
  func.return %output, %u, %sum, %half, %six.out, %o.out : tensor<1x2x2x2xf32>, tensor<2xf32>, tensor<1x2x2x2xf32>, tensor<1x2x2x2xf16>, tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>
}
