// RUN: ROUNDTRIP | filecheck %s

// Data movement, shapes, reductions.

// CHECK-LABEL: func.func @joins_and_cuts(
func.func @joins_and_cuts(%x: tensor<2x?x5xf32>, %y: tensor<2x3x5xf32>, %z: tensor<1x0xi64>) {
  // CHECK-NEXT: %same = nn.concat %x, %x, %y axis 1 : (tensor<2x?x5xf32>, tensor<2x?x5xf32>, tensor<2x3x5xf32>) -> tensor<2x?x5xf32>
  %same = nn.concat %x, %x, %y axis 1 : (tensor<2x?x5xf32>, tensor<2x?x5xf32>, tensor<2x3x5xf32>) -> tensor<2x?x5xf32>
  // CHECK-NEXT: %one = nn.concat %z axis -1 : tensor<1x0xi64>
  %one = nn.concat %z axis -1 : tensor<1x0xi64>
  // CHECK-NEXT: %a, %b, %c = nn.split %x axis 2 sizes [1, 0, 4] : (tensor<2x?x5xf32>) -> (tensor<2x?x1xf32>, tensor<2x?x0xf32>, tensor<2x?x4xf32>)
  %a, %b, %c = nn.split %x axis 2 sizes [1, 0, 4] : (tensor<2x?x5xf32>) -> (tensor<2x?x1xf32>, tensor<2x?x0xf32>, tensor<2x?x4xf32>)
  // CHECK-NEXT: %whole = nn.split %y sizes [2] : tensor<2x3x5xf32>
  %whole = nn.split %y sizes [2] : tensor<2x3x5xf32>
  // CHECK-NEXT: %head = nn.slice %x starts [0, 1] ends [1, -1] : (tensor<2x?x5xf32>) -> tensor<1x?x5xf32>
  %head = nn.slice %x starts [0, 1] ends [1, -1] : (tensor<2x?x5xf32>) -> tensor<1x?x5xf32>
  // CHECK-NEXT: %back = nn.slice %y starts [-1, 4] ends [-9223372036854775808, 0] axes [1, -1] steps [-1, -2] : (tensor<2x3x5xf32>) -> tensor<2x3x2xf32>
  %back = nn.slice %y starts [-1, 4] ends [-9223372036854775808, 0] axes [1, -1] steps [-1, -2] : (tensor<2x3x5xf32>) -> tensor<2x3x2xf32>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @gather(
func.func @gather(%x: tensor<7x?x3xf32>, %i: tensor<2x4xi32>, %b: tensor<?x5xi32>, %s: tensor<i64>) {
  // CHECK-NEXT: %rows = nn.gather %x, %i : (tensor<7x?x3xf32>, tensor<2x4xi32>) -> tensor<2x4x?x3xf32>
  %rows = nn.gather %x, %i : (tensor<7x?x3xf32>, tensor<2x4xi32>) -> tensor<2x4x?x3xf32>
  // CHECK-NEXT: %each = nn.gather %x, %b axis 2 batch_dims 1 : (tensor<7x?x3xf32>, tensor<?x5xi32>) -> tensor<7x?x5xf32>
  %each = nn.gather %x, %b axis 2 batch_dims 1 : (tensor<7x?x3xf32>, tensor<?x5xi32>) -> tensor<7x?x5xf32>
  // CHECK-NEXT: %column = nn.gather %x, %s axis -1 : (tensor<7x?x3xf32>, tensor<i64>) -> tensor<7x?xf32>
  %column = nn.gather %x, %s axis -1 : (tensor<7x?x3xf32>, tensor<i64>) -> tensor<7x?xf32>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @shapes(
func.func @shapes(%x: tensor<?x4x6xf32>, %to: tensor<2xi64>, %ones: tensor<1x?x1xf32>) {
  // CHECK-NEXT: %flat = nn.reshape %x to [0, -1] : (tensor<?x4x6xf32>) -> tensor<?x24xf32>
  %flat = nn.reshape %x to [0, -1] : (tensor<?x4x6xf32>) -> tensor<?x24xf32>
  // CHECK-NEXT: %runtime = nn.reshape %x, %to : (tensor<?x4x6xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  %runtime = nn.reshape %x, %to : (tensor<?x4x6xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  // CHECK-NEXT: %empty = nn.reshape %x to [0, 24] allow_zero : (tensor<?x4x6xf32>) -> tensor<0x24xf32>
  %empty = nn.reshape %x to [0, 24] allow_zero : (tensor<?x4x6xf32>) -> tensor<0x24xf32>
  // CHECK-NEXT: %wide = nn.expand %ones to [3, 1, 2, 5] : (tensor<1x?x1xf32>) -> tensor<3x1x2x5xf32>
  %wide = nn.expand %ones to [3, 1, 2, 5] : (tensor<1x?x1xf32>) -> tensor<3x1x2x5xf32>
  // CHECK-NEXT: %wider = nn.expand %ones, %to : (tensor<1x?x1xf32>, tensor<2xi64>) -> tensor<1x?x?xf32>
  %wider = nn.expand %ones, %to : (tensor<1x?x1xf32>, tensor<2xi64>) -> tensor<1x?x?xf32>
  // CHECK-NEXT: %turned = nn.transpose %x perm [2, 0, 1] : (tensor<?x4x6xf32>) -> tensor<6x?x4xf32>
  %turned = nn.transpose %x perm [2, 0, 1] : (tensor<?x4x6xf32>) -> tensor<6x?x4xf32>
  // CHECK-NEXT: %rows = nn.flatten %x : (tensor<?x4x6xf32>) -> tensor<?x24xf32>
  %rows = nn.flatten %x : (tensor<?x4x6xf32>) -> tensor<?x24xf32>
  // CHECK-NEXT: %tail = nn.flatten %x axis -1 : (tensor<?x4x6xf32>) -> tensor<?x6xf32>
  %tail = nn.flatten %x axis -1 : (tensor<?x4x6xf32>) -> tensor<?x6xf32>
  // CHECK-NEXT: %less = nn.squeeze %ones axes [0, -1] : (tensor<1x?x1xf32>) -> tensor<?xf32>
  %less = nn.squeeze %ones axes [0, -1] : (tensor<1x?x1xf32>) -> tensor<?xf32>
  // CHECK-NEXT: %all = nn.squeeze %to : tensor<2xi64>
  %all = nn.squeeze %to : tensor<2xi64>
  // CHECK-NEXT: %more = nn.unsqueeze %x axes [0, -1] : (tensor<?x4x6xf32>) -> tensor<1x?x4x6x1xf32>
  %more = nn.unsqueeze %x axes [0, -1] : (tensor<?x4x6xf32>) -> tensor<1x?x4x6x1xf32>
  // CHECK-NEXT: %shape = nn.shape %x : (tensor<?x4x6xf32>) -> tensor<3xi64>
  %shape = nn.shape %x : (tensor<?x4x6xf32>) -> tensor<3xi64>
  // CHECK-NEXT: %part = nn.shape %x start -2 end 5 : (tensor<?x4x6xf32>) -> tensor<2xi64>
  %part = nn.shape %x start -2 end 5 : (tensor<?x4x6xf32>) -> tensor<2xi64>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @pads(
func.func @pads(%x: tensor<?x4xf32>) {
  // CHECK-NEXT: %zeros = nn.pad %x pads [0, 1, 0, 2] : (tensor<?x4xf32>) -> tensor<?x7xf32>
  %zeros = nn.pad %x pads [0, 1, 0, 2] : (tensor<?x4xf32>) -> tensor<?x7xf32>
  // CHECK-NEXT: %cut = nn.pad %x pads [1, -1, 0, -1] value -inf : (tensor<?x4xf32>) -> tensor<?x2xf32>
  %cut = nn.pad %x pads [1, -1, 0, -1] value -inf : (tensor<?x4xf32>) -> tensor<?x2xf32>
  // CHECK-NEXT: %mirror = nn.pad %x pads [0, 3, 0, 3] mode reflect : (tensor<?x4xf32>) -> tensor<?x10xf32>
  %mirror = nn.pad %x pads [0, 3, 0, 3] mode reflect : (tensor<?x4xf32>) -> tensor<?x10xf32>
  // CHECK-NEXT: %edge = nn.pad %x pads [0, 1, 0, 0] mode edge : (tensor<?x4xf32>) -> tensor<?x5xf32>
  %edge = nn.pad %x pads [0, 1, 0, 0] mode edge : (tensor<?x4xf32>) -> tensor<?x5xf32>
  // CHECK-NEXT: %wrap = nn.pad %x pads [0, 1, 0, 0] mode wrap value 0.1 : (tensor<?x4xf32>) -> tensor<?x5xf32>
  %wrap = nn.pad %x pads [0, 1, 0, 0] mode wrap value 0.1 : (tensor<?x4xf32>) -> tensor<?x5xf32>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @resize(
func.func @resize(%x: tensor<1x?x5x7xf32>) {
  // CHECK-NEXT: %double = nn.resize %x scales [1.0, 1.0, 2.0, 1.9] : (tensor<1x?x5x7xf32>) -> tensor<1x?x10x13xf32>
  %double = nn.resize %x scales [1.0, 1.0, 2.0, 1.9] : (tensor<1x?x5x7xf32>) -> tensor<1x?x10x13xf32>
  // CHECK-NEXT: %to = nn.resize %x sizes [1, 3, 4, 4] mode linear coordinates align_corners : (tensor<1x?x5x7xf32>) -> tensor<1x3x4x4xf32>
  %to = nn.resize %x sizes [1, 3, 4, 4] mode linear coordinates align_corners : (tensor<1x?x5x7xf32>) -> tensor<1x3x4x4xf32>
  // CHECK-NEXT: %cubic = nn.resize %x sizes [1, 3, 4, 4] mode cubic coordinates half_pixel_symmetric cubic_coeff -0.5 exclude_outside cubic_steps 1024 : (tensor<1x?x5x7xf32>) -> tensor<1x3x4x4xf32>
  %cubic = nn.resize %x sizes [1, 3, 4, 4] mode cubic coordinates half_pixel_symmetric cubic_coeff -0.5 exclude_outside cubic_steps 1024 : (tensor<1x?x5x7xf32>) -> tensor<1x3x4x4xf32>
  // CHECK-NEXT: %near = nn.resize %x scales [1.0, 1.0, 0.5, 0.5] coordinates asymmetric nearest floor : (tensor<1x?x5x7xf32>) -> tensor<1x?x2x3xf32>
  %near = nn.resize %x scales [1.0, 1.0, 0.5, 0.5] coordinates asymmetric nearest floor : (tensor<1x?x5x7xf32>) -> tensor<1x?x2x3xf32>
  // CHECK-NEXT: %nearer = nn.resize %x scales [1.0, 1.0, 0.5, 0.5] coordinates pytorch_half_pixel nearest ceil : (tensor<1x?x5x7xf32>) -> tensor<1x?x2x3xf32>
  %nearer = nn.resize %x scales [1.0, 1.0, 0.5, 0.5] coordinates pytorch_half_pixel nearest ceil : (tensor<1x?x5x7xf32>) -> tensor<1x?x2x3xf32>
  // CHECK-NEXT: %nearest = nn.resize %x scales [1.0, 1.0, 0.5, 0.5] nearest round_prefer_ceil : (tensor<1x?x5x7xf32>) -> tensor<1x?x2x3xf32>
  %nearest = nn.resize %x scales [1.0, 1.0, 0.5, 0.5] nearest round_prefer_ceil : (tensor<1x?x5x7xf32>) -> tensor<1x?x2x3xf32>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @blocks(
func.func @blocks(%x: tensor<?x8x4x6xf32>, %y: tensor<4x6x6x3xf32>, %z: tensor<6x2x5xf32>) {
  // CHECK-NEXT: %space = nn.depth_to_space %x block 2 : (tensor<?x8x4x6xf32>) -> tensor<?x2x8x12xf32>
  %space = nn.depth_to_space %x block 2 : (tensor<?x8x4x6xf32>) -> tensor<?x2x8x12xf32>
  // CHECK-NEXT: %crd = nn.depth_to_space %x block 2 mode crd : (tensor<?x8x4x6xf32>) -> tensor<?x2x8x12xf32>
  %crd = nn.depth_to_space %x block 2 mode crd : (tensor<?x8x4x6xf32>) -> tensor<?x2x8x12xf32>
  // CHECK-NEXT: %depth = nn.space_to_depth %y block 3 layout nhwc : (tensor<4x6x6x3xf32>) -> tensor<4x2x2x27xf32>
  %depth = nn.space_to_depth %y block 3 layout nhwc : (tensor<4x6x6x3xf32>) -> tensor<4x2x2x27xf32>
  // CHECK-NEXT: %batches = nn.space_to_batch %y pads [1, 0, 1, 3] block [2, 3] layout nhwc : (tensor<4x6x6x3xf32>) -> tensor<24x4x3x3xf32>
  %batches = nn.space_to_batch %y pads [1, 0, 1, 3] block [2, 3] layout nhwc : (tensor<4x6x6x3xf32>) -> tensor<24x4x3x3xf32>
  // CHECK-NEXT: %back = nn.batch_to_space %z crops [1, 2] block [3] : (tensor<6x2x5xf32>) -> tensor<2x2x12xf32>
  %back = nn.batch_to_space %z crops [1, 2] block [3] : (tensor<6x2x5xf32>) -> tensor<2x2x12xf32>
  // CHECK-NEXT: func.return
  func.return
}

// CHECK-LABEL: func.func @reductions(
func.func @reductions(%x: tensor<2x?x5xf32>) {
  // CHECK-NEXT: %mean = nn.reduce_mean %x axes [-1, 0] : (tensor<2x?x5xf32>) -> tensor<?xf32>
  %mean = nn.reduce_mean %x axes [-1, 0] : (tensor<2x?x5xf32>) -> tensor<?xf32>
  // CHECK-NEXT: %kept = nn.reduce_mean %x axes [-1, 0] keepdims : (tensor<2x?x5xf32>) -> tensor<1x?x1xf32>
  %kept = nn.reduce_mean %x axes [-1, 0] keepdims : (tensor<2x?x5xf32>) -> tensor<1x?x1xf32>
  // CHECK-NEXT: %sum = nn.reduce_sum %x : (tensor<2x?x5xf32>) -> tensor<f32>
  %sum = nn.reduce_sum %x : (tensor<2x?x5xf32>) -> tensor<f32>
  // CHECK-NEXT: %sums = nn.reduce_sum %x axes [0] keepdims : (tensor<2x?x5xf32>) -> tensor<1x?x5xf32>
  %sums = nn.reduce_sum %x axes [0] keepdims : (tensor<2x?x5xf32>) -> tensor<1x?x5xf32>
  // CHECK-NEXT: %max = nn.reduce_max %x axes [1] keepdims : (tensor<2x?x5xf32>) -> tensor<2x1x5xf32>
  %max = nn.reduce_max %x axes [1] keepdims : (tensor<2x?x5xf32>) -> tensor<2x1x5xf32>
  // CHECK-NEXT: %min = nn.reduce_min %x keepdims : (tensor<2x?x5xf32>) -> tensor<1x1x1xf32>
  %min = nn.reduce_min %x keepdims : (tensor<2x?x5xf32>) -> tensor<1x1x1xf32>
  // CHECK-NEXT: %mins = nn.reduce_min %x axes [2] : (tensor<2x?x5xf32>) -> tensor<2x?xf32>
  %mins = nn.reduce_min %x axes [2] : (tensor<2x?x5xf32>) -> tensor<2x?xf32>
  // CHECK-NEXT: %argmax = nn.arg_max %x : (tensor<2x?x5xf32>) -> tensor<?x5xi64>
  %argmax = nn.arg_max %x : (tensor<2x?x5xf32>) -> tensor<?x5xi64>
  // CHECK-NEXT: %argmaxes = nn.arg_max %x axis 2 keepdims last : (tensor<2x?x5xf32>) -> tensor<2x?x1xi64>
  %argmaxes = nn.arg_max %x axis 2 keepdims last : (tensor<2x?x5xf32>) -> tensor<2x?x1xi64>
  // CHECK-NEXT: %argmin = nn.arg_min %x axis -2 keepdims last : (tensor<2x?x5xf32>) -> tensor<2x1x5xi64>
  %argmin = nn.arg_min %x axis -2 keepdims last : (tensor<2x?x5xf32>) -> tensor<2x1x5xi64>
  // CHECK-NEXT: %prod = nn.reduce_prod %x axes [] : tensor<2x?x5xf32>
  %prod = nn.reduce_prod %x axes [] : tensor<2x?x5xf32>
  // CHECK-NEXT: %prods = nn.reduce_prod %x axes [-3] keepdims : (tensor<2x?x5xf32>) -> tensor<1x?x5xf32>
  %prods = nn.reduce_prod %x axes [-3] keepdims : (tensor<2x?x5xf32>) -> tensor<1x?x5xf32>
  // CHECK-NEXT: func.return
  func.return
}
