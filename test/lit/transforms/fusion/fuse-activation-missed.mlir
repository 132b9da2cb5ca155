// RUN: CONSTANTS | amct-opt - --fuse-activation --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// CONSTANT: %weight = nn.constant dense<1.0> : tensor<2x2x1x1xf32>

// What each condition keeps apart.

// used-inside: the result is used elsewhere, or is a graph output (PPQ fuses the latter, and loses the point of the output).
// CHECK-LABEL: @used
// CHECK-NOT:   nn.fused
// CHECK:       func.return
// REMARK:      [fuse-activation missed used-inside] "r1": the result of conv1 is also used by 'nn.neg' twice
// REMARK:      [fuse-activation missed used-inside] "r2": the result of conv2 is also a graph output
func.func @used(%x: tensor<1x2x4x4xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) {
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.relu %c from <onnx, "Relu", "r1"> : tensor<1x2x4x4xf32>
  %n = nn.neg %c from <onnx, "Neg", "twice"> : tensor<1x2x4x4xf32>
  %d = nn.conv %y, %weight from <onnx, "Conv", "conv2"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %z = nn.relu %d from <onnx, "Relu", "r2"> : tensor<1x2x4x4xf32>
  func.return %n, %d, %z : tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>
}

// -----

// used-inside, of the sum: the add still goes into the convolution.
// CHECK-LABEL: @sum_used
// CHECK:       nn.fused "ConvAdd2d"
// CHECK:       nn.relu
// REMARK:      [fuse-activation missed used-inside] "relu": the result of add is also a graph output
// REMARK:      [fuse-activation applied compute-residual] "add": fused into ConvAdd2d conv
func.func @sum_used(%x: tensor<1x2x4x4xf32>, %r: tensor<1x2x4x4xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) {
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %a = nn.add %c, %r from <onnx, "Add", "add"> : tensor<1x2x4x4xf32>
  %y = nn.relu %a from <onnx, "Relu", "relu"> : tensor<1x2x4x4xf32>
  func.return %a, %y : tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>
}

// -----

// operands-differ: a value added to itself is not a residual.
// CHECK-LABEL: @itself
// CHECK-NOT:   nn.fused
// CHECK:       func.return
// REMARK:      [fuse-activation missed operands-differ] "add": it adds the result of conv to itself
func.func @itself(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %a = nn.add %c, %c from <onnx, "Add", "add"> : tensor<1x2x4x4xf32>
  func.return %a : tensor<1x2x4x4xf32>
}

// -----

// residual-computed: a constant is the matter of fuse-bias.
// CHECK-LABEL: @constant
// CHECK-NOT:   nn.fused
// CHECK:       func.return
// REMARK:      [fuse-activation missed residual-computed] "add": the other operand is a constant: that is a bias
func.func @constant(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %k = nn.constant dense<1.0> : tensor<1x2x4x4xf32>
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %a = nn.add %c, %k from <onnx, "Add", "add"> : tensor<1x2x4x4xf32>
  func.return %a : tensor<1x2x4x4xf32>
}

// -----

