// RUN: CONSTANTS | amct-opt - --fuse-small-bn --rules=tf1.15 --split-input-file --remarks=all 2>%t.remarks | filecheck %s --check-prefix TF1
// RUN: filecheck %s --check-prefix TF1-REMARK < %t.remarks
// RUN: CONSTANTS | amct-opt - --fuse-small-bn --rules=tf2.6 --split-input-file --remarks=all 2>%t.remarks | filecheck %s --check-prefix TF2
// RUN: filecheck %s --check-prefix TF2-REMARK < %t.remarks
// RUN: CONSTANTS | amct-opt - --fuse-small-bn --rules=extended --split-input-file --remarks=all 2>%t.remarks | filecheck %s --check-prefix EXT
// RUN: filecheck %s --check-prefix EXT-REMARK < %t.remarks
// RUN: CONSTANTS | amct-opt - --fuse-all --rules=tf1.15 --split-input-file --remarks=all 2>%t.remarks | filecheck %s --check-prefix ALL
// RUN: filecheck %s --check-prefixes TF1-REMARK,ALL-REMARK < %t.remarks

// CONSTANT: %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
// CONSTANT: %scale = nn.constant dense<[2.0, -2.0]> : tensor<2xf32>
// CONSTANT: %offset = nn.constant dense<[0.5, 0.25]> : tensor<2xf32>
// CONSTANT: %mean = nn.constant dense<[0.0, 1.0]> : tensor<2xf32>
// CONSTANT: %variance = nn.constant dense<[3.0, 0.0]> : tensor<2xf32>
// CONSTANT: %eps = nn.constant dense<1.0> : tensor<f32>

// Which inputs AMCT takes under two versions of TensorFlow, and what `extended` takes beyond.

