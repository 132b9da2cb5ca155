// In models of float16 pooling and addition stay float, and to ask for them is an error.

// RUN: amct-opt %s --insert-observers --remarks=missed 2>&1 | filecheck %s
// RUN: not amct-opt %s --insert-observers='tensor-quantize=max:0' 2>&1 | filecheck %s --check-prefix MAX
// RUN: not amct-opt %s --insert-observers='tensor-quantize=sum:0' 2>&1 | filecheck %s --check-prefix SUM

// CHECK: [insert-observers missed float16-off] "max": the model is of float16 or mixed types
// MAX: error: tensor_quantize names 'max:0', which cannot be quantized (float16-off): the model is of float16 or mixed types
// SUM: error: tensor_quantize names 'sum:0', which cannot be quantized (float16-off): the model is of float16 or mixed types
func.func @main(%x: tensor<1x2x4x4xf16>, %y: tensor<1x2x4x4xf32>) {
  %m = nn.max_pool %y kernel [2, 2] from <tensorflow, "MaxPool", "max"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x3x3xf32>
  %s = nn.add %x, %x from <caffe, "Eltwise", "sum"> : tensor<1x2x4x4xf16>
  func.return
}
