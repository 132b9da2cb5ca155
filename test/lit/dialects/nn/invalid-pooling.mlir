// RUN: VERIFY_DIAGNOSTICS | filecheck %s

// Each rule of the poolings.

func.func @main(%x: tensor<1x2x8xf32>) {
  // CHECK: invalid-pooling.mlir:7:3: error: 'nn.max_pool' op input of rank 3 and a kernel of 2 axes
  nn.max_pool %x kernel [3, 3] : (tensor<1x2x8xf32>) -> tensor<1x2x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x2xf32>) {
  // CHECK: invalid-pooling.mlir:15:3: error: 'nn.max_pool' op input of rank 2 and a kernel of 0 axes
  nn.max_pool %x kernel [] : tensor<1x2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x2x8xf32>) {
  // CHECK: invalid-pooling.mlir:23:3: error: 'nn.max_pool' op kernel [0] must be at least 1
  nn.max_pool %x kernel [0] : (tensor<1x2x8xf32>) -> tensor<1x2x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x2x8xf32>) {
  // CHECK: invalid-pooling.mlir:31:3: error: 'nn.average_pool' op strides has 2 entries, expected 1 for 1 spatial axes
  nn.average_pool %x kernel [3] strides [1, 1] : (tensor<1x2x8xf32>) -> tensor<1x2x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x2x8xf32>) {
  // CHECK: invalid-pooling.mlir:39:3: error: 'nn.average_pool' op window of 9 exceeds the padded size 8
  nn.average_pool %x kernel [9] : (tensor<1x2x8xf32>) -> tensor<1x2x0xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x2x8xf32>) {
  // CHECK: invalid-pooling.mlir:47:3: error: 'nn.average_pool' op property 'kernel' expected in operation 'nn.average_pool'
  nn.average_pool %x : (tensor<1x2x8xf32>) -> tensor<1x2x0xf32>
  func.return
}

// -----

// The second window starts in the end padding: ceil_mode does not count it.
func.func @main(%x: tensor<1x2x3xf32>) {
  // CHECK: invalid-pooling.mlir:56:3: error: 'nn.max_pool' op result is declared tensor<1x2x2xf32>, operands and properties give tensor<1x2x1xf32>
  nn.max_pool %x kernel [3] strides [3] pads [0, 2] ceil_mode : (tensor<1x2x3xf32>) -> tensor<1x2x2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<4xf32>) {
  // CHECK: invalid-pooling.mlir:64:3: error: 'nn.global_average_pool' op input must be of rank 2 or more
  nn.global_average_pool %x : tensor<4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x2x8xf32>) {
  // CHECK: invalid-pooling.mlir:72:3: error: 'nn.global_max_pool' op result is declared tensor<1x2xf32>, operands and properties give tensor<1x2x1xf32>
  nn.global_max_pool %x : (tensor<1x2x8xf32>) -> tensor<1x2xf32>
  func.return
}
