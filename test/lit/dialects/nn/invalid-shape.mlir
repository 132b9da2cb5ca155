// RUN: VERIFY_DIAGNOSTICS | filecheck %s

// Each rule of data movement, shapes and reductions.

func.func @main() {
  // CHECK: invalid-shape.mlir:7:3: error: 'nn.concat' op expected at least one input
  nn.concat axis 0 : () -> tensor<1xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>, %y: tensor<3xf32>) {
  // CHECK: invalid-shape.mlir:15:3: error: 'nn.concat' op inputs differ in rank: [2, 3], [3]
  nn.concat %x, %y axis 0 : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<5xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x4xf32>) {
  // CHECK: invalid-shape.mlir:23:3: error: 'nn.concat' op sizes of axis 1 differ: 3 and 4
  nn.concat %x, %y axis 0 : (tensor<2x3xf32>, tensor<2x4xf32>) -> tensor<4x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>) {
  // CHECK: invalid-shape.mlir:31:3: error: 'nn.concat' op axis 2 is out of range for rank 2
  nn.concat %x axis 2 : tensor<2x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>, %y: tensor<2xf16>) {
  // CHECK: invalid-shape.mlir:39:3: error: 'nn.concat' op element types differ: f32, f16
  nn.concat %x, %y axis 0 : (tensor<2xf32>, tensor<2xf16>) -> tensor<4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<6xf32>) {
  // CHECK: invalid-shape.mlir:47:3: error: 'nn.split' op size of the axis and sum of the parts differ: 6 and 5
  %a, %b = nn.split %x sizes [2, 3] : (tensor<6xf32>) -> (tensor<2xf32>, tensor<3xf32>)
  func.return
}

// -----

func.func @main(%x: tensor<6xf32>) {
  // CHECK: invalid-shape.mlir:55:3: error: 'nn.split' op sizes [-1, 7] must not be negative
  %a, %b = nn.split %x sizes [-1, 7] : (tensor<6xf32>) -> (tensor<2xf32>, tensor<3xf32>)
  func.return
}

// -----

func.func @main(%x: tensor<6xf32>) {
  // CHECK: invalid-shape.mlir:63:3: error: 'nn.split' op result #1 is declared tensor<3xf32>, operands and properties give tensor<4xf32>
  %a, %b = nn.split %x sizes [2, 4] : (tensor<6xf32>) -> (tensor<2xf32>, tensor<3xf32>)
  func.return
}

// -----

