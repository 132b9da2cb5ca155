// RUN: amct-opt %s --fuse-activation='activation-type=clip,leaky_relu,sigmoid,gelu,swish,mish,hard_swish,prelu' --split-input-file | filecheck %s
// RUN: amct-opt %s --fuse-activation='activation-type=Clip,LeakyRelu,Sigmoid,Gelu,SiLU,Mish,HardSwish,PRelu' --split-input-file | filecheck %s
// RUN: amct-opt %s --fuse-all=activation-type=Clip,LeakyRelu,Sigmoid,Gelu,SiLU,Mish,HardSwish,PRelu --split-input-file --remarks=missed 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix ALL < %t.remarks
// RUN: amct-opt %s --fuse-activation='activation-type=sigmoid,tanh' --split-input-file --remarks=missed 2>&1 >/dev/null | filecheck %s --check-prefix MISSED
// RUN: amct-opt %s --fuse-activation=activation-type=sigmoid,Swiss --split-input-file --verify-diagnostics | filecheck %s --check-prefix ERROR

// The activations of PPQ's other targets, asked for by name.
// ERROR: error: activation-type: no activation is called 'Swiss'
// ERROR: hint: activations are clip, elu, gelu, hard_shrink, hard_sigmoid, hard_swish, leaky_relu, mish, prelu, relu, relu6, selu, sigmoid, softplus, softsign, swish, tanh, or their ONNX operators (LeakyRelu)

