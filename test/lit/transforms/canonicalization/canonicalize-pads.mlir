// RUN: amct-opt %s --canonicalize --split-input-file --print-debuginfo | filecheck %s
// RUN: amct-opt %s --canonicalize --split-input-file --remarks=all 2>&1 >/dev/null | filecheck %s --check-prefix REMARK

// Added to the convolution's own pads, in either layout; the origin is the convolution's.
// CHECK-LABEL: @conv
// CHECK-NOT:   nn.pad
// CHECK:       nn.conv %x, %w strides [2, 2] pads [1, 0, 2, 3] from <tensorflow, "Conv2D", "c"> {{.*}} loc(fused["p", "c"])
// CHECK-NEXT:  nn.conv %y, %w pads [1, 2, 3, 4] layout nhwc
// REMARK:      [canonicalize applied pad] "c": p merged into its padding
func.func @conv(%x: tensor<1x2x?x?xf32>, %y: tensor<1x5x5x2xf32>) -> (tensor<1x3x?x?xf32>, tensor<1x8x10x3xf32>) {
  %w = nn.constant dense<1.0> : tensor<3x2x2x2xf32>
  %p = nn.pad %x pads [0, 0, 1, 0, 0, 0, 1, 2] : (tensor<1x2x?x?xf32>) -> tensor<1x2x?x?xf32> loc("p")
  %c = nn.conv %p, %w strides [2, 2] pads [0, 0, 1, 1] from <tensorflow, "Conv2D", "c"> : (tensor<1x2x?x?xf32>, tensor<3x2x2x2xf32>) -> tensor<1x3x?x?xf32> loc("c")
  %q = nn.pad %y pads [0, 1, 2, 0, 0, 3, 4, 0] : (tensor<1x5x5x2xf32>) -> tensor<1x9x11x2xf32>
  %d = nn.conv %q, %w layout nhwc : (tensor<1x9x11x2xf32>, tensor<3x2x2x2xf32>) -> tensor<1x8x10x3xf32>
  func.return %c, %d : tensor<1x3x?x?xf32>, tensor<1x8x10x3xf32>
}

// -----

// A pooling that counts zeros, a maximum that padding never wins; each user for itself.
// CHECK-LABEL: @pooling
// CHECK-NEXT:  nn.pad %x
// CHECK-NEXT:  nn.average_pool %x count_include_pad kernel [2] pads [1, 0]
// CHECK-NEXT:  nn.max_pool %p kernel [2] :
// CHECK-NEXT:  nn.max_pool %x kernel [2] pads [1, 0]
// CHECK-NEXT:  nn.max_pool %i kernel [2] pads [1, 0]
// REMARK-DAG:  [canonicalize missed padding-value] "p": not merged into n: it pads with 0.0, not with -inf
func.func @pooling(%x: tensor<1x2x5xf32>, %i: tensor<1x2x5xi8>) -> (tensor<1x2x5xf32>, tensor<1x2x5xf32>, tensor<1x2x5xf32>, tensor<1x2x5xi8>) {
  %p = nn.pad %x pads [0, 0, 1, 0, 0, 0] : (tensor<1x2x5xf32>) -> tensor<1x2x6xf32>
  %a = nn.average_pool %p kernel [2] : (tensor<1x2x6xf32>) -> tensor<1x2x5xf32>
  %n = nn.max_pool %p kernel [2] : (tensor<1x2x6xf32>) -> tensor<1x2x5xf32>
  %q = nn.pad %x pads [0, 0, 1, 0, 0, 0] value -inf : (tensor<1x2x5xf32>) -> tensor<1x2x6xf32>
  %m = nn.max_pool %q kernel [2] : (tensor<1x2x6xf32>) -> tensor<1x2x5xf32>
  %r = nn.pad %i pads [0, 0, 1, 0, 0, 0] value -128.0 : (tensor<1x2x5xi8>) -> tensor<1x2x6xi8>
  %o = nn.max_pool %r kernel [2] : (tensor<1x2x6xi8>) -> tensor<1x2x5xi8>
  func.return %a, %n, %m, %o : tensor<1x2x5xf32>, tensor<1x2x5xf32>, tensor<1x2x5xf32>, tensor<1x2x5xi8>
}

// -----

// CHECK-LABEL: @mode
// CHECK:       nn.pad
// REMARK:      [canonicalize missed constant-mode] "p": not merged into c: it pads with mode reflect, not with a constant
func.func @mode(%x: tensor<1x2x5xf32>, %w: tensor<3x2x2xf32>) -> tensor<1x3x6xf32> {
  %p = nn.pad %x pads [0, 0, 1, 0, 0, 1] mode reflect : (tensor<1x2x5xf32>) -> tensor<1x2x7xf32>
  %c = nn.conv %p, %w : (tensor<1x2x7xf32>, tensor<3x2x2xf32>) -> tensor<1x3x6xf32>
  func.return %c : tensor<1x3x6xf32>
}

// -----

