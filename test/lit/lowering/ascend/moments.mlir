// RUN: amct-opt %s --lower-to-ascend --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// Normalizations by moments of their own input; without a bias beta is zeros.
// CHECK-LABEL: @moments
// CHECK-NEXT:    %a_beta = nn.constant dense<0.000000e+00> : tensor<4xf32>
// CHECK-NEXT:    %a, {{.*}} = ascend.LayerNorm %x, %s, %a_beta begin_norm_axis 2 begin_params_axis 3 epsilon 0.01 :
// CHECK-NEXT:    %b, {{.*}} = ascend.LayerNorm %a, %p, %p begin_norm_axis 3 begin_params_axis 2 epsilon 1.0e-05 :
// CHECK-NEXT:    %c, {{.*}} = ascend.InstanceNorm %b, %r, %r data_format "NCHW" epsilon 1.0e-05 :
// CHECK-NEXT:    %d, {{.*}} = ascend.GroupNorm %c, %s, %s num_groups 2 eps 1.0e-05 is_training false :
// CHECK-NEXT:    %e, {{.*}} = ascend.InstanceNorm %v, %r, %r data_format "NCDHW" epsilon 1.0e-05 :
// REMARK:      [lower-to-ascend applied lower] "a": computed by ascend.LayerNorm
func.func @moments(%x: tensor<?x3x2x4xf32>, %s: tensor<4xf32>, %p: tensor<2x4xf32>, %r: tensor<3xf32>, %v: tensor<1x3x2x2x2xf32>) -> (tensor<?x3x2x4xf32>, tensor<1x3x2x2x2xf32>) {
  %a = nn.layer_norm %x, %s axis 2 epsilon 0.01 : (tensor<?x3x2x4xf32>, tensor<4xf32>) -> tensor<?x3x2x4xf32>
  %b = nn.layer_norm %a, %p, %p : (tensor<?x3x2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<?x3x2x4xf32>
  %c = nn.instance_norm %b, %r, %r : (tensor<?x3x2x4xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<?x3x2x4xf32>
  %d = nn.group_norm %c, %s, %s layout nhwc num_groups 2 : (tensor<?x3x2x4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<?x3x2x4xf32>
  %e = nn.instance_norm %v, %r, %r : (tensor<1x3x2x2x2xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<1x3x2x2x2xf32>
  func.return %d, %e : tensor<?x3x2x4xf32>, tensor<1x3x2x2x2xf32>
}

// -----

// CHECK-LABEL: @refused
// CHECK-NEXT:    %a = nn.layer_norm
// CHECK-NEXT:    %b = nn.instance_norm
// CHECK-NEXT:    %c = nn.group_norm
// CHECK-NEXT:    %d = nn.layer_norm
// REMARK-DAG:  [lower-to-ascend missed equal-sizes] "a": LayerNorm has a scale of the sizes of the last axes, and its own broadcasts
// REMARK-DAG:  [lower-to-ascend missed spatial-rank] "b": InstanceNorm takes rank 3 to 5, not 6
// REMARK-DAG:  [lower-to-ascend missed spatial-rank] "c": GroupNorm takes rank 3 or 4, not 6
// REMARK-DAG:  [lower-to-ascend missed ascend-constraint] "d": x is of f64, LayerNorm takes f16, f32, bf16
func.func @refused(%x: tensor<2x3x4x4x4x4xf32>, %s: tensor<1xf32>, %r: tensor<3xf32>, %z: tensor<2x4xf64>, %t: tensor<4xf64>) -> (tensor<2x3x4x4x4x4xf32>, tensor<2x4xf64>) {
  %a = nn.layer_norm %x, %s : (tensor<2x3x4x4x4x4xf32>, tensor<1xf32>) -> tensor<2x3x4x4x4x4xf32>
  %b = nn.instance_norm %a, %r, %r : (tensor<2x3x4x4x4x4xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x4x4x4x4xf32>
  %c = nn.group_norm %b, %r, %r num_groups 3 : (tensor<2x3x4x4x4x4xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x4x4x4x4xf32>
  %d = nn.layer_norm %z, %t : (tensor<2x4xf64>, tensor<4xf64>) -> tensor<2x4xf64>
  func.return %c, %d : tensor<2x3x4x4x4x4xf32>, tensor<2x4xf64>
}

// -----

// One axis of space gets another of size 1.
// CHECK-LABEL: @one_axis
// CHECK-NEXT:    %a_x = ascend.Unsqueeze %x axes [2]
// CHECK-NEXT:    %a_normalized{{.*}} = ascend.InstanceNorm %a_x, %r, %r data_format "NCHW"
// CHECK-NEXT:    %a = ascend.Squeeze %a_normalized axis [2]
// CHECK-NEXT:    %b_x = ascend.Unsqueeze %l axes [1]
// CHECK-NEXT:    %b_normalized{{.*}} = ascend.GroupNorm %b_x, %r, %r
// CHECK-NEXT:    %b = ascend.Squeeze %b_normalized axis [1]
func.func @one_axis(%x: tensor<2x3x4xf32>, %l: tensor<2x4x3xf32>, %r: tensor<3xf32>) -> (tensor<2x3x4xf32>, tensor<2x4x3xf32>) {
  %a = nn.instance_norm %x, %r, %r : (tensor<2x3x4xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x4xf32>
  %b = nn.group_norm %l, %r, %r layout nhwc num_groups 3 : (tensor<2x4x3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x4x3xf32>
  func.return %a, %b : tensor<2x3x4xf32>, tensor<2x4x3xf32>
}
