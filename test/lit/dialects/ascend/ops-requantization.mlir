// RUN: ROUNDTRIP | filecheck %s

// From accumulators to integers, and the int16 path.

// CHECK-LABEL: func.func @requant(
func.func @requant(%x: tensor<?x4x8x2xi32>, %m: tensor<2x4xi32>) {
  // CHECK-NEXT: %s = nn.constant dense<5.000000e-01> : tensor<4xf32>
  %s = nn.constant dense<5.000000e-01> : tensor<4xf32>
  // CHECK-NEXT: %a = ascend.AscendRequant %x, %s : (tensor<?x4x8x2xi32>, tensor<4xf32>) -> tensor<?x4x8x2xi8>
  %a = ascend.AscendRequant %x, %s : (tensor<?x4x8x2xi32>, tensor<4xf32>) -> tensor<?x4x8x2xi8>
  // CHECK-NEXT: %b = ascend.AscendRequant %m, %s offset -128.0 relu_flag true : (tensor<2x4xi32>, tensor<4xf32>) -> tensor<2x4xi8>
  %b = ascend.AscendRequant %m, %s offset -128.0 relu_flag true : (tensor<2x4xi32>, tensor<4xf32>) -> tensor<2x4xi8>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @int16(
func.func @int16(%x: tensor<1x4x8x2xi32>, %h: tensor<1x4x8x2xi16>, %b: tensor<4xi16>) {
  // CHECK-NEXT: %s = nn.constant dense<5.000000e-01> : tensor<4xf32>
  %s = nn.constant dense<5.000000e-01> : tensor<4xf32>
  // CHECK-NEXT: %a = ascend.AscendDequantS16 %x, %s : (tensor<1x4x8x2xi32>, tensor<4xf32>) -> tensor<1x4x8x2xi16>
  %a = ascend.AscendDequantS16 %x, %s : (tensor<1x4x8x2xi32>, tensor<4xf32>) -> tensor<1x4x8x2xi16>
  // CHECK-NEXT: %c = ascend.AscendDequantS16 %x, %s, %b relu_flag true : (tensor<1x4x8x2xi32>, tensor<4xf32>, tensor<4xi16>) -> tensor<1x4x8x2xi16>
  %c = ascend.AscendDequantS16 %x, %s, %b relu_flag true : (tensor<1x4x8x2xi32>, tensor<4xf32>, tensor<4xi16>) -> tensor<1x4x8x2xi16>
  // CHECK-NEXT: %y0, %y1 = ascend.AscendRequantS16 %a, %s : (tensor<1x4x8x2xi16>, tensor<4xf32>) -> (tensor<1x4x8x2xi8>, tensor<1x4x8x2xi16>)
  %y0, %y1 = ascend.AscendRequantS16 %a, %s : (tensor<1x4x8x2xi16>, tensor<4xf32>) -> (tensor<1x4x8x2xi8>, tensor<1x4x8x2xi16>)
  // CHECK-NEXT: %z0, %z1 = ascend.AscendRequantS16 %a, %s, %h dual_output true relu_flag true : (tensor<1x4x8x2xi16>, tensor<4xf32>, tensor<1x4x8x2xi16>) -> (tensor<1x4x8x2xi8>, tensor<1x4x8x2xi16>)
  %z0, %z1 = ascend.AscendRequantS16 %a, %s, %h dual_output true relu_flag true : (tensor<1x4x8x2xi16>, tensor<4xf32>, tensor<1x4x8x2xi16>) -> (tensor<1x4x8x2xi8>, tensor<1x4x8x2xi16>)
  // CHECK-NEXT: %last0, %last1 = ascend.AscendRequantS16 %z1, %s : (tensor<1x4x8x2xi16>, tensor<4xf32>) -> (tensor<1x4x8x2xi8>, tensor<1x4x8x2xi16>)
  %last0, %last1 = ascend.AscendRequantS16 %z1, %s : (tensor<1x4x8x2xi16>, tensor<4xf32>) -> (tensor<1x4x8x2xi8>, tensor<1x4x8x2xi16>)
  // CHECK-NEXT: func.return
  func.return
}
