// RUN: VERIFY_DIAGNOSTICS | filecheck %s

// Each rule of quantization points, parameters and steps.

func.func @main(%x: tensor<2xi32>) {
  // CHECK: invalid-quantization.mlir:7:3: error: 'nn.observe' op only float values are observed
  nn.observe %x as "a:0" by "min-max" : tensor<2xi32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-quantization.mlir:15:3: error: 'nn.observe' op bits must lie in [2, 16], not 1
  nn.observe %x as "a:0" by "min-max" bits 1 : tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-quantization.mlir:23:3: error: 'nn.observe' op parameters for i8 at a point of 4 bits
  nn.observe %x as "a:0" by "min-max" bits 4 gives <i8, scale = 1.0> : tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-quantization.mlir:31:57: error: [1.0, -1.0] is not a valid range
  nn.observe %x as "a:0" by "min-max" range [1.0, -1.0] : tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-quantization.mlir:39:56: error: [nan, 1.0] is not a valid range
  nn.observe %x as "a:0" by "min-max" range [nan, 1.0] : tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-quantization.mlir:47:45: error: two numbers expected
  nn.observe %x as "a:0" by "min-max" range [1.0] : tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-quantization.mlir:55:45: error: Expected `user`, `record`, `data`, or `synthetic`.
  nn.observe %x as "a:0" by "min-max" given luck : tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xi32>) {
  // CHECK: invalid-quantization.mlir:63:3: error: 'nn.quantize' op input must be of a float type
  nn.quantize %x by <i8, scale = 1.0> : (tensor<2xi32>) -> tensor<2xi8>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-quantization.mlir:71:3: error: 'nn.quantize' op result is declared tensor<2xui8>, operands and properties give tensor<2xi8>
  nn.quantize %x by <i8, scale = 1.0> : (tensor<2xf32>) -> tensor<2xui8>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-quantization.mlir:79:22: error: integer type expected
  nn.quantize %x by <f32, scale = 1.0> : (tensor<2xf32>) -> tensor<2xi8>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-quantization.mlir:87:39: error: scales must be positive and finite
  nn.quantize %x by <i8, scale = 0.0> : (tensor<2xf32>) -> tensor<2xi8>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-quantization.mlir:95:39: error: scales must be positive and finite
  nn.quantize %x by <i8, scale = inf> : (tensor<2xf32>) -> tensor<2xi8>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-quantization.mlir:103:34: error: number is out of range
  nn.quantize %x by <i8, scale = 1.0e39> : (tensor<2xf32>) -> tensor<2xi8>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-quantization.mlir:111:57: error: zero points must lie in [-128, 127]
  nn.quantize %x by <i8, scale = 1.0, zero_point = 128> : (tensor<2xf32>) -> tensor<2xi8>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-quantization.mlir:119:57: error: zero points must lie in [0, 255]
  nn.quantize %x by <ui8, scale = 1.0, zero_point = -1> : (tensor<2xf32>) -> tensor<2xui8>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-quantization.mlir:127:46: error: parameters without an axis have one scale and one zero point
  nn.quantize %x by <i8, scale = [1.0, 2.0]> : (tensor<2xf32>) -> tensor<2xi8>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-quantization.mlir:135:41: error: parameters without an axis have one scale and one zero point
  nn.quantize %x by <i8, scale = "key"> : (tensor<2xf32>) -> tensor<2xi8>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-quantization.mlir:143:80: error: 3 zero points for 2 scales
  nn.quantize %x by <i8, scale = [1.0, 2.0], zero_point = [1, 2, 3], axis = 0> : (tensor<2xf32>) -> tensor<2xi8>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-quantization.mlir:151:3: error: 'nn.quantize' op size of axis 0 and number of scales differ: 2 and 3
  nn.quantize %x by <i8, scale = [1.0, 2.0, 3.0], axis = 0> : (tensor<2xf32>) -> tensor<2xi8>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-quantization.mlir:159:3: error: 'nn.quantize' op size of axis 0 and number of zero points differ: 2 and 3
  nn.quantize %x by <i8, scale = "key", zero_point = [1, 2, 3], axis = 0> : (tensor<2xf32>) -> tensor<2xi8>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-quantization.mlir:167:3: error: 'nn.quantize' op axis 1 is out of range for rank 1
  nn.quantize %x by <i8, scale = [1.0, 2.0], axis = 1> : (tensor<2xf32>) -> tensor<2xi8>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-quantization.mlir:175:53: error: Expected integer literal
  nn.quantize %x by <i8, scale = [1.0, 2.0], axis = -1> : (tensor<2xf32>) -> tensor<2xi8>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-quantization.mlir:183:26: error: Expected 'scale'
  nn.quantize %x by <i8, zero_point = 3> : (tensor<2xf32>) -> tensor<2xi8>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-quantization.mlir:191:3: error: 'nn.quantize' op property 'qparams' expected in operation 'nn.quantize'
  nn.quantize %x : (tensor<2xf32>) -> tensor<2xi8>
  func.return
}

