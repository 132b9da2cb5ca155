// RUN: ROUNDTRIP | filecheck %s

// Functions of single elements.

// CHECK-LABEL: func.func @unary(
func.func @unary(%x: tensor<?x4xf32>, %b: tensor<?x4xi1>) {
  // CHECK-NEXT: %a = ascend.Log %x : tensor<?x4xf32>
  %a = ascend.Log %x : tensor<?x4xf32>
  // CHECK-NEXT: %c = ascend.Sin %x : tensor<?x4xf32>
  %c = ascend.Sin %x : tensor<?x4xf32>
  // CHECK-NEXT: %d = ascend.Cos %x : tensor<?x4xf32>
  %d = ascend.Cos %x : tensor<?x4xf32>
  // CHECK-NEXT: %e = ascend.Floor %x : tensor<?x4xf32>
  %e = ascend.Floor %x : tensor<?x4xf32>
  // CHECK-NEXT: %f = ascend.Ceil %x : tensor<?x4xf32>
  %f = ascend.Ceil %x : tensor<?x4xf32>
  // CHECK-NEXT: %g = ascend.Rint %x : tensor<?x4xf32>
  %g = ascend.Rint %x : tensor<?x4xf32>
  // CHECK-NEXT: %h = ascend.Softsign %x : tensor<?x4xf32>
  %h = ascend.Softsign %x : tensor<?x4xf32>
  // CHECK-NEXT: %i = ascend.LogicalNot %b : tensor<?x4xi1>
  %i = ascend.LogicalNot %b : tensor<?x4xi1>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @truth(
func.func @truth(%x: tensor<?x4xf32>, %y: tensor<4xf32>, %b: tensor<?x4xi1>) {
  // CHECK-NEXT: %a = ascend.Equal %x, %y : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xi1>
  %a = ascend.Equal %x, %y : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xi1>
  // CHECK-NEXT: %c = ascend.NotEqual %b, %b : tensor<?x4xi1>
  %c = ascend.NotEqual %b, %b : tensor<?x4xi1>
  // CHECK-NEXT: %d = ascend.Less %x, %y
  %d = ascend.Less %x, %y : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xi1>
  // CHECK-NEXT: %e = ascend.LessEqual %x, %y
  %e = ascend.LessEqual %x, %y : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xi1>
  // CHECK-NEXT: %f = ascend.Greater %x, %y
  %f = ascend.Greater %x, %y : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xi1>
  // CHECK-NEXT: %g = ascend.GreaterEqual %x, %y
  %g = ascend.GreaterEqual %x, %y : (tensor<?x4xf32>, tensor<4xf32>) -> tensor<?x4xi1>
  // CHECK-NEXT: %h = ascend.LogicalAnd %b, %b : tensor<?x4xi1>
  %h = ascend.LogicalAnd %b, %b : tensor<?x4xi1>
  // CHECK-NEXT: %i = ascend.LogicalOr %b, %b : tensor<?x4xi1>
  %i = ascend.LogicalOr %b, %b : tensor<?x4xi1>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @place(
func.func @place(%x: tensor<?x4xf32>) {
  // CHECK-NEXT: %d = nn.constant
  %d = nn.constant dense<1> : tensor<i64>
  // CHECK-NEXT: %a = ascend.ArgMin %x, %d dtype 3 : (tensor<?x4xf32>, tensor<i64>) -> tensor<?xi32>
  %a = ascend.ArgMin %x, %d dtype 3 : (tensor<?x4xf32>, tensor<i64>) -> tensor<?xi32>
  // CHECK-NEXT: func.return
  func.return
}
