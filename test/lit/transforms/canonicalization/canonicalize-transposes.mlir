// RUN: amct-opt %s --canonicalize --split-input-file --print-debuginfo | filecheck %s

// Two become one, and one that is none.
// CHECK-LABEL: @merge
// CHECK-NEXT:  nn.transpose %x perm [2, 1, 0] : (tensor<2x3x4xf32>) -> tensor<4x3x2xf32> loc(fused["a", "b"])
// CHECK-NEXT:  func.return %{{.*}}, %x
func.func @merge(%x: tensor<2x3x4xf32>) -> (tensor<4x3x2xf32>, tensor<2x3x4xf32>) {
  %a = nn.transpose %x perm [2, 0, 1] : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32> loc("a")
  %b = nn.transpose %a perm [0, 2, 1] : (tensor<4x2x3xf32>) -> tensor<4x3x2xf32> loc("b")
  %c = nn.transpose %x perm [2, 0, 1] : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  %d = nn.transpose %c perm [1, 2, 0] : (tensor<4x2x3xf32>) -> tensor<2x3x4xf32>
  func.return %b, %d : tensor<4x3x2xf32>, tensor<2x3x4xf32>
}

// -----

// Across what commutes; axes, pads, sizes and constants are permuted with it.
// CHECK-LABEL: @across
// CHECK-NEXT:  [[A:%.*]] = nn.sigmoid %x
// CHECK-NEXT:  [[C:%.*]] = nn.constant dense<{{\[\[\[}}1.000000e+00]], {{\[\[}}2.000000e+00]]]> : tensor<2x1x1xf32>
// CHECK-NEXT:  [[B:%.*]] = nn.add [[A]], [[C]]
// CHECK-NEXT:  [[D:%.*]] = nn.softmax [[B]] axis 0
// CHECK-NEXT:  [[E:%.*]] = nn.pad [[D]] pads [0, 1, 0, 0, 2, 0] : (tensor<2x3x4xf32>) -> tensor<2x6x4xf32>
// CHECK-NEXT:  [[F:%.*]] = nn.slice [[E]] starts [1] ends [3] axes [2] : (tensor<2x6x4xf32>) -> tensor<2x6x2xf32>
// CHECK-NEXT:  [[G:%.*]] = nn.reduce_max [[F]] axes [1, 2] keepdims : (tensor<2x6x2xf32>) -> tensor<2x1x1xf32>
// CHECK-NEXT:  func.return [[G]]
func.func @across(%x: tensor<2x3x4xf32>) -> tensor<2x1x1xf32> {
  %t = nn.transpose %x perm [1, 2, 0] : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
  %a = nn.sigmoid %t : tensor<3x4x2xf32>
  %k = nn.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %b = nn.add %a, %k : (tensor<3x4x2xf32>, tensor<2xf32>) -> tensor<3x4x2xf32>
  %d = nn.softmax %b : tensor<3x4x2xf32>
  %e = nn.pad %d pads [1, 0, 0, 2, 0, 0] : (tensor<3x4x2xf32>) -> tensor<6x4x2xf32>
  %f = nn.slice %e starts [1] ends [3] axes [1] : (tensor<6x4x2xf32>) -> tensor<6x2x2xf32>
  %g = nn.reduce_max %f axes [0, 1] keepdims : (tensor<6x2x2xf32>) -> tensor<1x1x2xf32>
  %y = nn.transpose %g perm [2, 0, 1] : (tensor<1x1x2xf32>) -> tensor<2x1x1xf32>
  func.return %y : tensor<2x1x1xf32>
}

// -----

// Places along an axis follow it, too.
// CHECK-LABEL: @places
// CHECK-NEXT:  [[A:%.*]] = nn.arg_max %x axis 1 : (tensor<2x3x4xf32>) -> tensor<2x4xi64>
// CHECK-NEXT:  [[B:%.*]] = nn.arg_min %x keepdims last : (tensor<2x3x4xf32>) -> tensor<1x3x4xi64>
// CHECK-NEXT:  func.return [[A]], [[B]]
func.func @places(%x: tensor<2x3x4xf32>) -> (tensor<2x4xi64>, tensor<1x3x4xi64>) {
  %t = nn.transpose %x perm [1, 2, 0] : (tensor<2x3x4xf32>) -> tensor<3x4x2xf32>
  %a = nn.arg_max %t : (tensor<3x4x2xf32>) -> tensor<4x2xi64>
  %b = nn.arg_min %t axis -1 keepdims last : (tensor<3x4x2xf32>) -> tensor<3x4x1xi64>
  %c = nn.transpose %a perm [1, 0] : (tensor<4x2xi64>) -> tensor<2x4xi64>
  %d = nn.transpose %b perm [2, 0, 1] : (tensor<3x4x1xi64>) -> tensor<1x3x4xi64>
  func.return %c, %d : tensor<2x4xi64>, tensor<1x3x4xi64>
}

// -----

