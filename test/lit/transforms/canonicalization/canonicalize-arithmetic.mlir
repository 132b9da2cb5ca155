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

// -----

// prelu as TensorFlow stores it: by the absolute value, and by the relu of the negative.
// CHECK-LABEL: @slopes
// CHECK:       [[S:%.*]] = nn.constant dense<[2.500000e-01, 5.000000e-01]> : tensor<2xf32>
// CHECK-NEXT:  [[A:%.*]] = nn.prelu %x, [[S]]
// CHECK:       [[T:%.*]] = nn.constant dense<[2.500000e-01, 5.000000e-01]> : tensor<2xf32>
// CHECK-NEXT:  [[B:%.*]] = nn.prelu [[A]], [[T]]
// CHECK-NEXT:  func.return [[B]]
func.func @slopes(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %slope = nn.constant dense<[0.25, 0.5]> : tensor<2xf32>
  %half = nn.constant dense<0.5> : tensor<f32>
  %p = nn.relu %x : tensor<?x2xf32>
  %m = nn.abs %x : tensor<?x2xf32>
  %d = nn.sub %x, %m : tensor<?x2xf32>
  %e = nn.mul %slope, %d : (tensor<2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
  %f = nn.mul %e, %half : (tensor<?x2xf32>, tensor<f32>) -> tensor<?x2xf32>
  %a = nn.add %p, %f : tensor<?x2xf32>
  %q = nn.relu %a : tensor<?x2xf32>
  %n = nn.neg %a : tensor<?x2xf32>
  %r = nn.relu %n : tensor<?x2xf32>
  %g = nn.mul %slope, %r : (tensor<2xf32>, tensor<?x2xf32>) -> tensor<?x2xf32>
  %b = nn.sub %q, %g : tensor<?x2xf32>
  func.return %b : tensor<?x2xf32>
}

// -----

// Not prelu: two constants whose product is rounded, another value, a value that others read.
// CHECK-LABEL: @other_slopes
// CHECK-NOT:   nn.prelu
func.func @other_slopes(%x: tensor<2xf32>, %y: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %slope = nn.constant dense<[0.3, 0.5]> : tensor<2xf32>
  %third = nn.constant dense<0.3> : tensor<f32>
  %p = nn.relu %x : tensor<2xf32>
  %n = nn.neg %x : tensor<2xf32>
  %r = nn.relu %n : tensor<2xf32>
  %e = nn.mul %slope, %r : tensor<2xf32>
  %f = nn.mul %e, %third : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %a = nn.add %p, %f : tensor<2xf32>
  %q = nn.relu %y : tensor<2xf32>
  %s = nn.relu %n : tensor<2xf32>
  %g = nn.mul %slope, %s : tensor<2xf32>
  %b = nn.add %q, %g : tensor<2xf32>
  %t = nn.relu %x : tensor<2xf32>
  %u = nn.relu %n : tensor<2xf32>
  %h = nn.mul %slope, %u : tensor<2xf32>
  %c = nn.sub %h, %t : tensor<2xf32>
  func.return %a, %b, %c, %h : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}
