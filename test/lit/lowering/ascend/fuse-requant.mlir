// RUN: CONSTANTS | amct-opt - --fuse-requant --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// CONSTANT: %s = nn.constant dense<0.5> : tensor<1xf32>

// deq_scale [0.5, 0.25] times scale 4: from accumulators to int8 in one step, with the offset of AscendQuant.
// CHECK-LABEL: @one_step
// CHECK:         nn.constant dense<[2.000000e+00, 1.000000e+00]> : tensor<2xf32>
// CHECK-NEXT:    %q = ascend.AscendRequant %acc,
// CHECK-SAME:    offset -3
// CHECK-NEXT:    return %q
// REMARK:      [fuse-requant applied requant] "q": fused into
func.func @one_step(%acc: tensor<1x2x4x4xi32>) -> tensor<1x2x4x4xi8> {
  %s = nn.constant dense<[0.5, 0.25]> : tensor<2xf32>
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %q = ascend.AscendQuant %y scale 4.0 offset -3.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  func.return %q : tensor<1x2x4x4xi8>
}

// -----

// Relu is a flag.
// CHECK-LABEL: @relu
// CHECK:         %q = ascend.AscendRequant %acc, {{.*}} relu_flag true
// CHECK-NEXT:    return %q
func.func @relu(%acc: tensor<1x2x4x4xi32>) -> tensor<1x2x4x4xi8> {
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  %r = ascend.Relu %y : tensor<1x2x4x4xf32>
  %q = ascend.AscendQuant %r scale 4.0 offset 0.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  func.return %q : tensor<1x2x4x4xi8>
}

// -----

// Also where reals go on: AscendDequant with relu_flag.
// CHECK-LABEL: @relu_flag
// CHECK:         %r = ascend.AscendDequant %acc, {{.*}} relu_flag true
// CHECK-NEXT:    return %r
// REMARK:      [fuse-requant missed integer-consumer] {{.*}}: 'func.return' func.return reads floats
func.func @relu_flag(%acc: tensor<1x2x4x4xi32>) -> tensor<1x2x4x4xf32> {
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  %r = ascend.Relu %y : tensor<1x2x4x4xf32>
  func.return %r : tensor<1x2x4x4xf32>
}

// -----

// 6 * 21.25 - 1 = 126.5 rounds to 126, the even one: 6 is not the largest integer. Relu6 stays, and so does what is around it.
// CHECK-LABEL: @below_the_boundary
// CHECK:         ascend.AscendDequant
// CHECK-NEXT:    ascend.Relu6
// CHECK-NEXT:    ascend.AscendQuant
// REMARK:      [fuse-requant missed relu6-saturates] "r": q gives 126 for 6, which is not its largest integer
func.func @below_the_boundary(%acc: tensor<1x2x4x4xi32>) -> tensor<1x2x4x4xi8> {
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  %r = ascend.Relu6 %y : tensor<1x2x4x4xf32>
  %q = ascend.AscendQuant %r scale 21.25 offset -1.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  func.return %q : tensor<1x2x4x4xi8>
}

// -----

// 6 * 21.25 = 127.5 saturates: Relu6 is Relu, and all of it one step.
// CHECK-LABEL: @saturated
// CHECK:         %q = ascend.AscendRequant %acc, {{.*}} relu_flag true
// CHECK-NEXT:    return %q
// REMARK:      [fuse-requant applied relu6-saturates] "r": every AscendQuant after it saturates at 6: Relu gives the same integers
func.func @saturated(%acc: tensor<1x2x4x4xi32>) -> tensor<1x2x4x4xi8> {
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  %r = ascend.Relu6 %y : tensor<1x2x4x4xf32>
  %q = ascend.AscendQuant %r scale 21.25 offset 0.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  func.return %q : tensor<1x2x4x4xi8>
}

// -----

// Split: one AscendQuant saturates and reads Relu, the other one keeps Relu6.
// CHECK-LABEL: @split
// CHECK:         [[RELU:%.*]] = ascend.Relu %x
// CHECK-NEXT:    [[RELU6:%.*]] = ascend.Relu6 %x
// CHECK-NEXT:    ascend.AscendQuant [[RELU]] scale 30.0
// CHECK-NEXT:    ascend.AscendQuant [[RELU6]] scale 20.0
// REMARK:      [fuse-requant missed relu6-saturates] "r": b gives 120 for 6, which is not its largest integer
func.func @split(%x: tensor<2x4xf32>) -> (tensor<2x4xi8>, tensor<2x4xi8>) {
  %r = ascend.Relu6 %x : tensor<2x4xf32>
  %a = ascend.AscendQuant %r scale 30.0 offset 0.0 : (tensor<2x4xf32>) -> tensor<2x4xi8>
  %b = ascend.AscendQuant %r scale 20.0 offset 0.0 : (tensor<2x4xf32>) -> tensor<2x4xi8>
  func.return %a, %b : tensor<2x4xi8>, tensor<2x4xi8>
}

// -----

