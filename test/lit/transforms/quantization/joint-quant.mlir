// RUN: amct-opt %s --insert-observers='joint-quant=true' --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks
// RUN: amct-opt %s --insert-observers --split-input-file | filecheck %s --check-prefix OFF
// RUN: amct-opt %s --quantize='joint-quant=true' --split-input-file 2>/dev/null > %t.once.mlir
// RUN: amct-opt %s --quantize='joint-quant=true' --quantize='joint-quant=true' --split-input-file 2>/dev/null > %t.twice.mlir
// RUN: diff %t.once.mlir %t.twice.mlir
// RUN: filecheck %s --check-prefix QUANTIZED --input-file=%t.once.mlir
// OFF-NOT: group

// What goes into a sum, where a layer before it reads the same through a point, and what comes out of it, after the relu too.
// The relu of one sum is an input of the next, so that both share one range.
// CHECK-LABEL: @residual_chain
// CHECK:       [[X:%.*]] = nn.observe %x as "conv1:0" by "mse" group "sum1" joint
// CHECK:       nn.conv [[X]]
// CHECK:       nn.add %a, %x
// CHECK:       [[R:%.*]] = nn.observe %r as "conv2:0" by "mse" group "sum1" joint
// CHECK:       nn.add %r, %b
// CHECK:       [[T:%.*]] = nn.observe %t as "conv3:0" by "mse" group "sum1" joint
// CHECK:       nn.observe %c as "conv4:0" by "mse" :
// REMARK:      "conv1": conv1:0 shares scale and zero point with conv2:0, conv3:0, group sum1
// REMARK:      "conv2": conv2:0 shares scale and zero point with conv1:0, conv3:0, group sum1
// REMARK:      "conv3": conv3:0 shares scale and zero point with conv1:0, conv2:0, group sum1
// QUANTIZED-LABEL: @residual_chain
// QUANTIZED:   nn.quantize %x by [[P:<i8, [^>]*>]] given synthetic group "sum1"
// QUANTIZED:   nn.quantize %r by [[P]] given synthetic group "sum1"
// QUANTIZED:   nn.quantize %t by [[P]] given synthetic group "sum1"
func.func @residual_chain(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %a = nn.conv %x, %w from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %s = nn.add %a, %x from <onnx, "Add", "sum1"> : tensor<1x2x4x4xf32>
  %r = nn.relu %s from <onnx, "Relu", "relu"> : tensor<1x2x4x4xf32>
  %b = nn.conv %r, %w from <onnx, "Conv", "conv2"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %t = nn.add %r, %b from <onnx, "Add", "sum2"> : tensor<1x2x4x4xf32>
  %c = nn.conv %t, %w from <onnx, "Conv", "conv3"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %d = nn.conv %c, %w from <onnx, "Conv", "conv4"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  func.return %d : tensor<1x2x4x4xf32>
}

// -----

// A sum inside a region: its residual and the region's result. Caffe's Eltwise of three inputs is one sum.
// CHECK-LABEL: @regions
// CHECK:       nn.observe %y as "conv0:0" by "mse" group "inner" joint
// CHECK:       nn.observe %x as "inner-conv:0" by "mse" group "inner" joint
// CHECK:       nn.observe %f as "conv1:0" by "mse" group "inner" joint
// CHECK:       nn.observe %q as "conv2:0" by "mse" group "inner" joint
// REMARK:      "conv0": conv0:0 shares scale and zero point with inner-conv:0, conv1:0, conv2:0, group inner
func.func @regions(%x: tensor<1x2x4x4xf32>, %y: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %o = nn.conv %y, %w from <caffe, "Convolution", "conv0"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %f = nn.fused "ConvAdd2d" (%a = %x, %k = %w, %r = %y) : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
    %c = nn.conv %a, %k from <caffe, "Convolution", "inner-conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
    %s = nn.add %c, %r from <caffe, "Eltwise", "inner"> : tensor<1x2x4x4xf32>
    nn.yield %s : tensor<1x2x4x4xf32>
  }
  %p = nn.add %o, %f from <caffe, "Eltwise", "three"> : tensor<1x2x4x4xf32>
  %q = nn.add %p, %x from <caffe, "Eltwise", "three"> : tensor<1x2x4x4xf32>
  %u = nn.conv %f, %w from <caffe, "Convolution", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %v = nn.conv %q, %w from <caffe, "Convolution", "conv2"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %z = nn.add %u, %v from <caffe, "Eltwise", "last"> : tensor<1x2x4x4xf32>
  func.return %z : tensor<1x2x4x4xf32>
}

