// RUN: amct-opt %s --convert-layout=NCHW --split-input-file | filecheck %s
// RUN: amct-opt %s --convert-layout=nchw --split-input-file --remarks=all 2>&1 >/dev/null | filecheck %s --check-prefix REMARK

// One transpose at the input, in front of what commutes, and one at the output; constants and axes follow.
// CHECK-LABEL: @network
// CHECK-SAME:  (%x: tensor<?x8x8x3xf32> {nn.name = "x"}) -> (tensor<?x4x4x8xf32> {nn.name = "y"})
// CHECK:       [[X:%.*]] = nn.transpose %x perm [0, 3, 1, 2] : (tensor<?x8x8x3xf32>) -> tensor<?x3x8x8xf32>
// CHECK-NEXT:  [[M:%.*]] = nn.constant dense<{{\[\[\[\[}}1.000000e+00]], {{\[\[}}2.000000e+00]], {{\[\[}}3.000000e+00]]]]> : tensor<1x3x1x1xf32>
// CHECK-NEXT:  nn.sub [[X]], [[M]] : (tensor<?x3x8x8xf32>, tensor<1x3x1x1xf32>) -> tensor<?x3x8x8xf32>
// CHECK-NEXT:  nn.pad {{.*}} pads [0, 0, 1, 1, 0, 0, 1, 1]
// CHECK-NEXT:  nn.conv {{.*}} strides [2, 2] : (tensor<?x3x10x10xf32>, tensor<4x3x3x3xf32>) -> tensor<?x4x4x4xf32>
// CHECK-NEXT:  nn.bias_add {{.*}} : (tensor<?x4x4x4xf32>, tensor<4xf32>) -> tensor<?x4x4x4xf32>
// CHECK-NEXT:  nn.softmax {{.*}} axis 1
// CHECK-NEXT:  nn.concat {{.*}} axis 1 {{.*}} -> tensor<?x8x4x4xf32>
// CHECK-NEXT:  nn.transpose %{{.*}} perm [0, 2, 3, 1] : (tensor<?x8x4x4xf32>) -> tensor<?x4x4x8xf32>
// CHECK-NEXT:  func.return
// REMARK:      [convert-layout analysis transpose] "x": made in front of mean
// REMARK:      [convert-layout applied layout] "conv": nn.conv takes its input as nchw
// REMARK:      [convert-layout applied layout] "bias": nn.bias_add takes its input as nchw
// REMARK:      [convert-layout analysis transpose] "cat": made in front of func.return
func.func @network(%x: tensor<?x8x8x3xf32> {nn.name = "x"}) -> (tensor<?x4x4x8xf32> {nn.name = "y"}) {
  %w = nn.constant dense<1.0> : tensor<4x3x3x3xf32>
  %b = nn.constant dense<1.0> : tensor<4xf32>
  %k = nn.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %mean = nn.sub %x, %k : (tensor<?x8x8x3xf32>, tensor<3xf32>) -> tensor<?x8x8x3xf32>
  %pad = nn.pad %mean pads [0, 1, 1, 0, 0, 1, 1, 0] : (tensor<?x8x8x3xf32>) -> tensor<?x10x10x3xf32>
  %conv = nn.conv %pad, %w strides [2, 2] layout nhwc : (tensor<?x10x10x3xf32>, tensor<4x3x3x3xf32>) -> tensor<?x4x4x4xf32>
  %bias = nn.bias_add %conv, %b layout nhwc : (tensor<?x4x4x4xf32>, tensor<4xf32>) -> tensor<?x4x4x4xf32>
  %s = nn.softmax %bias : tensor<?x4x4x4xf32>
  %cat = nn.concat %s, %bias axis 3 : (tensor<?x4x4x4xf32>, tensor<?x4x4x4xf32>) -> tensor<?x4x4x8xf32>
  func.return %cat : tensor<?x4x4x8xf32>
}

// -----

// What takes space away leaves no transpose: a mean over it, a squeeze, a reshape of one element per channel.
// CHECK-LABEL: @heads
// CHECK-NOT:   nn.transpose
// CHECK:       nn.global_average_pool %x : (tensor<2x4x3x3xf32>) -> tensor<2x4x1x1xf32>
// CHECK-NOT:   nn.transpose
// CHECK:       func.return
func.func @heads(%x: tensor<2x4x3x3xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) {
  %t = nn.transpose %x perm [0, 2, 3, 1] : (tensor<2x4x3x3xf32>) -> tensor<2x3x3x4xf32>
  %p = nn.global_average_pool %t layout nhwc : (tensor<2x3x3x4xf32>) -> tensor<2x1x1x4xf32>
  %a = nn.squeeze %p axes [1, 2] : (tensor<2x1x1x4xf32>) -> tensor<2x4xf32>
  %m = nn.max_pool %t kernel [1, 1] layout nhwc : tensor<2x3x3x4xf32>
  %b = nn.reduce_mean %m axes [1, 2] : (tensor<2x3x3x4xf32>) -> tensor<2x4xf32>
  %c = nn.reshape %p to [-1, 4] : (tensor<2x1x1x4xf32>) -> tensor<2x4xf32>
  func.return %a, %b, %c : tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>
}

