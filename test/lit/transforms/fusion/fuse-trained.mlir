// RUN: amct-opt %s --fuse-all --remarks=all 2>%t.remarks -o /dev/null
// RUN: filecheck %s --check-prefix REMARK < %t.remarks
// RUN: amct-opt %s --fuse-all --adapt-qat --remarks=all 2>%t.adapted | filecheck %s
// RUN: filecheck %s --check-prefix ADAPTED < %t.adapted

// What training with quantization leaves is not missed by fusion: adapt-qat makes integers of weights, and the quotient and the
// batch norm part of their scales. A clip in front of integers, or of integers, is not an activation.
// REMARK-NOT: missed
// REMARK-DAG: [fuse-bn analysis trained] "bn1": --adapt-qat makes it part of the scales of conv1
// REMARK-DAG: [fuse-mul analysis trained] "div1": --adapt-qat makes it part of the scales of conv1
// REMARK-DAG: [fuse-activation analysis trained] "relu1": --adapt-qat makes 'nn.batch_norm' bn1 part of the scales of conv1; --fuse-activation after it fuses this
// REMARK-DAG: [fuse-activation analysis bounds] "data": it bounds the integers of a quantization point
// REMARK-DAG: [fuse-activation analysis bounds] "narrow": it bounds the integers of a quantization point
// ADAPTED:    [adapt-qat applied channel-factors] "bn1": into the scales and the bias of conv1
// CHECK:      %y = nn.conv
// CHECK-NEXT: %r = nn.relu
func.func @main(%x: tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xf32> {
  %w = nn.constant dense<1.0> : tensor<1x1x1x1xf32>
  %four = nn.constant dense<4.0> : tensor<1x1x1x1xf32>
  %one = nn.constant dense<1.0> : tensor<1xf32>
  %zero = nn.constant dense<0.0> : tensor<1xf32>
  %c = nn.clip %x min -16.0 from <onnx, "Clip", "data"> : tensor<1x1x4x4xf32>
  %xq = nn.quantize %c by <i8, scale = 0.25> : (tensor<1x1x4x4xf32>) -> tensor<1x1x4x4xi8>
  %xd = nn.dequantize %xq by <i8, scale = 0.25> : (tensor<1x1x4x4xi8>) -> tensor<1x1x4x4xf32>
  %wq = nn.quantize %w by <i8, scale = 0.5> : (tensor<1x1x1x1xf32>) -> tensor<1x1x1x1xi8>
  %wc = nn.clip %wq min -127.0 max 127.0 from <onnx, "Clip", "narrow"> : tensor<1x1x1x1xi8>
  %wd = nn.dequantize %wc by <i8, scale = 0.5> : (tensor<1x1x1x1xi8>) -> tensor<1x1x1x1xf32>
  %y = nn.conv %xd, %wd from <onnx, "Conv", "conv1"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %d = nn.div %y, %four from <onnx, "Div", "div1"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  %b = nn.batch_norm %d, %one, %zero, %zero, %one from <onnx, "BatchNormalization", "bn1"> : (tensor<1x1x4x4xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x4x4xf32>
  %r = nn.relu %b from <onnx, "Relu", "relu1"> : tensor<1x1x4x4xf32>
  func.return %r : tensor<1x1x4x4xf32>
}