// After a convolution.
// TF1-LABEL: @behind_conv
// TF1:     nn.batch_norm
// TF1-REMARK: [fuse-small-bn applied keras-batch-norm] "bn"
// TF2-LABEL: @behind_conv
// TF2:     nn.batch_norm
// TF2-REMARK: [fuse-small-bn applied keras-batch-norm] "bn"
// EXT-LABEL: @behind_conv
// EXT:     nn.batch_norm
// EXT-REMARK: [fuse-small-bn applied keras-batch-norm] "bn"
func.func @behind_conv(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %c = nn.conv %x, %w layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %v = nn.add %variance, %eps : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %d = nn.rsqrt %v : tensor<2xf32>
  %r = nn.mul %d, %scale : tensor<2xf32>
  %p = nn.mul %c, %r from <tensorflow, "Mul", "bn/mul"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %m = nn.mul %mean, %r : tensor<2xf32>
  %s = nn.sub %offset, %m : tensor<2xf32>
  %y = nn.add %p, %s from <tensorflow, "AddV2", "bn"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// After a convolution and its BiasAdd.
// TF1-LABEL: @behind_bias
// TF1:     nn.batch_norm
// TF1-REMARK: [fuse-small-bn applied keras-batch-norm] "bn"
// TF2-LABEL: @behind_bias
// TF2:     nn.batch_norm
// TF2-REMARK: [fuse-small-bn applied keras-batch-norm] "bn"
// EXT-LABEL: @behind_bias
// EXT:     nn.batch_norm
// EXT-REMARK: [fuse-small-bn applied keras-batch-norm] "bn"
func.func @behind_bias(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %one = nn.constant dense<1.0> : tensor<2xf32>
  %c = nn.conv %x, %w layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %b = nn.bias_add %c, %one layout nhwc from <tensorflow, "BiasAdd", "bias"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %v = nn.add %variance, %eps : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %d = nn.rsqrt %v : tensor<2xf32>
  %r = nn.mul %d, %scale : tensor<2xf32>
  %p = nn.mul %b, %r from <tensorflow, "Mul", "bn/mul"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %m = nn.mul %mean, %r : tensor<2xf32>
  %s = nn.sub %offset, %m : tensor<2xf32>
  %y = nn.add %p, %s from <tensorflow, "AddV2", "bn"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// Of rank 5, after a three-dimensional convolution.
// ALL-LABEL: @volume
// ALL:     nn.conv %x, %w layout
// ALL:     nn.mul
// ALL:     nn.add
// TF1-LABEL: @volume
// TF1-NOT: nn.batch_norm
// TF1-REMARK: [fuse-small-bn missed rank-of-amct] "bn": its input is of rank 5, rules tf1.15 allow 4
// ALL-REMARK: [fuse-mul missed parameter-constant] "bn/mul": its other operand comes from 'nn.mul' r, not from a constant
// TF2-LABEL: @volume
// TF2:     nn.batch_norm
// TF2-REMARK: [fuse-small-bn applied keras-batch-norm] "bn"
// EXT-LABEL: @volume
// EXT:     nn.batch_norm
// EXT-REMARK: [fuse-small-bn applied keras-batch-norm] "bn"
func.func @volume(%x: tensor<1x2x2x2x2xf32>) -> tensor<1x2x2x2x2xf32> {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1x1xf32>
  %c = nn.conv %x, %w layout nhwc from <tensorflow, "Conv3D", "conv"> : (tensor<1x2x2x2x2xf32>, tensor<2x2x1x1x1xf32>) -> tensor<1x2x2x2x2xf32>
  %v = nn.add %variance, %eps : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %d = nn.rsqrt %v : tensor<2xf32>
  %r = nn.mul %d, %scale : tensor<2xf32>
  %p = nn.mul %c, %r from <tensorflow, "Mul", "bn/mul"> : (tensor<1x2x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2x2xf32>
  %m = nn.mul %mean, %r : tensor<2xf32>
  %s = nn.sub %offset, %m : tensor<2xf32>
  %y = nn.add %p, %s from <tensorflow, "AddV2", "bn"> : (tensor<1x2x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2x2xf32>
  func.return %y : tensor<1x2x2x2x2xf32>
}

// -----

// Of rank 2, after a matrix product.
// TF1-LABEL: @matrix
// TF1-NOT: nn.batch_norm
// TF1-REMARK: [fuse-small-bn missed rank-of-amct] "bn": its input is of rank 2, rules tf1.15 allow 4
// TF2-LABEL: @matrix
// TF2-NOT: nn.batch_norm
// TF2-REMARK: [fuse-small-bn missed rank-of-amct] "bn": its input is of rank 2, rules tf2.6 allow 4 and 5
// EXT-LABEL: @matrix
// EXT:     nn.batch_norm
// EXT-REMARK: [fuse-small-bn applied keras-batch-norm] "bn"
func.func @matrix(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %w = nn.constant dense<1.0> : tensor<2x2xf32>
  %c = nn.matmul %x, %w : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %v = nn.add %variance, %eps : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %d = nn.rsqrt %v : tensor<2xf32>
  %r = nn.mul %d, %scale : tensor<2xf32>
  %p = nn.mul %c, %r from <tensorflow, "Mul", "bn/mul"> : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %m = nn.mul %mean, %r : tensor<2xf32>
  %s = nn.sub %offset, %m : tensor<2xf32>
  %y = nn.add %p, %s from <tensorflow, "AddV2", "bn"> : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// -----

// After an activation.
// TF1-LABEL: @relu
// TF1-NOT: nn.batch_norm
// TF1-REMARK: [fuse-small-bn missed behind-convolution] "bn": its input does not come from a convolution [+ BiasAdd]
// TF2-LABEL: @relu
// TF2-NOT: nn.batch_norm
// TF2-REMARK: [fuse-small-bn missed behind-convolution] "bn": its input does not come from a convolution [+ BiasAdd]
// EXT-LABEL: @relu
// EXT:     nn.batch_norm
// EXT-REMARK: [fuse-small-bn applied keras-batch-norm] "bn"
func.func @relu(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %c = nn.relu %x : tensor<1x2x2x2xf32>
  %v = nn.add %variance, %eps : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %d = nn.rsqrt %v : tensor<2xf32>
  %r = nn.mul %d, %scale : tensor<2xf32>
  %p = nn.mul %c, %r from <tensorflow, "Mul", "bn/mul"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %m = nn.mul %mean, %r : tensor<2xf32>
  %s = nn.sub %offset, %m : tensor<2xf32>
  %y = nn.add %p, %s from <tensorflow, "AddV2", "bn"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// In a module that was trained with quantization.
// TF1-LABEL: @fake_quant
// TF1-NOT: nn.batch_norm
// TF1-REMARK: [fuse-small-bn missed not-trained-with-quantization] "bn": the module holds a FakeQuant node, fq
// TF2-LABEL: @fake_quant
// TF2-NOT: nn.batch_norm
// TF2-REMARK: [fuse-small-bn missed not-trained-with-quantization] "bn": the module holds a FakeQuant node, fq
// EXT-LABEL: @fake_quant
// EXT:     nn.batch_norm
// EXT-REMARK: [fuse-small-bn applied keras-batch-norm] "bn"
func.func @fake_quant(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %q = nn.opaque %x framework "tensorflow" op_type "FakeQuantWithMinMaxVars" from <tensorflow, "FakeQuantWithMinMaxVars", "fq"> : tensor<1x2x2x2xf32>
  %c = nn.conv %q, %w layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %v = nn.add %variance, %eps : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %d = nn.rsqrt %v : tensor<2xf32>
  %r = nn.mul %d, %scale : tensor<2xf32>
  %p = nn.mul %c, %r from <tensorflow, "Mul", "bn/mul"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %m = nn.mul %mean, %r : tensor<2xf32>
  %s = nn.sub %offset, %m : tensor<2xf32>
  %y = nn.add %p, %s from <tensorflow, "AddV2", "bn"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// In such a module, once the parameters are computed: neither the product nor the sum is folded by itself.
// ALL-LABEL: @fake_quant_folded
// ALL:     nn.mul
// ALL:     nn.add
// TF1-LABEL: @fake_quant_folded
// TF1-NOT: nn.batch_norm
// TF1-REMARK: [fuse-small-bn missed not-trained-with-quantization] "bn": the module holds a FakeQuant node, fq
// ALL-REMARK: [fuse-mul missed empty-shape] "bn/mul": the factor has the shape [2], AMCT fuses an empty one
// TF2-LABEL: @fake_quant_folded
// TF2-NOT: nn.batch_norm
// TF2-REMARK: [fuse-small-bn missed not-trained-with-quantization] "bn": the module holds a FakeQuant node, fq
// EXT-LABEL: @fake_quant_folded
// EXT:     nn.batch_norm
// EXT-REMARK: [fuse-small-bn applied affine-batch-norm] "bn"
func.func @fake_quant_folded(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %q = nn.opaque %x framework "tensorflow" op_type "FakeQuantWithMinMaxVars" from <tensorflow, "FakeQuantWithMinMaxVars", "fq"> : tensor<1x2x2x2xf32>
  %c = nn.conv %q, %w layout nhwc from <tensorflow, "Conv2D", "conv"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %p = nn.mul %c, %scale from <tensorflow, "Mul", "bn/mul"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %y = nn.add %p, %offset from <tensorflow, "AddV2", "bn"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// Rules are about TensorFlow: nothing else changes.
// TF1-LABEL: @elsewhere
// TF1:     nn.batch_norm
// TF1-REMARK: --rules tf1.15 changes nothing: no operation comes from TensorFlow
// TF2-LABEL: @elsewhere
// TF2:     nn.batch_norm
// TF2-REMARK: --rules tf2.6 changes nothing: no operation comes from TensorFlow
// EXT-LABEL: @elsewhere
// EXT:     nn.batch_norm
func.func @elsewhere(%x: tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %p = nn.mul %x, %scale from <onnx, "Mul", "bn/mul"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  %y = nn.add %p, %offset from <onnx, "Add", "bn"> : (tensor<1x2x2x2xf32>, tensor<2xf32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}
