// RUN: amct-opt %s --fuse-requant=chip=v100 --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// deq_scale times scale is float16: 0.3 is 0.30004883. AscendQuant has the scale 1, Relu is a flag.
// CHECK-LABEL: @scaled
// CHECK:         nn.constant dense<[0.300048828, 1.000000e+00]> : tensor<2xf32>
// CHECK-NEXT:    %y = ascend.AscendDequant %acc, {{%[a-z_]+}} relu_flag true : (
// CHECK-NEXT:    ascend.AscendQuant %y scale 1.0 offset -3.0
// REMARK:      [fuse-requant applied scaled] "y": deq_scale has the scale of AscendQuant, which is 1 now
func.func @scaled(%acc: tensor<1x2x4x4xi32>) -> tensor<1x2x4x4xi8> {
  %s = nn.constant dense<[0.075, 0.25]> : tensor<2xf32>
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %r = ascend.Relu %y : tensor<1x2x4x4xf32>
  %q = ascend.AscendQuant %r scale 4.0 offset -3.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  func.return %q : tensor<1x2x4x4xi8>
}

// -----

// One product below 2^-14: 2^-16 and 0.25 become 2^-8 and 0.5, with sqrt_mode.
// CHECK-LABEL: @square_roots
// CHECK:         nn.constant dense<[3.906250e-03, 5.000000e-01]> : tensor<2xf32>
// CHECK-NEXT:    ascend.AscendDequant %acc, {{%[a-z_]+}} sqrt_mode true : (
func.func @square_roots(%acc: tensor<1x2x4x4xi32>) -> tensor<1x2x4x4xi8> {
  %s = nn.constant dense<[3.814697265625e-06, 0.0625]> : tensor<2xf32>
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %q = ascend.AscendQuant %y scale 4.0 offset -3.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  func.return %q : tensor<1x2x4x4xi8>
}

// -----

// 2^-14 is taken as it is.
// CHECK-LABEL: @at_the_boundary
// CHECK:         nn.constant dense<[6.10351562e-05, 2.500000e-01]> : tensor<2xf32>
// CHECK-NEXT:    ascend.AscendDequant %acc, {{%[a-z_]+}} : (
func.func @at_the_boundary(%acc: tensor<1x2x4x4xi32>) -> tensor<1x2x4x4xi8> {
  %s = nn.constant dense<[1.52587890625e-05, 0.0625]> : tensor<2xf32>
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %q = ascend.AscendQuant %y scale 4.0 offset -3.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  func.return %q : tensor<1x2x4x4xi8>
}

// -----

// CHECK-LABEL: @float16_scale
// CHECK:         ascend.AscendQuant %y scale 4.0
// REMARK:      [fuse-requant missed float16-scale] "y": deq_scale times scale is beyond float16
func.func @float16_scale(%acc: tensor<1x2x4x4xi32>) -> tensor<1x2x4x4xi8> {
  %s = nn.constant dense<20000.0> : tensor<1xf32>
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  %q = ascend.AscendQuant %y scale 4.0 offset -3.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  func.return %q : tensor<1x2x4x4xi8>
}

// -----

// Relu6 becomes Relu6D; int4 is like int8.
// CHECK-LABEL: @relu6
// CHECK:         ascend.Relu6D %y scale 4.0
// CHECK-NEXT:    ascend.AscendQuant {{.*}} dst_type 29 {{.*}}scale 1.0
func.func @relu6(%acc: tensor<1x2x4x4xi32>) -> tensor<1x2x4x4xi4> {
  %s = nn.constant dense<0.5> : tensor<1xf32>
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  %r = ascend.Relu6 %y : tensor<1x2x4x4xf32>
  %q = ascend.AscendQuant %r dst_type 29 scale 4.0 offset -3.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi4>
  func.return %q : tensor<1x2x4x4xi4>
}

// -----

// Channels of a Concat need no alignment.
// CHECK-LABEL: @joined
// CHECK-COUNT-2: ascend.AscendDequant
// CHECK-NEXT:    ascend.ConcatV2
// CHECK-NEXT:    ascend.AscendQuant {{.*}} scale 1.0
// REMARK:      [fuse-requant applied scaled-concat] "q"
func.func @joined(%acc: tensor<1x3x2x2xi32>, %other: tensor<1x5x2x2xi32>) -> tensor<1x8x2x2xi8> {
  %s = nn.constant dense<0.5> : tensor<1xf32>
  %axis = nn.constant dense<1> : tensor<i64>
  %a = ascend.AscendDequant %acc, %s : (tensor<1x3x2x2xi32>, tensor<1xf32>) -> tensor<1x3x2x2xf32>
  %b = ascend.AscendDequant %other, %s : (tensor<1x5x2x2xi32>, tensor<1xf32>) -> tensor<1x5x2x2xf32>
  %c = ascend.ConcatV2 %a, %b, %axis N 2 : (tensor<1x3x2x2xf32>, tensor<1x5x2x2xf32>, tensor<i64>) -> tensor<1x8x2x2xf32>
  %q = ascend.AscendQuant %c scale 4.0 offset -3.0 : (tensor<1x8x2x2xf32>) -> tensor<1x8x2x2xi8>
  func.return %q : tensor<1x8x2x2xi8>
}

// -----

// No AscendQuant after it: Relu is a flag where it has one reader.
// CHECK-LABEL: @single_relu
// CHECK:         ascend.AscendDequant %acc, {{%[a-z_]+}} relu_flag true
// REMARK:      [fuse-requant applied relu-flag] "r"
func.func @single_relu(%acc: tensor<1x2x4x4xi32>) -> tensor<1x2x4x4xf32> {
  %s = nn.constant dense<0.5> : tensor<1xf32>
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  %r = ascend.Relu %y : tensor<1x2x4x4xf32>
  func.return %r : tensor<1x2x4x4xf32>
}
