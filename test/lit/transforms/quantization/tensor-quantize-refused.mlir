// One refusal for each rule that keeps an input from being quantized by itself: asked for by name, it is an error.

// RUN: amct-opt %s --insert-observers='tensor-quantize=residual:0' --remarks=missed 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks
// RUN: not amct-opt %s --insert-observers='tensor-quantize=conv:0' 2>&1 | filecheck %s --check-prefix CONV
// RUN: not amct-opt %s --insert-observers='tensor-quantize=relu:0' 2>&1 | filecheck %s --check-prefix RELU
// RUN: not amct-opt %s --insert-observers='tensor-quantize=average:0' 2>&1 | filecheck %s --check-prefix AVERAGE
// RUN: not amct-opt %s --insert-observers='tensor-quantize=product:0' 2>&1 | filecheck %s --check-prefix PRODUCT
// RUN: not amct-opt %s --insert-observers='tensor-quantize=largest:0' 2>&1 | filecheck %s --check-prefix LARGEST
// RUN: not amct-opt %s --insert-observers='tensor-quantize=sum:2' 2>&1 | filecheck %s --check-prefix INDEX
// RUN: not amct-opt %s --insert-observers='tensor-quantize=max:1' 2>&1 | filecheck %s --check-prefix MAX
// RUN: not amct-opt %s --insert-observers='tensor-quantize=sum:1' 2>&1 | filecheck %s --check-prefix CONSTANT
// RUN: not amct-opt %s --insert-observers='tensor-quantize=count:0' 2>&1 | filecheck %s --check-prefix INTEGER
// RUN: not amct-opt %s --insert-observers='tensor-quantize=residual:1' 2>&1 | filecheck %s --check-prefix REGION
// RUN: not amct-opt %s --insert-observers='tensor-quantize=max:0 skip-layers=max' 2>&1 | filecheck %s --check-prefix SKIPPED
// RUN: not amct-opt %s --insert-observers='tensor-quantize=typo:0' 2>&1 | filecheck %s --check-prefix TYPO
// RUN: not amct-opt %s --insert-observers='tensor-quantize=max' 2>&1 | filecheck %s --check-prefix FORM
// RUN: not amct-opt %s --insert-observers='tensor-quantize=max:0,max:0' 2>&1 | filecheck %s --check-prefix TWICE
// RUN: echo 'tensor_quantize { layer_name: "conv" input_index: 0 }' > %t.cfg
// RUN: not amct-opt %s --insert-observers='config=%t.cfg' 2>&1 | filecheck %s --check-prefix FILE

// CONV:     :[[#]]:3: error: tensor_quantize names 'conv:0', which cannot be quantized (tensor-only): only inputs of max pooling and addition
// RELU:     error: tensor_quantize names 'relu:0', which cannot be quantized (tensor-only)
// AVERAGE:  error: tensor_quantize names 'average:0', which cannot be quantized (tensor-only)
// PRODUCT:  error: tensor_quantize names 'product:0', which cannot be quantized (operation-sum): its operation is PROD
// LARGEST:  error: tensor_quantize names 'largest:0', which cannot be quantized (operation-sum): its operation is MAX
// REMARK:   [insert-observers missed operation-sum] "product": its operation is PROD
// INDEX:    error: tensor_quantize names 'sum:2', which cannot be quantized (input-index): it has 2 inputs, counted from 0
// MAX:      error: tensor_quantize names 'max:1', which cannot be quantized (input-index): it has 1 input, counted from 0
// CONSTANT: error: tensor_quantize names 'sum:1', which cannot be quantized (input-computed): its input 1 is a constant
// INTEGER:  error: tensor_quantize names 'count:0', which cannot be quantized (input-float): its input 0 is of i32
// REGION:      error: tensor_quantize names 'residual:1', which cannot be quantized (input-computed): its input 1 is computed inside a fused region
// REGION-NEXT: hint: keep it out of the region: --skip-fusion=residual
// SKIPPED:  error: tensor_quantize names 'max:0', which cannot be quantized (skip-layers)
// TYPO:     error: tensor_quantize names 'typo', which is not a layer or module of the model
// FORM:     error: tensor-quantize: 'max' is not an input of a layer
// TWICE:    error: tensor_quantize names 'max:0' twice
// FILE:     .cfg: error: tensor_quantize names 'conv:0'

// The residual of a fused region is outside of it.
// CHECK:    [[R:%.*]] = nn.observe %x as "conv:0"
// CHECK:    nn.fused "ConvAdd2d" ({{%.*}} = {{%.*}}, {{%.*}} = %w, {{%.*}} = [[R]])
func.func @main(%x: tensor<1x2x4x4xf32>, %n: tensor<4xi32>) {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %k = nn.constant dense<1.0> : tensor<1x2x1x1xf32>
  %c = nn.conv %x, %w from <caffe, "Convolution", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %r = nn.relu %c from <caffe, "ReLU", "relu"> : tensor<1x2x4x4xf32>
  %a = nn.average_pool %x kernel [2, 2] from <caffe, "Pooling", "average", {pool = "AVE"}> : (tensor<1x2x4x4xf32>) -> tensor<1x2x3x3xf32>
  %m = nn.max_pool %x kernel [2, 2] from <caffe, "Pooling", "max"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x3x3xf32>
  %p = nn.mul %x, %c from <caffe, "Eltwise", "product", {operation = "PROD"}> : tensor<1x2x4x4xf32>
  %l = nn.max %x, %c from <caffe, "Eltwise", "largest", {operation = "MAX"}> : tensor<1x2x4x4xf32>
  %s = nn.add %x, %k from <onnx, "Add", "sum"> : (tensor<1x2x4x4xf32>, tensor<1x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %i = nn.add %n, %n from <onnx, "Add", "count"> : tensor<4xi32>
  %f = nn.fused "ConvAdd2d" (%in = %c, %k2 = %w, %res = %x) : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
    %conv = nn.conv %in, %k2 from <onnx, "Conv", "inner"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
    %sum = nn.add %res, %conv from <onnx, "Add", "residual"> : tensor<1x2x4x4xf32>
    nn.yield %sum : tensor<1x2x4x4xf32>
  }
  func.return
}
