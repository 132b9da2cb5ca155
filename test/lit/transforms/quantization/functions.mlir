// RUN: amct-opt %s --fuse-all --quantize --remarks=missed 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix WHOLE < %t.remarks
// RUN: amct-opt %s --calibrate --convert-observers --remarks=missed 2>&1 >/dev/null | filecheck %s --check-prefix STEPS
// RUN: amct-opt %s --adapt-qat --remarks=missed 2>&1 >/dev/null | filecheck %s --check-prefix QAT
// RUN: amct-opt %s --lower-to-ascend --remarks=missed 2>%t.remarks | filecheck %s --check-prefix ASCEND
// RUN: filecheck %s --check-prefix LOWER < %t.remarks
// RUN: amct-opt %s -t onnx -o %t.onnx 2>&1 | filecheck %s --check-prefix ONNX
// RUN: amct-opt %s -o %t.mlir 2>&1 | filecheck %s --check-prefix MLIR --allow-empty

// Fusion and lowering rewrite every function. Quantization is of the graph, whose inputs data are for; every other function with
// operations of nn has a remark, and formats that hold one graph are written with a warning.

// WHOLE:         [insert-observers missed graph] "other": it stays as it is: only the graph, @main, is quantized
// WHOLE-NEXT:    [insert-observers missed graph] "observed": it stays as it is: only the graph, @main, is quantized
// WHOLE-NOT:     "index"
// STEPS-NOT:     "other"
// STEPS:         [calibrate missed graph] "observed"
// STEPS:         [convert-observers missed graph] "observed"
// QAT:           [adapt-qat missed graph] "other"
// LOWER:         [lower-to-ascend missed no-ascend-op] "fc": no ascend operation stands for nn.observe
// ONNX:          warning: target onnx writes the graph, @main, without @other
// ONNX-NEXT:     warning: target onnx writes the graph, @main, without @observed
// MLIR-NOT:      warning

// CHECK-LABEL:   @other
// CHECK:         nn.fused "ConvReLU2d"
// CHECK-NOT:     nn.quantize
// ASCEND-LABEL:  @other
// ASCEND:        ascend.Relu
func.func @other(%x: tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32> {
  %w = nn.constant dense<0.5> : tensor<1x1x1x1xf32>
  %c = nn.conv %x, %w : (tensor<1x1x2x2xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x2x2xf32>
  %y = nn.relu %c : tensor<1x1x2x2xf32>
  func.return %y : tensor<1x1x2x2xf32>
}

// CHECK-LABEL:   @observed
// CHECK:         nn.observe %x as "fc:0" by "mse" : tensor<1x2xf32>
// CHECK-NOT:     nn.quantize
func.func @observed(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %w = nn.constant dense<0.5> : tensor<2x2xf32>
  %p = nn.observe %x as "fc:0" by "mse" : tensor<1x2xf32>
  %y = nn.matmul %p, %w : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  func.return %y : tensor<1x2xf32>
}

func.func @index(%i: index) -> index {
  func.return %i : index
}

// CHECK-LABEL:   @main
// CHECK:         nn.quantize
// ASCEND-LABEL:  @main
// ASCEND:        ascend.Relu
func.func @main(%x: tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32> {
  %w = nn.constant dense<0.5> : tensor<1x1x1x1xf32>
  %c = nn.conv %x, %w : (tensor<1x1x2x2xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x2x2xf32>
  %y = nn.relu %c : tensor<1x1x2x2xf32>
  func.return %y : tensor<1x1x2x2xf32>
}