// -----

// What asks for the elements in order gets them back, once for all.
// CHECK-LABEL: @in_order
// CHECK:       [[R:%.*]] = nn.max_pool %{{.*}} kernel [2, 2]
// CHECK-NEXT:  [[T:%.*]] = nn.transpose [[R]] perm [0, 2, 3, 1]
// CHECK-NEXT:  nn.flatten [[T]]
// CHECK-NEXT:  nn.sigmoid [[T]]
// CHECK-NEXT:  func.return
func.func @in_order(%x: tensor<1x3x3x2xf32>) -> (tensor<1x8xf32>, tensor<1x2x2x2xf32>) {
  %m = nn.max_pool %x kernel [2, 2] layout nhwc : (tensor<1x3x3x2xf32>) -> tensor<1x2x2x2xf32>
  %f = nn.flatten %m : (tensor<1x2x2x2xf32>) -> tensor<1x8xf32>
  %s = nn.sigmoid %m : tensor<1x2x2x2xf32>
  func.return %f, %s : tensor<1x8xf32>, tensor<1x2x2x2xf32>
}

// -----

// A second operand that is computed is transposed, of lower rank with axes of size 1 in front.
// CHECK-LABEL: @computed
// CHECK-DAG:   [[U:%.*]] = nn.unsqueeze %g axes [0, 1, 2] : (tensor<2xf32>) -> tensor<1x1x1x2xf32>
// CHECK-DAG:   [[T:%.*]] = nn.transpose [[U]] perm [0, 3, 1, 2] : (tensor<1x1x1x2xf32>) -> tensor<1x2x1x1xf32>
// CHECK:       nn.mul %{{.*}}, [[T]] : (tensor<1x2x3x3xf32>, tensor<1x2x1x1xf32>) -> tensor<1x2x3x3xf32>
// CHECK-NEXT:  nn.global_max_pool
func.func @computed(%x: tensor<1x3x3x2xf32>, %g: tensor<2xf32>) -> tensor<1x1x1x2xf32> {
  %m = nn.max_pool %x kernel [1, 1] layout nhwc : tensor<1x3x3x2xf32>
  %y = nn.mul %m, %g : (tensor<1x3x3x2xf32>, tensor<2xf32>) -> tensor<1x3x3x2xf32>
  %z = nn.global_max_pool %y layout nhwc : (tensor<1x3x3x2xf32>) -> tensor<1x1x1x2xf32>
  func.return %z : tensor<1x1x1x2xf32>
}

// -----

// Quantization points go along, parameters along an axis follow it.
// CHECK-LABEL: @quantized
// CHECK:       nn.quantize %{{.*}} by <i8, scale = [0.5, 0.25], axis = 1> : (tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xi8>
// CHECK-NEXT:  nn.dequantize
// CHECK-NEXT:  nn.max_pool
// CHECK-NEXT:  nn.transpose
func.func @quantized(%x: tensor<1x3x3x2xf32>) -> tensor<1x3x3x2xf32> {
  %q = nn.quantize %x by <i8, scale = [0.5, 0.25], axis = 3> : (tensor<1x3x3x2xf32>) -> tensor<1x3x3x2xi8>
  %d = nn.dequantize %q by <i8, scale = [0.5, 0.25], axis = 3> : (tensor<1x3x3x2xi8>) -> tensor<1x3x3x2xf32>
  %m = nn.max_pool %d kernel [1, 1] layout nhwc : tensor<1x3x3x2xf32>
  func.return %m : tensor<1x3x3x2xf32>
}

// -----

