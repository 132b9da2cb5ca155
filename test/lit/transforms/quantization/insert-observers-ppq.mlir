// RUN: amct-opt %s --profile=ppq --insert-observers --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// A graph input has a point, an active operation's result has one, and everyone reads through it, the graph's output too.
// CHECK-LABEL: @active
// CHECK:       [[X:%.*]] = nn.observe %x as "conv1:0" by "mse"
// CHECK:       nn.conv [[X]], %weight
// CHECK:       [[A:%.*]] = nn.observe %a as "conv1:out" by "mse"
// CHECK:       nn.sigmoid [[A]]
// CHECK:       [[B:%.*]] = nn.observe %b as "b:out" by "mse"
// CHECK:       func.return [[A]], [[B]]
func.func @active(%x: tensor<1x2x4x4xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) {
  %weight = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %a = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %b = nn.sigmoid %a : tensor<1x2x4x4xf32>
  func.return %a, %b : tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>
}

// -----

// An activation takes over the point of the operation before it.
// CHECK-LABEL: @activation
// CHECK-NOT:   nn.observe %a
// CHECK:       nn.observe %b as "b:out"
// REMARK:      [insert-observers applied overlapped] "conv1": its result takes the point of b
func.func @activation(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %weight = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %a = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %b = nn.relu %a : tensor<1x2x4x4xf32>
  func.return %b : tensor<1x2x4x4xf32>
}

// -----

// Not where the result has another reader: a graph output is one.
// CHECK-LABEL: @activation_and_output
// CHECK:       nn.observe %a as "conv1:out"
// CHECK:       nn.observe %b as "b:out"
func.func @activation_and_output(%x: tensor<1x2x4x4xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) {
  %weight = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %a = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %b = nn.relu %a : tensor<1x2x4x4xf32>
  func.return %a, %b : tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>
}

// -----

// A linear activation takes over the point of any active operation.
// CHECK-LABEL: @linear_activation
// CHECK-NOT:   nn.observe %a
// CHECK:       nn.observe %b as "b:out"
func.func @linear_activation(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %a = nn.mul %x, %y : tensor<4xf32>
  %b = nn.relu6 %a : tensor<4xf32>
  func.return %b : tensor<4xf32>
}

// -----

