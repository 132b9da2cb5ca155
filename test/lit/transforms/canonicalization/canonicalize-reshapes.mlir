// RUN: amct-opt %s --canonicalize --split-input-file --print-debuginfo | filecheck %s

// A chain is one reshape; it keeps the origin of the last and the locations of all.
// CHECK-LABEL: @chain
// CHECK-NEXT:  nn.reshape %x to [12, 2] from <onnx, "Flatten", "flat"> : (tensor<2x3x4xf32>) -> tensor<12x2xf32> loc(fused["a", "b", "c"])
func.func @chain(%x: tensor<2x3x4xf32>) -> tensor<12x2xf32> {
  %a = nn.unsqueeze %x axes [1] : (tensor<2x3x4xf32>) -> tensor<2x1x3x4xf32> loc("a")
  %b = nn.reshape %a to [3, -1, 2] : (tensor<2x1x3x4xf32>) -> tensor<3x4x2xf32> loc("b")
  %c = nn.flatten %b axis 2 from <onnx, "Flatten", "flat"> : (tensor<3x4x2xf32>) -> tensor<12x2xf32> loc("c")
  func.return %c : tensor<12x2xf32>
}

// -----

// A transpose that leaves the elements in order takes part.
// CHECK-LABEL: @transpose
// CHECK-NEXT:  nn.reshape %x to [2, 5] : (tensor<2x1x1x5xf32>) -> tensor<2x5xf32>
func.func @transpose(%x: tensor<2x1x1x5xf32>) -> tensor<2x5xf32> {
  %a = nn.transpose %x perm [0, 3, 1, 2] : (tensor<2x1x1x5xf32>) -> tensor<2x5x1x1xf32>
  %b = nn.flatten %a : (tensor<2x5x1x1xf32>) -> tensor<2x5xf32>
  func.return %b : tensor<2x5xf32>
}

// -----

// Unknown sizes: axes that stay in their place are copied, one other is what is left.
// CHECK-LABEL: @dynamic
// CHECK-NEXT:  nn.reshape %x to [0, 0, 8] : (tensor<?x?x2x4xf32>) -> tensor<?x?x8xf32>
// CHECK-NEXT:  nn.reshape %y to [3, -1] : (tensor<?x3xf32>) -> tensor<3x?xf32>
func.func @dynamic(%x: tensor<?x?x2x4xf32>, %y: tensor<?x3xf32>) -> (tensor<?x?x8xf32>, tensor<3x?xf32>) {
  %a = nn.unsqueeze %x axes [2] : (tensor<?x?x2x4xf32>) -> tensor<?x?x1x2x4xf32>
  %b = nn.reshape %a to [0, 0, 8] : (tensor<?x?x1x2x4xf32>) -> tensor<?x?x8xf32>
  %c = nn.unsqueeze %y axes [0] : (tensor<?x3xf32>) -> tensor<1x?x3xf32>
  %d = nn.reshape %c to [3, -1] : (tensor<1x?x3xf32>) -> tensor<3x?xf32>
  func.return %b, %d : tensor<?x?x8xf32>, tensor<3x?xf32>
}

// -----

// There and back is nothing, even where the first result has other uses.
// CHECK-LABEL: @back
// CHECK-NEXT:  nn.unsqueeze %x axes [0]
// CHECK-NEXT:  func.return %{{.*}}, %x
func.func @back(%x: tensor<?x?xf32>) -> (tensor<1x?x?xf32>, tensor<?x?xf32>) {
  %a = nn.unsqueeze %x axes [0] : (tensor<?x?xf32>) -> tensor<1x?x?xf32>
  %b = nn.squeeze %a axes [0] : (tensor<1x?x?xf32>) -> tensor<?x?xf32>
  func.return %a, %b : tensor<1x?x?xf32>, tensor<?x?xf32>
}

// -----

// A second use: two reshapes either way.
// CHECK-LABEL: @second_use
// CHECK-NEXT:  nn.unsqueeze
// CHECK-NEXT:  nn.reshape %a
func.func @second_use(%x: tensor<2x6xf32>) -> (tensor<1x2x6xf32>, tensor<4x3xf32>) {
  %a = nn.unsqueeze %x axes [0] : (tensor<2x6xf32>) -> tensor<1x2x6xf32>
  %b = nn.reshape %a to [4, 3] : (tensor<1x2x6xf32>) -> tensor<4x3xf32>
  func.return %a, %b : tensor<1x2x6xf32>, tensor<4x3xf32>
}

// -----

// Two sizes that cannot be written down, a size of 0, a shape that is computed, elements out of order.
// CHECK-LABEL: @refused
// CHECK-NEXT:  nn.unsqueeze
// CHECK-NEXT:  nn.squeeze
// CHECK-NEXT:  nn.unsqueeze
// CHECK-NEXT:  nn.reshape
// CHECK-NEXT:  nn.unsqueeze
// CHECK-NEXT:  nn.reshape
// CHECK-NEXT:  nn.transpose
// CHECK-NEXT:  nn.flatten
func.func @refused(%x: tensor<1x?x?xf32>, %e: tensor<0x2xf32>, %s: tensor<2xi64>, %t: tensor<2x3x4xf32>) -> (tensor<?x?x1xf32>, tensor<0x2x1xf32>, tensor<?x?xf32>, tensor<4x6xf32>) {
  %a = nn.unsqueeze %x axes [3] : (tensor<1x?x?xf32>) -> tensor<1x?x?x1xf32>
  %b = nn.squeeze %a axes [0] : (tensor<1x?x?x1xf32>) -> tensor<?x?x1xf32>
  %c = nn.unsqueeze %e axes [0] : (tensor<0x2xf32>) -> tensor<1x0x2xf32>
  %d = nn.reshape %c to [0, 2, 1] allow_zero : (tensor<1x0x2xf32>) -> tensor<0x2x1xf32>
  %f = nn.unsqueeze %x axes [0] : (tensor<1x?x?xf32>) -> tensor<1x1x?x?xf32>
  %g = nn.reshape %f, %s : (tensor<1x1x?x?xf32>, tensor<2xi64>) -> tensor<?x?xf32>
  %h = nn.transpose %t perm [2, 0, 1] : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  %i = nn.flatten %h : (tensor<4x2x3xf32>) -> tensor<4x6xf32>
  func.return %b, %d, %g, %i : tensor<?x?x1xf32>, tensor<0x2x1xf32>, tensor<?x?xf32>, tensor<4x6xf32>
}
