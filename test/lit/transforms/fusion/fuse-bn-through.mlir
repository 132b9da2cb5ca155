// RUN: CONSTANTS | amct-opt - --fuse-bn --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// CONSTANT: %weight = nn.constant dense<[[[[1.0]], [[3.0]]], [[[5.0]], [[7.0]]]]> : tensor<2x2x1x1xf32>
// CONSTANT: %scale = nn.constant dense<[2.0, -2.0]> : tensor<2xf32>
// CONSTANT: %offset = nn.constant dense<[0.5, 0.25]> : tensor<2xf32>
// CONSTANT: %mean = nn.constant dense<[0.0, 1.0]> : tensor<2xf32>
// CONSTANT: %variance = nn.constant dense<[3.0, 0.0]> : tensor<2xf32>
// CONSTANT: %one = nn.constant dense<1.0> : tensor<2xf32>
// CONSTANT: %w1 = nn.constant dense<2.0> : tensor<1x1x1x1xf32>
// CONSTANT: %w2 = nn.constant dense<3.0> : tensor<1x1x1x1xf32>

// Batch norms that do not follow their convolution directly. k = scale / sqrt(variance + 1) = [1, -2], shift = [0.5, 2.25].

// Conv, BiasAdd, batch norm: the BiasAdd goes too, [1, 1] * k + shift.
// CHECK-LABEL: @bias_add
// CHECK:       nn.constant dense<[1.500000e+00, 2.500000e-01]> : tensor<2xf32>
// CHECK-NOT:   nn.batch_norm
// CHECK-NOT:   nn.bias_add
// REMARK:      [fuse-bn applied compute-batch-norm] "biased": fused into conv1
func.func @bias_add(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %b = nn.bias_add %c, %one from <tf, "BiasAdd", "bias"> : (tensor<1x2x4x4xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.batch_norm %b, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "biased"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Not fused: the bias is an input.
// CHECK-LABEL: @bias_input
// CHECK:       nn.batch_norm
// REMARK:      [fuse-bn missed bias-constant] "bias": the bias is computed at run time
func.func @bias_input(%x: tensor<1x2x4x4xf32>, %one: tensor<2xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %b = nn.bias_add %c, %one from <tf, "BiasAdd", "b"> : (tensor<1x2x4x4xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.batch_norm %b, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "bias"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Not fused: the BiasAdd runs along the last axis, which is not a channel axis here.
// CHECK-LABEL: @bias_axis
// CHECK:       nn.batch_norm
// REMARK:      [fuse-bn missed bias-along-channels] "axis": the BiasAdd adds along axis 3, the output channels are axis 1
func.func @bias_axis(%x: tensor<1x2x4x2xf32>) -> tensor<1x2x4x2xf32> {
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x2xf32>
  %b = nn.bias_add %c, %one layout nhwc from <tf, "BiasAdd", "b"> : (tensor<1x2x4x2xf32>, tensor<2xf32>) -> tensor<1x2x4x2xf32>
  %y = nn.batch_norm %b, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "axis"> : (tensor<1x2x4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x2xf32>
  func.return %y : tensor<1x2x4x2xf32>
}

// -----

// Conv, BatchToSpace, batch norm.
// CHECK-LABEL: @batch_to_space
// CHECK:       nn.constant dense<{{\[\[\[\[}}1.000000e+00]], {{\[\[}}3.000000e+00]]], {{\[\[\[}}-1.000000e+01]], {{\[\[}}-1.400000e+01]]]]>
// CHECK:       [[C:%.*]] = nn.conv %x
// CHECK-NEXT:  [[Y:%.*]] = nn.batch_to_space [[C]]
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-bn applied compute-batch-norm] "moved": fused into conv1
func.func @batch_to_space(%x: tensor<4x2x2x2xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<4x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<4x2x2x2xf32>
  %s = nn.batch_to_space %c block [2, 2] crops [0, 0, 0, 0] from <tf, "BatchToSpaceND", "b2s"> : (tensor<4x2x2x2xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.batch_norm %s, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "moved"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Not fused: the BatchToSpace is a graph output too.
// CHECK-LABEL: @batch_to_space_used
// CHECK:       nn.batch_norm
// REMARK:      [fuse-bn missed result-used-once] "used": the result of b2s has 2 uses
func.func @batch_to_space_used(%x: tensor<4x2x2x2xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) {
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<4x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<4x2x2x2xf32>
  %s = nn.batch_to_space %c block [2, 2] crops [0, 0, 0, 0] from <tf, "BatchToSpaceND", "b2s"> : (tensor<4x2x2x2xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.batch_norm %s, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "used"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  func.return %s, %y : tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>
}

// -----

// Not fused: BatchToSpace takes the channels of the convolution for space.
// CHECK-LABEL: @batch_to_space_axis
// CHECK:       nn.batch_norm
// REMARK:      [fuse-bn missed channels-followed] "other": 'nn.batch_to_space' b2s joins or cuts the channels, axis 1: [4, 2, 2, 2] to [1, 4, 4, 2]
func.func @batch_to_space_axis(%x: tensor<4x2x2x2xf32>) -> tensor<1x4x4x2xf32> {
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<4x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<4x2x2x2xf32>
  %s = nn.batch_to_space %c layout nhwc block [2, 2] crops [0, 0, 0, 0] from <tf, "BatchToSpaceND", "b2s"> : (tensor<4x2x2x2xf32>) -> tensor<1x4x4x2xf32>
  %y = nn.batch_norm %s, %scale, %offset, %mean, %variance layout nhwc epsilon 1.0 from <onnx, "BatchNormalization", "other"> : (tensor<1x4x4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x4x4x2xf32>
  func.return %y : tensor<1x4x4x2xf32>
}

// -----

// Group convolution written as Split, convolutions, Concat: each branch takes its slice of k and shift.
// CHECK-LABEL: @group
// CHECK-DAG:   nn.constant dense<2.000000e+00> : tensor<1x1x1x1xf32>
// CHECK-DAG:   nn.constant dense<-6.000000e+00> : tensor<1x1x1x1xf32>
// CHECK-DAG:   nn.constant dense<5.000000e-01> : tensor<1xf32>
// CHECK-DAG:   nn.constant dense<2.250000e+00> : tensor<1xf32>
// CHECK:       [[A:%.*]] = nn.conv %p0
// CHECK-NEXT:  [[B:%.*]] = nn.conv %p1
// CHECK-NEXT:  [[Y:%.*]] = nn.concat [[A]], [[B]] axis 1
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-bn applied group-conv-batch-norm] "group": fused into concat
func.func @group(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %p0, %p1 = nn.split %x axis 1 sizes [1, 1] from <tf, "Split", "split"> : (tensor<1x2x4x4xf32>) -> (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>)
  %a = nn.conv %p0, %w1 from <tf, "Conv2D", "branch1"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %b = nn.conv %p1, %w2 from <tf, "Conv2D", "branch2"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %c = nn.concat %a, %b axis 1 from <tf, "ConcatV2", "concat"> : (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.batch_norm %c, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "group"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Not fused: a branch is a graph output.
// CHECK-LABEL: @group_output
// CHECK:       nn.batch_norm
// REMARK:      [fuse-bn missed concat-used-once] "out": the result of branch2 has 2 uses
func.func @group_output(%x: tensor<1x2x4x4xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x1x4x4xf32>) {
  %p0, %p1 = nn.split %x axis 1 sizes [1, 1] from <tf, "Split", "split"> : (tensor<1x2x4x4xf32>) -> (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>)
  %a = nn.conv %p0, %w1 from <tf, "Conv2D", "branch1"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %b = nn.conv %p1, %w2 from <tf, "Conv2D", "branch2"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %c = nn.concat %a, %b axis 1 from <tf, "ConcatV2", "concat"> : (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.batch_norm %c, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "out"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  func.return %y, %b : tensor<1x2x4x4xf32>, tensor<1x1x4x4xf32>
}

// -----

// Not fused: the weight of a branch is an input.
// CHECK-LABEL: @group_weight
// CHECK:       nn.batch_norm
// REMARK:      [fuse-bn missed branches-constant] "weight": a parameter of branch2 is computed at run time
func.func @group_weight(%x: tensor<1x2x4x4xf32>, %w2: tensor<1x1x1x1xf32>) -> tensor<1x2x4x4xf32> {
  %p0, %p1 = nn.split %x axis 1 sizes [1, 1] from <tf, "Split", "split"> : (tensor<1x2x4x4xf32>) -> (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>)
  %a = nn.conv %p0, %w1 from <tf, "Conv2D", "branch1"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %b = nn.conv %p1, %w2 from <tf, "Conv2D", "branch2"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %c = nn.concat %a, %b axis 1 from <tf, "ConcatV2", "concat"> : (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.batch_norm %c, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "weight"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Not fused: the Concat joins rows.
// CHECK-LABEL: @group_axis
// CHECK:       nn.batch_norm
// REMARK:      [fuse-bn missed joins-channels] "rows": the Concat joins axis 2, the batch norm works on axis 1
func.func @group_axis(%x: tensor<1x2x2x4xf32>) -> tensor<1x2x4x4xf32> {
  %a = nn.conv %x, %weight from <onnx, "Conv", "a"> : (tensor<1x2x2x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x4xf32>
  %b = nn.conv %x, %weight from <onnx, "Conv", "b"> : (tensor<1x2x2x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x4xf32>
  %c = nn.concat %a, %b axis 2 from <tf, "ConcatV2", "concat"> : (tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.batch_norm %c, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "rows"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Not fused: one input of the Concat is not a convolution.
// CHECK-LABEL: @group_mixed
// CHECK:       nn.batch_norm
// REMARK:      [fuse-bn missed no-producer] "mixed": its input comes from 'nn.concat' concat, which has no weights
func.func @group_mixed(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w2 = nn.constant dense<3.0> : tensor<1x1x1x1xf32>
  %p0, %p1 = nn.split %x axis 1 sizes [1, 1] from <tf, "Split", "split"> : (tensor<1x2x4x4xf32>) -> (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>)
  %a = nn.conv %p0, %w1 from <tf, "Conv2D", "branch1"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %b = nn.relu %p1 : tensor<1x1x4x4xf32>
  %c = nn.concat %a, %b axis 1 from <tf, "ConcatV2", "concat"> : (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.batch_norm %c, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "mixed"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Matrix product, reshape, batch norm, reshape.
// CHECK-LABEL: @matmul_plain_nhwc_static
// CHECK-DAG:   nn.constant dense<{{\[\[}}1.000000e+00, -6.000000e+00], [5.000000e+00, -1.400000e+01]]>
// CHECK-DAG:   nn.constant dense<[5.000000e-01, 2.250000e+00]>
// CHECK:       [[Y:%.*]] = nn.matmul %x
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-bn applied reshaped-batch-norm]
func.func @matmul_plain_nhwc_static(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %weight = nn.constant dense<[[1.0, 3.0], [5.0, 7.0]]> : tensor<2x2xf32>
  %m = nn.matmul %x, %weight from <tf, "MatMul", "fc"> : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %i = nn.reshape %m to [3, 1, 1, 2] : (tensor<3x2xf32>) -> tensor<3x1x1x2xf32>
  %n = nn.batch_norm %i, %scale, %offset, %mean, %variance layout nhwc epsilon 1.0 from <onnx, "BatchNormalization", "matmul_plain_nhwc_static"> : (tensor<3x1x1x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<3x1x1x2xf32>
  %y = nn.reshape %n to [3, 2] : (tensor<3x1x1x2xf32>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// -----

// Matrix product, reshape, batch norm, reshape.
// CHECK-LABEL: @matmul_plain_nhwc_dynamic
// CHECK-DAG:   nn.constant dense<{{\[\[}}1.000000e+00, -6.000000e+00], [5.000000e+00, -1.400000e+01]]>
// CHECK-DAG:   nn.constant dense<[5.000000e-01, 2.250000e+00]>
// CHECK:       [[Y:%.*]] = nn.matmul %x
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-bn applied reshaped-batch-norm]
func.func @matmul_plain_nhwc_dynamic(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %weight = nn.constant dense<[[1.0, 3.0], [5.0, 7.0]]> : tensor<2x2xf32>
  %m = nn.matmul %x, %weight from <tf, "MatMul", "fc"> : (tensor<?x2xf32>, tensor<2x2xf32>) -> tensor<?x2xf32>
  %i = nn.reshape %m to [-1, 1, 1, 2] : (tensor<?x2xf32>) -> tensor<?x1x1x2xf32>
  %n = nn.batch_norm %i, %scale, %offset, %mean, %variance layout nhwc epsilon 1.0 from <onnx, "BatchNormalization", "matmul_plain_nhwc_dynamic"> : (tensor<?x1x1x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<?x1x1x2xf32>
  %y = nn.reshape %n to [-1, 2] : (tensor<?x1x1x2xf32>) -> tensor<?x2xf32>
  func.return %y : tensor<?x2xf32>
}

// -----

// Matrix product, reshape, batch norm, reshape.
// CHECK-LABEL: @matmul_plain_nchw_static
// CHECK-DAG:   nn.constant dense<{{\[\[}}1.000000e+00, -6.000000e+00], [5.000000e+00, -1.400000e+01]]>
// CHECK-DAG:   nn.constant dense<[5.000000e-01, 2.250000e+00]>
// CHECK:       [[Y:%.*]] = nn.matmul %x
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-bn applied reshaped-batch-norm]
func.func @matmul_plain_nchw_static(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %weight = nn.constant dense<[[1.0, 3.0], [5.0, 7.0]]> : tensor<2x2xf32>
  %m = nn.matmul %x, %weight from <tf, "MatMul", "fc"> : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %i = nn.reshape %m to [3, 2, 1, 1] : (tensor<3x2xf32>) -> tensor<3x2x1x1xf32>
  %n = nn.batch_norm %i, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "matmul_plain_nchw_static"> : (tensor<3x2x1x1xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<3x2x1x1xf32>
  %y = nn.reshape %n to [3, 2] : (tensor<3x2x1x1xf32>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// -----

// Matrix product, reshape, batch norm, reshape.
// CHECK-LABEL: @matmul_plain_nchw_dynamic
// CHECK-DAG:   nn.constant dense<{{\[\[}}1.000000e+00, -6.000000e+00], [5.000000e+00, -1.400000e+01]]>
// CHECK-DAG:   nn.constant dense<[5.000000e-01, 2.250000e+00]>
// CHECK:       [[Y:%.*]] = nn.matmul %x
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-bn applied reshaped-batch-norm]
func.func @matmul_plain_nchw_dynamic(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %weight = nn.constant dense<[[1.0, 3.0], [5.0, 7.0]]> : tensor<2x2xf32>
  %m = nn.matmul %x, %weight from <tf, "MatMul", "fc"> : (tensor<?x2xf32>, tensor<2x2xf32>) -> tensor<?x2xf32>
  %i = nn.reshape %m to [-1, 2, 1, 1] : (tensor<?x2xf32>) -> tensor<?x2x1x1xf32>
  %n = nn.batch_norm %i, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "matmul_plain_nchw_dynamic"> : (tensor<?x2x1x1xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<?x2x1x1xf32>
  %y = nn.reshape %n to [-1, 2] : (tensor<?x2x1x1xf32>) -> tensor<?x2xf32>
  func.return %y : tensor<?x2xf32>
}

// -----

// Matrix product, reshape, batch norm, reshape.
// CHECK-LABEL: @matmul_bias_nhwc_static
// CHECK-DAG:   nn.constant dense<{{\[\[}}1.000000e+00, -6.000000e+00], [5.000000e+00, -1.400000e+01]]>
// CHECK-DAG:   nn.constant dense<[1.500000e+00, 2.500000e-01]>
// CHECK:       [[Y:%.*]] = nn.matmul %x
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-bn applied reshaped-batch-norm]
func.func @matmul_bias_nhwc_static(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %weight = nn.constant dense<[[1.0, 3.0], [5.0, 7.0]]> : tensor<2x2xf32>
  %m = nn.matmul %x, %weight from <tf, "MatMul", "fc"> : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %b = nn.bias_add %m, %one layout nhwc from <tf, "BiasAdd", "bias"> : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %i = nn.reshape %b to [3, 1, 1, 2] : (tensor<3x2xf32>) -> tensor<3x1x1x2xf32>
  %n = nn.batch_norm %i, %scale, %offset, %mean, %variance layout nhwc epsilon 1.0 from <onnx, "BatchNormalization", "matmul_bias_nhwc_static"> : (tensor<3x1x1x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<3x1x1x2xf32>
  %y = nn.reshape %n to [3, 2] : (tensor<3x1x1x2xf32>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// -----

// Matrix product, reshape, batch norm, reshape.
// CHECK-LABEL: @matmul_bias_nhwc_dynamic
// CHECK-DAG:   nn.constant dense<{{\[\[}}1.000000e+00, -6.000000e+00], [5.000000e+00, -1.400000e+01]]>
// CHECK-DAG:   nn.constant dense<[1.500000e+00, 2.500000e-01]>
// CHECK:       [[Y:%.*]] = nn.matmul %x
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-bn applied reshaped-batch-norm]
func.func @matmul_bias_nhwc_dynamic(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %weight = nn.constant dense<[[1.0, 3.0], [5.0, 7.0]]> : tensor<2x2xf32>
  %m = nn.matmul %x, %weight from <tf, "MatMul", "fc"> : (tensor<?x2xf32>, tensor<2x2xf32>) -> tensor<?x2xf32>
  %b = nn.bias_add %m, %one layout nhwc from <tf, "BiasAdd", "bias"> : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
  %i = nn.reshape %b to [-1, 1, 1, 2] : (tensor<?x2xf32>) -> tensor<?x1x1x2xf32>
  %n = nn.batch_norm %i, %scale, %offset, %mean, %variance layout nhwc epsilon 1.0 from <onnx, "BatchNormalization", "matmul_bias_nhwc_dynamic"> : (tensor<?x1x1x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<?x1x1x2xf32>
  %y = nn.reshape %n to [-1, 2] : (tensor<?x1x1x2xf32>) -> tensor<?x2xf32>
  func.return %y : tensor<?x2xf32>
}

// -----

// Matrix product, reshape, batch norm, reshape.
// CHECK-LABEL: @matmul_bias_nchw_static
// CHECK-DAG:   nn.constant dense<{{\[\[}}1.000000e+00, -6.000000e+00], [5.000000e+00, -1.400000e+01]]>
// CHECK-DAG:   nn.constant dense<[1.500000e+00, 2.500000e-01]>
// CHECK:       [[Y:%.*]] = nn.matmul %x
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-bn applied reshaped-batch-norm]
func.func @matmul_bias_nchw_static(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %weight = nn.constant dense<[[1.0, 3.0], [5.0, 7.0]]> : tensor<2x2xf32>
  %m = nn.matmul %x, %weight from <tf, "MatMul", "fc"> : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %b = nn.bias_add %m, %one layout nhwc from <tf, "BiasAdd", "bias"> : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %i = nn.reshape %b to [3, 2, 1, 1] : (tensor<3x2xf32>) -> tensor<3x2x1x1xf32>
  %n = nn.batch_norm %i, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "matmul_bias_nchw_static"> : (tensor<3x2x1x1xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<3x2x1x1xf32>
  %y = nn.reshape %n to [3, 2] : (tensor<3x2x1x1xf32>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// -----

// Matrix product, reshape, batch norm, reshape.
// CHECK-LABEL: @matmul_bias_nchw_dynamic
// CHECK-DAG:   nn.constant dense<{{\[\[}}1.000000e+00, -6.000000e+00], [5.000000e+00, -1.400000e+01]]>
// CHECK-DAG:   nn.constant dense<[1.500000e+00, 2.500000e-01]>
// CHECK:       [[Y:%.*]] = nn.matmul %x
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-bn applied reshaped-batch-norm]
func.func @matmul_bias_nchw_dynamic(%x: tensor<?x2xf32>) -> tensor<?x2xf32> {
  %weight = nn.constant dense<[[1.0, 3.0], [5.0, 7.0]]> : tensor<2x2xf32>
  %m = nn.matmul %x, %weight from <tf, "MatMul", "fc"> : (tensor<?x2xf32>, tensor<2x2xf32>) -> tensor<?x2xf32>
  %b = nn.bias_add %m, %one layout nhwc from <tf, "BiasAdd", "bias"> : (tensor<?x2xf32>, tensor<2xf32>) -> tensor<?x2xf32>
  %i = nn.reshape %b to [-1, 2, 1, 1] : (tensor<?x2xf32>) -> tensor<?x2x1x1xf32>
  %n = nn.batch_norm %i, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "matmul_bias_nchw_dynamic"> : (tensor<?x2x1x1xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<?x2x1x1xf32>
  %y = nn.reshape %n to [-1, 2] : (tensor<?x2x1x1xf32>) -> tensor<?x2xf32>
  func.return %y : tensor<?x2xf32>
}

// -----

// The second reshape gives another shape: both reshapes stay.
// CHECK-LABEL: @matmul_other_shape
// CHECK:       [[M:%.*]] = nn.matmul
// CHECK-NEXT:  [[I:%.*]] = nn.reshape [[M]] to [3, 1, 1, 2]
// CHECK-NEXT:  [[Y:%.*]] = nn.reshape [[I]] to [2, 3]
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-bn applied compute-batch-norm] "shape": fused into fc
func.func @matmul_other_shape(%x: tensor<3x2xf32>) -> tensor<2x3xf32> {
  %weight = nn.constant dense<1.0> : tensor<2x2xf32>
  %m = nn.matmul %x, %weight from <tf, "MatMul", "fc"> : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %i = nn.reshape %m to [3, 1, 1, 2] : (tensor<3x2xf32>) -> tensor<3x1x1x2xf32>
  %n = nn.batch_norm %i, %scale, %offset, %mean, %variance layout nhwc epsilon 1.0 from <onnx, "BatchNormalization", "shape"> : (tensor<3x1x1x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<3x1x1x2xf32>
  %y = nn.reshape %n to [2, 3] from <tf, "Reshape", "shape"> : (tensor<3x1x1x2xf32>) -> tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}

// -----

// Not fused: the image's channels are not the columns.
// CHECK-LABEL: @matmul_other_channels
// CHECK:       nn.batch_norm
// REMARK:      [fuse-bn missed channels-followed] "channels": 'nn.reshape' i joins or cuts the channels, axis 1: [3, 2] to [1, 2, 1, 3]
func.func @matmul_other_channels(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %weight = nn.constant dense<1.0> : tensor<2x2xf32>
  %m = nn.matmul %x, %weight from <tf, "MatMul", "fc"> : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %i = nn.reshape %m to [1, 2, 1, 3] : (tensor<3x2xf32>) -> tensor<1x2x1x3xf32>
  %n = nn.batch_norm %i, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "channels"> : (tensor<1x2x1x3xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x1x3xf32>
  %y = nn.reshape %n to [3, 2] from <tf, "Reshape", "channels"> : (tensor<1x2x1x3xf32>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// -----

// The norm's result is a graph output too: both reshapes stay.
// CHECK-LABEL: @matmul_reshape_used
// CHECK:       [[I:%.*]] = nn.reshape %m to [3, 1, 1, 2]
// CHECK-NEXT:  [[Y:%.*]] = nn.reshape [[I]] to [3, 2]
// CHECK-NEXT:  func.return [[Y]], [[I]]
// REMARK:      [fuse-bn applied compute-batch-norm] "twice": fused into fc
func.func @matmul_reshape_used(%x: tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<3x1x1x2xf32>) {
  %weight = nn.constant dense<1.0> : tensor<2x2xf32>
  %m = nn.matmul %x, %weight from <tf, "MatMul", "fc"> : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %i = nn.reshape %m to [3, 1, 1, 2] : (tensor<3x2xf32>) -> tensor<3x1x1x2xf32>
  %n = nn.batch_norm %i, %scale, %offset, %mean, %variance layout nhwc epsilon 1.0 from <onnx, "BatchNormalization", "twice"> : (tensor<3x1x1x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<3x1x1x2xf32>
  %y = nn.reshape %n to [3, 2] from <tf, "Reshape", "twice"> : (tensor<3x1x1x2xf32>) -> tensor<3x2xf32>
  func.return %y, %n : tensor<3x2xf32>, tensor<3x1x1x2xf32>
}

// -----

// Scale and shift after a batch norm on a graph input: scale [2, -2] * [3, 5], offset [0.5, 0.25] * [3, 5] + 1.
// CHECK-LABEL: @norm_scale
// CHECK-DAG:   nn.constant dense<[6.000000e+00, -1.000000e+01]>
// CHECK-DAG:   nn.constant dense<[2.500000e+00, 2.250000e+00]>
// CHECK-NOT:   nn.mul
// CHECK-NOT:   nn.add
// CHECK:       [[Y:%.*]] = nn.batch_norm
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-bn applied batch-norm-scale] "mul": fused into bn1
// REMARK:      [fuse-bn applied batch-norm-scale] "add": fused into bn1
func.func @norm_scale(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %k = nn.constant dense<[[[3.0]], [[5.0]]]> : tensor<2x1x1xf32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %n = nn.batch_norm %x, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "bn1"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %m = nn.mul %k, %n from <onnx, "Mul", "mul"> : (tensor<2x1x1xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.add %m, %one from <onnx, "Add", "add"> : (tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Not fused: the constant varies along the rows.
// CHECK-LABEL: @norm_scale_rows
// CHECK:       nn.batch_norm
// CHECK:       nn.mul
// REMARK:      [fuse-bn missed runs-along-channels] "rows": the constant [4, 1] varies along other axes than the channels
func.func @norm_scale_rows(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %k = nn.constant dense<[[3.0], [1.0], [3.0], [3.0]]> : tensor<4x1xf32>
  %n = nn.batch_norm %x, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "bn1"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %m = nn.mul %n, %k from <onnx, "Mul", "rows"> : (tensor<1x2x4x4xf32>, tensor<4x1xf32>) -> tensor<1x2x4x4xf32>
  func.return %m : tensor<1x2x4x4xf32>
}

// -----

// Not fused: the factor is known at run time only.
// CHECK-LABEL: @norm_scale_run_time
// CHECK:       nn.mul
// REMARK:      [fuse-bn missed parameter-constant] "input": its other operand comes from a graph input, not from a constant
func.func @norm_scale_run_time(%x: tensor<1x2x4x4xf32>, %k: tensor<2x1x1xf32>) -> tensor<1x2x4x4xf32> {
  %n = nn.batch_norm %x, %one, %one, %one, %one epsilon 1.0 from <onnx, "BatchNormalization", "bn1"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %m = nn.mul %k, %n from <onnx, "Mul", "input"> : (tensor<2x1x1xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  func.return %m : tensor<1x2x4x4xf32>
}

// -----

// Not fused: the norm's result is a graph output too.
// CHECK-LABEL: @norm_scale_used
// CHECK:       nn.mul
// REMARK:      [fuse-bn missed norm-used-once] "twice": the result of bn1 has 2 uses
func.func @norm_scale_used(%x: tensor<1x2x4x4xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) {
  %k = nn.constant dense<3.0> : tensor<f32>
  %n = nn.batch_norm %x, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "bn1"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %m = nn.mul %n, %k from <onnx, "Mul", "twice"> : (tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32>
  func.return %m, %n : tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>
}

// -----

// Not fused: the BiasAdd of a branch runs along the columns of the image.
// CHECK-LABEL: @group_bias_axis
// CHECK:       nn.batch_norm
// REMARK:      [fuse-bn missed biases-along-channels] "columns": bias2 adds along another axis
func.func @group_bias_axis(%x: tensor<1x2x4x1xf32>) -> tensor<1x2x4x1xf32> {
  %one = nn.constant dense<1.0> : tensor<1xf32>
  %p0, %p1 = nn.split %x axis 1 sizes [1, 1] from <tf, "Split", "split"> : (tensor<1x2x4x1xf32>) -> (tensor<1x1x4x1xf32>, tensor<1x1x4x1xf32>)
  %a = nn.conv %p0, %w1 from <tf, "Conv2D", "branch1"> : (tensor<1x1x4x1xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x1xf32>
  %b = nn.conv %p1, %w2 from <tf, "Conv2D", "branch2"> : (tensor<1x1x4x1xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x1xf32>
  %d = nn.bias_add %b, %one layout nhwc from <tf, "BiasAdd", "bias2"> : (tensor<1x1x4x1xf32>, tensor<1xf32>) -> tensor<1x1x4x1xf32>
  %c = nn.concat %a, %d axis 1 from <tf, "ConcatV2", "concat"> : (tensor<1x1x4x1xf32>, tensor<1x1x4x1xf32>) -> tensor<1x2x4x1xf32>
  %y = nn.batch_norm %c, %scale, %offset, %mean, %variance epsilon 1.0 from <onnx, "BatchNormalization", "columns"> : (tensor<1x2x4x1xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x1xf32>
  func.return %y : tensor<1x2x4x1xf32>
}

// -----

// Not fused: the first reshape is a graph output too. The remark is about the norm, not the reshape after it.
// CHECK-LABEL: @reshape_used
// CHECK:       nn.batch_norm
// REMARK:      [fuse-bn missed result-used-once] "norm": the result of image has 2 uses
func.func @reshape_used(%x: tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<3x1x1x2xf32>) {
  %weight = nn.constant dense<1.0> : tensor<2x2xf32>
  %m = nn.matmul %x, %weight from <tf, "MatMul", "fc"> : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %i = nn.reshape %m to [3, 1, 1, 2] from <tf, "Reshape", "image"> : (tensor<3x2xf32>) -> tensor<3x1x1x2xf32>
  %n = nn.batch_norm %i, %scale, %offset, %mean, %variance layout nhwc epsilon 1.0 from <tf, "FusedBatchNormV3", "norm"> : (tensor<3x1x1x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<3x1x1x2xf32>
  %y = nn.squeeze %n axes [1, 2] from <tf, "Squeeze", "back"> : (tensor<3x1x1x2xf32>) -> tensor<3x2xf32>
  func.return %y, %i : tensor<3x2xf32>, tensor<3x1x1x2xf32>
}

// -----

// A block of [2, 2, 1], as TensorFlow writes one over height, width and channels: an axis is added, and dropped again.
// CHECK-LABEL: @block_of_channels
// CHECK-NOT:   nn.batch_norm
// REMARK:      [fuse-bn applied compute-batch-norm] "moved": fused into conv1
func.func @block_of_channels(%x: tensor<4x2x2x2xf32>) -> tensor<1x4x4x2xf32> {
  %c = nn.conv %x, %weight layout nhwc from <tf, "Conv2D", "conv1"> : (tensor<4x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<4x2x2x2xf32>
  %u = nn.unsqueeze %c axes [4] : (tensor<4x2x2x2xf32>) -> tensor<4x2x2x2x1xf32>
  %b = nn.batch_to_space %u layout nhwc block [2, 2, 1] crops [0, 0, 0, 0, 0, 0] from <tf, "BatchToSpaceND", "b2s"> : (tensor<4x2x2x2x1xf32>) -> tensor<1x4x4x2x1xf32>
  %s = nn.squeeze %b axes [4] : (tensor<1x4x4x2x1xf32>) -> tensor<1x4x4x2xf32>
  %y = nn.batch_norm %s, %scale, %offset, %mean, %variance epsilon 1.0 layout nhwc from <tf, "FusedBatchNormV3", "moved"> : (tensor<1x4x4x2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x4x4x2xf32>
  func.return %y : tensor<1x4x4x2xf32>
}