// A region has one point, after it.
// CHECK-LABEL: @region
// CHECK:       [[X:%.*]] = nn.observe %x as "conv1:0"
// CHECK:       %y = nn.fused "ConvReLU2d" ({{%.*}} = [[X]], {{%.*}} = %weight)
// CHECK-NOT:   nn.observe
// CHECK:       nn.yield
// CHECK:       nn.observe %y as "conv1:out"
func.func @region(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %weight = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %y = nn.fused "ConvReLU2d" (%a = %x, %w = %weight) : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32> {
    %c = nn.conv %a, %w from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
    %r = nn.relu %c : tensor<1x2x4x4xf32>
    nn.yield %r : tensor<1x2x4x4xf32>
  }
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// The parameters of a passive operation's first input hold for all its results.
// CHECK-LABEL: @passive
// CHECK:       nn.observe %x as "p:0"
// CHECK-NOT:   nn.observe
// CHECK:       func.return
// REMARK:      [insert-observers applied overlapped] "p": its input's parameters hold for its results
// REMARK:      [insert-observers applied overlapped] "s"
func.func @passive(%x: tensor<1x2x4x4xf32>) -> (tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>, tensor<1x8xf32>) {
  %p = nn.max_pool %x kernel [2, 2] strides [2, 2] : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x2xf32>
  %s, %t = nn.split %p axis 1 sizes [1, 1] from <onnx, "Split", "s"> : (tensor<1x2x2x2xf32>) -> (tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>)
  %f = nn.flatten %p : (tensor<1x2x2x2xf32>) -> tensor<1x8xf32>
  func.return %s, %t, %f : tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>, tensor<1x8xf32>
}

// -----

// Padding with zero is passive; another number may lie outside the range: that pad stays float, its reader has a point. One that
// only cuts fills in nothing.
// CHECK-LABEL: @pads
// CHECK:       nn.observe %x as "a:0"
// CHECK-NOT:   nn.observe %a
// CHECK:       nn.observe %b as "r:0"
// REMARK:      [insert-observers missed pads-with-zero] "b": it pads with 7.0, which may not be among the input's values
// REMARK-NOT:  pads-with-zero] "c"
func.func @pads(%x: tensor<4xf32>) -> (tensor<6xf32>, tensor<6xf32>, tensor<3xf32>) {
  %a = nn.pad %x pads [1, 1] : (tensor<4xf32>) -> tensor<6xf32>
  %b = nn.pad %x pads [1, 1] value 7.0 : (tensor<4xf32>) -> tensor<6xf32>
  %r = nn.sigmoid %b : tensor<6xf32>
  %c = nn.pad %x pads [0, -1] value 7.0 : (tensor<4xf32>) -> tensor<3xf32>
  func.return %a, %r, %c : tensor<6xf32>, tensor<6xf32>, tensor<3xf32>
}

// -----

// What the profile has no row for stays float: it reads dequantized values, its result is observed for quantized readers.
// CHECK-LABEL: @float_between
// CHECK:       [[A:%.*]] = nn.observe %a as "a:out"
// CHECK:       %e = nn.exp [[A]]
// CHECK:       [[E:%.*]] = nn.observe %e as "b:0"
// CHECK:       nn.sigmoid [[E]]
// CHECK:       func.return %e
// REMARK:      [insert-observers missed not-in-profile] "e": profile ppq does not quantize this operation
func.func @float_between(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = nn.sigmoid %x : tensor<4xf32>
  %e = nn.exp %a : tensor<4xf32>
  %b = nn.sigmoid %e : tensor<4xf32>
  func.return %e, %b : tensor<4xf32>, tensor<4xf32>
}

// -----

// Weights that are not constants keep a convolution float; a matrix product takes two activations. Constants of others stay float.
// CHECK-LABEL: @operands
// CHECK:       [[X:%.*]] = nn.observe %x as "m:0"
// CHECK:       [[Y:%.*]] = nn.observe %y as "m:1"
// CHECK:       nn.matmul [[X]], [[Y]]
// REMARK:      [insert-observers missed weight-constant] "c": its weight is computed at run time
// REMARK:      [insert-observers analysis constant-operand] "k": its constant operand stays float
func.func @operands(%x: tensor<2x2xf32>, %y: tensor<2x2xf32>, %i: tensor<1x1x4xf32>, %w: tensor<1x1x1xf32>) -> (tensor<2x2xf32>, tensor<1x1x4xf32>) {
  %two = nn.constant dense<2.0> : tensor<2x2xf32>
  %m = nn.matmul %x, %y : tensor<2x2xf32>
  %k = nn.mul %m, %two : tensor<2x2xf32>
  %c = nn.conv %i, %w : (tensor<1x1x4xf32>, tensor<1x1x1xf32>) -> tensor<1x1x4xf32>
  func.return %k, %c : tensor<2x2xf32>, tensor<1x1x4xf32>
}

// -----

// Operands of an addition are a group, through passive operations; that of a concat follows its result.
// CHECK-LABEL: @aligned
// CHECK:       nn.observe %x as "p:0" by "mse" group "s"
// CHECK:       nn.observe %y as "s:1" by "mse" group "s"
// CHECK:       nn.observe %z as "c:1" by "mse" group "c"
// CHECK:       nn.observe %s as "s:out" by "mse" group "c"
// CHECK:       nn.observe %c as "c:out" by "mse" group "c" master
func.func @aligned(%x: tensor<4xf32>, %y: tensor<2x2xf32>, %z: tensor<2x2xf32>) -> tensor<4x2xf32> {
  %p = nn.reshape %x to [2, 2] : (tensor<4xf32>) -> tensor<2x2xf32>
  %s = nn.add %p, %y : tensor<2x2xf32>
  %c = nn.concat %s, %z axis 0 : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<4x2xf32>
  func.return %c : tensor<4x2xf32>
}

// -----

// What scales, masks and moves the input of Softmax has no point, nor has the mask: only the product before it.
// CHECK-LABEL: @masked
// CHECK-NOT:   nn.observe %mask
// CHECK:       [[P:%.*]] = nn.observe %p as "product:out"
// CHECK-NOT:   nn.observe
// CHECK:       nn.div [[P]]
// CHECK-NOT:   nn.observe
// CHECK:       nn.softmax
// REMARK-DAG:  [insert-observers missed softmax-input] "scale": it only feeds Softmax, which takes floats; masked scores (-10000, -inf) would widen its range
// REMARK-DAG:  [insert-observers missed softmax-input] "lowest": it only feeds Softmax
// REMARK-DAG:  [insert-observers missed softmax-input] "sum": it only feeds Softmax
func.func @masked(%q: tensor<2x4xf32>, %k: tensor<4x3xf32>, %mask: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %one = nn.constant dense<1.0> : tensor<f32>
  %low = nn.constant dense<-1.0e4> : tensor<f32>
  %two = nn.constant dense<2.0> : tensor<f32>
  %p = nn.matmul %q, %k from <onnx, "MatMul", "product"> : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  %d = nn.div %p, %two from <onnx, "Div", "scale"> : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %i = nn.sub %one, %mask from <onnx, "Sub", "invert"> : (tensor<f32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %m = nn.mul %i, %low from <onnx, "Mul", "lowest"> : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %s = nn.add %d, %m from <onnx, "Add", "sum"> : tensor<2x3xf32>
  %y = nn.softmax %s axis 1 : tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}

// -----

// A sum that somebody else reads has its point.
// CHECK-LABEL: @scores_with_another_reader
// CHECK:       nn.observe %s as "s:out"
func.func @scores_with_another_reader(%x: tensor<2x3xf32>, %bias: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %s = nn.add %x, %bias : tensor<2x3xf32>
  %y = nn.softmax %s axis 1 : tensor<2x3xf32>
  %z = nn.sigmoid %s : tensor<2x3xf32>
  func.return %y, %z : tensor<2x3xf32>, tensor<2x3xf32>
}

// -----

// A Softmax in small operations is one: its parts and its input have no points.
// CHECK-LABEL: @small_softmax
// CHECK:       [[P:%.*]] = nn.observe %p as "product:out"
// CHECK-NOT:   nn.observe
// CHECK:       func.return
// REMARK-DAG:  [insert-observers missed softmax-input] "shift": it only feeds Softmax
// REMARK-DAG:  [insert-observers missed softmax-part] "weights": it is the last step of a Softmax in small operations, which takes floats
func.func @small_softmax(%q: tensor<2x4xf32>, %k: tensor<4x3xf32>) -> tensor<2x3xf32> {
  %p = nn.matmul %q, %k from <onnx, "MatMul", "product"> : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  %m = nn.reduce_max %p axes [1] keepdims : (tensor<2x3xf32>) -> tensor<2x1xf32>
  %s = nn.sub %p, %m from <onnx, "Sub", "shift"> : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  %e = nn.exp %s : tensor<2x3xf32>
  %t = nn.reduce_sum %e axes [1] keepdims : (tensor<2x3xf32>) -> tensor<2x1xf32>
  %y = nn.div %e, %t from <onnx, "Div", "weights"> : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}

// -----

// An exponential that is divided by another sum is not a Softmax.
// CHECK-LABEL: @other_sum
// CHECK:       nn.observe %y as "weights:out"
func.func @other_sum(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %e = nn.exp %x : tensor<2x3xf32>
  %t = nn.reduce_sum %x axes [1] keepdims : (tensor<2x3xf32>) -> tensor<2x1xf32>
  %y = nn.div %e, %t from <onnx, "Div", "weights"> : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}