// Forms go in and out of a fused operation; no transpose inside.
// CHECK-LABEL: @fused
// CHECK:       [[X:%.*]] = nn.transpose %x
// CHECK-NEXT:  [[F:%.*]] = nn.fused "ConvReLU2d" ({{.*}} = [[X]], {{.*}} = %w) : (tensor<1x2x3x3xf32>, tensor<4x2x1x1xf32>) -> tensor<1x4x3x3xf32> {
// CHECK-NEXT:    nn.conv %{{.*}}, %{{.*}} : (tensor<1x2x3x3xf32>, tensor<4x2x1x1xf32>) -> tensor<1x4x3x3xf32>
// CHECK-NEXT:    nn.relu
// CHECK-NEXT:    nn.yield
// CHECK-NEXT:  }
// CHECK-NEXT:  nn.transpose [[F]] perm [0, 2, 3, 1]
func.func @fused(%x: tensor<1x3x3x2xf32>, %w: tensor<4x2x1x1xf32>) -> tensor<1x3x3x4xf32> {
  %f = nn.fused "ConvReLU2d" (%a = %x, %v = %w) : (tensor<1x3x3x2xf32>, tensor<4x2x1x1xf32>) -> tensor<1x3x3x4xf32> {
    %c = nn.conv %a, %v layout nhwc : (tensor<1x3x3x2xf32>, tensor<4x2x1x1xf32>) -> tensor<1x3x3x4xf32>
    %r = nn.relu %c : tensor<1x3x3x4xf32>
    nn.yield %r : tensor<1x3x3x4xf32>
  }
  func.return %f : tensor<1x3x3x4xf32>
}

// -----

// What has the layout already, and transposes that have nothing to do with one, stay as they are.
// CHECK-LABEL: @untouched
// CHECK-NEXT:  nn.max_pool %x kernel [1, 1] : tensor<1x2x3x3xf32>
// CHECK-NEXT:  nn.transpose %{{.*}} perm [0, 2, 1, 3]
// CHECK-NEXT:  nn.relu
// CHECK:       nn.matmul
func.func @untouched(%x: tensor<1x2x3x3xf32>) -> tensor<1x3x2x3xf32> {
  %m = nn.max_pool %x kernel [1, 1] : tensor<1x2x3x3xf32>
  %t = nn.transpose %m perm [0, 2, 1, 3] : (tensor<1x2x3x3xf32>) -> tensor<1x3x2x3xf32>
  %r = nn.relu %t : tensor<1x3x2x3xf32>
  %k = nn.constant dense<1.0> : tensor<3x3xf32>
  %y = nn.matmul %r, %k : (tensor<1x3x2x3xf32>, tensor<3x3xf32>) -> tensor<1x3x2x3xf32>
  func.return %y : tensor<1x3x2x3xf32>
}

// -----

// A feature map is flattened in the new order, and the rows of the weights after take it.
// CHECK-LABEL: @flatten
// CHECK-NOT:   nn.transpose
// CHECK:       [[W:%.*]] = nn.constant dense<{{\[\[}}0.000000e+00], [2.000000e+00], [4.000000e+00], [1.000000e+00], [3.000000e+00], [5.000000e+00]]> : tensor<6x1xf32>
// CHECK-NEXT:  [[F:%.*]] = nn.reshape %{{.*}} to [0, 6] : (tensor<?x2x1x3xf32>) -> tensor<?x6xf32>
// CHECK-NEXT:  nn.matmul [[F]], [[W]]
// REMARK:      [convert-layout applied rows] "y": the transpose of m is in the order of the rows now
func.func @flatten(%x: tensor<?x2x1x3xf32>) -> tensor<?x1xf32> {
  %w = nn.constant dense<[[0.0], [1.0], [2.0], [3.0], [4.0], [5.0]]> : tensor<6x1xf32>
  %t = nn.transpose %x perm [0, 2, 3, 1] : (tensor<?x2x1x3xf32>) -> tensor<?x1x3x2xf32>
  %m = nn.max_pool %t kernel [1, 1] layout nhwc : tensor<?x1x3x2xf32>
  %f = nn.flatten %m : (tensor<?x1x3x2xf32>) -> tensor<?x6xf32>
  %y = nn.matmul %f, %w : (tensor<?x6xf32>, tensor<6x1xf32>) -> tensor<?x1xf32>
  func.return %y : tensor<?x1xf32>
}

// -----

// Weights that are computed cannot be reordered; nor can a flattened value that has another use.
// CHECK-LABEL: @flatten_refused
// CHECK-COUNT-2: nn.transpose
// CHECK-NOT:     nn.transpose
func.func @flatten_refused(%x: tensor<1x1x3x2xf32>, %w: tensor<6x1xf32>) -> (tensor<1x1xf32>, tensor<1x6xf32>) {
  %m = nn.max_pool %x kernel [1, 1] layout nhwc : tensor<1x1x3x2xf32>
  %f = nn.flatten %m : (tensor<1x1x3x2xf32>) -> tensor<1x6xf32>
  %y = nn.matmul %f, %w : (tensor<1x6xf32>, tensor<6x1xf32>) -> tensor<1x1xf32>
  func.return %y, %f : tensor<1x1xf32>, tensor<1x6xf32>
}
