// RUN: amct-opt %s --insert-observers='tensor-quantize=max:0,sum:1,sum:0' --remarks=all --split-input-file 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks
// RUN: amct-opt %s --quantize='tensor-quantize=max:0,sum:1,sum:0' --split-input-file 2>/dev/null | filecheck %s --check-prefix QUANTIZED
// RUN: amct-opt %s --quantize='tensor-quantize=max:0,sum:1,sum:0' --split-input-file 2>/dev/null > %t.once.mlir
// RUN: amct-opt %s --quantize='tensor-quantize=max:0,sum:1,sum:0' --quantize='tensor-quantize=max:0,sum:1,sum:0' --split-input-file 2>/dev/null > %t.twice.mlir
// RUN: diff %t.once.mlir %t.twice.mlir

// ONNX: MaxPool and Add. A layer that reads the same value under the same specification shares the point.
// REMARK:        [insert-observers applied observed] "conv"
// REMARK:        [insert-observers missed tensor-only] "other": only its input can be quantized: set tensor_quantize for that
// REMARK:        [insert-observers applied tensor-quantize] "max": input max:0 observed by mse
// REMARK:        [insert-observers applied tensor-quantize] "sum": input sum:1 observed by mse; input sum:0 observed by mse
// CHECK-LABEL:   @onnx
// CHECK-DAG:     [[X:%.*]] = nn.observe %x as "max:0"
// CHECK-DAG:     [[Y:%.*]] = nn.observe %y as "conv:0"
// CHECK-NOT:     nn.observe
// CHECK:         nn.add [[X]], [[Y]]
// CHECK:         nn.max_pool [[X]]
// CHECK:         nn.conv [[Y]], %w
// QUANTIZED-LABEL: @onnx
// QUANTIZED-DAG:   [[QX:%.*]] = nn.quantize %x
// QUANTIZED-DAG:   [[X:%.*]] = nn.dequantize [[QX]]
// QUANTIZED-DAG:   [[QY:%.*]] = nn.quantize %y
// QUANTIZED-DAG:   [[Y:%.*]] = nn.dequantize [[QY]]
// QUANTIZED:       nn.add [[X]], [[Y]]
// QUANTIZED:       nn.max_pool [[X]]
func.func @onnx(%x: tensor<1x2x4x4xf32>, %y: tensor<1x2x4x4xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x3x3xf32>, tensor<1x2x4x4xf32>) {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %s = nn.add %x, %y from <onnx, "Add", "sum"> : tensor<1x2x4x4xf32>
  %m = nn.max_pool %x kernel [2, 2] from <onnx, "MaxPool", "max"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x3x3xf32>
  %c = nn.conv %y, %w from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %o = nn.add %x, %y from <onnx, "Add", "other"> : tensor<1x2x4x4xf32>
  func.return %s, %m, %c : tensor<1x2x4x4xf32>, tensor<1x2x3x3xf32>, tensor<1x2x4x4xf32>
}

// -----

// TensorFlow: MaxPool and Add, by their other versions too; sizes that are not known do not matter.
// REMARK:        [insert-observers applied tensor-quantize] "max"
// REMARK:        [insert-observers applied tensor-quantize] "sum"
// CHECK-LABEL:   @tensorflow
// CHECK:         [[X:%.*]] = nn.observe %x as "max:0"
// CHECK-NEXT:    nn.max_pool [[X]]
// CHECK-NEXT:    [[Y:%.*]] = nn.observe %y as "sum:1"
// CHECK-NEXT:    nn.add [[X]], [[Y]]
func.func @tensorflow(%x: tensor<?x4x4x2xf32>, %y: tensor<?x4x4x2xf32>) -> (tensor<?x4x4x2xf32>, tensor<?x3x3x2xf32>) {
  %m = nn.max_pool %x kernel [2, 2] layout nhwc from <tensorflow, "MaxPoolV2", "max"> : (tensor<?x4x4x2xf32>) -> tensor<?x3x3x2xf32>
  %s = nn.add %x, %y from <tensorflow, "AddV2", "sum"> : tensor<?x4x4x2xf32>
  func.return %s, %m : tensor<?x4x4x2xf32>, tensor<?x3x3x2xf32>
}

// -----

// Caffe: Pooling of mode MAX, also over all of space, and Eltwise of operation SUM, whose inputs count as the layer has them:
// the product is a coefficient.
// REMARK:        [insert-observers applied tensor-quantize] "max"
// REMARK:        [insert-observers applied tensor-quantize] "sum"
// CHECK-LABEL:   @caffe
// CHECK:         [[Y:%.*]] = nn.observe %y as "sum:1"
// CHECK:         nn.mul [[Y]], %h
// CHECK:         [[X:%.*]] = nn.observe %x as "sum:0"
// CHECK:         nn.add [[X]], %k
// CHECK:         nn.add {{.*}}, %z
// CHECK:         [[S:%.*]] = nn.observe %s as "max:0"
// CHECK:         nn.global_max_pool [[S]]
func.func @caffe(%x: tensor<1x2x4x4xf32>, %y: tensor<1x2x4x4xf32>, %z: tensor<1x2x4x4xf32>) -> tensor<1x2x1x1xf32> {
  %h = nn.constant dense<0.5> : tensor<f32>
  %k = nn.mul %y, %h from <caffe, "Eltwise", "sum"> : (tensor<1x2x4x4xf32>, tensor<f32>) -> tensor<1x2x4x4xf32>
  %t = nn.add %x, %k from <caffe, "Eltwise", "sum"> : tensor<1x2x4x4xf32>
  %s = nn.add %t, %z from <caffe, "Eltwise", "sum"> : tensor<1x2x4x4xf32>
  %m = nn.global_max_pool %s from <caffe, "Pooling", "max"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x1x1xf32>
  func.return %m : tensor<1x2x1x1xf32>
}

// -----

// Points that stand there already are left.
// REMARK:        [insert-observers analysis tensor-quantize-left] "max": input max:0 is observed already
// CHECK-LABEL:   @observed
// CHECK:         [[X:%.*]] = nn.observe %x as "mine" by "mse"
// CHECK-NEXT:    nn.max_pool [[X]]
func.func @observed(%x: tensor<1x2x4x4xf32>, %y: tensor<1x2x4x4xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x3x3xf32>) {
  %p = nn.observe %x as "mine" by "mse" : tensor<1x2x4x4xf32>
  %m = nn.max_pool %p kernel [2, 2] from <onnx, "MaxPool", "max"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x3x3xf32>
  %s = nn.add %x, %y from <onnx, "Add", "sum"> : tensor<1x2x4x4xf32>
  func.return %s, %m : tensor<1x2x4x4xf32>, tensor<1x2x3x3xf32>
}
