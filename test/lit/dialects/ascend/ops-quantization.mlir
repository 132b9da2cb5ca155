// RUN: ROUNDTRIP | filecheck %s

// From reals to integers and back.

// CHECK-LABEL: func.func @quant(
func.func @quant(%x: tensor<?x3xf32>, %h: tensor<?x4xf16>) {
  // CHECK-NEXT: %q = ascend.AscendQuant %x scale 42.5 offset -128.0 : (tensor<?x3xf32>) -> tensor<?x3xi8>
  %q = ascend.AscendQuant %x scale 42.5 offset -128.0 : (tensor<?x3xf32>) -> tensor<?x3xi8>
  // CHECK-NEXT: %all = ascend.AscendQuant %h round_mode "Floor" dst_type 29 scale 0.1 offset 7.0 sqrt_mode true : (tensor<?x4xf16>) -> tensor<?x4xi4>
  %all = ascend.AscendQuant %h round_mode "Floor" dst_type 29 scale 0.1 offset 7.0 sqrt_mode true : (tensor<?x4xf16>) -> tensor<?x4xi4>
  // CHECK-NEXT: %r = ascend.AscendAntiQuant %q scale 0.023529412 offset 128.0 : (tensor<?x3xi8>) -> tensor<?x3xf32>
  %r = ascend.AscendAntiQuant %q scale 0.023529412 offset 128.0 : (tensor<?x3xi8>) -> tensor<?x3xf32>
  // CHECK-NEXT: %s = ascend.AscendAntiQuant %q dtype 1 scale 0.023529412 offset 128.0 sqrt_mode true : (tensor<?x3xi8>) -> tensor<?x3xf16>
  %s = ascend.AscendAntiQuant %q dtype 1 scale 0.023529412 offset 128.0 sqrt_mode true : (tensor<?x3xi8>) -> tensor<?x3xf16>
  // CHECK-NEXT: func.return
  func.return
}

// One scale, one per channel of axis 1, or of the rank of x.
// CHECK-LABEL: func.func @dequant(
func.func @dequant(%x: tensor<1x4x8x2xi32>) {
  // CHECK-NEXT: %one = nn.constant dense<5.000000e-01> : tensor<1xf32>
  %one = nn.constant dense<5.000000e-01> : tensor<1xf32>
  // CHECK-NEXT: %four = nn.constant dense<5.000000e-01> : tensor<4xf32>
  %four = nn.constant dense<5.000000e-01> : tensor<4xf32>
  // CHECK-NEXT: %last = nn.constant dense<5.000000e-01> : tensor<1x1x1x2xf32>
  %last = nn.constant dense<5.000000e-01> : tensor<1x1x1x2xf32>
  // CHECK-NEXT: %a = ascend.AscendDequant %x, %one : (tensor<1x4x8x2xi32>, tensor<1xf32>) -> tensor<1x4x8x2xf32>
  %a = ascend.AscendDequant %x, %one : (tensor<1x4x8x2xi32>, tensor<1xf32>) -> tensor<1x4x8x2xf32>
  // CHECK-NEXT: %b = ascend.AscendDequant %x, %four sqrt_mode true relu_flag true dtype 1 : (tensor<1x4x8x2xi32>, tensor<4xf32>) -> tensor<1x4x8x2xf16>
  %b = ascend.AscendDequant %x, %four sqrt_mode true relu_flag true dtype 1 : (tensor<1x4x8x2xi32>, tensor<4xf32>) -> tensor<1x4x8x2xf16>
  // CHECK-NEXT: %c = ascend.AscendDequant %x, %last : (tensor<1x4x8x2xi32>, tensor<1x1x1x2xf32>) -> tensor<1x4x8x2xf32>
  %c = ascend.AscendDequant %x, %last : (tensor<1x4x8x2xi32>, tensor<1x1x1x2xf32>) -> tensor<1x4x8x2xf32>
  // CHECK-NEXT: func.return
  func.return
}

// Sums that are shifted right, by one number or by one per channel.
// CHECK-LABEL: func.func @shift(
func.func @shift(%x: tensor<1x4x8x2xi32>) {
  // CHECK-NEXT: %s = nn.constant dense<5.000000e-01> : tensor<4xf32>
  %s = nn.constant dense<5.000000e-01> : tensor<4xf32>
  // CHECK-NEXT: %a = ascend.AscendDequant %x, %s shift_n [3] : (tensor<1x4x8x2xi32>, tensor<4xf32>) -> tensor<1x4x8x2xf32>
  %a = ascend.AscendDequant %x, %s shift_n [3] : (tensor<1x4x8x2xi32>, tensor<4xf32>) -> tensor<1x4x8x2xf32>
  // CHECK-NEXT: %b = ascend.AscendDequant %x, %s dtype 1 shift_n [1, 2, 3, 16] : (tensor<1x4x8x2xi32>, tensor<4xf32>) -> tensor<1x4x8x2xf16>
  %b = ascend.AscendDequant %x, %s dtype 1 shift_n [1, 2, 3, 16] : (tensor<1x4x8x2xi32>, tensor<4xf32>) -> tensor<1x4x8x2xf16>
  // CHECK-NEXT: %c = ascend.AscendDequant %x, %s shift_n [0, 0, 3, 0] fakequant_precision_mode "FORCE_FP16_QUANT" : (tensor<1x4x8x2xi32>, tensor<4xf32>) -> tensor<1x4x8x2xf32>
  %c = ascend.AscendDequant %x, %s shift_n [0, 0, 3, 0] fakequant_precision_mode "FORCE_FP16_QUANT" : (tensor<1x4x8x2xi32>, tensor<4xf32>) -> tensor<1x4x8x2xf32>
  // CHECK-NEXT: func.return
  func.return
}
