// RUN: CONSTANTS | amct-opt - --lower-bn --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// CONSTANT: %scale = nn.constant dense<[2.0, -2.0]> : tensor<2xf32>
// CONSTANT: %offset = nn.constant dense<[0.5, 0.25]> : tensor<2xf32>
// CONSTANT: %mean = nn.constant dense<[0.0, 1.0]> : tensor<2xf32>
// CONSTANT: %variance = nn.constant dense<[3.0, 0.0]> : tensor<2xf32>

// k = scale / sqrt(variance + 1) = [1, -2], shift = offset - mean * k = [0.5, 2.25].

// Channels second: factors and shifts stand on axis 1. The layer's name goes to the sum.
// CHECK-LABEL: @image
// CHECK-DAG:   [[K:%.*]] = nn.constant dense<{{\[\[\[}}1.000000e+00]], {{\[\[}}-2.000000e+00]]]> : tensor<2x1x1xf32>
// CHECK-DAG:   [[S:%.*]] = nn.constant dense<{{\[\[\[}}5.000000e-01]], {{\[\[}}2.250000e+00]]]> : tensor<2x1x1xf32>
// CHECK:       [[P:%.*]] = nn.mul %x, [[K]] :
// CHECK-NEXT:  [[Y:%.*]] = nn.add [[P]], [[S]] from <caffe, "BatchNorm", "image">
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [lower-bn applied batch-norm-multiply-add] "image": is one product and one sum per channel
func.func @image(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %n = nn.batch_norm %x, %scale, %offset, %mean, %variance epsilon 1.0 from <caffe, "BatchNorm", "image"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  func.return %n : tensor<1x2x4x4xf32>
}

// -----

// Channels last.
// CHECK-LABEL: @last
// CHECK-DAG:   [[K:%.*]] = nn.constant dense<[1.000000e+00, -2.000000e+00]> : tensor<2xf32>
// CHECK:       nn.mul %x, [[K]] :
// REMARK:      [lower-bn applied batch-norm-multiply-add] "last"
func.func @last(%x: tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32> {
  %n = nn.batch_norm %x, %scale, %offset, %mean, %variance epsilon 1.0 layout nhwc from <caffe, "BatchNorm", "last"> : (tensor<1x4x4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x4x4x2xf32>
  func.return %n : tensor<1x4x4x2xf32>
}

// -----

// On rows.
// CHECK-LABEL: @matrix
// CHECK:       nn.mul {{.*}} : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
// CHECK-NOT:   nn.batch_norm
// REMARK:      [lower-bn applied batch-norm-multiply-add] "matrix"
func.func @matrix(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %n = nn.batch_norm %x, %scale, %offset, %mean, %variance epsilon 1.0 from <caffe, "BatchNorm", "matrix"> : (tensor<3x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  func.return %n : tensor<3x2xf32>
}

// -----

// On a signal.
// CHECK-LABEL: @signal
// CHECK:       nn.mul {{.*}} : (tensor<1x2x4xf32>, tensor<2x1xf32>) -> tensor<1x2x4xf32>
// CHECK-NOT:   nn.batch_norm
// REMARK:      [lower-bn applied batch-norm-multiply-add] "signal"
func.func @signal(%x: tensor<1x2x4xf32>) -> tensor<1x2x4xf32> {
  %n = nn.batch_norm %x, %scale, %offset, %mean, %variance epsilon 1.0 from <caffe, "BatchNorm", "signal"> : (tensor<1x2x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4xf32>
  func.return %n : tensor<1x2x4xf32>
}

// -----

// On a volume.
// CHECK-LABEL: @volume
// CHECK:       nn.mul {{.*}} : (tensor<1x2x4x4x4xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x4x4x4xf32>
// CHECK-NOT:   nn.batch_norm
// REMARK:      [lower-bn applied batch-norm-multiply-add] "volume"
func.func @volume(%x: tensor<1x2x4x4x4xf32>) -> tensor<1x2x4x4x4xf32> {
  %n = nn.batch_norm %x, %scale, %offset, %mean, %variance epsilon 1.0 from <caffe, "BatchNorm", "volume"> : (tensor<1x2x4x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4x4xf32>
  func.return %n : tensor<1x2x4x4x4xf32>
}

// -----

// Not lowered: a parameter is an input.
// CHECK-LABEL: @parameter
// CHECK:       nn.batch_norm
// REMARK:      [lower-bn missed parameters-constant] "parameter": its offset is computed at run time
func.func @parameter(%x: tensor<1x2x4x4xf32>, %beta: tensor<2xf32>) -> tensor<1x2x4x4xf32> {
  %offset = nn.constant dense<[0.5, 0.25]> : tensor<2xf32>
  %n = nn.batch_norm %x, %scale, %beta, %mean, %variance epsilon 1.0 from <caffe, "BatchNorm", "parameter"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  func.return %n : tensor<1x2x4x4xf32>
}