// Parameters along an axis follow it.
// CHECK-LABEL: @quantized
// CHECK-NEXT:  nn.quantize %x by <i8, scale = [0.5, 0.25], axis = 0>
// CHECK-NEXT:  func.return
func.func @quantized(%x: tensor<2x3xf32>) -> tensor<2x3xi8> {
  %t = nn.transpose %x perm [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %q = nn.quantize %t by <i8, scale = [0.5, 0.25], axis = 1> : (tensor<3x2xf32>) -> tensor<3x2xi8>
  %y = nn.transpose %q perm [1, 0] : (tensor<3x2xi8>) -> tensor<2x3xi8>
  func.return %y : tensor<2x3xi8>
}

// -----

// Where several meet, one after is enough.
// CHECK-LABEL: @meet
// CHECK-NEXT:  [[A:%.*]] = nn.concat %x, %y axis 1 : (tensor<2x3xf32>, tensor<2x5xf32>) -> tensor<2x8xf32>
// CHECK-NEXT:  nn.transpose [[A]] perm [1, 0] : (tensor<2x8xf32>) -> tensor<8x2xf32> loc(fused["tx", "ty"])
func.func @meet(%x: tensor<2x3xf32>, %y: tensor<2x5xf32>) -> tensor<8x2xf32> {
  %a = nn.transpose %x perm [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32> loc("tx")
  %b = nn.transpose %y perm [1, 0] : (tensor<2x5xf32>) -> tensor<5x2xf32> loc("ty")
  %c = nn.concat %a, %b axis 0 : (tensor<3x2xf32>, tensor<5x2xf32>) -> tensor<8x2xf32>
  func.return %c : tensor<8x2xf32>
}

// -----

// The first cancels although it stays for others: one less.
// CHECK-LABEL: @shared_cancels
// CHECK-NEXT:  nn.transpose %x
// CHECK-NEXT:  nn.relu %x : tensor<2x3xf32>
// CHECK-NEXT:  func.return
func.func @shared_cancels(%x: tensor<2x3xf32>) -> (tensor<3x2xf32>, tensor<2x3xf32>) {
  %a = nn.transpose %x perm [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %r = nn.relu %a : tensor<3x2xf32>
  %b = nn.transpose %r perm [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>
  func.return %a, %b : tensor<3x2xf32>, tensor<2x3xf32>
}

// -----

// One less here would be one more there: the first has a second use and does not cancel; the value between has one.
// CHECK-LABEL: @second_use
// CHECK-NEXT:  nn.transpose %x perm [2, 0, 1]
// CHECK-NEXT:  nn.transpose %a perm [0, 2, 1]
// CHECK-NEXT:  nn.transpose %y perm [1, 0]
// CHECK-NEXT:  nn.relu
// CHECK-NEXT:  nn.transpose
func.func @second_use(%x: tensor<2x3x4xf32>, %y: tensor<2x3xf32>) -> (tensor<4x2x3xf32>, tensor<4x3x2xf32>, tensor<3x2xf32>, tensor<2x3xf32>) {
  %a = nn.transpose %x perm [2, 0, 1] : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  %b = nn.transpose %a perm [0, 2, 1] : (tensor<4x2x3xf32>) -> tensor<4x3x2xf32>
  %c = nn.transpose %y perm [1, 0] : (tensor<2x3xf32>) -> tensor<3x2xf32>
  %d = nn.relu %c : tensor<3x2xf32>
  %e = nn.transpose %d perm [1, 0] : (tensor<3x2xf32>) -> tensor<2x3xf32>
  func.return %a, %b, %d, %e : tensor<4x2x3xf32>, tensor<4x3x2xf32>, tensor<3x2xf32>, tensor<2x3xf32>
}

// -----

// Nothing crosses what does not commute, two different permutations, or a normalization whose axes would move.
// CHECK-LABEL: @between
// CHECK-NEXT:  nn.transpose %x perm [1, 0, 2]
// CHECK-NEXT:  nn.matmul
// CHECK-NEXT:  nn.transpose
// CHECK-NEXT:  nn.transpose %x perm [0, 2, 1]
// CHECK-NEXT:  nn.transpose %x perm [2, 1, 0]
// CHECK-NEXT:  nn.add
// CHECK-NEXT:  nn.transpose %x perm [0, 2, 1]
// CHECK-NEXT:  nn.layer_norm
// CHECK-NEXT:  nn.transpose
func.func @between(%x: tensor<2x2x2xf32>, %s: tensor<2xf32>) -> (tensor<2x2x2xf32>, tensor<2x2x2xf32>, tensor<2x2x2xf32>) {
  %a = nn.transpose %x perm [1, 0, 2] : tensor<2x2x2xf32>
  %b = nn.matmul %a, %x : tensor<2x2x2xf32>
  %c = nn.transpose %b perm [1, 0, 2] : tensor<2x2x2xf32>
  %d = nn.transpose %x perm [0, 2, 1] : tensor<2x2x2xf32>
  %e = nn.transpose %x perm [2, 1, 0] : tensor<2x2x2xf32>
  %f = nn.add %d, %e : tensor<2x2x2xf32>
  %g = nn.transpose %x perm [0, 2, 1] : tensor<2x2x2xf32>
  %h = nn.layer_norm %g, %s : (tensor<2x2x2xf32>, tensor<2xf32>) -> tensor<2x2x2xf32>
  %i = nn.transpose %h perm [0, 2, 1] : tensor<2x2x2xf32>
  func.return %c, %f, %i : tensor<2x2x2xf32>, tensor<2x2x2xf32>, tensor<2x2x2xf32>
}
