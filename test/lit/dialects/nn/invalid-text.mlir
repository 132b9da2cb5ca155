// RUN: VERIFY_DIAGNOSTICS | filecheck %s

// What the common text form does not take.

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-text.mlir:7:11: error: 0 operands do not fit 'nn.relu'
  nn.relu : tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-text.mlir:15:11: error: 2 operands do not fit 'nn.relu'
  nn.relu %x, %x : tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-text.mlir:23:10: error: 1 operands do not fit 'nn.add'
  nn.add %x : tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-text.mlir:31:16: error: 2 types for 1 operands
  nn.relu %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-text.mlir:39:14: error: Expected ':'
  nn.relu %x slope 0.1 : tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-text.mlir:47:30: error: 'alpha' is given twice
  nn.leaky_relu %x alpha 0.1 alpha 0.2 : tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-text.mlir:55:26: error: integer or float literal expected
  nn.leaky_relu %x alpha fast : tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-text.mlir:63:26: error: number is out of range
  nn.leaky_relu %x alpha 1.0e39 : tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-text.mlir:71:18: error: number is out of range
  nn.clip %x min 1.0e309 : tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-text.mlir:79:22: error: Expected integer literal
  nn.softmax %x axis 0.5 : tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-text.mlir:87:22: error: number is out of range
  nn.softmax %x axis 9223372036854775808 : tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-text.mlir:95:26: error: Expected integer literal
  nn.reduce_sum %x axes [true] : (tensor<2xf32>) -> tensor<f32>
  func.return
}

// -----

func.func @main(%x: tensor<1x2x3x3xf32>) {
  // CHECK: invalid-text.mlir:103:32: error: Expected `nchw`, or `nhwc`.
  nn.global_max_pool %x layout nchw4 : (tensor<1x2x3x3xf32>) -> tensor<1x2x1x1xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-text.mlir:111:32: error: Expected ','
  nn.relu %x from <onnx, "Relu"> : tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-text.mlir:119:20: error: identifier expected (the source framework)
  nn.relu %x from <"ONNX 1", "Relu", "r"> : tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: f32) {
  // CHECK: invalid-text.mlir:127:3: error: 'nn.relu' op operand 'input' at position 0 does not verify: f32 should be of base attribute tensor
  nn.relu %x : f32
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-text.mlir:135:3: error: 'nn.relu' op 1 : i64 should be of base attribute nn.origin
  "nn.relu"(%x) <{origin = 1 : i64}> : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-text.mlir:143:3: error: 'nn.softmax' op Expected attribute i64 but got i32
  "nn.softmax"(%x) <{axis = 0 : i32}> : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-text.mlir:151:3: error: 'nn.leaky_relu' op Expected attribute f32 but got f64
  "nn.leaky_relu"(%x) <{alpha = 0.1 : f64}> : (tensor<2xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-text.mlir:159:12: error: Operation nn.dance is not registered
  nn.dance %x : tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-text.mlir:167:16: error: %z is used but not defined
  %y = nn.relu %z : tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-text.mlir:175:3: error: 'nn.relu' op uses a value that is not defined before it
  %y = nn.relu %z : tensor<2xf32>
  %z = nn.relu %x : tensor<2xf32>
  func.return
}

// -----

func.func @main() {
  // CHECK: invalid-text.mlir:184:75: error: Expected integer literal
  %d = nn.opaque framework "tensorflow" op_type "X" attrs {s = #nn.shape<[-1]>} : () -> tensor<4xf32>
  func.return
}
