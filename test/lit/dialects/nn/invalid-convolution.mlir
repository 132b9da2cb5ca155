// RUN: VERIFY_DIAGNOSTICS | filecheck %s

// Each rule of the convolutions.

func.func @main(%x: tensor<4x8xf32>, %w: tensor<6x4xf32>) {
  // CHECK: invalid-convolution.mlir:7:3: error: 'nn.conv' op input of rank 2 and weight of rank 2: both need batch, channels and space
  nn.conv %x, %w : (tensor<4x8xf32>, tensor<6x4xf32>) -> tensor<4x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // CHECK: invalid-convolution.mlir:15:3: error: 'nn.conv' op input of rank 3 and weight of rank 4: both need batch, channels and space
  nn.conv %x, %w : (tensor<1x4x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // CHECK: invalid-convolution.mlir:23:3: error: 'nn.conv' op strides has 1 entries, expected 2 for 2 spatial axes
  nn.conv %x, %w strides [2] : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // CHECK: invalid-convolution.mlir:31:3: error: 'nn.conv' op strides [0, 1] must be at least 1
  nn.conv %x, %w strides [0, 1] : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // CHECK: invalid-convolution.mlir:39:3: error: 'nn.conv' op dilations has 3 entries, expected 2 for 2 spatial axes
  nn.conv %x, %w dilations [1, 1, 1] : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // CHECK: invalid-convolution.mlir:47:3: error: 'nn.conv' op dilations [1, 0] must be at least 1
  nn.conv %x, %w dilations [1, 0] : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // CHECK: invalid-convolution.mlir:55:3: error: 'nn.conv' op pads has 2 entries, expected 4 for 2 spatial axes
  nn.conv %x, %w pads [1, 1] : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // CHECK: invalid-convolution.mlir:63:3: error: 'nn.conv' op pads [1, 1, -1, 1] must be at least 0
  nn.conv %x, %w pads [1, 1, -1, 1] : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // CHECK: invalid-convolution.mlir:71:3: error: 'nn.conv' op pads and auto_pad exclude each other
  nn.conv %x, %w pads [0, 0, 0, 0] auto_pad same_upper : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x0x3xf32>) {
  // CHECK: invalid-convolution.mlir:79:3: error: 'nn.conv' op kernel [0, 3] must be at least 1
  nn.conv %x, %w : (tensor<1x4x8x8xf32>, tensor<6x4x0x3xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x2x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // CHECK: invalid-convolution.mlir:87:3: error: 'nn.conv' op window of 3 exceeds the padded size 2
  nn.conv %x, %w : (tensor<1x4x2x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x0x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // CHECK: invalid-convolution.mlir:95:3: error: 'nn.conv' op groups must be at least 1, not 0
  nn.conv %x, %w groups 0 : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // CHECK: invalid-convolution.mlir:103:3: error: 'nn.conv' op input channels and weight channels x groups differ: 4 and 8
  nn.conv %x, %w groups 2 : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x8x8x8xf32>, %w: tensor<7x4x3x3xf32>) {
  // CHECK: invalid-convolution.mlir:111:3: error: 'nn.conv' op 7 output channels are not divisible by 2 groups
  nn.conv %x, %w groups 2 : (tensor<1x8x8x8xf32>, tensor<7x4x3x3xf32>) -> tensor<1x7x6x6xf32>
  func.return
}

// -----

// The channels of this layout stand last.
func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // CHECK: invalid-convolution.mlir:120:3: error: 'nn.conv' op input channels and weight channels x groups differ: 8 and 4
  nn.conv %x, %w layout nhwc : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>, %b: tensor<6x1xf32>) {
  // CHECK: invalid-convolution.mlir:128:3: error: 'nn.conv' op bias must be of rank 1
  nn.conv %x, %w, %b : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>, tensor<6x1xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>, %b: tensor<4xf32>) {
  // CHECK: invalid-convolution.mlir:136:3: error: 'nn.conv' op bias length and output channels differ: 4 and 6
  nn.conv %x, %w, %b : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>, tensor<4xf32>) -> tensor<1x6x6x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x8x8xf16>, %w: tensor<6x4x3x3xf32>) {
  // CHECK: invalid-convolution.mlir:144:3: error: 'nn.conv' op element types differ: f16, f32
  nn.conv %x, %w : (tensor<1x4x8x8xf16>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf16>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // CHECK: invalid-convolution.mlir:152:3: error: 'nn.conv' op result is declared tensor<1x6x8x8xf32>, operands and properties give tensor<1x6x6x6xf32>
  nn.conv %x, %w : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x8x8xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x4x8x8xf32>, %w: tensor<6x4x3x3xf32>) {
  // CHECK: invalid-convolution.mlir:160:3: error: 'nn.conv' op result is declared tensor<1x6x6x6xf16>, operands and properties give tensor<1x6x6x6xf32>
  nn.conv %x, %w : (tensor<1x4x8x8xf32>, tensor<6x4x3x3xf32>) -> tensor<1x6x6x6xf16>
  func.return
}

// -----

func.func @main(%x: tensor<1x6x8x8xf32>, %w: tensor<4x6x3x3xf32>) {
  // CHECK: invalid-convolution.mlir:168:3: error: 'nn.conv_transpose' op input channels and weight channels differ: 6 and 4
  nn.conv_transpose %x, %w : (tensor<1x6x8x8xf32>, tensor<4x6x3x3xf32>) -> tensor<1x6x10x10xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x3x8x8xf32>, %w: tensor<3x6x3x3xf32>) {
  // CHECK: invalid-convolution.mlir:176:3: error: 'nn.conv_transpose' op 3 input channels are not divisible by 2 groups
  nn.conv_transpose %x, %w groups 2 : (tensor<1x3x8x8xf32>, tensor<3x6x3x3xf32>) -> tensor<1x12x10x10xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x3x8x8xf32>, %w: tensor<3x6x3x3xf32>) {
  // CHECK: invalid-convolution.mlir:184:3: error: 'nn.conv_transpose' op output_padding has 1 entries, expected 2
  nn.conv_transpose %x, %w output_padding [1] : (tensor<1x3x8x8xf32>, tensor<3x6x3x3xf32>) -> tensor<1x6x10x10xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x3x8x8xf32>, %w: tensor<3x6x3x3xf32>) {
  // CHECK: invalid-convolution.mlir:192:3: error: 'nn.conv_transpose' op output_padding [0, -1] must not be negative
  nn.conv_transpose %x, %w output_padding [0, -1] : (tensor<1x3x8x8xf32>, tensor<3x6x3x3xf32>) -> tensor<1x6x10x10xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x3x8x8xf32>, %w: tensor<3x6x3x3xf32>) {
  // CHECK: invalid-convolution.mlir:200:3: error: 'nn.conv_transpose' op output_shape has 3 entries, expected 2
  nn.conv_transpose %x, %w output_shape [10, 10, 10] : (tensor<1x3x8x8xf32>, tensor<3x6x3x3xf32>) -> tensor<1x6x10x10xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x3x8x8xf32>, %w: tensor<3x6x3x3xf32>) {
  // CHECK: invalid-convolution.mlir:208:3: error: 'nn.conv_transpose' op pads and output_shape exclude each other
  nn.conv_transpose %x, %w output_shape [10, 10] pads [0, 0, 0, 0] : (tensor<1x3x8x8xf32>, tensor<3x6x3x3xf32>) -> tensor<1x6x10x10xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x3x1x8xf32>, %w: tensor<3x6x3x3xf32>) {
  // CHECK: invalid-convolution.mlir:216:3: error: 'nn.conv_transpose' op pads cut off more than the output holds: a size of -1 is left
  nn.conv_transpose %x, %w pads [2, 0, 2, 0] : (tensor<1x3x1x8xf32>, tensor<3x6x3x3xf32>) -> tensor<1x6x1x10xf32>
  func.return
}
