// RUN: amct-opt %s --canonicalize --split-input-file --remarks=missed 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// Numbers that change nothing, not even the sign of a zero.
// CHECK-LABEL: @neutral
// CHECK-NEXT:  func.return %x
func.func @neutral(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %one = nn.constant dense<1.0> : tensor<3xf32>
  %zero = nn.constant dense<0.0> : tensor<f32>
  %minus = nn.constant dense<-0.0> : tensor<1x3xf32>
  %a = nn.mul %x, %one : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %b = nn.mul %one, %a : (tensor<3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %c = nn.div %b, %one : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %d = nn.pow %c, %one : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  %e = nn.sub %d, %zero : (tensor<2x3xf32>, tensor<f32>) -> tensor<2x3xf32>
  %f = nn.add %minus, %e : (tensor<1x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %f : tensor<2x3xf32>
}

// -----

// Integers have one zero.
// CHECK-LABEL: @integers
// CHECK-NEXT:  func.return %x
func.func @integers(%x: tensor<3xi64>) -> tensor<3xi64> {
  %zero = nn.constant dense<0> : tensor<1xi64>
  %a = nn.add %x, %zero : (tensor<3xi64>, tensor<1xi64>) -> tensor<3xi64>
  func.return %a : tensor<3xi64>
}

// -----

// What undoes or repeats itself.
// CHECK-LABEL: @twice
// CHECK-NEXT:  [[A:%.*]] = nn.abs %x
// CHECK-NEXT:  [[F:%.*]] = nn.floor [[A]]
// CHECK-NEXT:  func.return [[F]]
func.func @twice(%x: tensor<3xf32>) -> tensor<3xf32> {
  %a = nn.abs %x : tensor<3xf32>
  %b = nn.abs %a : tensor<3xf32>
  %c = nn.neg %b : tensor<3xf32>
  %d = nn.neg %c : tensor<3xf32>
  %e = nn.floor %d : tensor<3xf32>
  %f = nn.floor %e : tensor<3xf32>
  func.return %f : tensor<3xf32>
}

// -----

// -0.0 + 0.0 is 0.0.
// CHECK-LABEL: @exact_zero
// CHECK:       nn.add
// CHECK-NEXT:  nn.sub
// REMARK:      [canonicalize missed exact-zero] "a": nn.add with this zero changes the sign of -0.0
// REMARK:      [canonicalize missed exact-zero] "b": nn.sub with this zero changes the sign of -0.0
func.func @exact_zero(%x: tensor<3xf32>) -> tensor<3xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %minus = nn.constant dense<-0.0> : tensor<f32>
  %a = nn.add %x, %zero : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  %b = nn.sub %a, %minus : (tensor<3xf32>, tensor<f32>) -> tensor<3xf32>
  func.return %b : tensor<3xf32>
}

// -----

// A constant that grows the shape; numbers on the wrong side; other numbers; numbers not known.
// CHECK-LABEL: @refused
// CHECK:       nn.mul
// CHECK-NEXT:  nn.div
// CHECK-NEXT:  nn.sub
// CHECK-NEXT:  nn.mul
// CHECK-NEXT:  nn.mul
func.func @refused(%x: tensor<3xf32>, %y: tensor<3xf32>) -> (tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) {
  %one = nn.constant dense<1.0> : tensor<2x3xf32>
  %scalar = nn.constant dense<1.0> : tensor<f32>
  %zero = nn.constant dense<0.0> : tensor<f32>
  %some = nn.constant dense<[1.0, 1.0, 2.0]> : tensor<3xf32>
  %a = nn.mul %x, %one : (tensor<3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %b = nn.div %scalar, %x : (tensor<f32>, tensor<3xf32>) -> tensor<3xf32>
  %c = nn.sub %zero, %x : (tensor<f32>, tensor<3xf32>) -> tensor<3xf32>
  %d = nn.mul %x, %some : tensor<3xf32>
  %e = nn.mul %x, %y : tensor<3xf32>
  func.return %a, %b, %c, %d, %e : tensor<2x3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
}
