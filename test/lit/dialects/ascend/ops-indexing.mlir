// RUN: ROUNDTRIP | filecheck %s

// Parts and repetitions of tensors, shapes, places of largest elements.

// CHECK-LABEL: func.func @gather(
func.func @gather(%x: tensor<?x4x6xf32>, %i: tensor<2x3xi64>) {
  // CHECK-NEXT: %a = ascend.Gather %x, %i validate_indices false : (tensor<?x4x6xf32>, tensor<2x3xi64>) -> tensor<2x3x4x6xf32>
  %a = ascend.Gather %x, %i validate_indices false : (tensor<?x4x6xf32>, tensor<2x3xi64>) -> tensor<2x3x4x6xf32>
  // CHECK-NEXT: %b = ascend.GatherNd %x, %i : (tensor<?x4x6xf32>, tensor<2x3xi64>) -> tensor<2xf32>
  %b = ascend.GatherNd %x, %i : (tensor<?x4x6xf32>, tensor<2x3xi64>) -> tensor<2xf32>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @parts(
func.func @parts(%x: tensor<?x4x6xf32>, %p: tensor<4xi8>, %q: tensor<4xi8>) {
  // CHECK-NEXT: %m = nn.constant dense<[2, 1, 3]> : tensor<3xi64>
  %m = nn.constant dense<[2, 1, 3]> : tensor<3xi64>
  // CHECK-NEXT: %a = ascend.Tile %x, %m : (tensor<?x4x6xf32>, tensor<3xi64>) -> tensor<?x4x18xf32>
  %a = ascend.Tile %x, %m : (tensor<?x4x6xf32>, tensor<3xi64>) -> tensor<?x4x18xf32>
  // CHECK-NEXT: %b = ascend.Pack %p, %q axis -1 N 2 : (tensor<4xi8>, tensor<4xi8>) -> tensor<4x2xi8>
  %b = ascend.Pack %p, %q axis -1 N 2 : (tensor<4xi8>, tensor<4xi8>) -> tensor<4x2xi8>
  // CHECK-NEXT: %c, %d, %e, %f = ascend.Unpack %x num 4 axis 1 : (tensor<?x4x6xf32>) -> (tensor<?x6xf32>, tensor<?x6xf32>, tensor<?x6xf32>, tensor<?x6xf32>)
  %c, %d, %e, %f = ascend.Unpack %x num 4 axis 1 : (tensor<?x4x6xf32>) -> (tensor<?x6xf32>, tensor<?x6xf32>, tensor<?x6xf32>, tensor<?x6xf32>)
  // CHECK-NEXT: %one = nn.constant dense<1> : tensor<i32>
  %one = nn.constant dense<1> : tensor<i32>
  // CHECK-NEXT: %g, %h = ascend.Split %one, %x num_split 2 : (tensor<i32>, tensor<?x4x6xf32>) -> (tensor<?x2x6xf32>, tensor<?x2x6xf32>)
  %g, %h = ascend.Split %one, %x num_split 2 : (tensor<i32>, tensor<?x4x6xf32>) -> (tensor<?x2x6xf32>, tensor<?x2x6xf32>)
  // CHECK-NEXT: %o = nn.constant dense<[0, 1, 2]> : tensor<3xi32>
  %o = nn.constant dense<[0, 1, 2]> : tensor<3xi32>
  // CHECK-NEXT: %s = nn.constant dense<[-1, 2, -1]> : tensor<3xi32>
  %s = nn.constant dense<[-1, 2, -1]> : tensor<3xi32>
  // CHECK-NEXT: %j = ascend.Slice %x, %o, %s : (tensor<?x4x6xf32>, tensor<3xi32>, tensor<3xi32>) -> tensor<?x2x4xf32>
  %j = ascend.Slice %x, %o, %s : (tensor<?x4x6xf32>, tensor<3xi32>, tensor<3xi32>) -> tensor<?x2x4xf32>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @others(
func.func @others(%x: tensor<?x4x6xf32>, %v: tensor<f16>) {
  // CHECK-NEXT: %n = nn.constant dense<[2, 3]> : tensor<2xi32>
  %n = nn.constant dense<[2, 3]> : tensor<2xi32>
  // CHECK-NEXT: %a = ascend.Fill %n, %v : (tensor<2xi32>, tensor<f16>) -> tensor<2x3xf16>
  %a = ascend.Fill %n, %v : (tensor<2xi32>, tensor<f16>) -> tensor<2x3xf16>
  // CHECK-NEXT: %b = ascend.Shape %x : (tensor<?x4x6xf32>) -> tensor<3xi32>
  %b = ascend.Shape %x : (tensor<?x4x6xf32>) -> tensor<3xi32>
  // CHECK-NEXT: %c = ascend.Shape %x dtype 9 : (tensor<?x4x6xf32>) -> tensor<3xi64>
  %c = ascend.Shape %x dtype 9 : (tensor<?x4x6xf32>) -> tensor<3xi64>
  // CHECK-NEXT: %one = nn.constant dense<-1> : tensor<i64>
  %one = nn.constant dense<-1> : tensor<i64>
  // CHECK-NEXT: %d = ascend.ArgMaxV2 %x, %one : (tensor<?x4x6xf32>, tensor<i64>) -> tensor<?x4xi64>
  %d = ascend.ArgMaxV2 %x, %one : (tensor<?x4x6xf32>, tensor<i64>) -> tensor<?x4xi64>
  // CHECK-NEXT: %e = ascend.ArgMaxV2 %x, %one dtype 3 : (tensor<?x4x6xf32>, tensor<i64>) -> tensor<?x4xi32>
  %e = ascend.ArgMaxV2 %x, %one dtype 3 : (tensor<?x4x6xf32>, tensor<i64>) -> tensor<?x4xi32>
  // CHECK-NEXT: func.return
  func.return
}
