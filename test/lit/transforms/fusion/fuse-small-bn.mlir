// RUN: CONSTANTS | amct-opt - --fuse-small-bn --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// CONSTANT: %scale = nn.constant dense<[2.0, -2.0]> : tensor<2xf32>
// CONSTANT: %offset = nn.constant dense<[0.5, 0.25]> : tensor<2xf32>
// CONSTANT: %mean = nn.constant dense<[0.0, 1.0]> : tensor<2xf32>
// CONSTANT: %variance = nn.constant dense<[3.0, 0.0]> : tensor<2xf32>
// CONSTANT: %eps = nn.constant dense<1.0> : tensor<f32>
// CONSTANT: %k = nn.constant dense<[1.0, -2.0]> : tensor<2xf32>

// scale = [2, -2], offset = [0.5, 0.25], mean = [0, 1], variance + epsilon = [4, 1], so k = [1, -2], shift = [0.5, 2.25].

// Keras's four: scale and offset.
// CHECK-LABEL: @keras
// CHECK-DAG:   [[SCALE:%.*]] = nn.constant dense<[2.000000e+00, -2.000000e+00]> : tensor<2xf32>
// CHECK-DAG:   [[OFFSET:%.*]] = nn.constant dense<[5.000000e-01, 2.500000e-01]> : tensor<2xf32>
// CHECK-DAG:   [[MEAN:%.*]] = nn.constant dense<[0.000000e+00, 1.000000e+00]> : tensor<2xf32>
// CHECK-DAG:   [[VARIANCE:%.*]] = nn.constant dense<[3.000000e+00, 0.000000e+00]> : tensor<2xf32>
// CHECK:       [[Y:%.*]] = nn.batch_norm %x, [[SCALE]], [[OFFSET]], [[MEAN]], [[VARIANCE]] epsilon 1.0 layout nhwc from <tf, "AddV2", "bn">
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-small-bn applied keras-batch-norm] "bn": its small operations are one batch norm
func.func @keras(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %v = nn.add %variance, %eps : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %d = nn.rsqrt %v : tensor<2xf32>
  %r = nn.mul %d, %scale : tensor<2xf32>
  %p = nn.mul %x, %r from <tf, "Mul", "bn/mul"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %m = nn.mul %mean, %r : tensor<2xf32>
  %s = nn.sub %offset, %m : tensor<2xf32>
  %y = nn.add %p, %s from <tf, "AddV2", "bn"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// Offset only: ones for the scale.
// CHECK-LABEL: @keras_center
// CHECK-DAG:   [[SCALE:%.*]] = nn.constant dense<1.000000e+00> : tensor<2xf32>
// CHECK-DAG:   [[OFFSET:%.*]] = nn.constant dense<[5.000000e-01, 2.500000e-01]> : tensor<2xf32>
// CHECK-DAG:   [[MEAN:%.*]] = nn.constant dense<[0.000000e+00, 1.000000e+00]> : tensor<2xf32>
// CHECK-DAG:   [[VARIANCE:%.*]] = nn.constant dense<[3.000000e+00, 0.000000e+00]> : tensor<2xf32>
// CHECK:       [[Y:%.*]] = nn.batch_norm %x, [[SCALE]], [[OFFSET]], [[MEAN]], [[VARIANCE]] epsilon 1.0 layout nhwc from <tf, "AddV2", "bn">
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-small-bn applied keras-batch-norm] "bn": its small operations are one batch norm
func.func @keras_center(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %v = nn.add %variance, %eps : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %d = nn.rsqrt %v : tensor<2xf32>
  %p = nn.mul %x, %d from <tf, "Mul", "bn/mul"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %m = nn.mul %mean, %d : tensor<2xf32>
  %s = nn.sub %offset, %m : tensor<2xf32>
  %y = nn.add %p, %s from <tf, "AddV2", "bn"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// Scale only: zeros for the offset.
// CHECK-LABEL: @keras_scale
// CHECK-DAG:   [[SCALE:%.*]] = nn.constant dense<[2.000000e+00, -2.000000e+00]> : tensor<2xf32>
// CHECK-DAG:   [[OFFSET:%.*]] = nn.constant dense<0.000000e+00> : tensor<2xf32>
// CHECK-DAG:   [[MEAN:%.*]] = nn.constant dense<[0.000000e+00, 1.000000e+00]> : tensor<2xf32>
// CHECK-DAG:   [[VARIANCE:%.*]] = nn.constant dense<[3.000000e+00, 0.000000e+00]> : tensor<2xf32>
// CHECK:       [[Y:%.*]] = nn.batch_norm %x, [[SCALE]], [[OFFSET]], [[MEAN]], [[VARIANCE]] epsilon 1.0 layout nhwc from <tf, "AddV2", "bn">
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-small-bn applied keras-batch-norm] "bn": its small operations are one batch norm
func.func @keras_scale(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %v = nn.add %variance, %eps : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %d = nn.rsqrt %v : tensor<2xf32>
  %r = nn.mul %d, %scale : tensor<2xf32>
  %p = nn.mul %x, %r from <tf, "Mul", "bn/mul"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %n = nn.neg %mean : tensor<2xf32>
  %s = nn.mul %n, %r : tensor<2xf32>
  %y = nn.add %p, %s from <tf, "AddV2", "bn"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// Neither.
// CHECK-LABEL: @keras_plain
// CHECK-DAG:   [[SCALE:%.*]] = nn.constant dense<1.000000e+00> : tensor<2xf32>
// CHECK-DAG:   [[OFFSET:%.*]] = nn.constant dense<0.000000e+00> : tensor<2xf32>
// CHECK-DAG:   [[MEAN:%.*]] = nn.constant dense<[0.000000e+00, 1.000000e+00]> : tensor<2xf32>
// CHECK-DAG:   [[VARIANCE:%.*]] = nn.constant dense<[3.000000e+00, 0.000000e+00]> : tensor<2xf32>
// CHECK:       [[Y:%.*]] = nn.batch_norm %x, [[SCALE]], [[OFFSET]], [[MEAN]], [[VARIANCE]] epsilon 1.0 layout nhwc from <tf, "AddV2", "bn">
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-small-bn applied keras-batch-norm] "bn": its small operations are one batch norm
func.func @keras_plain(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %v = nn.add %variance, %eps : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %d = nn.rsqrt %v : tensor<2xf32>
  %p = nn.mul %x, %d from <tf, "Mul", "bn/mul"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %n = nn.neg %mean : tensor<2xf32>
  %s = nn.mul %n, %d : tensor<2xf32>
  %y = nn.add %p, %s from <tf, "AddV2", "bn"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// Channels first: the parameters are reshaped, and every sum and product stands the other way round.
// CHECK-LABEL: @reshaped
// CHECK-DAG:   [[SCALE:%.*]] = nn.constant dense<[2.000000e+00, -2.000000e+00]> : tensor<2xf32>
// CHECK:       nn.batch_norm %x, [[SCALE]], {{.*}} epsilon 1.0 from <tf, "Add", "bn">
// CHECK-NOT:   nn.add
// REMARK:      [fuse-small-bn applied keras-batch-norm] "bn"
func.func @reshaped(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %scale_1 = nn.reshape %scale to [1, 2, 1, 1] : (tensor<2xf32>) -> tensor<1x2x1x1xf32>
  %offset_1 = nn.reshape %offset to [1, 2, 1, 1] : (tensor<2xf32>) -> tensor<1x2x1x1xf32>
  %mean_1 = nn.reshape %mean to [1, 2, 1, 1] : (tensor<2xf32>) -> tensor<1x2x1x1xf32>
  %variance_1 = nn.reshape %variance to [1, 2, 1, 1] : (tensor<2xf32>) -> tensor<1x2x1x1xf32>
  %v = nn.add %eps, %variance_1 : (tensor<f32>, tensor<1x2x1x1xf32>) -> tensor<1x2x1x1xf32>
  %d = nn.rsqrt %v : tensor<1x2x1x1xf32>
  %r = nn.mul %scale_1, %d : tensor<1x2x1x1xf32>
  %p = nn.mul %r, %x : (tensor<1x2x1x1xf32>, tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %m = nn.mul %r, %mean_1 : tensor<1x2x1x1xf32>
  %s = nn.sub %offset_1, %m : tensor<1x2x1x1xf32>
  %y = nn.add %s, %p from <tf, "Add", "bn"> : (tensor<1x2x1x1xf32>, tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// A half input: the casts go, the parameters stay float32.
// CHECK-LABEL: @half
// CHECK-NOT:   nn.cast
// CHECK:       nn.batch_norm %x, {{.*}} : (tensor<1x2x2x2xf16>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
// REMARK:      [fuse-small-bn applied keras-batch-norm] "bn"
func.func @half(%x: tensor<1x2x2x2xf16>) -> tensor<1x2x2x2xf16> {
  %v = nn.add %variance, %eps : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %d = nn.rsqrt %v : tensor<2xf32>
  %h = nn.cast %d : (tensor<2xf32>) -> tensor<2xf16>
  %p = nn.mul %x, %h : (tensor<1x2x2x2xf16>, tensor<2xf16>) -> tensor<1x2x2x2xf16>
  %m = nn.mul %mean, %d : tensor<2xf32>
  %s = nn.sub %offset, %m : tensor<2xf32>
  %t = nn.cast %s : (tensor<2xf32>) -> tensor<2xf16>
  %y = nn.add %p, %t from <tf, "AddV2", "bn"> : (tensor<1x2x2x2xf16>, tensor<2xf16>) -> tensor<1x2x2x2xf16>
  func.return %y : tensor<1x2x2x2xf16>
}

// -----

// Written by hand, the scale as left operand.
// CHECK-LABEL: @written
// CHECK-DAG:   [[SCALE:%.*]] = nn.constant dense<[2.000000e+00, -2.000000e+00]> : tensor<2xf32>
// CHECK-DAG:   [[OFFSET:%.*]] = nn.constant dense<[5.000000e-01, 2.500000e-01]> : tensor<2xf32>
// CHECK-DAG:   [[MEAN:%.*]] = nn.constant dense<[0.000000e+00, 1.000000e+00]> : tensor<2xf32>
// CHECK-DAG:   [[VARIANCE:%.*]] = nn.constant dense<[3.000000e+00, 0.000000e+00]> : tensor<2xf32>
// CHECK:       nn.batch_norm %x, [[SCALE]], [[OFFSET]], [[MEAN]], [[VARIANCE]] epsilon 1.0 layout nhwc
// CHECK-NEXT:  func.return
// REMARK:      [fuse-small-bn applied written-batch-norm] "bn"
func.func @written(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %c = nn.sub %x, %mean from <tf, "Sub", "bn/sub"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %v = nn.add %variance, %eps : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %d = nn.sqrt %v : tensor<2xf32>
  %q = nn.div %c, %d from <tf, "RealDiv", "bn/div"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %g = nn.mul %scale, %q from <tf, "Mul", "bn/mul"> : (tensor<2xf32>, tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32>
  %y = nn.add %g, %offset from <tf, "AddV2", "bn"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// Without scale and offset.
// CHECK-LABEL: @written_plain
// CHECK:       nn.batch_norm %x,
// CHECK-NEXT:  func.return
// REMARK:      [fuse-small-bn applied written-batch-norm] "bn/div"
func.func @written_plain(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %c = nn.sub %x, %mean from <tf, "Sub", "bn/sub"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %v = nn.add %variance, %eps : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %d = nn.sqrt %v : tensor<2xf32>
  %q = nn.div %c, %d from <tf, "RealDiv", "bn/div"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %q : tensor<1x2x2x2xf32>
}

// -----

// What constant folding leaves: the factor is the scale, the summand the offset, mean 0, variance 1, epsilon 0.
// CHECK-LABEL: @folded
// CHECK-DAG:   [[K:%.*]] = nn.constant dense<[1.000000e+00, -2.000000e+00]> : tensor<2xf32>
// CHECK-DAG:   [[C:%.*]] = nn.constant dense<[5.000000e-01, 2.250000e+00]> : tensor<2xf32>
// CHECK-DAG:   [[ZERO:%.*]] = nn.constant dense<0.000000e+00> : tensor<2xf32>
// CHECK-DAG:   [[ONE:%.*]] = nn.constant dense<1.000000e+00> : tensor<2xf32>
// CHECK:       nn.batch_norm %x, [[K]], [[C]], [[ZERO]], [[ONE]] epsilon 0.0 layout nhwc
// REMARK:      [fuse-small-bn applied affine-batch-norm] "bn"
func.func @folded(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %c = nn.constant dense<[0.5, 2.25]> : tensor<2xf32>
  %p = nn.mul %x, %k from <tf, "Mul", "bn/mul"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %y = nn.add %p, %c from <tf, "AddV2", "bn"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// Of the hand-written form: (x - m) * k + c = x * k + (c - m * k).
// CHECK-LABEL: @folded_hand
// CHECK-DAG:   [[K:%.*]] = nn.constant dense<[1.000000e+00, -2.000000e+00]> : tensor<2xf32>
// CHECK-DAG:   [[C:%.*]] = nn.constant dense<[5.000000e-01, 2.250000e+00]> : tensor<2xf32>
// CHECK:       nn.batch_norm %x, [[K]], [[C]],
// REMARK:      [fuse-small-bn applied affine-batch-norm] "bn"
func.func @folded_hand(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %m = nn.constant dense<[0.0, 1.0]> : tensor<2xf32>
  %c = nn.constant dense<[0.5, 0.25]> : tensor<2xf32>
  %s = nn.sub %x, %m : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %p = nn.mul %s, %k : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %y = nn.add %p, %c from <tf, "AddV2", "bn"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// Not fused: the product is a graph output, too.
// CHECK-LABEL: @used
// CHECK-NOT:   nn.batch_norm
// REMARK:      [fuse-small-bn missed inner-used-once] "bn": the result of bn/mul has 2 uses
func.func @used(%x: tensor<1x2x2x2xf32>) -> (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) {
  %v = nn.add %variance, %eps : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %d = nn.rsqrt %v : tensor<2xf32>
  %r = nn.mul %d, %scale : tensor<2xf32>
  %p = nn.mul %x, %r from <tf, "Mul", "bn/mul"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %m = nn.mul %mean, %r : tensor<2xf32>
  %s = nn.sub %offset, %m : tensor<2xf32>
  %y = nn.add %p, %s from <tf, "AddV2", "bn"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %p, %y : tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>
}

// -----

// In a module that was trained with quantization as well.
// CHECK-LABEL: @fake_quant
// CHECK:       nn.batch_norm %q
// REMARK:      [fuse-small-bn applied keras-batch-norm] "bn"
func.func @fake_quant(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %q = nn.opaque %x framework "tensorflow" op_type "FakeQuantWithMinMaxVars" from <tf, "FakeQuantWithMinMaxVars", "fq"> : tensor<1x2x2x2xf32>
  %v = nn.add %variance, %eps : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %d = nn.rsqrt %v : tensor<2xf32>
  %r = nn.mul %d, %scale : tensor<2xf32>
  %p = nn.mul %q, %r from <tf, "Mul", "bn/mul"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %m = nn.mul %mean, %r : tensor<2xf32>
  %s = nn.sub %offset, %m : tensor<2xf32>
  %y = nn.add %p, %s from <tf, "AddV2", "bn"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// And in one that is quantized.
// CHECK-LABEL: @quantized
// CHECK:       nn.batch_norm %dq
// REMARK:      [fuse-small-bn applied keras-batch-norm] "bn"
func.func @quantized(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = 0> : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xi8>
  %dq = nn.dequantize %q by <i8, scale = 0.5, zero_point = 0> : (tensor<1x2x2x2xi8>) -> tensor<1x2x2x2xf32>
  %v = nn.add %variance, %eps : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %d = nn.rsqrt %v : tensor<2xf32>
  %r = nn.mul %d, %scale : tensor<2xf32>
  %p = nn.mul %dq, %r from <tf, "Mul", "bn/mul"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %m = nn.mul %mean, %r : tensor<2xf32>
  %s = nn.sub %offset, %m : tensor<2xf32>
  %y = nn.add %p, %s from <tf, "AddV2", "bn"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// Not fused: a vector has no channels.
// CHECK-LABEL: @vector
// CHECK-NOT:   nn.batch_norm
// REMARK:      [fuse-small-bn missed input-rank] "bn": its input has no channels
func.func @vector(%x: tensor<2xf32>) -> tensor<2xf32> {
  %v = nn.add %variance, %eps : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %d = nn.rsqrt %v : tensor<2xf32>
  %r = nn.mul %d, %scale : tensor<2xf32>
  %p = nn.mul %x, %r from <tf, "Mul", "bn/mul"> : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %m = nn.mul %mean, %r : tensor<2xf32>
  %s = nn.sub %offset, %m : tensor<2xf32>
  %y = nn.add %p, %s from <tf, "AddV2", "bn"> : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}

// -----

// Not fused: the parameters run along axis 2, which is neither the second nor the last.
// CHECK-LABEL: @rows
// CHECK-NOT:   nn.batch_norm
// REMARK:      [fuse-small-bn missed along-channels] "bn": its parameters run along the axes [2] of [1, 3, 2, 3]
func.func @rows(%x: tensor<1x3x2x3xf32>) -> tensor<1x3x2x3xf32> {
  %scale = nn.constant dense<[[2.0], [-2.0]]> : tensor<2x1xf32>
  %offset = nn.constant dense<[[0.5], [0.25]]> : tensor<2x1xf32>
  %mean = nn.constant dense<[[0.0], [1.0]]> : tensor<2x1xf32>
  %variance = nn.constant dense<[[3.0], [0.0]]> : tensor<2x1xf32>
  %v = nn.add %variance, %eps : (tensor<2x1xf32>, tensor<f32>) -> tensor<2x1xf32>
  %d = nn.rsqrt %v : tensor<2x1xf32>
  %r = nn.mul %d, %scale : tensor<2x1xf32>
  %p = nn.mul %x, %r from <tf, "Mul", "bn/mul"> : (tensor<1x3x2x3xf32>, tensor<2x1xf32>) -> tensor<1x3x2x3xf32>
  %m = nn.mul %mean, %r : tensor<2x1xf32>
  %s = nn.sub %offset, %m : tensor<2x1xf32>
  %y = nn.add %p, %s from <tf, "AddV2", "bn"> : (tensor<1x3x2x3xf32>, tensor<2x1xf32>) -> tensor<1x3x2x3xf32>
  func.return %y : tensor<1x3x2x3xf32>
}

// -----

// Not fused: how many channels there are is not known, the parameters might enlarge the input.
// CHECK-LABEL: @unknown
// CHECK-NOT:   nn.batch_norm
// REMARK:      [fuse-small-bn missed along-channels] "bn": a parameter [2] does not fit the channels of [1, 2, 2, ?]
func.func @unknown(%x: tensor<1x2x2x?xf32>) -> tensor<1x2x2x2xf32> {
  %v = nn.add %variance, %eps : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %d = nn.rsqrt %v : tensor<2xf32>
  %r = nn.mul %d, %scale : tensor<2xf32>
  %p = nn.mul %x, %r from <tf, "Mul", "bn/mul"> : (tensor<1x2x2x?xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %m = nn.mul %mean, %r : tensor<2xf32>
  %s = nn.sub %offset, %m : tensor<2xf32>
  %y = nn.add %p, %s from <tf, "AddV2", "bn"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// Not fused: scale and offset of a layer norm, whose input is standardized at run time.
// CHECK-LABEL: @layer_norm
// CHECK-NOT:   nn.batch_norm
// REMARK:      [fuse-small-bn missed no-layer-norm] "bn": its input is standardized at run time by 'nn.div' ln
func.func @layer_norm(%x: tensor<1x2x2x2xf32>, %sd: tensor<1x2x2x1xf32>) -> tensor<1x2x2x2xf32> {
  %q = nn.div %x, %sd from <onnx, "Div", "ln"> : (tensor<1x2x2x2xf32>, tensor<1x2x2x1xf32>) -> tensor<1x2x2x2xf32>
  %c = nn.constant dense<[0.5, 2.25]> : tensor<2xf32>
  %p = nn.mul %q, %k from <tf, "Mul", "bn/mul"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %y = nn.add %p, %c from <tf, "AddV2", "bn"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// Not a batch norm: the factor is there, the rest is not.
// CHECK-LABEL: @no_norm
// CHECK-NOT:   nn.batch_norm
// REMARK:      [fuse-small-bn missed no-batch-norm] "d": the operations after this standard deviation are not a batch norm
func.func @no_norm(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %v = nn.add %variance, %eps : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %d = nn.rsqrt %v : tensor<2xf32>
  %y = nn.mul %x, %d : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// Neither fused nor missed: numbers of preprocessing are not a batch norm.
// CHECK-LABEL: @preprocessing
// CHECK:       nn.mul
// CHECK:       nn.add
func.func @preprocessing(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %two = nn.constant dense<2.0> : tensor<f32>
  %p = nn.mul %x, %two : (tensor<1x2x2x2xf32>, tensor<f32>) -> tensor<1x2x2x2xf32>
  %y = nn.add %p, %two from <tf, "AddV2", "shifted"> : (tensor<1x2x2x2xf32>, tensor<f32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}
