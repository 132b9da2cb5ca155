// RUN: ROUNDTRIP | filecheck %s

// Further activations, arithmetic with a number and of many operands.

// CHECK-LABEL: func.func @unary(
func.func @unary(%x: tensor<?x4xf32>, %i: tensor<2xi64>) {
  // CHECK-NEXT: %a = ascend.Selu %x : tensor<?x4xf32>
  %a = ascend.Selu %x : tensor<?x4xf32>
  // CHECK-NEXT: %b = ascend.Swish %x scale 1.702 : tensor<?x4xf32>
  %b = ascend.Swish %x scale 1.702 : tensor<?x4xf32>
  // CHECK-NEXT: %c = ascend.FastGelu %x : tensor<?x4xf32>
  %c = ascend.FastGelu %x : tensor<?x4xf32>
  // CHECK-NEXT: %d = ascend.Square %x : tensor<?x4xf32>
  %d = ascend.Square %x : tensor<?x4xf32>
  // CHECK-NEXT: %e = ascend.Identity %i : tensor<2xi64>
  %e = ascend.Identity %i : tensor<2xi64>
  // CHECK-NEXT: %f = ascend.Adds %x value -0.5 : tensor<?x4xf32>
  %f = ascend.Adds %x value -0.5 : tensor<?x4xf32>
  // CHECK-NEXT: %g = ascend.Muls %x value 3.0 : tensor<?x4xf32>
  %g = ascend.Muls %x value 3.0 : tensor<?x4xf32>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @many(
func.func @many(%x: tensor<?x4xf32>, %h: tensor<?x4xf32>) {
  // CHECK-NEXT: %a = ascend.AddN %x, %h, %x N 3 : tensor<?x4xf32>
  %a = ascend.AddN %x, %h, %x N 3 : tensor<?x4xf32>
  // CHECK-NEXT: %b = ascend.Eltwise %x, %h N 2 : tensor<?x4xf32>
  %b = ascend.Eltwise %x, %h N 2 : tensor<?x4xf32>
  // CHECK-NEXT: %c = ascend.Eltwise %x, %h mode 2 N 2 : tensor<?x4xf32>
  %c = ascend.Eltwise %x, %h mode 2 N 2 : tensor<?x4xf32>
  // CHECK-NEXT: %d = ascend.Eltwise %x, %h coeff [1.0, -0.5] N 2 : tensor<?x4xf32>
  %d = ascend.Eltwise %x, %h coeff [1.0, -0.5] N 2 : tensor<?x4xf32>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @select(
func.func @select(%c: tensor<2x1xi1>, %x: tensor<2x4xf16>, %m: tensor<f16>) {
  // CHECK-NEXT: %a = ascend.Select %c, %x, %m : (tensor<2x1xi1>, tensor<2x4xf16>, tensor<f16>) -> tensor<2x4xf16>
  %a = ascend.Select %c, %x, %m : (tensor<2x1xi1>, tensor<2x4xf16>, tensor<f16>) -> tensor<2x4xf16>
  // CHECK-NEXT: %b = ascend.ClipByValueV2 %x, %m, %m : (tensor<2x4xf16>, tensor<f16>, tensor<f16>) -> tensor<2x4xf16>
  %b = ascend.ClipByValueV2 %x, %m, %m : (tensor<2x4xf16>, tensor<f16>, tensor<f16>) -> tensor<2x4xf16>
  // CHECK-NEXT: func.return
  func.return
}
