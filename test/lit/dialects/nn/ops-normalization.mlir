// RUN: ROUNDTRIP | filecheck %s

// Normalizations and softmax.

// CHECK-LABEL: func.func @per_channel(
func.func @per_channel(%x: tensor<2x6x?x5xf32>, %y: tensor<2x4x5x6xf32>, %c: tensor<6xf32>) {
  // CHECK-NEXT: %batch = nn.batch_norm %x, %c, %c, %c, %c : (tensor<2x6x?x5xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<2x6x?x5xf32>
  %batch = nn.batch_norm %x, %c, %c, %c, %c : (tensor<2x6x?x5xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<2x6x?x5xf32>
  // CHECK-NEXT: %last = nn.batch_norm %y, %c, %c, %c, %c epsilon 0.001 layout nhwc : (tensor<2x4x5x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<2x4x5x6xf32>
  %last = nn.batch_norm %y, %c, %c, %c, %c epsilon 0.001 layout nhwc : (tensor<2x4x5x6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<2x4x5x6xf32>
  // CHECK-NEXT: %instance = nn.instance_norm %y, %c, %c epsilon 1.0e-06 layout nhwc : (tensor<2x4x5x6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<2x4x5x6xf32>
  %instance = nn.instance_norm %y, %c, %c epsilon 1.0e-06 layout nhwc : (tensor<2x4x5x6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<2x4x5x6xf32>
  // CHECK-NEXT: %group = nn.group_norm %x, %c, %c num_groups 3 epsilon 0.5 : (tensor<2x6x?x5xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<2x6x?x5xf32>
  %group = nn.group_norm %x, %c, %c num_groups 3 epsilon 0.5 : (tensor<2x6x?x5xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<2x6x?x5xf32>
  // CHECK-NEXT: %grouped = nn.group_norm %y, %c, %c num_groups 2 layout nhwc : (tensor<2x4x5x6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<2x4x5x6xf32>
  %grouped = nn.group_norm %y, %c, %c num_groups 2 layout nhwc : (tensor<2x4x5x6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<2x4x5x6xf32>
  // CHECK-NEXT: func.return
  func.return
}

// Parameters in float32 next to an input in float16.
// CHECK-LABEL: func.func @mixed(
func.func @mixed(%x: tensor<2x6xf16>, %c: tensor<6xf32>) {
  // CHECK-NEXT: %y = nn.batch_norm %x, %c, %c, %c, %c : (tensor<2x6xf16>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<2x6xf16>
  %y = nn.batch_norm %x, %c, %c, %c, %c : (tensor<2x6xf16>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<2x6xf16>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @others(
func.func @others(%x: tensor<2x6x?x5xf32>, %s: tensor<5xf32>, %t: tensor<6x1x5xf32>) {
  // CHECK-NEXT: %layer = nn.layer_norm %x, %s : (tensor<2x6x?x5xf32>, tensor<5xf32>) -> tensor<2x6x?x5xf32>
  %layer = nn.layer_norm %x, %s : (tensor<2x6x?x5xf32>, tensor<5xf32>) -> tensor<2x6x?x5xf32>
  // CHECK-NEXT: %axis = nn.layer_norm %x, %t, %t axis 1 epsilon 1.0e-12 : (tensor<2x6x?x5xf32>, tensor<6x1x5xf32>, tensor<6x1x5xf32>) -> tensor<2x6x?x5xf32>
  %axis = nn.layer_norm %x, %t, %t axis 1 epsilon 1.0e-12 : (tensor<2x6x?x5xf32>, tensor<6x1x5xf32>, tensor<6x1x5xf32>) -> tensor<2x6x?x5xf32>
  // CHECK-NEXT: %lrn = nn.lrn %x size 5 : tensor<2x6x?x5xf32>
  %lrn = nn.lrn %x size 5 : tensor<2x6x?x5xf32>
  // CHECK-NEXT: %local = nn.lrn %x size 3 alpha 0.002 beta 0.5 bias 2.0 layout nhwc : tensor<2x6x?x5xf32>
  %local = nn.lrn %x size 3 alpha 0.002 beta 0.5 bias 2.0 layout nhwc : tensor<2x6x?x5xf32>
  // CHECK-NEXT: %soft = nn.softmax %x : tensor<2x6x?x5xf32>
  %soft = nn.softmax %x : tensor<2x6x?x5xf32>
  // CHECK-NEXT: %softest = nn.softmax %x axis 1 : tensor<2x6x?x5xf32>
  %softest = nn.softmax %x axis 1 : tensor<2x6x?x5xf32>
  // CHECK-NEXT: %log = nn.log_softmax %x axis -2 : tensor<2x6x?x5xf32>
  %log = nn.log_softmax %x axis -2 : tensor<2x6x?x5xf32>
  // CHECK-NEXT: func.return
  func.return
}
