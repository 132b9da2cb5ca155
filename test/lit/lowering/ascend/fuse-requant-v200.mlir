// RUN: CONSTANTS | amct-opt - --fuse-requant=chip=v200 --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// CONSTANT: %s = nn.constant dense<0.5> : tensor<1xf32>
// CONSTANT: %axis = nn.constant dense<1> : tensor<i64>

// Two AscendQuants whose scales are within 1e-5 become one AscendRequant by the first one's scale and the last one's offset.
// CHECK-LABEL: @several
// CHECK:         nn.constant dense<2.000000e+00> : tensor<1xf32>
// CHECK-NEXT:    [[q:%.*]] = ascend.AscendRequant %acc, {{.*}} offset 5.0 : (tensor<1x2x4x4xi32>, tensor<1xf32>) -> tensor<1x2x4x4xi8>
// CHECK-NEXT:    return [[q]], [[q]]
// REMARK:      [fuse-requant applied requant] "y": fused into
func.func @several(%acc: tensor<1x2x4x4xi32>) -> (tensor<1x2x4x4xi8>, tensor<1x2x4x4xi8>) {
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  %q = ascend.AscendQuant %y scale 4.0 offset -3.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  %p = ascend.AscendQuant %y scale 4.000005 offset 5.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  func.return %q, %p : tensor<1x2x4x4xi8>, tensor<1x2x4x4xi8>
}

// -----

// CHECK-LABEL: @close_scales
// CHECK:         ascend.AscendDequant
// REMARK:      [fuse-requant missed close-scales] "y": p has the scale 4.00002, not 4
func.func @close_scales(%acc: tensor<1x2x4x4xi32>) -> (tensor<1x2x4x4xi8>, tensor<1x2x4x4xi8>) {
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  %q = ascend.AscendQuant %y scale 4.0 offset -3.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  %p = ascend.AscendQuant %y scale 4.00002 offset -3.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  func.return %q, %p : tensor<1x2x4x4xi8>, tensor<1x2x4x4xi8>
}

// -----

// Relu is a flag.
// CHECK-LABEL: @relu
// CHECK:         ascend.AscendRequant %acc, {{.*}} offset -127.0 relu_flag true
func.func @relu(%acc: tensor<1x2x4x4xi32>) -> tensor<1x2x4x4xi8> {
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  %r = ascend.Relu %y : tensor<1x2x4x4xf32>
  %q = ascend.AscendQuant %r scale 4.0 offset -127.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  func.return %q : tensor<1x2x4x4xi8>
}

// -----

// At offset -128 saturation does what the flag would do.
// CHECK-LABEL: @relu_at_the_end
// CHECK:         ascend.AscendRequant %acc, {{%[a-z_]+}} offset -128.0 : (
func.func @relu_at_the_end(%acc: tensor<1x2x4x4xi32>) -> tensor<1x2x4x4xi8> {
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  %r = ascend.Relu %y : tensor<1x2x4x4xf32>
  %q = ascend.AscendQuant %r scale 4.0 offset -128.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  func.return %q : tensor<1x2x4x4xi8>
}

// -----

// A LeakyRelu with slope 0 is Relu.
// CHECK-LABEL: @slope_0
// CHECK:         ascend.AscendRequant %acc, {{.*}} relu_flag true
func.func @slope_0(%acc: tensor<1x2x4x4xi32>) -> tensor<1x2x4x4xi8> {
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  %r = ascend.LeakyRelu %y : tensor<1x2x4x4xf32>
  %q = ascend.AscendQuant %r scale 4.0 offset 0.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  func.return %q : tensor<1x2x4x4xi8>
}

// -----

