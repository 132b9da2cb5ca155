// RUN: amct-opt %s --fold-constants --split-input-file --print-debuginfo | filecheck %s
// RUN: amct-opt %s --fold-constants --split-input-file --remarks=all 2>&1 >/dev/null | filecheck %s --check-prefix REMARK

// Evaluated with the kernels; the location is that of the operation, dead constants go.
// CHECK-LABEL: @evaluate
// CHECK-NEXT:  %y = nn.constant dense<[3.000000e+00, 5.000000e+00]> : tensor<2xf32> loc("y")
// CHECK-NEXT:  func.return %y
// REMARK:      [fold-constants applied evaluate] "s": nn.sqrt folded to tensor<2xf32>
// REMARK:      [fold-constants applied evaluate] "y": nn.add folded to tensor<2xf32>
func.func @evaluate() -> tensor<2xf32> {
  %a = nn.constant dense<[4.0, 16.0]> : tensor<2xf32>
  %b = nn.constant dense<1.0> : tensor<2xf32>
  %s = nn.sqrt %a : tensor<2xf32>
  %y = nn.add %s, %b : tensor<2xf32> loc("y")
  func.return %y : tensor<2xf32>
}

// -----

// NaN and Inf are results as others.
// CHECK-LABEL: @not_finite
// CHECK:       nn.constant dense<"0x0000807F0000C07F"> : tensor<2xf32>
// CHECK-NOT:   nn.div
func.func @not_finite() -> tensor<2xf32> {
  %a = nn.constant dense<[1.0, 0.0]> : tensor<2xf32>
  %b = nn.constant dense<0.0> : tensor<2xf32>
  %y = nn.div %a, %b : tensor<2xf32>
  %z = nn.abs %y : tensor<2xf32>
  func.return %z : tensor<2xf32>
}

// -----

// Several results.
// CHECK-LABEL: @several
// CHECK:       nn.constant dense<1> : tensor<1xi64>
// CHECK:       nn.constant dense<[2, 3]> : tensor<2xi64>
func.func @several() -> (tensor<1xi64>, tensor<2xi64>) {
  %a = nn.constant dense<[1, 2, 3]> : tensor<3xi64>
  %p, %q = nn.split %a sizes [1, 2] : (tensor<3xi64>) -> (tensor<1xi64>, tensor<2xi64>)
  func.return %p, %q : tensor<1xi64>, tensor<2xi64>
}

// -----

