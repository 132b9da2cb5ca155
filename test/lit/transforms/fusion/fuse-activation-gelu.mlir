// RUN: CONSTANTS | amct-opt - --fuse-activation='activation-type=gelu' --split-input-file | filecheck %s

// CONSTANT: %weight = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
// CONSTANT: %half = nn.constant dense<0.5> : tensor<f32>
// CONSTANT: %one = nn.constant dense<1.0> : tensor<f32>

// GELU by the complement of the error function, 0.5 * x * (1 - erf(-x / sqrt(2))): the sign is an operation of its own.
// CHECK-LABEL: @negated
// CHECK:       nn.fused "ConvGELU2d"
// CHECK:         nn.neg
// CHECK-NEXT:    nn.mul
// CHECK-NEXT:    nn.erf
// CHECK-NEXT:    nn.sub
// CHECK:         nn.yield
func.func @negated(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %root = nn.constant dense<0.707106769> : tensor<f32>
  %c = nn.conv %x, %weight : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %h = nn.mul %half, %c : (tensor<f32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %n = nn.neg %c : tensor<1x2x4x4xf32>
  %s = nn.mul %n, %root : (tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32>
  %e = nn.erf %s : tensor<1x2x4x4xf32>
  %g = nn.sub %one, %e : (tensor<f32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.mul %h, %g : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// The sign in the constant, and a division.
// CHECK-LABEL: @negative_constant
// CHECK:       nn.fused "ConvGELU2d"
func.func @negative_constant(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %root = nn.constant dense<-1.41421354> : tensor<f32>
  %c = nn.conv %x, %weight : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %h = nn.mul %half, %c : (tensor<f32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %s = nn.div %c, %root : (tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32>
  %e = nn.erf %s : tensor<1x2x4x4xf32>
  %g = nn.sub %one, %e : (tensor<f32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.mul %g, %h : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// 1 - erf(x / sqrt(2)) is another function.
// CHECK-LABEL: @wrong_sign
// CHECK-NOT:   nn.fused
// CHECK:       func.return
func.func @wrong_sign(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %root = nn.constant dense<0.707106769> : tensor<f32>
  %c = nn.conv %x, %weight : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %h = nn.mul %half, %c : (tensor<f32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %s = nn.mul %c, %root : (tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32>
  %e = nn.erf %s : tensor<1x2x4x4xf32>
  %g = nn.sub %one, %e : (tensor<f32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.mul %h, %g : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// erf(x / sqrt(2)) - 1 too.
// CHECK-LABEL: @wrong_order
// CHECK-NOT:   nn.fused
// CHECK:       func.return
func.func @wrong_order(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %root = nn.constant dense<-0.707106769> : tensor<f32>
  %c = nn.conv %x, %weight : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %h = nn.mul %half, %c : (tensor<f32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %s = nn.mul %c, %root : (tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32>
  %e = nn.erf %s : tensor<1x2x4x4xf32>
  %g = nn.sub %e, %one : (tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32>
  %y = nn.mul %h, %g : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}
