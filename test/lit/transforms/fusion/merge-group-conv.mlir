// RUN: CONSTANTS | amct-opt - --merge-group-conv --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// CONSTANT: %w1 = nn.constant dense<2.0> : tensor<1x1x1x1xf32>
// CONSTANT: %w2 = nn.constant dense<3.0> : tensor<1x1x1x1xf32>

// A grouped convolution written as Split, convolutions and Concat.

// Two branches become two groups.
// CHECK-LABEL: @merged
// CHECK:       [[W:%.*]] = nn.constant dense<{{\[\[\[\[}}2.000000e+00]]], {{\[\[\[}}3.000000e+00]]]]> : tensor<2x1x1x1xf32>
// CHECK-NEXT:  [[Y:%.*]] = nn.conv %x, [[W]] groups 2 from <tf, "Conv2D", "branch1">
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [merge-group-conv applied split-conv-concat] "concat": fused into branch1
func.func @merged(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %p0, %p1 = nn.split %x axis 1 sizes [1, 1] from <tf, "Split", "split"> : (tensor<1x2x4x4xf32>) -> (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>)
  %a = nn.conv %p0, %w1 from <tf, "Conv2D", "branch1"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %b = nn.conv %p1, %w2 from <tf, "Conv2D", "branch2"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %y = nn.concat %a, %b axis 1 from <tf, "ConcatV2", "concat"> : (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Biases, those of BiasAdd too, are put together; a branch without one adds zero.
// CHECK-LABEL: @biases
// CHECK:       nn.constant dense<[3.000000e+00, 0.000000e+00]> : tensor<2xf32>
// CHECK-NOT:   nn.bias_add
// REMARK:      [merge-group-conv applied split-conv-concat] "concat": fused into branch1
func.func @biases(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %one = nn.constant dense<1.0> : tensor<1xf32>
  %two = nn.constant dense<2.0> : tensor<1xf32>
  %p0, %p1 = nn.split %x axis 1 sizes [1, 1] from <tf, "Split", "split"> : (tensor<1x2x4x4xf32>) -> (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>)
  %a = nn.conv %p0, %w1, %one from <tf, "Conv2D", "branch1"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>, tensor<1xf32>) -> tensor<1x1x4x4xf32>
  %a2 = nn.bias_add %a, %two from <tf, "BiasAdd", "bias1"> : (tensor<1x1x4x4xf32>, tensor<1xf32>) -> tensor<1x1x4x4xf32>
  %b = nn.conv %p1, %w2 from <tf, "Conv2D", "branch2"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %y = nn.concat %a2, %b axis 1 from <tf, "ConcatV2", "concat"> : (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Branches with groups of their own.
// CHECK-LABEL: @nested
// CHECK:       nn.conv {{.*}} groups 4 from
// REMARK:      [merge-group-conv applied split-conv-concat] "concat": fused into branch1
func.func @nested(%x: tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xf32> {
  %w1 = nn.constant dense<2.0> : tensor<2x1x1x1xf32>
  %w2 = nn.constant dense<3.0> : tensor<2x1x1x1xf32>
  %p0, %p1 = nn.split %x axis 1 sizes [2, 2] from <tf, "Split", "split"> : (tensor<1x4x4x4xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>)
  %a = nn.conv %p0, %w1 groups 2 from <tf, "Conv2D", "branch1"> : (tensor<1x2x4x4xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x4x4xf32>
  %b = nn.conv %p1, %w2 groups 2 from <tf, "Conv2D", "branch2"> : (tensor<1x2x4x4xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.concat %a, %b axis 1 from <tf, "ConcatV2", "concat"> : (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) -> tensor<1x4x4x4xf32>
  func.return %y : tensor<1x4x4x4xf32>
}

// -----

// Channels last.
// CHECK-LABEL: @channels_last
// CHECK:       nn.conv %x, {{.*}} groups 2 layout nhwc from
// REMARK:      [merge-group-conv applied split-conv-concat] "concat": fused into branch1
func.func @channels_last(%x: tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32> {
  %p0, %p1 = nn.split %x axis 3 sizes [1, 1] from <tf, "Split", "split"> : (tensor<1x4x4x2xf32>) -> (tensor<1x4x4x1xf32>, tensor<1x4x4x1xf32>)
  %a = nn.conv %p0, %w1 layout nhwc from <tf, "Conv2D", "branch1"> : (tensor<1x4x4x1xf32>, tensor<1x1x1x1xf32>) -> tensor<1x4x4x1xf32>
  %b = nn.conv %p1, %w2 layout nhwc from <tf, "Conv2D", "branch2"> : (tensor<1x4x4x1xf32>, tensor<1x1x1x1xf32>) -> tensor<1x4x4x1xf32>
  %y = nn.concat %a, %b axis 3 from <tf, "ConcatV2", "concat"> : (tensor<1x4x4x1xf32>, tensor<1x4x4x1xf32>) -> tensor<1x4x4x2xf32>
  func.return %y : tensor<1x4x4x2xf32>
}

// -----

// Not merged: the branches are crossed.
// CHECK-LABEL: @order
// CHECK:       nn.split
// CHECK:       nn.concat
// REMARK:      [merge-group-conv missed parts-in-order] "concat": its branches do not take the 2 parts of split in order
func.func @order(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %p0, %p1 = nn.split %x axis 1 sizes [1, 1] from <tf, "Split", "split"> : (tensor<1x2x4x4xf32>) -> (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>)
  %a = nn.conv %p1, %w1 from <tf, "Conv2D", "branch1"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %b = nn.conv %p0, %w2 from <tf, "Conv2D", "branch2"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %y = nn.concat %a, %b axis 1 from <tf, "ConcatV2", "concat"> : (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Not merged: a branch is a graph output.
// CHECK-LABEL: @used
// CHECK:       nn.split
// CHECK:       nn.concat
// REMARK:      [merge-group-conv missed used-once] "concat": the result of branch2 has 2 uses
func.func @used(%x: tensor<1x2x4x4xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x1x4x4xf32>) {
  %p0, %p1 = nn.split %x axis 1 sizes [1, 1] from <tf, "Split", "split"> : (tensor<1x2x4x4xf32>) -> (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>)
  %a = nn.conv %p0, %w1 from <tf, "Conv2D", "branch1"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %b = nn.conv %p1, %w2 from <tf, "Conv2D", "branch2"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %y = nn.concat %a, %b axis 1 from <tf, "ConcatV2", "concat"> : (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x2x4x4xf32>
  func.return %y, %b : tensor<1x2x4x4xf32>, tensor<1x1x4x4xf32>
}

// -----

// Not merged: the parts are rows.
// CHECK-LABEL: @rows
// CHECK:       nn.split
// CHECK:       nn.concat
// REMARK:      [merge-group-conv missed on-channels] "concat": split works on axis 2, the channels are axis 1
func.func @rows(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x2x4xf32> {
  %w1 = nn.constant dense<2.0> : tensor<1x2x1x1xf32>
  %w2 = nn.constant dense<3.0> : tensor<1x2x1x1xf32>
  %p0, %p1 = nn.split %x axis 2 sizes [2, 2] from <tf, "Split", "split"> : (tensor<1x2x4x4xf32>) -> (tensor<1x2x2x4xf32>, tensor<1x2x2x4xf32>)
  %a = nn.conv %p0, %w1 from <tf, "Conv2D", "branch1"> : (tensor<1x2x2x4xf32>, tensor<1x2x1x1xf32>) -> tensor<1x1x2x4xf32>
  %b = nn.conv %p1, %w2 from <tf, "Conv2D", "branch2"> : (tensor<1x2x2x4xf32>, tensor<1x2x1x1xf32>) -> tensor<1x1x2x4xf32>
  %y = nn.concat %a, %b axis 1 from <tf, "ConcatV2", "concat"> : (tensor<1x1x2x4xf32>, tensor<1x1x2x4xf32>) -> tensor<1x2x2x4xf32>
  func.return %y : tensor<1x2x2x4xf32>
}

// -----

// Not merged: the results are stacked along the rows.
// CHECK-LABEL: @stacked
// CHECK:       nn.split
// CHECK:       nn.concat
// REMARK:      [merge-group-conv missed on-channels] "concat": concat works on axis 2, the channels are axis 1
func.func @stacked(%x: tensor<1x2x4x4xf32>) -> tensor<1x1x8x4xf32> {
  %p0, %p1 = nn.split %x axis 1 sizes [1, 1] from <tf, "Split", "split"> : (tensor<1x2x4x4xf32>) -> (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>)
  %a = nn.conv %p0, %w1 from <tf, "Conv2D", "branch1"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %b = nn.conv %p1, %w2 from <tf, "Conv2D", "branch2"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %y = nn.concat %a, %b axis 2 from <tf, "ConcatV2", "concat"> : (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x1x8x4xf32>
  func.return %y : tensor<1x1x8x4xf32>
}

// -----

// Not merged: the parts are of 1 and 2 channels.
// CHECK-LABEL: @parts
// CHECK:       nn.split
// CHECK:       nn.concat
// REMARK:      [merge-group-conv missed equal-parts] "concat": the split makes parts of [1, 2]
func.func @parts(%x: tensor<1x3x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w2 = nn.constant dense<3.0> : tensor<1x2x1x1xf32>
  %p0, %p1 = nn.split %x axis 1 sizes [1, 2] from <tf, "Split", "split"> : (tensor<1x3x4x4xf32>) -> (tensor<1x1x4x4xf32>, tensor<1x2x4x4xf32>)
  %a = nn.conv %p0, %w1 from <tf, "Conv2D", "branch1"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %b = nn.conv %p1, %w2 from <tf, "Conv2D", "branch2"> : (tensor<1x2x4x4xf32>, tensor<1x2x1x1xf32>) -> tensor<1x1x4x4xf32>
  %y = nn.concat %a, %b axis 1 from <tf, "ConcatV2", "concat"> : (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Not merged: one branch pads.
// CHECK-LABEL: @attributes
// CHECK:       nn.split
// CHECK:       nn.concat
// REMARK:      [merge-group-conv missed same-attributes] "concat": branch2 has other attributes than branch1
func.func @attributes(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w2 = nn.constant dense<3.0> : tensor<1x1x3x3xf32>
  %p0, %p1 = nn.split %x axis 1 sizes [1, 1] from <tf, "Split", "split"> : (tensor<1x2x4x4xf32>) -> (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>)
  %a = nn.conv %p0, %w1 from <tf, "Conv2D", "branch1"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %b = nn.conv %p1, %w2 pads [1, 1, 1, 1] from <tf, "Conv2D", "branch2"> : (tensor<1x1x4x4xf32>, tensor<1x1x3x3xf32>) -> tensor<1x1x4x4xf32>
  %y = nn.concat %a, %b axis 1 from <tf, "ConcatV2", "concat"> : (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Not merged: the branches have different numbers of outputs.
// CHECK-LABEL: @weights
// CHECK:       nn.split
// CHECK:       nn.concat
// REMARK:      [merge-group-conv missed equal-weights] "concat": the weight of branch2 is [2, 1, 1, 1], that of branch1 [1, 1, 1, 1]
func.func @weights(%x: tensor<1x2x4x4xf32>) -> tensor<1x3x4x4xf32> {
  %w2 = nn.constant dense<3.0> : tensor<2x1x1x1xf32>
  %p0, %p1 = nn.split %x axis 1 sizes [1, 1] from <tf, "Split", "split"> : (tensor<1x2x4x4xf32>) -> (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>)
  %a = nn.conv %p0, %w1 from <tf, "Conv2D", "branch1"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %b = nn.conv %p1, %w2 from <tf, "Conv2D", "branch2"> : (tensor<1x1x4x4xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.concat %a, %b axis 1 from <tf, "ConcatV2", "concat"> : (tensor<1x1x4x4xf32>, tensor<1x2x4x4xf32>) -> tensor<1x3x4x4xf32>
  func.return %y : tensor<1x3x4x4xf32>
}

// -----

// Not merged: a weight is an input.
// CHECK-LABEL: @weight_input
// CHECK:       nn.split
// CHECK:       nn.concat
// REMARK:      [merge-group-conv missed equal-weights] "concat": the weight of branch2 is computed at run time
func.func @weight_input(%x: tensor<1x2x4x4xf32>, %w2: tensor<1x1x1x1xf32>) -> tensor<1x2x4x4xf32> {
  %p0, %p1 = nn.split %x axis 1 sizes [1, 1] from <tf, "Split", "split"> : (tensor<1x2x4x4xf32>) -> (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>)
  %a = nn.conv %p0, %w1 from <tf, "Conv2D", "branch1"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %b = nn.conv %p1, %w2 from <tf, "Conv2D", "branch2"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %y = nn.concat %a, %b axis 1 from <tf, "ConcatV2", "concat"> : (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// Not merged: a bias is an input.
// CHECK-LABEL: @bias_input
// CHECK:       nn.split
// CHECK:       nn.concat
// REMARK:      [merge-group-conv missed biases-constant] "concat": the bias of branch2 is computed at run time
func.func @bias_input(%x: tensor<1x2x4x4xf32>, %beta: tensor<1xf32>) -> tensor<1x2x4x4xf32> {
  %p0, %p1 = nn.split %x axis 1 sizes [1, 1] from <tf, "Split", "split"> : (tensor<1x2x4x4xf32>) -> (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>)
  %a = nn.conv %p0, %w1 from <tf, "Conv2D", "branch1"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %b = nn.conv %p1, %w2, %beta from <tf, "Conv2D", "branch2"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>, tensor<1xf32>) -> tensor<1x1x4x4xf32>
  %y = nn.concat %a, %b axis 1 from <tf, "ConcatV2", "concat"> : (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>) -> tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}