func.func @main(%x: tensor<6xf32>) {
  // CHECK: invalid-shape.mlir:71:3: error: 'nn.split' op has 1 results, its properties ask for 2
  %a = nn.split %x sizes [2, 4] : (tensor<6xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<6xf32>) {
  // CHECK: invalid-shape.mlir:79:3: error: 'nn.slice' op starts, ends, axes and steps differ in length
  nn.slice %x starts [0] ends [1, 2] : (tensor<6xf32>) -> tensor<1xf32>
  func.return
}

// -----

func.func @main(%x: tensor<6xf32>) {
  // CHECK: invalid-shape.mlir:87:3: error: 'nn.slice' op steps must not be 0
  nn.slice %x starts [0] ends [1] steps [0] : (tensor<6xf32>) -> tensor<1xf32>
  func.return
}

// -----

func.func @main(%x: tensor<6xf32>) {
  // CHECK: invalid-shape.mlir:95:3: error: 'nn.slice' op axis 1 is out of range for rank 1
  nn.slice %x starts [0] ends [1] axes [1] : (tensor<6xf32>) -> tensor<1xf32>
  func.return
}

// -----

func.func @main(%x: tensor<6x6xf32>) {
  // CHECK: invalid-shape.mlir:103:3: error: 'nn.slice' op axes [0, 0] are not distinct
  nn.slice %x starts [0, 0] ends [1, 1] axes [0, -2] : (tensor<6x6xf32>) -> tensor<1x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<6xf32>) {
  // CHECK: invalid-shape.mlir:111:3: error: 'nn.slice' op result is declared tensor<5xf32>, operands and properties give tensor<6xf32>
  nn.slice %x starts [5] ends [-7] steps [-1] : (tensor<6xf32>) -> tensor<5xf32>
  func.return
}

// -----

func.func @main(%x: tensor<6xf32>) {
  // CHECK: invalid-shape.mlir:119:3: error: 'nn.gather' op indices must be integers, not f32
  nn.gather %x, %x : (tensor<6xf32>, tensor<6xf32>) -> tensor<6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<6xf32>, %i: tensor<2xi64>) {
  // CHECK: invalid-shape.mlir:127:3: error: 'nn.gather' op axis 1 is out of range for rank 1
  nn.gather %x, %i axis 1 : (tensor<6xf32>, tensor<2xi64>) -> tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<6xf32>) {
  // CHECK: invalid-shape.mlir:135:3: error: 'nn.reshape' op expected either a shape operand or the property 'to'
  nn.reshape %x : tensor<6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<6xf32>, %s: tensor<1xi64>) {
  // CHECK: invalid-shape.mlir:143:3: error: 'nn.reshape' op expected either a shape operand or the property 'to'
  nn.reshape %x, %s to [6] : (tensor<6xf32>, tensor<1xi64>) -> tensor<6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<6xf32>) {
  // CHECK: invalid-shape.mlir:151:3: error: 'nn.reshape' op shape [-1, -1] is malformed
  nn.reshape %x to [-1, -1] : (tensor<6xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<6xf32>) {
  // CHECK: invalid-shape.mlir:159:3: error: 'nn.reshape' op shape [-2, 3] is malformed
  nn.reshape %x to [-2, 3] : (tensor<6xf32>) -> tensor<2x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<6xf32>) {
  // CHECK: invalid-shape.mlir:167:3: error: 'nn.reshape' op shape [6, 0] copies axis 1 of a tensor of rank 1
  nn.reshape %x to [6, 0] : (tensor<6xf32>) -> tensor<6x1xf32>
  func.return
}

// -----

func.func @main(%x: tensor<6xf32>) {
  // CHECK: invalid-shape.mlir:175:3: error: 'nn.reshape' op [6] has 6 elements, [5] has 5
  nn.reshape %x to [5] : (tensor<6xf32>) -> tensor<5xf32>
  func.return
}

// -----

func.func @main(%x: tensor<6xf32>) {
  // CHECK: invalid-shape.mlir:183:3: error: 'nn.reshape' op [6] cannot be reshaped to [4, -1]
  nn.reshape %x to [4, -1] : (tensor<6xf32>) -> tensor<4x1xf32>
  func.return
}

// -----

func.func @main(%x: tensor<6xf32>, %s: tensor<1x2xi64>) {
  // CHECK: invalid-shape.mlir:191:3: error: 'nn.reshape' op shape must be of rank 1, not 2
  nn.reshape %x, %s : (tensor<6xf32>, tensor<1x2xi64>) -> tensor<2x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<6xf32>, %s: tensor<2xi64>) {
  // CHECK: invalid-shape.mlir:199:3: error: 'nn.reshape' op result is declared tensor<6xf32>, operands and properties give tensor<?x?xf32>
  nn.reshape %x, %s : (tensor<6xf32>, tensor<2xi64>) -> tensor<6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<6xf32>, %s: tensor<?xi64>) {
  // CHECK: invalid-shape.mlir:207:3: error: 'nn.reshape' op the rank of the result is not known
  nn.reshape %x, %s : (tensor<6xf32>, tensor<?xi64>) -> tensor<f32>
  func.return
}

// -----

func.func @main(%x: tensor<6xf32>) {
  // CHECK: invalid-shape.mlir:215:3: error: 'nn.expand' op expected either a shape operand or the property 'to'
  nn.expand %x : tensor<6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<6xf32>) {
  // CHECK: invalid-shape.mlir:223:3: error: 'nn.expand' op shapes do not broadcast: [6], [2, 5]
  nn.expand %x to [2, 5] : (tensor<6xf32>) -> tensor<2x5xf32>
  func.return
}

// -----

func.func @main(%x: tensor<6xf32>) {
  // CHECK: invalid-shape.mlir:231:3: error: 'nn.expand' op shape [-1, 6] must not be negative
  nn.expand %x to [-1, 6] : (tensor<6xf32>) -> tensor<?x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>) {
  // CHECK: invalid-shape.mlir:239:3: error: 'nn.transpose' op perm [0, 0] is not a permutation of 2 axes
  nn.transpose %x perm [0, 0] : (tensor<2x3xf32>) -> tensor<2x2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>) {
  // CHECK: invalid-shape.mlir:247:3: error: 'nn.flatten' op axis 3 is out of range for rank 2
  nn.flatten %x axis 3 : (tensor<2x3xf32>) -> tensor<6x1xf32>
  func.return
}

// -----

func.func @main(%x: tensor<?x3xf32>) {
  // CHECK: invalid-shape.mlir:255:3: error: 'nn.squeeze' op axes are needed where sizes are not known
  nn.squeeze %x : (tensor<?x3xf32>) -> tensor<3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x3xf32>) {
  // CHECK: invalid-shape.mlir:263:3: error: 'nn.squeeze' op axis 0 has size 2, only 1 can be dropped
  nn.squeeze %x axes [0] : (tensor<2x3xf32>) -> tensor<3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<3xf32>) {
  // CHECK: invalid-shape.mlir:271:3: error: 'nn.unsqueeze' op axes [0, 0] are not distinct
  nn.unsqueeze %x axes [0, -3] : (tensor<3xf32>) -> tensor<1x1x3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<3xf32>) {
  // CHECK: invalid-shape.mlir:279:3: error: 'nn.unsqueeze' op axis 2 is out of range for rank 2
  nn.unsqueeze %x axes [2] : (tensor<3xf32>) -> tensor<3x1xf32>
  func.return
}

// -----

func.func @main(%x: tensor<3xf32>) {
  // CHECK: invalid-shape.mlir:287:3: error: 'nn.pad' op pads has 1 entries, expected 2
  nn.pad %x pads [1] : (tensor<3xf32>) -> tensor<4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<3xf32>) {
  // CHECK: invalid-shape.mlir:295:3: error: 'nn.pad' op pads take more away than there is: a size of -1 is left
  nn.pad %x pads [-2, -2] : (tensor<3xf32>) -> tensor<0xf32>
  func.return
}

// -----

func.func @main(%x: tensor<3xf32>) {
  // CHECK: invalid-shape.mlir:303:3: error: 'nn.resize' op expected either sizes or scales
  nn.resize %x : tensor<3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<3xf32>) {
  // CHECK: invalid-shape.mlir:311:3: error: 'nn.resize' op expected either sizes or scales
  nn.resize %x sizes [3] scales [1.0] : tensor<3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<3xf32>) {
  // CHECK: invalid-shape.mlir:319:3: error: 'nn.resize' op 2 entries for 1 axes
  nn.resize %x sizes [3, 1] : tensor<3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<3xf32>) {
  // CHECK: invalid-shape.mlir:327:3: error: 'nn.resize' op scales must be positive and finite, sizes not negative
  nn.resize %x scales [0.0] : tensor<3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<3xf32>) {
  // CHECK: invalid-shape.mlir:335:3: error: 'nn.resize' op scales must be positive and finite, sizes not negative
  nn.resize %x scales [nan] : tensor<3xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x8x4xf32>) {
  // CHECK: invalid-shape.mlir:343:3: error: 'nn.depth_to_space' op input must be of rank 4, not 3
  nn.depth_to_space %x block 2 : (tensor<1x8x4xf32>) -> tensor<1x2x8xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x6x4x4xf32>) {
  // CHECK: invalid-shape.mlir:351:3: error: 'nn.depth_to_space' op 6 channels are not divisible by 4
  nn.depth_to_space %x block 2 : (tensor<1x6x4x4xf32>) -> tensor<1x1x8x8xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x6x4x4xf32>) {
  // CHECK: invalid-shape.mlir:359:3: error: 'nn.depth_to_space' op block must be at least 1, not 0
  nn.depth_to_space %x block 0 : tensor<1x6x4x4xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x6x4x5xf32>) {
  // CHECK: invalid-shape.mlir:367:3: error: 'nn.space_to_depth' op sizes [4, 5] are not divisible by 2
  nn.space_to_depth %x block 2 : (tensor<1x6x4x5xf32>) -> tensor<1x24x2x2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x6x4xf32>) {
  // CHECK: invalid-shape.mlir:375:3: error: 'nn.space_to_batch' op block of 2 axes on a tensor of rank 3
  nn.space_to_batch %x block [2, 2] pads [0, 0, 0, 0] : (tensor<1x6x4xf32>) -> tensor<4x6x2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x6x4xf32>) {
  // CHECK: invalid-shape.mlir:383:3: error: 'nn.space_to_batch' op blocks must be at least 1, with a non-negative begin and end each
  nn.space_to_batch %x block [2] pads [0] : (tensor<1x6x4xf32>) -> tensor<2x6x2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<1x6x4xf32>) {
  // CHECK: invalid-shape.mlir:391:3: error: 'nn.space_to_batch' op padded size 5 of axis 0 is not divisible by 2
  nn.space_to_batch %x block [2] pads [0, 1] : (tensor<1x6x4xf32>) -> tensor<2x6x2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<3x6x4xf32>) {
  // CHECK: invalid-shape.mlir:399:3: error: 'nn.batch_to_space' op batch 3 is not divisible by 2
  nn.batch_to_space %x block [2] crops [0, 0] : (tensor<3x6x4xf32>) -> tensor<1x6x8xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x6x4xf32>) {
  // CHECK: invalid-shape.mlir:407:3: error: 'nn.batch_to_space' op crops take more of axis 0 away than there is
  nn.batch_to_space %x block [2] crops [8, 1] : (tensor<2x6x4xf32>) -> tensor<1x6x0xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x6x4xf32>) {
  // CHECK: invalid-shape.mlir:415:3: error: 'nn.shape' op result is declared tensor<2xi64>, operands and properties give tensor<3xi64>
  nn.shape %x : (tensor<2x6x4xf32>) -> tensor<2xi64>
  func.return
}

// -----

func.func @main(%x: tensor<2x6xf32>) {
  // CHECK: invalid-shape.mlir:423:3: error: 'nn.reduce_sum' op axis 2 is out of range for rank 2
  nn.reduce_sum %x axes [2] : (tensor<2x6xf32>) -> tensor<2x6xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x6xf32>) {
  // CHECK: invalid-shape.mlir:431:3: error: 'nn.reduce_mean' op axes [1, 1] are not distinct
  nn.reduce_mean %x axes [1, -1] : (tensor<2x6xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x6xf32>) {
  // CHECK: invalid-shape.mlir:439:3: error: 'nn.reduce_max' op result is declared tensor<2xf32>, operands and properties give tensor<2x1xf32>
  nn.reduce_max %x axes [1] keepdims : (tensor<2x6xf32>) -> tensor<2xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x0xf32>) {
  // CHECK: invalid-shape.mlir:447:3: error: 'nn.arg_max' op axis 1 has no elements
  nn.arg_max %x axis -1 : (tensor<2x0xf32>) -> tensor<2xi64>
  func.return
}

// -----

func.func @main(%x: tensor<2x6xf32>) {
  // CHECK: invalid-shape.mlir:455:3: error: 'nn.arg_min' op axis 2 is out of range for rank 2
  nn.arg_min %x axis 2 : (tensor<2x6xf32>) -> tensor<2xi64>
  func.return
}

// -----

func.func @main(%x: tensor<2x6xf32>, %i: tensor<3x1xi64>) {
  // CHECK: invalid-shape.mlir:463:3: error: 'nn.gather' op batches of input and indices differ: 2 and 3
  nn.gather %x, %i axis 1 batch_dims 1 : (tensor<2x6xf32>, tensor<3x1xi64>) -> tensor<2x1xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2x6xf32>, %i: tensor<2x1xi64>) {
  // CHECK: invalid-shape.mlir:471:3: error: 'nn.gather' op batch_dims 1 must not exceed axis 0 and the 2 axes of indices
  nn.gather %x, %i batch_dims 1 : (tensor<2x6xf32>, tensor<2x1xi64>) -> tensor<2x1xf32>
  func.return
}

// -----

func.func @main(%x: tensor<2xf32>) {
  // CHECK: invalid-shape.mlir:479:3: error: 'nn.resize' op cubic_steps must be at least 1, not 0
  nn.resize %x sizes [3] mode cubic cubic_steps 0 : (tensor<2xf32>) -> tensor<3xf32>
  func.return
}