// One operation each. A relu6 is a clip; relu was not asked for.
// CHECK-LABEL: @single
// CHECK:       nn.fused "ConvLeakyReLU2d"
// CHECK:       nn.fused "ConvSigmoid2d"
// CHECK:       nn.fused "ConvGELU2d"
// CHECK:       nn.fused "ConvMish2d"
// CHECK:       nn.fused "ConvPReLU2d" ({{%.*}} = {{%.*}}, {{%.*}} = %weight, {{%.*}} = %slope)
// CHECK:       nn.fused "ConvAddReLU62d"
// CHECK:       nn.relu
// MISSED:      [fuse-activation missed activation-of-target] "relu": relu is not among the activations of option activation-type: sigmoid, tanh
func.func @single(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %weight = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %slope = nn.constant dense<0.5> : tensor<2x1x1xf32>
  %c = nn.conv %x, %weight : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %r = nn.leaky_relu %c : tensor<1x2x4x4xf32>
  %d = nn.conv %r, %weight : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %s = nn.sigmoid %d : tensor<1x2x4x4xf32>
  %e = nn.conv %s, %weight : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %t = nn.gelu %e : tensor<1x2x4x4xf32>
  %f = nn.conv %t, %weight : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %u = nn.mish %f : tensor<1x2x4x4xf32>
  %g = nn.conv %u, %weight : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %v = nn.prelu %g, %slope : (tensor<1x2x4x4xf32>, tensor<2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %h = nn.conv %v, %weight : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %a = nn.add %h, %x : tensor<1x2x4x4xf32>
  %w = nn.relu6 %a : tensor<1x2x4x4xf32>
  %i = nn.conv %w, %weight : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.relu %i from <onnx, "Relu", "relu"> : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Swish, Mish and HardSwish in small operations, the factors in either order. Of Sigmoid nothing is said: it is part of Swish.
// CHECK-LABEL: @gates
// CHECK:       nn.fused "ConvSwish2d" ({{%.*}} = %x, {{%.*}} = %weight)
// CHECK-NEXT:  [[C:%.*]] = nn.conv
// CHECK-NEXT:  [[S:%.*]] = nn.sigmoid [[C]]
// CHECK-NEXT:  [[M:%.*]] = nn.mul [[C]], [[S]]
// CHECK-NEXT:  nn.yield [[M]]
// CHECK:       nn.fused "ConvMish2d"
// CHECK-NEXT:  [[D:%.*]] = nn.conv
// CHECK-NEXT:  [[P:%.*]] = nn.softplus [[D]]
// CHECK-NEXT:  [[T:%.*]] = nn.tanh [[P]]
// CHECK-NEXT:  nn.mul [[T]], [[D]]
// CHECK:       nn.fused "ConvHardswish2d"
// MISSED:      [fuse-activation missed used-inside] "sig": the result of conv1 is also used by 'nn.mul' swish
// MISSED:      [fuse-activation missed activation-of-target] "swish": swish is not among
// MISSED:      [fuse-activation missed activation-of-target] "mish": mish is not among
func.func @gates(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %weight = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %s = nn.sigmoid %c from <onnx, "Sigmoid", "sig"> : tensor<1x2x4x4xf32>
  %m = nn.mul %c, %s from <onnx, "Mul", "swish"> : tensor<1x2x4x4xf32>
  %d = nn.conv %m, %weight : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %p = nn.softplus %d : tensor<1x2x4x4xf32>
  %t = nn.tanh %p : tensor<1x2x4x4xf32>
  %n = nn.mul %t, %d from <onnx, "Mul", "mish"> : tensor<1x2x4x4xf32>
  %e = nn.conv %n, %weight : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %h = nn.hard_sigmoid %e alpha 0.16666667 : tensor<1x2x4x4xf32>
  %y = nn.mul %e, %h : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// GELU as PyTorch writes it, and multiplied in another order. Its constants are inputs of the region.
// CHECK-LABEL: @gelu
// CHECK:       nn.fused "LinearGELU" ({{%.*}} = %x, {{%.*}} = %w, {{%.*}} = %root, {{%.*}} = %one, {{%.*}} = %half)
// CHECK-NEXT:  nn.matmul
// CHECK-NEXT:  nn.div
// CHECK-NEXT:  nn.erf
// CHECK-NEXT:  nn.add
// CHECK-NEXT:  nn.mul
// CHECK-NEXT:  [[Y:%.*]] = nn.mul
// CHECK-NEXT:  nn.yield [[Y]]
// CHECK:       nn.fused "LinearAddGELU"
// ALL:         [fuse-mul missed result-used-once] "s": the result of c has 2 uses
// CHECK-NOT:   nn.fused
func.func @gelu(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %w = nn.constant dense<1.0> : tensor<2x2xf32>
  %root = nn.constant dense<1.4142135> : tensor<f32>
  %inverse = nn.constant dense<0.70710677> : tensor<1xf32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %half = nn.constant dense<0.5> : tensor<f32>
  %c = nn.matmul %x, %w : tensor<2x2xf32>
  %s = nn.div %c, %root : (tensor<2x2xf32>, tensor<f32>) -> tensor<2x2xf32>
  %e = nn.erf %s : tensor<2x2xf32>
  %p = nn.add %e, %one : (tensor<2x2xf32>, tensor<f32>) -> tensor<2x2xf32>
  %m = nn.mul %c, %p : tensor<2x2xf32>
  %y = nn.mul %m, %half : (tensor<2x2xf32>, tensor<f32>) -> tensor<2x2xf32>
  %d = nn.matmul %y, %w : tensor<2x2xf32>
  %a = nn.add %d, %x : tensor<2x2xf32>
  %t = nn.mul %a, %inverse : (tensor<2x2xf32>, tensor<1xf32>) -> tensor<2x2xf32>
  %f = nn.erf %t : tensor<2x2xf32>
  %q = nn.add %one, %f : (tensor<f32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %h = nn.mul %half, %a : (tensor<f32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %z = nn.mul %q, %h : tensor<2x2xf32>
  func.return %z : tensor<2x2xf32>
}

// -----

// Not these: another gate's value, another slope, another root, a factor that is used elsewhere.
// CHECK-LABEL: @not_composed
// CHECK:       nn.fused "ConvSigmoid2d"
// CHECK-NOT:   nn.fused
// CHECK:       func.return
func.func @not_composed(%x: tensor<1x2x4x4xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) {
  %weight = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %three = nn.constant dense<3.0> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %half = nn.constant dense<0.5> : tensor<f32>
  %c = nn.conv %x, %weight : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %s = nn.sigmoid %c : tensor<1x2x4x4xf32>
  %m = nn.mul %x, %s : tensor<1x2x4x4xf32>
  %d = nn.conv %m, %weight : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %h = nn.hard_sigmoid %d : tensor<1x2x4x4xf32>
  %n = nn.mul %d, %h : tensor<1x2x4x4xf32>
  %e = nn.conv %n, %weight : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %t = nn.div %e, %three : (tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32>
  %f = nn.erf %t : tensor<1x2x4x4xf32>
  %q = nn.add %one, %f : (tensor<f32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %g = nn.mul %q, %e : tensor<1x2x4x4xf32>
  %z = nn.mul %g, %half : (tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32>
  %k = nn.conv %z, %weight : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %l = nn.sigmoid %k : tensor<1x2x4x4xf32>
  %o = nn.mul %k, %l : tensor<1x2x4x4xf32>
  func.return %o, %l, %z : tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>
}

// -----

// activation-linear: after operations without weights only relu and clip are fused.
// CHECK-LABEL: @sum
// CHECK:       nn.sigmoid
// CHECK:       nn.fused "AddReLU6"
// MISSED:      [fuse-activation missed activation-linear] "sum_sig": sigmoid is fused after convolutions and matrix products only
func.func @sum(%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %a = nn.add %x, %x : tensor<2xf32>
  %y = nn.sigmoid %a from <onnx, "Sigmoid", "sum_sig"> : tensor<2xf32>
  %b = nn.add %y, %x : tensor<2xf32>
  %c = nn.relu6 %b : tensor<2xf32>
  func.return %y, %c : tensor<2xf32>, tensor<2xf32>
}