// Equal AscendQuants after a Relu that are two operations block it.
// CHECK-LABEL: @relu_used_once
// CHECK:         ascend.AscendDequant
// CHECK-NEXT:    ascend.Relu
// REMARK:      [fuse-requant missed relu-used-once] "y": the result of r has 2 uses
// REMARK:      [fuse-requant missed relu-used-once] "r": the result of r has 2 uses
func.func @relu_used_once(%acc: tensor<1x2x4x4xi32>) -> (tensor<1x2x4x4xi8>, tensor<1x2x4x4xi8>) {
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  %r = ascend.Relu %y : tensor<1x2x4x4xf32>
  %q = ascend.AscendQuant %r scale 4.0 offset 0.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  %p = ascend.AscendQuant %r scale 4.0 offset 0.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  func.return %q, %p : tensor<1x2x4x4xi8>, tensor<1x2x4x4xi8>
}

// -----

// A Relu that floats are read from is a flag of AscendDequant.
// CHECK-LABEL: @relu_alone
// CHECK:         [[y:%.*]] = ascend.AscendDequant %acc, {{.*}} relu_flag true
// CHECK-NEXT:    return [[y]]
func.func @relu_alone(%acc: tensor<1x2x4x4xi32>) -> tensor<1x2x4x4xf32> {
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  %r = ascend.Relu %y : tensor<1x2x4x4xf32>
  func.return %r : tensor<1x2x4x4xf32>
}

// -----

// A Relu for each AscendQuant is all right.
// CHECK-LABEL: @relus
// CHECK:         [[q:%.*]] = ascend.AscendRequant %acc, {{.*}} relu_flag true
// CHECK-NEXT:    return [[q]], [[q]]
func.func @relus(%acc: tensor<1x2x4x4xi32>) -> (tensor<1x2x4x4xi8>, tensor<1x2x4x4xi8>) {
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  %r = ascend.Relu %y : tensor<1x2x4x4xf32>
  %t = ascend.Relu %y : tensor<1x2x4x4xf32>
  %q = ascend.AscendQuant %r scale 4.0 offset 0.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  %p = ascend.AscendQuant %t scale 4.0 offset 0.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  func.return %q, %p : tensor<1x2x4x4xi8>, tensor<1x2x4x4xi8>
}

// -----

// CHECK-LABEL: @one_kind_of_branch
// CHECK:         ascend.AscendDequant
// REMARK:      [fuse-requant missed one-kind-of-branch] "y": some readers of it are activations, others are not
func.func @one_kind_of_branch(%acc: tensor<1x2x4x4xi32>) -> (tensor<1x2x4x4xi8>, tensor<1x2x4x4xi8>) {
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  %r = ascend.Relu %y : tensor<1x2x4x4xf32>
  %q = ascend.AscendQuant %r scale 4.0 offset 0.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  %p = ascend.AscendQuant %y scale 4.0 offset 0.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  func.return %q, %p : tensor<1x2x4x4xi8>, tensor<1x2x4x4xi8>
}

// -----

// CHECK-LABEL: @kinds
// CHECK:         ascend.AscendDequant
// REMARK:      [fuse-requant missed one-kind-of-branch] "y": some activations after it are Relu, others are not
func.func @kinds(%acc: tensor<1x2x4x4xi32>) -> (tensor<1x2x4x4xi8>, tensor<1x2x4x4xi8>) {
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  %r = ascend.Relu %y : tensor<1x2x4x4xf32>
  %t = ascend.Relu6 %y : tensor<1x2x4x4xf32>
  %q = ascend.AscendQuant %r scale 4.0 offset 0.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  %p = ascend.AscendQuant %t scale 4.0 offset 0.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  func.return %q, %p : tensor<1x2x4x4xi8>, tensor<1x2x4x4xi8>
}

// -----

// CHECK-LABEL: @default_precision
// CHECK:         ascend.AscendDequant
// REMARK:      [fuse-requant missed default-precision] "y": q has fakequant_precision_mode FORCE_FP16_QUANT
func.func @default_precision(%acc: tensor<1x2x4x4xi32>) -> tensor<1x2x4x4xi8> {
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  %q = ascend.AscendQuant %y scale 4.0 offset -3.0 fakequant_precision_mode "FORCE_FP16_QUANT" : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  func.return %q : tensor<1x2x4x4xi8>
}