// -----

// Points that ask for other bits or symmetry than the first keep parameters of their own. Parameters that a member has already
// hold for all of them.
// CHECK-LABEL: @members
// CHECK:       nn.observe %x as "first" by "mse" group "sum" joint
// CHECK:       nn.observe %x as "wide" by "mse" bits 16 :
// CHECK:       nn.observe %y as "symmetric" by "mse" symmetric :
// CHECK:       nn.observe %s as "tail:0" by "mse" group "sum" joint
// REMARK:      "sum": wide is of 16 bits, asymmetric, unlike first, which is of 8 bits, asymmetric
// REMARK:      "sum": symmetric is of 8 bits, symmetric, unlike first, which is of 8 bits, asymmetric
func.func @members(%x: tensor<1x2x4x4xf32>, %y: tensor<1x2x4x4xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %x1 = nn.observe %x as "first" by "mse" : tensor<1x2x4x4xf32>
  %x2 = nn.observe %x as "wide" by "mse" bits 16 : tensor<1x2x4x4xf32>
  %y1 = nn.observe %y as "symmetric" by "mse" symmetric : tensor<1x2x4x4xf32>
  %s = nn.add %x, %y from <onnx, "Add", "sum"> : tensor<1x2x4x4xf32>
  %c = nn.conv %s, %w from <onnx, "Conv", "tail"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  func.return %x1, %x2, %y1, %c : tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>
}

// -----

// CHECK-LABEL: @given
// CHECK:       nn.observe %x as "mine" by "mse" gives <i8, scale = 0.5> given user group "sum" joint
// CHECK:       nn.observe %s as "tail:0" by "mse" gives <i8, scale = 0.5> given user group "sum" joint
func.func @given(%x: tensor<1x2x4x4xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %x1 = nn.observe %x as "mine" by "mse" gives <i8, scale = 0.5> given user : tensor<1x2x4x4xf32>
  %s = nn.add %x, %x from <onnx, "Add", "sum"> : tensor<1x2x4x4xf32>
  %c = nn.conv %s, %w from <onnx, "Conv", "tail"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  func.return %x1, %c : tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>
}

// -----

// Where several have parameters that differ, nothing is shared.
// CHECK-LABEL: @differ
// CHECK-NOT:   group
// REMARK:      "r": mine shares no parameters: the given ones differ
func.func @differ(%x: tensor<1x2x4x4xf32>, %y: tensor<1x2x4x4xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) {
  %x1 = nn.observe %x as "mine" by "mse" gives <i8, scale = 0.5> given user : tensor<1x2x4x4xf32>
  %r = nn.exp %x1 from <onnx, "Exp", "r"> : tensor<1x2x4x4xf32>
  %y1 = nn.observe %y as "other" by "mse" gives <i8, scale = 0.25> given user : tensor<1x2x4x4xf32>
  %s = nn.add %x, %y from <onnx, "Add", "sum"> : tensor<1x2x4x4xf32>
  func.return %r, %y1, %s : tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>
}

// -----

// Sums that are not: none of AMCT's, a product, one between layers that stay float.
// CHECK-LABEL: @missed
// CHECK-NOT:   group
// REMARK:      [insert-observers missed joint-quant] "scale": it is not one of the sums that AMCT quantizes
// REMARK:      [insert-observers missed joint-quant] "alone": at least two of its inputs and readers must be quantized
func.func @missed(%x: tensor<1x2x4x4xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) {
  %s = nn.add %x, %x from <caffe, "Scale", "scale"> : tensor<1x2x4x4xf32>
  %t = nn.add %x, %x from <caffe, "Eltwise", "alone"> : tensor<1x2x4x4xf32>
  func.return %s, %t : tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>
}
