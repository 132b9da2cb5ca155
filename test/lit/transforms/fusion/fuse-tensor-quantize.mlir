// An input that a configuration quantizes by itself stays a value of its own; the activation after is fused as ever.
// RUN: echo 'tensor_quantize { layer_name: "sum" input_index: 0 }' > %t.cfg
// RUN: amct-opt %s --fuse-all='config=%t.cfg' --insert-observers='config=%t.cfg' --remarks=all 2>&1 | filecheck %s
// RUN: echo 'tensor_quantize { layer_name: "sum" input_index: 1 }' > %t.residual.cfg
// RUN: amct-opt %s --fuse-all='config=%t.residual.cfg' --insert-observers='config=%t.residual.cfg' | filecheck %s --check-prefix RESIDUAL

// CHECK-DAG: [fuse-activation missed tensor-quantize] "sum": input 0 of sum is quantized by itself
// CHECK-DAG: [insert-observers applied tensor-quantize] "sum": input sum:0 observed by ifmr
// CHECK:     [[C:%.*]] = nn.observe %c as "sum:0"
// CHECK:     nn.fused "AddReLU" ({{%.*}} = [[C]], {{%.*}} = %x)
// RESIDUAL:  [[X:%.*]] = nn.observe %x as "sum:1"
// RESIDUAL:  nn.fused "ConvAddReLU2d" ({{%.*}} = {{%.*}}, {{%.*}} = %w, {{%.*}} = [[X]])
func.func @main(%x: tensor<1x2x4x4xf32>, %y: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %c = nn.conv %y, %w from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %s = nn.add %c, %x from <onnx, "Add", "sum"> : tensor<1x2x4x4xf32>
  %r = nn.relu %s from <onnx, "Relu", "relu"> : tensor<1x2x4x4xf32>
  func.return %r : tensor<1x2x4x4xf32>
}
