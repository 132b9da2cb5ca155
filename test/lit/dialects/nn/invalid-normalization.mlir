// RUN: VERIFY_DIAGNOSTICS | filecheck %s

// Each rule of the normalizations and of softmax.

func.func @main(%x: tensor<3xf32>) {
  // CHECK: invalid-normalization.mlir:7:3: error: 'nn.batch_norm' op input must be of rank 2 or more, not 1
  nn.batch_norm %x, %x, %x, %x, %x : tensor<3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>, %c: tensor<3x1xf32>) {
  // CHECK: invalid-normalization.mlir:15:3: error: 'nn.batch_norm' op scale must be of rank 1, not 2
  nn.batch_norm %x, %c, %c, %c, %c : (tensor<2x3xf32>, tensor<3x1xf32>, tensor<3x1xf32>, tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3x4xf32>, %c: tensor<4xf32>) {
  // CHECK: invalid-normalization.mlir:23:3: error: 'nn.batch_norm' op channels and scale length differ: 3 and 4
  nn.batch_norm %x, %c, %c, %c, %c : (tensor<2x3x4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<?x?x4xf32>, %c: tensor<4xf32>, %d: tensor<3xf32>) {
  // CHECK: invalid-normalization.mlir:31:3: error: 'nn.instance_norm' op channels and bias length differ: 4 and 3
  nn.instance_norm %x, %c, %d : (tensor<?x?x4xf32>, tensor<4xf32>, tensor<3xf32>) -> tensor<?x?x4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf16>, %c: tensor<3xf32>) {
  // CHECK: invalid-normalization.mlir:39:3: error: 'nn.instance_norm' op element types differ: f16, f32
  nn.instance_norm %x, %c, %c : (tensor<2x3xf16>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3xf16>
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>) {
  // CHECK: invalid-normalization.mlir:47:3: error: 'nn.instance_norm' op input must be of rank 2 or more, not 1
  nn.instance_norm %x, %x, %x : tensor<4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x4xf32>, %c: tensor<f32>) {
  // CHECK: invalid-normalization.mlir:55:3: error: 'nn.instance_norm' op scale must be of rank 1, not 0
  nn.instance_norm %x, %c, %c : (tensor<2x4xf32>, tensor<f32>, tensor<f32>) -> tensor<2x4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x6xf32>, %c: tensor<6xf32>) {
  // CHECK: invalid-normalization.mlir:63:3: error: 'nn.group_norm' op 6 channels are not divisible into 4 groups
  nn.group_norm %x, %c, %c num_groups 4 : (tensor<2x6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<2x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x6xf32>, %c: tensor<6xf32>) {
  // CHECK: invalid-normalization.mlir:71:3: error: 'nn.group_norm' op 6 channels are not divisible into 0 groups
  nn.group_norm %x, %c, %c num_groups 0 : (tensor<2x6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<2x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x6xf32>, %c: tensor<6xf32>) {
  // CHECK: invalid-normalization.mlir:79:3: error: 'nn.group_norm' op property 'num_groups' expected in operation 'nn.group_norm'
  nn.group_norm %x, %c, %c : (tensor<2x6xf32>, tensor<6xf32>, tensor<6xf32>) -> tensor<2x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x6xf32>, %c: tensor<6xf32>) {
  // CHECK: invalid-normalization.mlir:87:3: error: 'nn.layer_norm' op axis 2 is out of range for rank 2
  nn.layer_norm %x, %c axis 2 : (tensor<2x6xf32>, tensor<6xf32>) -> tensor<2x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x1xf32>, %c: tensor<6xf32>) {
  // CHECK: invalid-normalization.mlir:95:3: error: 'nn.layer_norm' op input and broadcast scale differ: 1 and 6
  nn.layer_norm %x, %c : (tensor<2x1xf32>, tensor<6xf32>) -> tensor<2x1xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x6xf32>, %c: tensor<5xf32>) {
  // CHECK: invalid-normalization.mlir:103:3: error: 'nn.layer_norm' op shapes do not broadcast: [2, 6], [5]
  nn.layer_norm %x, %c : (tensor<2x6xf32>, tensor<5xf32>) -> tensor<2x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<6xf32>, %c: tensor<1x6xf32>) {
  // CHECK: invalid-normalization.mlir:111:3: error: 'nn.layer_norm' op input and broadcast scale differ in rank: [6] and [1, 6]
  nn.layer_norm %x, %c : (tensor<6xf32>, tensor<1x6xf32>) -> tensor<6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<6xf32>, %c: tensor<6xf16>) {
  // CHECK: invalid-normalization.mlir:119:3: error: 'nn.layer_norm' op element types differ: f32, f16
  nn.layer_norm %x, %c : (tensor<6xf32>, tensor<6xf16>) -> tensor<6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<6xf32>) {
  // CHECK: invalid-normalization.mlir:127:3: error: 'nn.lrn' op input must be of rank 2 or more
  nn.lrn %x size 3 : tensor<6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x6xf32>) {
  // CHECK: invalid-normalization.mlir:135:3: error: 'nn.lrn' op size must be at least 1, not 0
  nn.lrn %x size 0 : tensor<2x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x6xf32>) {
  // CHECK: invalid-normalization.mlir:143:3: error: 'nn.softmax' op axis -3 is out of range for rank 2
  nn.softmax %x axis -3 : tensor<2x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x6xf32>) {
  // CHECK: invalid-normalization.mlir:151:3: error: 'nn.log_softmax' op axis 2 is out of range for rank 2
  nn.log_softmax %x axis 2 : tensor<2x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x6xf32>) {
  // CHECK: invalid-normalization.mlir:159:3: error: 'nn.softmax' op result is declared tensor<2x7xf32>, operands and properties give tensor<2x6xf32>
  nn.softmax %x : (tensor<2x6xf32>) -> tensor<2x7xf32>
  func.return
}