// -----

// An output reads floats.
// CHECK-LABEL: @integer_readers
// CHECK:         ascend.AscendDequant
// REMARK:      [fuse-requant missed integer-readers] "y": 'func.return' {{.*}} reads floats
func.func @integer_readers(%acc: tensor<1x2x4x4xi32>) -> (tensor<1x2x4x4xi8>, tensor<1x2x4x4xf32>) {
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  %q = ascend.AscendQuant %y scale 4.0 offset -3.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  func.return %q, %y : tensor<1x2x4x4xi8>, tensor<1x2x4x4xf32>
}

// -----

// Relu6 is not a dead end: scales move before it, and its bound with them.
// CHECK-LABEL: @relu6
// CHECK:         nn.constant dense<[2.000000e+00, 1.000000e+00]> : tensor<2xf32>
// CHECK-NEXT:    %y = ascend.AscendDequant %acc, {{.*}} -> tensor<1x2x4x4xf32>
// CHECK-NEXT:    %r = ascend.Relu6D %y scale 4.0 : tensor<1x2x4x4xf32>
// CHECK-NEXT:    ascend.AscendQuant %r scale 1.0 offset -3.0
// REMARK:      [fuse-requant applied scaled] "y": deq_scale has the scale of AscendQuant, which is 1 now
func.func @relu6(%acc: tensor<1x2x4x4xi32>) -> tensor<1x2x4x4xi8> {
  %s = nn.constant dense<[0.5, 0.25]> : tensor<2xf32>
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %r = ascend.Relu6 %y : tensor<1x2x4x4xf32>
  %q = ascend.AscendQuant %r scale 4.0 offset -3.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  func.return %q : tensor<1x2x4x4xi8>
}

// -----

// A LeakyRelu stays between.
// CHECK-LABEL: @leaky
// CHECK:         %y = ascend.AscendDequant
// CHECK-NEXT:    %r = ascend.LeakyRelu %y negative_slope 0.1 : tensor<1x2x4x4xf32>
// CHECK-NEXT:    ascend.AscendQuant %r scale 1.0 offset -3.0
func.func @leaky(%acc: tensor<1x2x4x4xi32>) -> tensor<1x2x4x4xi8> {
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  %r = ascend.LeakyRelu %y negative_slope 0.1 : tensor<1x2x4x4xf32>
  %q = ascend.AscendQuant %r scale 4.0 offset -3.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  func.return %q : tensor<1x2x4x4xi8>
}

// -----

// Other types than int8.
// CHECK-LABEL: @gives_int8
// CHECK:         ascend.AscendDequant
// REMARK:      [fuse-requant missed gives-int8] "y": q gives i4
func.func @gives_int8(%acc: tensor<1x2x4x4xi32>) -> tensor<1x2x4x4xi4> {
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  %q = ascend.AscendQuant %y dst_type 29 scale 4.0 offset -3.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi4>
  func.return %q : tensor<1x2x4x4xi4>
}

// -----

// CHECK-LABEL: @no_padded_average
// CHECK:         ascend.AscendDequant
// REMARK:      [fuse-requant missed no-padded-average] "y": y is after a padded average pool
func.func @no_padded_average(%x: tensor<1x2x4x4xi8>) -> tensor<1x2x3x3xi8> {
  %acc = ascend.AvgPoolV2 %x ksize [1, 1, 2, 2] strides [1, 1, 1, 1] data_format "NCHW" : (tensor<1x2x4x4xi8>) -> tensor<1x2x3x3xi32>
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x3x3xi32>, tensor<1xf32>) -> tensor<1x2x3x3xf32>
  %q = ascend.AscendQuant %y scale 4.0 offset -3.0 : (tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xi8>
  func.return %q : tensor<1x2x3x3xi8>
}

// -----