// -----

func.func @main(%x: tensor<2xui8>) {
  // CHECK: invalid-quantization.mlir:199:3: error: 'nn.dequantize' op input is of ui8, the parameters are for i8
  nn.dequantize %x by <i8, scale = 1.0> : (tensor<2xui8>) -> tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xi8>) {
  // CHECK: invalid-quantization.mlir:207:3: error: 'nn.dequantize' op result must be of a float type
  nn.dequantize %x by <i8, scale = 1.0> : (tensor<2xi8>) -> tensor<2xi32>
  func.return
}

// -----

func.func @main(%x: tensor<2xi8>) {
  // CHECK: invalid-quantization.mlir:215:3: error: 'nn.dequantize' op size of axis 0 and number of scales differ: 2 and 3
  nn.dequantize %x by <i8, scale = [1.0, 1.0, 1.0], axis = 0> : (tensor<2xi8>) -> tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xi32>) {
  // CHECK: invalid-quantization.mlir:223:3: error: 'nn.shift_accumulator' op input must be of a float type
  nn.shift_accumulator %x of <i32, scale = 1.0> by [1] : tensor<2xi32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-quantization.mlir:231:3: error: 'nn.shift_accumulator' op sums are i32, without zero points
  nn.shift_accumulator %x of <i8, scale = 1.0> by [1] : tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-quantization.mlir:239:3: error: 'nn.shift_accumulator' op sums are i32, without zero points
  nn.shift_accumulator %x of <i32, scale = 1.0, zero_point = 3> by [1] : tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-quantization.mlir:247:3: error: 'nn.shift_accumulator' op shifts must lie in [0, 16], not 17
  nn.shift_accumulator %x of <i32, scale = 1.0> by [17] : tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-quantization.mlir:255:3: error: 'nn.shift_accumulator' op all shifts are 0
  nn.shift_accumulator %x of <i32, scale = 1.0> by [0] : tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-quantization.mlir:263:3: error: 'nn.shift_accumulator' op 2 shifts for 1 scales
  nn.shift_accumulator %x of <i32, scale = 1.0> by [1, 2] : tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-quantization.mlir:271:3: error: 'nn.shift_accumulator' op 0 shifts for 1 scales
  nn.shift_accumulator %x of <i32, scale = 1.0> by [] : tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-quantization.mlir:279:3: error: 'nn.shift_accumulator' op size of axis 0 and number of scales differ: 2 and 3
  nn.shift_accumulator %x of <i32, scale = [1.0, 2.0, 3.0], axis = 0> by [1] : tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xi8>) {
  // CHECK: invalid-quantization.mlir:287:3: error: 'nn.dequantize' op bits must lie in [2, 8], not 9
  nn.dequantize %x by <i8, scale = 1.0> bits 9 : (tensor<2xi8>) -> tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xi8>) {
  // CHECK: invalid-quantization.mlir:295:3: error: 'nn.dequantize' op levels must ascend in [-128, 127]
  nn.dequantize %x by <i8, scale = 1.0> levels [3, 2] : (tensor<2xi8>) -> tensor<2xf32>
  func.return
}