// A shape operand that becomes constant is the property `to`, and types after it are refined.
// CHECK-LABEL: @static_shape
// CHECK-SAME:  -> tensor<4x6xf32>
// CHECK-NEXT:  [[R:%.*]] = nn.reshape %x to [4, 6] : (tensor<2x3x4xf32>) -> tensor<4x6xf32>
// CHECK-NEXT:  nn.relu [[R]] : tensor<4x6xf32>
// REMARK:      [fold-constants applied sizes] "s": nn.shape folded to tensor<1xi64>
// REMARK:      [fold-constants applied static-shape] "r": its shape operand is [4, 6]
func.func @static_shape(%x: tensor<2x3x4xf32>) -> tensor<?x?xf32> {
  %s = nn.shape %x start 2 : (tensor<2x3x4xf32>) -> tensor<1xi64>
  %six = nn.constant dense<6> : tensor<1xi64>
  %t = nn.concat %s, %six axis 0 : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
  %r = nn.reshape %x, %t : (tensor<2x3x4xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  %y = nn.relu %r : tensor<?x?xf32>
  func.return %y : tensor<?x?xf32>
}

// -----

// Of a partly known shape: the input's own axes are copied (0), one other unknown size is what is left (-1).
// CHECK-LABEL: @partial_shape
// CHECK-SAME:  -> (tensor<?x?x12x64xf32>, tensor<?x384xf32>)
// CHECK-NEXT:  nn.reshape %x to [0, 0, 12, 64] : (tensor<?x?x768xf32>) -> tensor<?x?x12x64xf32>
// CHECK-NEXT:  nn.reshape %x to [-1, 384] : (tensor<?x?x768xf32>) -> tensor<?x384xf32>
// CHECK-NEXT:  func.return
func.func @partial_shape(%x: tensor<?x?x768xf32>) -> (tensor<?x?x?x?xf32>, tensor<?x?xf32>) {
  %s = nn.shape %x : (tensor<?x?x768xf32>) -> tensor<3xi64>
  %i = nn.constant dense<[0, 1]> : tensor<2xi64>
  %two = nn.constant dense<2> : tensor<1xi64>
  %heads = nn.constant dense<[12, 64]> : tensor<2xi64>
  %front = nn.gather %s, %i : (tensor<3xi64>, tensor<2xi64>) -> tensor<2xi64>
  %t = nn.concat %front, %heads axis 0 : (tensor<2xi64>, tensor<2xi64>) -> tensor<4xi64>
  %r = nn.reshape %x, %t : (tensor<?x?x768xf32>, tensor<4xi64>) -> tensor<?x?x?x?xf32>
  %first = nn.slice %s starts [0] ends [1] : (tensor<3xi64>) -> tensor<1xi64>
  %last = nn.slice %s starts [-1] ends [9223372036854775807] : (tensor<3xi64>) -> tensor<1xi64>
  %half = nn.div %last, %two : tensor<1xi64>
  %rows = nn.mul %first, %two : tensor<1xi64>
  %u = nn.concat %rows, %half axis 0 : (tensor<1xi64>, tensor<1xi64>) -> tensor<2xi64>
  %q = nn.reshape %x, %u : (tensor<?x?x768xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  func.return %r, %q : tensor<?x?x?x?xf32>, tensor<?x?xf32>
}

// -----

// The size of the input's own axis does not expand it.
// CHECK-LABEL: @expand
// CHECK-NEXT:  nn.expand %x to [4, 1, 5] : (tensor<?x1xf32>) -> tensor<4x?x5xf32>
func.func @expand(%x: tensor<?x1xf32>) -> tensor<?x?x?xf32> {
  %s = nn.shape %x end 1 : (tensor<?x1xf32>) -> tensor<1xi64>
  %four = nn.constant dense<4> : tensor<1xi64>
  %five = nn.constant dense<5> : tensor<1xi64>
  %t = nn.concat %four, %s, %five axis 0 : (tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<3xi64>
  %y = nn.expand %x, %t : (tensor<?x1xf32>, tensor<3xi64>) -> tensor<?x?x?xf32>
  func.return %y : tensor<?x?x?xf32>
}

// -----

// Two unknown sizes that are not the input's own: only the types learn.
// CHECK-LABEL: @two_unknown
// CHECK:       nn.reshape %x, %t : (tensor<?xf32>, tensor<3xi64>) -> tensor<?x5x?xf32>
func.func @two_unknown(%x: tensor<?xf32>, %y: tensor<?x?xf32>) -> tensor<?x?x?xf32> {
  %s = nn.shape %y : (tensor<?x?xf32>) -> tensor<2xi64>
  %five = nn.constant dense<5> : tensor<1xi64>
  %a, %b = nn.split %s sizes [1, 1] : (tensor<2xi64>) -> (tensor<1xi64>, tensor<1xi64>)
  %t = nn.concat %a, %five, %b axis 0 : (tensor<1xi64>, tensor<1xi64>, tensor<1xi64>) -> tensor<3xi64>
  %r = nn.reshape %x, %t : (tensor<?xf32>, tensor<3xi64>) -> tensor<?x?x?xf32>
  func.return %r : tensor<?x?x?xf32>
}

// -----

// Quantized weights stay integers; what moves integers is folded.
// CHECK-LABEL: @quantized
// CHECK-NEXT:  [[W:%.*]] = nn.constant dense<{{\[\[}}1, 3], [2, 4]]> : tensor<2x2xi8>
// CHECK-NEXT:  nn.dequantize [[W]]
// CHECK-NEXT:  nn.abs
func.func @quantized() -> tensor<2x2xf32> {
  %w = nn.constant dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>
  %t = nn.transpose %w perm [1, 0] : tensor<2x2xi8>
  %d = nn.dequantize %t by <i8, scale = 0.5> : (tensor<2x2xi8>) -> tensor<2x2xf32>
  %y = nn.abs %d : tensor<2x2xf32>
  func.return %y : tensor<2x2xf32>
}

// -----

// What draws random numbers is not a constant.
// CHECK-LABEL: @random
// CHECK:       nn.opaque
// REMARK:      [fold-constants missed random] "r": RandomUniform draws random numbers
func.func @random() -> tensor<2xf32> {
  %r = nn.opaque framework "onnx" op_type "RandomUniform" version 1 attrs {shape = [2]} : () -> tensor<2xf32>
  func.return %r : tensor<2xf32>
}

// -----

// A kernel that refuses leaves the operation, and says why.
// CHECK-LABEL: @refused
// CHECK:       nn.gather
// REMARK:      [fold-constants missed runs] "y": cannot be evaluated: index 5 is out of bounds
func.func @refused() -> tensor<f32> {
  %a = nn.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %i = nn.constant dense<5> : tensor<i64>
  %y = nn.gather %a, %i : (tensor<2xf32>, tensor<i64>) -> tensor<f32>
  func.return %y : tensor<f32>
}
