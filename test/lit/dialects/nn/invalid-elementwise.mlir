// RUN: VERIFY_DIAGNOSTICS | filecheck %s

// Each rule of the elementwise operations.

func.func @main(%x: tensor<2xf32>, %y: tensor<3xf32>) {
  // CHECK: invalid-elementwise.mlir:7:3: error: 'nn.add' op shapes do not broadcast: [2], [3]
  nn.add %x, %y : (tensor<2xf32>, tensor<3xf32>) -> tensor<3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>, %y: tensor<2xf16>) {
  // CHECK: invalid-elementwise.mlir:15:3: error: 'nn.mul' op element types differ: f32, f16
  nn.mul %x, %y : (tensor<2xf32>, tensor<2xf16>) -> tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x1xf32>, %y: tensor<3xf32>) {
  // CHECK: invalid-elementwise.mlir:23:3: error: 'nn.sub' op result is declared tensor<2x1xf32>, operands and properties give tensor<2x3xf32>
  nn.sub %x, %y : (tensor<2x1xf32>, tensor<3xf32>) -> tensor<2x1xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-elementwise.mlir:31:3: error: 'nn.relu' op result is declared tensor<?x2xf32>, operands and properties give tensor<2xf32>
  nn.relu %x : (tensor<2xf32>) -> tensor<?x2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-elementwise.mlir:39:3: error: 'nn.sigmoid' op result is declared tensor<2xf16>, operands and properties give tensor<2xf32>
  nn.sigmoid %x : (tensor<2xf32>) -> tensor<2xf16>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-elementwise.mlir:47:3: error: 'nn.not' op input must be of i1
  nn.not %x : tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xi8>) {
  // CHECK: invalid-elementwise.mlir:55:3: error: 'nn.and' op operands must be of i1
  nn.and %x, %x : tensor<2xi8>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-elementwise.mlir:63:3: error: 'nn.or' op operands must be of i1
  nn.or %x, %x : tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x1xf32>, %s: tensor<2x3xf32>) {
  // CHECK: invalid-elementwise.mlir:71:3: error: 'nn.prelu' op input and broadcast slope differ: 1 and 3
  nn.prelu %x, %s : (tensor<2x1xf32>, tensor<2x3xf32>) -> tensor<2x1xf32>
  func.return
}

// -----

func.func @main(%x: tensor<3xf32>, %s: tensor<1x3xf32>) {
  // CHECK: invalid-elementwise.mlir:79:3: error: 'nn.prelu' op input and broadcast slope differ in rank: [3] and [1, 3]
  nn.prelu %x, %s : (tensor<3xf32>, tensor<1x3xf32>) -> tensor<3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<3xf32>, %s: tensor<3xf16>) {
  // CHECK: invalid-elementwise.mlir:87:3: error: 'nn.prelu' op element types differ: f32, f16
  nn.prelu %x, %s : (tensor<3xf32>, tensor<3xf16>) -> tensor<3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-elementwise.mlir:95:3: error: 'nn.compare' op property 'predicate' expected in operation 'nn.compare'
  nn.compare %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-elementwise.mlir:103:31: error: Expected `eq`, `ne`, `lt`, `le`, `gt`, or `ge`.
  nn.compare %x, %x predicate almost : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi1>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-elementwise.mlir:111:3: error: 'nn.compare' op result is declared tensor<2xf32>, operands and properties give tensor<2xi1>
  nn.compare %x, %x predicate lt : tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>, %y: tensor<2xi32>) {
  // CHECK: invalid-elementwise.mlir:119:3: error: 'nn.compare' op element types differ: f32, i32
  nn.compare %x, %y predicate lt : (tensor<2xf32>, tensor<2xi32>) -> tensor<2xi1>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-elementwise.mlir:127:3: error: 'nn.where' op condition must be of i1
  nn.where %x, %x, %x : tensor<2xf32>
  func.return
}

// -----

func.func @main(%c: tensor<2xi1>, %x: tensor<2xf32>, %y: tensor<2xf16>) {
  // CHECK: invalid-elementwise.mlir:135:3: error: 'nn.where' op element types differ: f32, f16
  nn.where %c, %x, %y : (tensor<2xi1>, tensor<2xf32>, tensor<2xf16>) -> tensor<2xf32>
  func.return
}

// -----

func.func @main(%c: tensor<2xi1>, %x: tensor<3xf32>) {
  // CHECK: invalid-elementwise.mlir:143:3: error: 'nn.where' op shapes do not broadcast: [2], [3], [3]
  nn.where %c, %x, %x : (tensor<2xi1>, tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-elementwise.mlir:151:3: error: 'nn.pow' op result is declared tensor<2xi32>, operands and properties give tensor<2xf32>
  nn.pow %x, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xi32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>) {
  // CHECK: invalid-elementwise.mlir:159:3: error: 'nn.cast' op result is declared tensor<3x2xf16>, operands and properties give tensor<2x3xf16>
  nn.cast %x : (tensor<2x3xf32>) -> tensor<3x2xf16>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: error: 'nn.hard_shrink' op lambd must not be negative
  nn.hard_shrink %x lambd -1.0 : tensor<2xf32>
  func.return
}