// A graph output is a use: Relu6 stays for it.
// CHECK-LABEL: @output
// CHECK:         ascend.Relu %x
// CHECK:         ascend.Relu6 %x
// REMARK:      [fuse-requant missed relu6-saturates] "r": func.return reads it; only AscendQuant and max pools may
func.func @output(%x: tensor<2x4xf32>) -> (tensor<2x4xi8>, tensor<2x4xf32>) {
  %r = ascend.Relu6 %x : tensor<2x4xf32>
  %a = ascend.AscendQuant %r scale 30.0 offset 0.0 : (tensor<2x4xf32>) -> tensor<2x4xi8>
  func.return %a, %r : tensor<2x4xi8>, tensor<2x4xf32>
}

// -----

// A max pool commutes with AscendQuant, and so does a second one: what counts is what reads them.
// CHECK-LABEL: @through_max_pools
// CHECK:         ascend.AscendDequant %acc, {{.*}} relu_flag true
// CHECK-NEXT:    ascend.MaxPoolV3
// CHECK-NEXT:    ascend.AscendQuant
// CHECK-NEXT:    ascend.MaxPoolV3
// CHECK-NEXT:    ascend.AscendQuant
// REMARK:      [fuse-requant applied relu6-saturates] "r": every AscendQuant after it saturates at 6: Relu gives the same integers
func.func @through_max_pools(%acc: tensor<1x2x4x4xi32>) -> (tensor<1x2x2x2xi8>, tensor<1x2x1x1xi8>) {
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  %r = ascend.Relu6 %y : tensor<1x2x4x4xf32>
  %p = ascend.MaxPoolV3 %r ksize [1, 1, 2, 2] strides [1, 1, 2, 2] data_format "NCHW" : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x2xf32>
  %a = ascend.AscendQuant %p scale 21.25 offset 0.0 : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xi8>
  %g = ascend.MaxPoolV3 %p ksize [1, 1, 2, 2] strides [1, 1, 2, 2] data_format "NCHW" : (tensor<1x2x2x2xf32>) -> tensor<1x2x1x1xf32>
  %b = ascend.AscendQuant %g scale 30.0 offset 0.0 : (tensor<1x2x1x1xf32>) -> tensor<1x2x1x1xi8>
  func.return %a, %b : tensor<1x2x2x2xi8>, tensor<1x2x1x1xi8>
}

// -----

// One AscendQuant after the pool is below the boundary: the whole pool keeps Relu6.
// CHECK-LABEL: @pool_below_the_boundary
// CHECK:         ascend.Relu6 %x
// CHECK-NOT:     ascend.Relu %x
// REMARK:      [fuse-requant missed relu6-saturates] "r": b gives 120 for 6, which is not its largest integer
func.func @pool_below_the_boundary(%x: tensor<1x2x4x4xf32>) -> (tensor<1x2x2x2xi8>, tensor<1x2x2x2xi8>) {
  %r = ascend.Relu6 %x : tensor<1x2x4x4xf32>
  %p = ascend.MaxPoolV3 %r ksize [1, 1, 2, 2] strides [1, 1, 2, 2] data_format "NCHW" : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x2xf32>
  %a = ascend.AscendQuant %p scale 30.0 offset 0.0 : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xi8>
  %b = ascend.AscendQuant %p scale 20.0 offset 0.0 : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xi8>
  func.return %a, %b : tensor<1x2x2x2xi8>, tensor<1x2x2x2xi8>
}

// -----

// A pool that is a graph output keeps Relu6 too.
// CHECK-LABEL: @pool_output
// CHECK:         ascend.Relu6 %x
// REMARK:      [fuse-requant missed relu6-saturates] "r": func.return reads it; only AscendQuant and max pools may
func.func @pool_output(%x: tensor<1x2x4x4xf32>) -> (tensor<1x2x2x2xf32>, tensor<1x2x2x2xi8>) {
  %r = ascend.Relu6 %x : tensor<1x2x4x4xf32>
  %p = ascend.MaxPoolV3 %r ksize [1, 1, 2, 2] strides [1, 1, 2, 2] data_format "NCHW" : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x2xf32>
  %a = ascend.AscendQuant %p scale 30.0 offset 0.0 : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xi8>
  func.return %p, %a : tensor<1x2x2x2xf32>, tensor<1x2x2x2xi8>
}

// -----

// Equal AscendQuants of a tensor are one, and then the only reader of it. Another offset is another one.
// CHECK-LABEL: @equal
// CHECK:         %a = ascend.AscendRequant
// CHECK-NEXT:    return %a, %a
// REMARK:      [fuse-requant applied merge-quants] "b": a gives the same integers
func.func @equal(%acc: tensor<2x4xi32>) -> (tensor<2x4xi8>, tensor<2x4xi8>) {
  %y = ascend.AscendDequant %acc, %s : (tensor<2x4xi32>, tensor<1xf32>) -> tensor<2x4xf32>
  %a = ascend.AscendQuant %y scale 2.0 offset 1.0 : (tensor<2x4xf32>) -> tensor<2x4xi8>
  %b = ascend.AscendQuant %y scale 2.0 offset 1.0 : (tensor<2x4xf32>) -> tensor<2x4xi8>
  func.return %a, %b : tensor<2x4xi8>, tensor<2x4xi8>
}

