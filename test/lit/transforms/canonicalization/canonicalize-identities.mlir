// RUN: amct-opt %s --canonicalize --split-input-file | filecheck %s
// RUN: xdsl-opt %s -p canonicalize --split-input-file | filecheck %s

// Each gives back what it gets.
// CHECK-LABEL: @all
// CHECK-NEXT:  [[Y:%.*]] = nn.relu %x
// CHECK-NEXT:  func.return [[Y]]
func.func @all(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %a = nn.cast %x : tensor<2x3xf32>
  %b = nn.concat %a axis 0 : tensor<2x3xf32>
  %c = nn.slice %b starts [0, -3] ends [2, 9223372036854775807] : tensor<2x3xf32>
  %d = nn.pad %c pads [0, 0, 0, 0] : tensor<2x3xf32>
  %e = nn.expand %d to [2, 1] : tensor<2x3xf32>
  %f = nn.transpose %e perm [0, 1] : tensor<2x3xf32>
  %g = nn.reshape %f to [2, 3] : tensor<2x3xf32>
  %h = nn.flatten %g : tensor<2x3xf32>
  %i = nn.split %h sizes [2] : tensor<2x3xf32>
  %j = nn.clip %i : tensor<2x3xf32>
  %y = nn.relu %j : tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}

// -----

// The same with sizes that are not known.
// CHECK-LABEL: @dynamic
// CHECK-NEXT:  func.return %x
func.func @dynamic(%x: tensor<?x?x4xf32>) -> tensor<?x?x4xf32> {
  %a = nn.slice %x starts [0, 0] ends [9223372036854775807, 2147483647] : tensor<?x?x4xf32>
  %b = nn.expand %a to [1, 1] : tensor<?x?x4xf32>
  %c = nn.reshape %b to [0, 0, 4] : tensor<?x?x4xf32>
  %d = nn.reshape %c to [0, -1, 4] : tensor<?x?x4xf32>
  func.return %d : tensor<?x?x4xf32>
}

// -----

// A result of the function keeps its name and type, whatever it is now.
// CHECK-LABEL: @output
// CHECK-SAME:  (%x: tensor<2x3xf32> {nn.name = "in"}) -> (tensor<2x3xf32> {nn.name = "out"})
// CHECK-NEXT:  func.return %x
func.func @output(%x: tensor<2x3xf32> {nn.name = "in"}) -> (tensor<2x3xf32> {nn.name = "out"}) {
  %y = nn.cast %x : tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}

// -----

// A cast to another type, a reversed axis, a join of two, pads, an axis that grows, axes that change places.
// CHECK-LABEL: @others
// CHECK-NEXT:  nn.cast
// CHECK-NEXT:  nn.slice
// CHECK-NEXT:  nn.concat
// CHECK-NEXT:  nn.pad
// CHECK-NEXT:  nn.expand
// CHECK-NEXT:  nn.transpose
func.func @others(%x: tensor<3x3xf32>) -> (tensor<3x3xf16>, tensor<3x3xf32>, tensor<6x3xf32>, tensor<3x3xf32>, tensor<2x3x3xf32>, tensor<3x3xf32>) {
  %a = nn.cast %x : (tensor<3x3xf32>) -> tensor<3x3xf16>
  %b = nn.slice %x starts [-1] ends [-9223372036854775807] steps [-1] : tensor<3x3xf32>
  %c = nn.concat %x, %x axis 0 : (tensor<3x3xf32>, tensor<3x3xf32>) -> tensor<6x3xf32>
  %d = nn.pad %x pads [1, 0, -1, 0] : tensor<3x3xf32>
  %e = nn.expand %x to [2, 1, 1] : (tensor<3x3xf32>) -> tensor<2x3x3xf32>
  %f = nn.transpose %x perm [1, 0] : tensor<3x3xf32>
  func.return %a, %b, %c, %d, %e, %f : tensor<3x3xf16>, tensor<3x3xf32>, tensor<6x3xf32>, tensor<3x3xf32>, tensor<2x3x3xf32>, tensor<3x3xf32>
}

// -----

// Sizes that are not known may not be those that are asked for; types that know more are not given up.
// CHECK-LABEL: @unknown
// CHECK-NEXT:  nn.slice
// CHECK-NEXT:  nn.expand
// CHECK-NEXT:  nn.reshape
// CHECK-NEXT:  nn.cast
func.func @unknown(%x: tensor<?x?xf32>) -> (tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<4x?xf32>) {
  %a = nn.slice %x starts [0] ends [1000] : tensor<?x?xf32>
  %b = nn.expand %x to [7, 1] : (tensor<?x?xf32>) -> tensor<?x?xf32>
  %c = nn.reshape %x to [-1, 7] : (tensor<?x?xf32>) -> tensor<?x?xf32>
  %d = nn.cast %x : (tensor<?x?xf32>) -> tensor<4x?xf32>
  func.return %a, %b, %c, %d : tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>, tensor<4x?xf32>
}

// -----

// What nothing uses goes, and what only that used.
// CHECK-LABEL: @dead
// CHECK-NEXT:  func.return %x
func.func @dead(%x: tensor<2xf32>) -> tensor<2xf32> {
  %c = nn.constant dense<1.0> : tensor<2xf32>
  %a = nn.sub %x, %c : tensor<2xf32>
  %b = nn.mul %a, %a : tensor<2xf32>
  func.return %x : tensor<2xf32>
}