// shapes-identical: no broadcasting, in either direction, nor where a size is not known.
// CHECK-LABEL: @broadcast
// CHECK-NOT:   nn.fused
// CHECK:       func.return
// REMARK:      [fuse-activation missed shapes-identical] "smaller": it adds [1, 2, 1, 1] to [1, 2, 4, 4]
// REMARK:      [fuse-activation missed shapes-identical] "larger": it adds [3, 2, 4, 4] to [1, 2, 4, 4]
// REMARK:      [fuse-activation missed shapes-identical] "unknown": it adds [?, 2, 4, 4] to [3, 2, 4, 4]
func.func @broadcast(%x: tensor<1x2x4x4xf32>, %s: tensor<1x2x1x1xf32>, %l: tensor<3x2x4x4xf32>, %u: tensor<?x2x4x4xf32>) -> tensor<3x2x4x4xf32> {
  %c = nn.conv %x, %weight from <onnx, "Conv", "c1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %a = nn.add %c, %s from <onnx, "Add", "smaller"> : (tensor<1x2x4x4xf32>, tensor<1x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %d = nn.conv %a, %weight from <onnx, "Conv", "c2"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %b = nn.add %d, %l from <onnx, "Add", "larger"> : (tensor<1x2x4x4xf32>, tensor<3x2x4x4xf32>) -> tensor<3x2x4x4xf32>
  %e = nn.conv %b, %weight from <onnx, "Conv", "c3"> : (tensor<3x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<3x2x4x4xf32>
  %y = nn.add %u, %e from <onnx, "Add", "unknown"> : (tensor<?x2x4x4xf32>, tensor<3x2x4x4xf32>) -> tensor<3x2x4x4xf32>
  func.return %y : tensor<3x2x4x4xf32>
}

// -----

// activation-of-target: what PPQ does not fuse for Ascend; Swish is told of its last operation.
// CHECK-LABEL: @other_activations
// CHECK-NOT:   nn.fused
// CHECK:       func.return
// REMARK:      [fuse-activation missed activation-of-target] "t": tanh is not among the activations of profile ascend: clip, relu, relu6
// REMARK:      [fuse-activation missed used-inside] "sig": the result of conv2 is also used by 'nn.mul' swish
// REMARK:      [fuse-activation missed activation-of-target] "swish": swish is not among the activations of profile ascend: clip, relu, relu6
func.func @other_activations(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %t = nn.tanh %c from <onnx, "Tanh", "t"> : tensor<1x2x4x4xf32>
  %d = nn.conv %t, %weight from <onnx, "Conv", "conv2"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %s = nn.sigmoid %d from <onnx, "Sigmoid", "sig"> : tensor<1x2x4x4xf32>
  %m = nn.mul %d, %s from <onnx, "Mul", "swish"> : tensor<1x2x4x4xf32>
  func.return %m : tensor<1x2x4x4xf32>
}

// -----

// Quantization points are not crossed: observed, and quantized.
// CHECK-LABEL: @points
// CHECK-NOT:   nn.fused
// CHECK:       func.return
// REMARK:      [fuse-activation missed quantization-point] "r1": its input comes from 'nn.observe' conv1, a quantization point, which cannot be part of a region
// REMARK:      [fuse-activation missed quantization-point] "r2": its input comes from 'nn.dequantize' dq, a quantization point, which cannot be part of a region
func.func @points(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %o = nn.observe %c as "conv1:out" by "minmax" : tensor<1x2x4x4xf32>
  %y = nn.relu %o from <onnx, "Relu", "r1"> : tensor<1x2x4x4xf32>
  %d = nn.conv %y, %weight from <onnx, "Conv", "conv2"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %q = nn.quantize %d by <i8, scale = 0.5> : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  %dq = nn.dequantize %q by <i8, scale = 0.5> : (tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xf32>
  %z = nn.relu %dq from <onnx, "Relu", "r2"> : tensor<1x2x4x4xf32>
  func.return %z : tensor<1x2x4x4xf32>
}

// -----

// Nothing before that an activation goes with.
// CHECK-LABEL: @alone
// CHECK-NOT:   nn.fused
// CHECK:       func.return
// REMARK:      [fuse-activation missed no-producer] "input": its input comes from a graph input, into which no activation is fused
// REMARK:      [fuse-activation missed no-producer] "moved": its input comes from 'nn.transpose' t, into which no activation is fused
// REMARK:      [fuse-activation missed no-producer] "normed": its input comes from 'nn.batch_norm' bn, which is to be folded first (--fuse-bn)
func.func @alone(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %one = nn.constant dense<1.0> : tensor<2xf32>
  %y = nn.relu %x from <onnx, "Relu", "input"> : tensor<2x2xf32>
  %t = nn.transpose %y perm [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %z = nn.relu %t from <onnx, "Relu", "moved"> : tensor<2x2xf32>
  %b = nn.batch_norm %z, %one, %one, %one, %one from <onnx, "BatchNormalization", "bn"> : (tensor<2x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  %n = nn.relu %b from <onnx, "Relu", "normed"> : tensor<2x2xf32>
  func.return %n : tensor<2x2xf32>
}

// -----

// A region is not looked into, and is not extended.
// CHECK-LABEL: @region
// CHECK:       nn.fused "ConvAdd2d"
// CHECK-NOT:   nn.fused
// CHECK:       func.return
// REMARK:      [fuse-activation missed no-producer] "relu": its input comes from 'nn.fused' conv, into which no activation is fused
func.func @region(%x: tensor<1x2x4x4xf32>, %weight: tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32> {
  %y = nn.fused "ConvAdd2d" (%i = %x, %w = %weight, %r = %x) from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
    %c = nn.conv %i, %w from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
    %a = nn.add %c, %r from <onnx, "Add", "add"> : tensor<1x2x4x4xf32>
    nn.yield %a : tensor<1x2x4x4xf32>
  }
  %z = nn.relu %y from <onnx, "Relu", "relu"> : tensor<1x2x4x4xf32>
  func.return %z : tensor<1x2x4x4xf32>
}

// -----

// A convolution or a pool that others read as well keeps its range: the relu goes with the pool, or stays alone.
// CHECK-LABEL: @shared_pool
// CHECK:       nn.conv
// CHECK-NEXT:  nn.max_pool
// CHECK-NEXT:  nn.relu
// CHECK-NEXT:  func.return
// REMARK:      [fuse-activation missed used-inside] "r": the result of pool is also a graph output
func.func @shared_pool(%x: tensor<1x2x4x4xf32>) -> (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) {
  %c = nn.conv %x, %weight : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %p = nn.max_pool %c kernel [2, 2] strides [2, 2] from <onnx, "MaxPool", "pool"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x2xf32>
  %y = nn.relu %p from <onnx, "Relu", "r"> : tensor<1x2x2x2xf32>
  func.return %y, %p : tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>
}

// -----

// CHECK-LABEL: @shared_conv
// CHECK:       [[C:%.*]] = nn.conv
// CHECK-NEXT:  nn.fused "MaxPoolReLU" ({{%.*}} = [[C]])
func.func @shared_conv(%x: tensor<1x2x4x4xf32>) -> (tensor<1x2x2x2xf32>, tensor<1x2x4x4xf32>) {
  %c = nn.conv %x, %weight : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %p = nn.max_pool %c kernel [2, 2] strides [2, 2] : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x2xf32>
  %y = nn.relu %p : tensor<1x2x2x2xf32>
  func.return %y, %c : tensor<1x2x2x2xf32>, tensor<1x2x4x4xf32>
}

// -----

// A window of padding alone has the smallest number, which the relu makes 0.
// CHECK-LABEL: @padding
// CHECK:       [[C:%.*]] = nn.conv
// CHECK-NEXT:  nn.fused "MaxPoolReLU" ({{%.*}} = [[C]])
func.func @padding(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv %x, %weight : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %p = nn.max_pool %c kernel [1, 1] pads [1, 1, 1, 1] : (tensor<1x2x2x2xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.relu %p : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}