// -----

// CHECK-LABEL: @other_parameters
// CHECK:         ascend.AscendDequant
// CHECK-NEXT:    ascend.AscendQuant
// CHECK-NEXT:    ascend.AscendQuant
// REMARK:      [fuse-requant missed equal-parameters] "b": a quantizes the same tensor by another offset
// REMARK:      [fuse-requant missed dequant-used-once] "a": the result of y has 2 uses
func.func @other_parameters(%acc: tensor<2x4xi32>) -> (tensor<2x4xi8>, tensor<2x4xi8>) {
  %y = ascend.AscendDequant %acc, %s : (tensor<2x4xi32>, tensor<1xf32>) -> tensor<2x4xf32>
  %a = ascend.AscendQuant %y scale 2.0 offset 1.0 : (tensor<2x4xf32>) -> tensor<2x4xi8>
  %b = ascend.AscendQuant %y scale 2.0 offset 2.0 : (tensor<2x4xf32>) -> tensor<2x4xi8>
  func.return %a, %b : tensor<2x4xi8>, tensor<2x4xi8>
}

// -----

// REMARK:      [fuse-requant missed dequant-used-once] "r": the result of y has 2 uses
// CHECK-LABEL: @relu_beside
// CHECK:         ascend.AscendDequant
// CHECK-NEXT:    ascend.Relu
func.func @relu_beside(%acc: tensor<2x4xi32>) -> (tensor<2x4xf32>, tensor<2x4xf32>) {
  %y = ascend.AscendDequant %acc, %s : (tensor<2x4xi32>, tensor<1xf32>) -> tensor<2x4xf32>
  %r = ascend.Relu %y : tensor<2x4xf32>
  func.return %y, %r : tensor<2x4xf32>, tensor<2x4xf32>
}

// -----

// REMARK:      [fuse-requant missed rounds-to-nearest] "q": q has round_mode Floor
func.func @floor(%acc: tensor<2x4xi32>) -> tensor<2x4xi8> {
  %y = ascend.AscendDequant %acc, %s : (tensor<2x4xi32>, tensor<1xf32>) -> tensor<2x4xf32>
  %q = ascend.AscendQuant %y scale 2.0 offset 1.0 round_mode "Floor" : (tensor<2x4xf32>) -> tensor<2x4xi8>
  func.return %q : tensor<2x4xi8>
}

// -----

// REMARK:      [fuse-requant missed no-sqrt-mode] "q": a scale of it is a square root (sqrt_mode)
func.func @square_root(%acc: tensor<2x4xi32>) -> tensor<2x4xi8> {
  %y = ascend.AscendDequant %acc, %s sqrt_mode true : (tensor<2x4xi32>, tensor<1xf32>) -> tensor<2x4xf32>
  %q = ascend.AscendQuant %y scale 2.0 offset 1.0 : (tensor<2x4xf32>) -> tensor<2x4xi8>
  func.return %q : tensor<2x4xi8>
}

// -----

// REMARK:      [fuse-requant missed gives-int8] "q": q gives i4
func.func @int4(%acc: tensor<2x4xi32>) -> tensor<2x4xi4> {
  %y = ascend.AscendDequant %acc, %s : (tensor<2x4xi32>, tensor<1xf32>) -> tensor<2x4xf32>
  %q = ascend.AscendQuant %y scale 2.0 offset 1.0 dst_type 29 : (tensor<2x4xf32>) -> tensor<2x4xi4>
  func.return %q : tensor<2x4xi4>
}

// -----

// REMARK:      [fuse-requant missed scale-in-range] "q": deq_scale times scale leaves the normal range of float32
func.func @tiny(%acc: tensor<2x4xi32>) -> tensor<2x4xi8> {
  %s = nn.constant dense<1.0e-20> : tensor<1xf32>
  %y = ascend.AscendDequant %acc, %s : (tensor<2x4xi32>, tensor<1xf32>) -> tensor<2x4xf32>
  %q = ascend.AscendQuant %y scale 1.0e-20 offset 1.0 : (tensor<2x4xf32>) -> tensor<2x4xi8>
  func.return %q : tensor<2x4xi8>
}

// -----

// REMARK:      [fuse-requant missed no-shift] "q": y has shift_n
func.func @shifted(%acc: tensor<2x4xi32>) -> tensor<2x4xi8> {
  %y = ascend.AscendDequant %acc, %s shift_n [3] : (tensor<2x4xi32>, tensor<1xf32>) -> tensor<2x4xf32>
  %q = ascend.AscendQuant %y scale 2.0 offset 1.0 : (tensor<2x4xf32>) -> tensor<2x4xi8>
  func.return %q : tensor<2x4xi8>
}
