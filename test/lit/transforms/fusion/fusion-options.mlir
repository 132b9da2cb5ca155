// RUN: amct-opt %s --fuse-bn --split-input-file | filecheck %s --check-prefix ALL
// RUN: amct-opt %s --fuse-bn=only-quantizable=true --split-input-file --remarks=missed 2>%t.remarks | filecheck %s --check-prefix QUANT
// RUN: amct-opt %s --fuse-all=only-quantizable=true --split-input-file | filecheck %s --check-prefix QUANT
// RUN: filecheck %s --check-prefix QUANT-REMARK < %t.remarks
// RUN: amct-opt %s --fuse-bn=skip-types=Conv,nn.matmul --split-input-file --remarks=missed 2>%t.remarks | filecheck %s --check-prefix SKIP
// RUN: amct-opt %s --fuse-all=skip-types=Conv,matmul --split-input-file | filecheck %s --check-prefix SKIP
// RUN: filecheck %s --check-prefix SKIP-REMARK < %t.remarks

// The two options that every fusion pass has: types of operators to leave alone, and AMCT's rule that what is fused can be
// quantized. A type is named as the source calls it, or as nn does.

// ALL-LABEL:   @conv
// ALL-NOT:     nn.batch_norm
// QUANT-LABEL: @conv
// QUANT-NOT:   nn.batch_norm
// SKIP-LABEL:  @conv
// SKIP:        nn.batch_norm
// SKIP-REMARK: [fuse-bn missed skip-types] "bn1": conv1 is of type Conv, which is on the list of skip-types
func.func @conv(%x: tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32> {
  %one = nn.constant dense<1.0> : tensor<1xf32>
  %weight = nn.constant dense<2.0> : tensor<1x1x1x1xf32>
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %y = nn.batch_norm %c, %one, %one, %one, %one from <onnx, "BatchNormalization", "bn1"> : (tensor<1x1x4x4xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x4x4xf32>
  func.return %y : tensor<1x1x4x4xf32>
}

// -----

// ALL-LABEL:   @matmul
// ALL-NOT:     nn.batch_norm
// QUANT-LABEL: @matmul
// QUANT-NOT:   nn.batch_norm
// SKIP-LABEL:  @matmul
// SKIP:        nn.batch_norm
// SKIP-REMARK: [fuse-bn missed skip-types] "bn2": fc is of type nn.matmul, which is on the list of skip-types
func.func @matmul(%x: tensor<3x1xf32>) -> tensor<3x1xf32> {
  %one = nn.constant dense<1.0> : tensor<1xf32>
  %weight = nn.constant dense<2.0> : tensor<1x1xf32>
  %c = nn.matmul %x, %weight from <onnx, "Gemm", "fc"> : (tensor<3x1xf32>, tensor<1x1xf32>) -> tensor<3x1xf32>
  %y = nn.batch_norm %c, %one, %one, %one, %one from <onnx, "BatchNormalization", "bn2"> : (tensor<3x1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<3x1xf32>
  func.return %y : tensor<3x1xf32>
}

// -----

// ALL-LABEL:    @volume
// ALL-NOT:      nn.batch_norm
// QUANT-LABEL:  @volume
// QUANT:        nn.batch_norm
// QUANT-REMARK: [fuse-bn missed only-quantizable] "bn3": deconv cannot be quantized (filter-rank-4): its filter is of rank 5
// SKIP-LABEL:   @volume
// SKIP-NOT:     nn.batch_norm
func.func @volume(%x: tensor<1x1x4x4x4xf32>) -> tensor<1x1x4x4x4xf32> {
  %one = nn.constant dense<1.0> : tensor<1xf32>
  %weight = nn.constant dense<2.0> : tensor<1x1x1x1x1xf32>
  %c = nn.conv_transpose %x, %weight from <onnx, "ConvTranspose", "deconv"> : (tensor<1x1x4x4x4xf32>, tensor<1x1x1x1x1xf32>) -> tensor<1x1x4x4x4xf32>
  %y = nn.batch_norm %c, %one, %one, %one, %one from <onnx, "BatchNormalization", "bn3"> : (tensor<1x1x4x4x4xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x4x4x4xf32>
  func.return %y : tensor<1x1x4x4x4xf32>
}

// -----

// AMCT's rule about a source layer: a three-dimensional convolution with a dilated depth is not quantized.
// ALL-LABEL:    @source
// SKIP-LABEL:   @source
// QUANT-LABEL:  @source
// QUANT:        nn.batch_norm
// QUANT-REMARK: [fuse-bn missed only-quantizable] "bn4": conv3d cannot be quantized (dilation-d-1): its dilation_d is 2
func.func @source(%x: tensor<1x1x4x4x4xf32>) -> tensor<1x1x4x4x4xf32> {
  %one = nn.constant dense<1.0> : tensor<1xf32>
  %weight = nn.constant dense<2.0> : tensor<1x1x1x1x1xf32>
  %c = nn.conv %x, %weight dilations [2, 1, 1] from <onnx, "Conv", "conv3d", {dilations = array<i64: 2, 1, 1>}> : (tensor<1x1x4x4x4xf32>, tensor<1x1x1x1x1xf32>) -> tensor<1x1x4x4x4xf32>
  %y = nn.batch_norm %c, %one, %one, %one, %one from <onnx, "BatchNormalization", "bn4"> : (tensor<1x1x4x4x4xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x4x4x4xf32>
  func.return %y : tensor<1x1x4x4x4xf32>
}