// A pool without padding is like any layer.
// CHECK-LABEL: @average
// CHECK:         ascend.AscendRequant
func.func @average(%x: tensor<1x2x4x4xi8>) -> tensor<1x2x3x3xi8> {
  %acc = ascend.AvgPoolV2 %x ksize [1, 1, 2, 2] strides [1, 1, 1, 1] data_format "NCHW" padding_mode "VALID" : (tensor<1x2x4x4xi8>) -> tensor<1x2x3x3xi32>
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x3x3xi32>, tensor<1xf32>) -> tensor<1x2x3x3xf32>
  %q = ascend.AscendQuant %y scale 4.0 offset -3.0 : (tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xi8>
  func.return %q : tensor<1x2x3x3xi8>
}

// -----

// CHECK-LABEL: @modes
// CHECK-COUNT-3: ascend.AscendDequant
// REMARK:      [fuse-requant missed rounds-to-nearest] "a": x has round_mode Floor
// REMARK:      [fuse-requant missed no-sqrt-mode] "b": a scale of it is a square root (sqrt_mode)
// REMARK:      [fuse-requant missed no-shift] "c": c has shift_n
func.func @modes(%acc: tensor<1x2x4x4xi32>) -> (tensor<1x2x4x4xi8>, tensor<1x2x4x4xi8>, tensor<1x2x4x4xi8>) {
  %a = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  %x = ascend.AscendQuant %a round_mode "Floor" scale 4.0 offset -3.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  %b = ascend.AscendDequant %acc, %s sqrt_mode true : (tensor<1x2x4x4xi32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  %y = ascend.AscendQuant %b scale 4.0 offset -3.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  %c = ascend.AscendDequant %acc, %s shift_n [1] : (tensor<1x2x4x4xi32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  %z = ascend.AscendQuant %c scale 4.0 offset -3.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  func.return %x, %y, %z : tensor<1x2x4x4xi8>, tensor<1x2x4x4xi8>, tensor<1x2x4x4xi8>
}

// -----

// CHECK-LABEL: @scale_in_range
// CHECK:         ascend.AscendDequant
// REMARK:      [fuse-requant missed scale-in-range] "y": deq_scale times scale leaves the normal range of float32
func.func @scale_in_range(%acc: tensor<1x2x4x4xi32>) -> tensor<1x2x4x4xi8> {
  %s = nn.constant dense<1.0e-30> : tensor<1xf32>
  %y = ascend.AscendDequant %acc, %s : (tensor<1x2x4x4xi32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  %q = ascend.AscendQuant %y scale 1.0e-9 offset 0.0 : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  func.return %q : tensor<1x2x4x4xi8>
}

// -----

// A Concat along channels of 32 and 64 joins integers; Relu, before it or after it, is a flag.
// CHECK-LABEL: @joined
// CHECK:         [[a:%.*]] = ascend.AscendRequant %acc, {{.*}} offset -3.0 relu_flag true
// CHECK:         [[b:%.*]] = ascend.AscendRequant %other, {{.*}} offset -3.0 :
// CHECK-NEXT:    ascend.ConcatV2 [[a]], [[b]], %axis N 2 : (tensor<1x32x2x2xi8>, tensor<1x64x2x2xi8>, tensor<i64>) -> tensor<1x96x2x2xi8>
// REMARK:      [fuse-requant applied requant-concat] "q": fused into
func.func @joined(%acc: tensor<1x32x2x2xi32>, %other: tensor<1x64x2x2xi32>) -> tensor<1x96x2x2xi8> {
  %a = ascend.AscendDequant %acc, %s : (tensor<1x32x2x2xi32>, tensor<1xf32>) -> tensor<1x32x2x2xf32>
  %b = ascend.AscendDequant %other, %s : (tensor<1x64x2x2xi32>, tensor<1xf32>) -> tensor<1x64x2x2xf32>
  %r = ascend.Relu %a : tensor<1x32x2x2xf32>
  %c = ascend.ConcatV2 %r, %b, %axis N 2 : (tensor<1x32x2x2xf32>, tensor<1x64x2x2xf32>, tensor<i64>) -> tensor<1x96x2x2xf32>
  %q = ascend.AscendQuant %c scale 4.0 offset -3.0 : (tensor<1x96x2x2xf32>) -> tensor<1x96x2x2xi8>
  func.return %q : tensor<1x96x2x2xi8>
}

// -----

// CHECK-LABEL: @relu_behind
// CHECK-COUNT-2: ascend.AscendRequant {{.*}} relu_flag true
// CHECK:         ascend.ConcatV2
// CHECK-NEXT:    return
func.func @relu_behind(%acc: tensor<1x32x2x2xi32>, %other: tensor<1x64x2x2xi32>) -> tensor<1x96x2x2xi8> {
  %a = ascend.AscendDequant %acc, %s : (tensor<1x32x2x2xi32>, tensor<1xf32>) -> tensor<1x32x2x2xf32>
  %b = ascend.AscendDequant %other, %s : (tensor<1x64x2x2xi32>, tensor<1xf32>) -> tensor<1x64x2x2xf32>
  %c = ascend.ConcatV2 %a, %b, %axis N 2 : (tensor<1x32x2x2xf32>, tensor<1x64x2x2xf32>, tensor<i64>) -> tensor<1x96x2x2xf32>
  %r = ascend.Relu %c : tensor<1x96x2x2xf32>
  %q = ascend.AscendQuant %r scale 4.0 offset -3.0 : (tensor<1x96x2x2xf32>) -> tensor<1x96x2x2xi8>
  func.return %q : tensor<1x96x2x2xi8>
}

// -----

// CHECK-LABEL: @relu6_joined
// CHECK:         ascend.Relu6D {{.*}} scale 4.0
// CHECK:         ascend.Relu6D {{.*}} scale 4.0
// CHECK-NEXT:    ascend.ConcatV2
// CHECK-NEXT:    ascend.AscendQuant {{.*}} scale 1.0 offset -3.0
// REMARK:      [fuse-requant applied scaled-concat] "q"
func.func @relu6_joined(%acc: tensor<1x32x2x2xi32>, %other: tensor<1x64x2x2xi32>) -> tensor<1x96x2x2xi8> {
  %a = ascend.AscendDequant %acc, %s : (tensor<1x32x2x2xi32>, tensor<1xf32>) -> tensor<1x32x2x2xf32>
  %b = ascend.AscendDequant %other, %s : (tensor<1x64x2x2xi32>, tensor<1xf32>) -> tensor<1x64x2x2xf32>
  %r = ascend.Relu6 %a : tensor<1x32x2x2xf32>
  %t = ascend.Relu6 %b : tensor<1x64x2x2xf32>
  %c = ascend.ConcatV2 %r, %t, %axis N 2 : (tensor<1x32x2x2xf32>, tensor<1x64x2x2xf32>, tensor<i64>) -> tensor<1x96x2x2xf32>
  %q = ascend.AscendQuant %c scale 4.0 offset -3.0 : (tensor<1x96x2x2xf32>) -> tensor<1x96x2x2xi8>
  func.return %q : tensor<1x96x2x2xi8>
}

// -----

// CHECK-LABEL: @aligned_channels
// CHECK:         ascend.AscendQuant
// REMARK:      [fuse-requant missed aligned-channels] "q": c joins 48 channels, no multiple of 32
func.func @aligned_channels(%acc: tensor<1x32x2x2xi32>, %other: tensor<1x48x2x2xi32>) -> tensor<1x80x2x2xi8> {
  %a = ascend.AscendDequant %acc, %s : (tensor<1x32x2x2xi32>, tensor<1xf32>) -> tensor<1x32x2x2xf32>
  %b = ascend.AscendDequant %other, %s : (tensor<1x48x2x2xi32>, tensor<1xf32>) -> tensor<1x48x2x2xf32>
  %c = ascend.ConcatV2 %a, %b, %axis N 2 : (tensor<1x32x2x2xf32>, tensor<1x48x2x2xf32>, tensor<i64>) -> tensor<1x80x2x2xf32>
  %q = ascend.AscendQuant %c scale 4.0 offset -3.0 : (tensor<1x80x2x2xf32>) -> tensor<1x80x2x2xi8>
  func.return %q : tensor<1x80x2x2xi8>
}

// -----

// int4 asks for multiples of 64.
// CHECK-LABEL: @aligned_int4
// CHECK:         ascend.AscendQuant
// REMARK:      [fuse-requant missed aligned-channels] "q": c joins 32 channels, no multiple of 64
func.func @aligned_int4(%acc: tensor<1x32x2x2xi32>, %other: tensor<1x32x2x2xi32>) -> tensor<1x64x2x2xi4> {
  %a = ascend.AscendDequant %acc, %s : (tensor<1x32x2x2xi32>, tensor<1xf32>) -> tensor<1x32x2x2xf32>
  %b = ascend.AscendDequant %other, %s : (tensor<1x32x2x2xi32>, tensor<1xf32>) -> tensor<1x32x2x2xf32>
  %c = ascend.ConcatV2 %a, %b, %axis N 2 : (tensor<1x32x2x2xf32>, tensor<1x32x2x2xf32>, tensor<i64>) -> tensor<1x64x2x2xf32>
  %q = ascend.AscendQuant %c dst_type 29 scale 4.0 offset -3.0 : (tensor<1x64x2x2xf32>) -> tensor<1x64x2x2xi4>
  func.return %q : tensor<1x64x2x2xi4>
}

// -----

// 64 channels are aligned; int4 is not requantized all the same.
// CHECK-LABEL: @aligned_int4_at_64
// CHECK:         ascend.AscendQuant
// REMARK:      [fuse-requant missed gives-int8] "q": q gives i4
func.func @aligned_int4_at_64(%acc: tensor<1x64x2x2xi32>, %other: tensor<1x64x2x2xi32>) -> tensor<1x128x2x2xi4> {
  %a = ascend.AscendDequant %acc, %s : (tensor<1x64x2x2xi32>, tensor<1xf32>) -> tensor<1x64x2x2xf32>
  %b = ascend.AscendDequant %other, %s : (tensor<1x64x2x2xi32>, tensor<1xf32>) -> tensor<1x64x2x2xf32>
  %c = ascend.ConcatV2 %a, %b, %axis N 2 : (tensor<1x64x2x2xf32>, tensor<1x64x2x2xf32>, tensor<i64>) -> tensor<1x128x2x2xf32>
  %q = ascend.AscendQuant %c dst_type 29 scale 4.0 offset -3.0 : (tensor<1x128x2x2xf32>) -> tensor<1x128x2x2xi4>
  func.return %q : tensor<1x128x2x2xi4>
}

// -----

// Other types ask for multiples of 16.
// CHECK-LABEL: @aligned_int16
// CHECK:         ascend.AscendQuant
// REMARK:      [fuse-requant missed aligned-channels] "q": c joins 24 channels, no multiple of 16
func.func @aligned_int16(%acc: tensor<1x24x2x2xi32>, %other: tensor<1x24x2x2xi32>) -> tensor<1x48x2x2xi16> {
  %a = ascend.AscendDequant %acc, %s : (tensor<1x24x2x2xi32>, tensor<1xf32>) -> tensor<1x24x2x2xf32>
  %b = ascend.AscendDequant %other, %s : (tensor<1x24x2x2xi32>, tensor<1xf32>) -> tensor<1x24x2x2xf32>
  %c = ascend.ConcatV2 %a, %b, %axis N 2 : (tensor<1x24x2x2xf32>, tensor<1x24x2x2xf32>, tensor<i64>) -> tensor<1x48x2x2xf32>
  %q = ascend.AscendQuant %c dst_type 6 scale 4.0 offset -3.0 : (tensor<1x48x2x2xf32>) -> tensor<1x48x2x2xi16>
  func.return %q : tensor<1x48x2x2xi16>
}

// -----

// 16 channels are aligned.
// CHECK-LABEL: @aligned_int16_at_16
// CHECK:         ascend.AscendQuant
// REMARK:      [fuse-requant missed gives-int8] "q": q gives i16
func.func @aligned_int16_at_16(%acc: tensor<1x16x2x2xi32>, %other: tensor<1x16x2x2xi32>) -> tensor<1x32x2x2xi16> {
  %a = ascend.AscendDequant %acc, %s : (tensor<1x16x2x2xi32>, tensor<1xf32>) -> tensor<1x16x2x2xf32>
  %b = ascend.AscendDequant %other, %s : (tensor<1x16x2x2xi32>, tensor<1xf32>) -> tensor<1x16x2x2xf32>
  %c = ascend.ConcatV2 %a, %b, %axis N 2 : (tensor<1x16x2x2xf32>, tensor<1x16x2x2xf32>, tensor<i64>) -> tensor<1x32x2x2xf32>
  %q = ascend.AscendQuant %c dst_type 6 scale 4.0 offset -3.0 : (tensor<1x32x2x2xf32>) -> tensor<1x32x2x2xi16>
  func.return %q : tensor<1x32x2x2xi16>
}

// -----

// Along another axis nothing is aligned.
// CHECK-LABEL: @along_rows
// CHECK-COUNT-2: ascend.AscendRequant
func.func @along_rows(%acc: tensor<1x3x2x2xi32>, %other: tensor<1x3x4x2xi32>) -> tensor<1x3x6x2xi8> {
  %axis = nn.constant dense<2> : tensor<i64>
  %a = ascend.AscendDequant %acc, %s : (tensor<1x3x2x2xi32>, tensor<1xf32>) -> tensor<1x3x2x2xf32>
  %b = ascend.AscendDequant %other, %s : (tensor<1x3x4x2xi32>, tensor<1xf32>) -> tensor<1x3x4x2xf32>
  %c = ascend.ConcatV2 %a, %b, %axis N 2 : (tensor<1x3x2x2xf32>, tensor<1x3x4x2xf32>, tensor<i64>) -> tensor<1x3x6x2xf32>
  %q = ascend.AscendQuant %c scale 4.0 offset -3.0 : (tensor<1x3x6x2xf32>) -> tensor<1x3x6x2xi8>
  func.return %q : tensor<1x3x6x2xi8>
}

// -----

// The Concat has one reader.
// CHECK-LABEL: @joined_used_once
// CHECK:         ascend.AscendQuant
// REMARK:      [fuse-requant missed integer-readers] "q": the result of c has 2 uses
func.func @joined_used_once(%acc: tensor<1x32x2x2xi32>, %other: tensor<1x32x2x2xi32>) -> (tensor<1x64x2x2xi8>, tensor<1x64x2x2xf32>) {
  %a = ascend.AscendDequant %acc, %s : (tensor<1x32x2x2xi32>, tensor<1xf32>) -> tensor<1x32x2x2xf32>
  %b = ascend.AscendDequant %other, %s : (tensor<1x32x2x2xi32>, tensor<1xf32>) -> tensor<1x32x2x2xf32>
  %c = ascend.ConcatV2 %a, %b, %axis N 2 : (tensor<1x32x2x2xf32>, tensor<1x32x2x2xf32>, tensor<i64>) -> tensor<1x64x2x2xf32>
  %q = ascend.AscendQuant %c scale 4.0 offset -3.0 : (tensor<1x64x2x2xf32>) -> tensor<1x64x2x2xi8>
  func.return %q, %c : tensor<1x64x2x2xi8>, tensor<1x64x2x2xf32>
}
