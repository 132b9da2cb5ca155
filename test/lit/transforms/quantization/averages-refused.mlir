// RUN: amct-opt %s --profile=qdq --insert-observers --remarks=all 2>&1 >/dev/null | filecheck %s

// Averages in onnxruntime's integers: those that its kernels compute, between convolutions, and one for each condition.
// CHECK: [insert-observers missed integer-average] "dilated": onnxruntime has no integer kernel for its dilations
// CHECK: [insert-observers missed averages-space] "channels": onnxruntime has an integer kernel only for the mean over all axes
// CHECK: [insert-observers applied observed] "window"
// CHECK: [insert-observers applied observed] "space"
func.func @main(%x: tensor<1x2x4x4xf32>) -> (tensor<1x2x3x3xf32>, tensor<1x2x1x1xf32>, tensor<1x2x2x2xf32>, tensor<1x1x4x4xf32>) {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %v = nn.constant dense<1.0> : tensor<1x1x1x1xf32>
  %a = nn.conv %x, %w from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %0 = nn.average_pool %a kernel [2, 2] from <onnx, "AveragePool", "window"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x3x3xf32>
  %1 = nn.reduce_mean %a axes [2, 3] keepdims from <onnx, "ReduceMean", "space"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x1x1xf32>
  %2 = nn.average_pool %a kernel [2, 2] dilations [2, 2] from <onnx, "AveragePool", "dilated"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x2x2xf32>
  %3 = nn.reduce_mean %a axes [1] keepdims from <onnx, "ReduceMean", "channels"> : (tensor<1x2x4x4xf32>) -> tensor<1x1x4x4xf32>
  %4 = nn.conv %0, %w from <onnx, "Conv", "conv0"> : (tensor<1x2x3x3xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x3x3xf32>
  %5 = nn.conv %1, %w from <onnx, "Conv", "conv1"> : (tensor<1x2x1x1xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x1x1xf32>
  %6 = nn.conv %2, %w from <onnx, "Conv", "conv2"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %7 = nn.conv %3, %v from <onnx, "Conv", "conv3"> : (tensor<1x1x4x4xf32>, tensor<1x1x1x1xf32>) -> tensor<1x1x4x4xf32>
  func.return %4, %5, %6, %7 : tensor<1x2x3x3xf32>, tensor<1x2x1x1xf32>, tensor<1x2x2x2xf32>, tensor<1x1x4x4xf32>
}