// CHECK-LABEL: @value
// CHECK:       nn.pad
// REMARK:      [canonicalize missed padding-value] "p": not merged into c: it pads with 1.0, not with 0.0
func.func @value(%x: tensor<1x2x5xf32>, %w: tensor<3x2x2xf32>) -> tensor<1x3x6xf32> {
  %p = nn.pad %x pads [0, 0, 1, 0, 0, 1] value 1.0 : (tensor<1x2x5xf32>) -> tensor<1x2x7xf32>
  %c = nn.conv %p, %w : (tensor<1x2x7xf32>, tensor<3x2x2xf32>) -> tensor<1x3x6xf32>
  func.return %c : tensor<1x3x6xf32>
}

// -----

// CHECK-LABEL: @channels
// CHECK:       nn.pad
// REMARK:      [canonicalize missed spatial-only] "p": not merged into c: it pads batch or channels
func.func @channels(%x: tensor<1x1x5xf32>, %w: tensor<3x2x2xf32>) -> tensor<1x3x4xf32> {
  %p = nn.pad %x pads [0, 0, 0, 0, 1, 0] : (tensor<1x1x5xf32>) -> tensor<1x2x5xf32>
  %c = nn.conv %p, %w : (tensor<1x2x5xf32>, tensor<3x2x2xf32>) -> tensor<1x3x4xf32>
  func.return %c : tensor<1x3x4xf32>
}

// -----

// CHECK-LABEL: @crop
// CHECK:       nn.pad
// REMARK:      [canonicalize missed non-negative] "p": not merged into c: it crops
func.func @crop(%x: tensor<1x2x5xf32>, %w: tensor<3x2x2xf32>) -> tensor<1x3x4xf32> {
  %p = nn.pad %x pads [0, 0, 1, 0, 0, -1] : (tensor<1x2x5xf32>) -> tensor<1x2x5xf32>
  %c = nn.conv %p, %w : (tensor<1x2x5xf32>, tensor<3x2x2xf32>) -> tensor<1x3x4xf32>
  func.return %c : tensor<1x3x4xf32>
}

// -----

// CHECK-LABEL: @auto_pad
// CHECK:       nn.pad
// REMARK:      [canonicalize missed explicit-pads] "p": not merged into c: the pads of c follow from sizes (auto_pad)
func.func @auto_pad(%x: tensor<1x2x5xf32>, %w: tensor<3x2x2xf32>) -> tensor<1x3x6xf32> {
  %p = nn.pad %x pads [0, 0, 1, 0, 0, 0] : (tensor<1x2x5xf32>) -> tensor<1x2x6xf32>
  %c = nn.conv %p, %w auto_pad same_upper : (tensor<1x2x6xf32>, tensor<3x2x2xf32>) -> tensor<1x3x6xf32>
  func.return %c : tensor<1x3x6xf32>
}

// -----

// CHECK-LABEL: @ceil_mode
// CHECK:       nn.pad
// REMARK:      [canonicalize missed no-ceil-mode] "p": not merged into m: ceil_mode distinguishes padding from what was padded before
func.func @ceil_mode(%x: tensor<1x2x5xf32>) -> tensor<1x2x4xf32> {
  %p = nn.pad %x pads [0, 0, 0, 0, 0, 2] value -inf : (tensor<1x2x5xf32>) -> tensor<1x2x7xf32>
  %m = nn.max_pool %p kernel [1] strides [2] ceil_mode : (tensor<1x2x7xf32>) -> tensor<1x2x4xf32>
  func.return %m : tensor<1x2x4xf32>
}

// -----

// CHECK-LABEL: @count
// CHECK:       nn.pad
// REMARK:      [canonicalize missed counts-alike] "p": not merged into a: a does not count its own padding, but counts what was padded before
func.func @count(%x: tensor<1x2x5xf32>) -> tensor<1x2x6xf32> {
  %p = nn.pad %x pads [0, 0, 1, 0, 0, 0] : (tensor<1x2x5xf32>) -> tensor<1x2x6xf32>
  %a = nn.average_pool %p kernel [2] pads [0, 1] : (tensor<1x2x6xf32>) -> tensor<1x2x6xf32>
  func.return %a : tensor<1x2x6xf32>
}

// -----

// CHECK-LABEL: @kernel
// CHECK:       nn.pad
// REMARK:      [canonicalize missed pads-below-kernel] "p": not merged into a: a window would hold nothing but padding
func.func @kernel(%x: tensor<1x2x5xf32>) -> tensor<1x2x6xf32> {
  %p = nn.pad %x pads [0, 0, 2, 0, 0, 0] : (tensor<1x2x5xf32>) -> tensor<1x2x7xf32>
  %a = nn.average_pool %p kernel [2] : (tensor<1x2x7xf32>) -> tensor<1x2x6xf32>
  func.return %a : tensor<1x2x6xf32>
}

// -----

// The lowest float wins against no finite element either.
// CHECK-LABEL: @lowest
// CHECK-NOT:   nn.pad
// CHECK:       nn.max_pool %x kernel [2] pads [1, 0]
func.func @lowest(%x: tensor<1x2x5xf32>) -> tensor<1x2x5xf32> {
  %p = nn.pad %x pads [0, 0, 1, 0, 0, 0] value -3.4028234663852886E+38 : (tensor<1x2x5xf32>) -> tensor<1x2x6xf32>
  %m = nn.max_pool %p kernel [2] : (tensor<1x2x6xf32>) -> tensor<1x2x5xf32>
  func.return %m : tensor<1x2x5xf32>
}
