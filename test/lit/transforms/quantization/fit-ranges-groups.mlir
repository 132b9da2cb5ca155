// Points of a group keep equal parameters, fitted to all that reads them; what depends on two values is left alone.
// RUN: amct-opt %s --profile=ppq --insert-observers='bits=4 observer=minmax' --calibrate --fit-ranges -o %t.mlir --remarks=all 2>&1 | filecheck %s --check-prefix REMARK
// RUN: filecheck %s --input-file=%t.mlir

// REMARK: [fit-ranges missed reader] "conv1": mul reads it together with another computed value
// REMARK: [fit-ranges missed reader] "conv2"
// REMARK: [fit-ranges applied fitted] "conv1": SQNR of conv1, conv2 {{[0-9.]+}} dB
// REMARK: [fit-ranges applied fitted] "conv3": SQNR of add, cat, the model's output, gap {{[0-9.]+}} dB
// CHECK:  nn.observe %d as "conv3:out" by "minmax" bits 4 range [-{{[12]}}[[R:[0-9.]+, [0-9.]+]]] {{.*}} group "add"
// CHECK:  nn.observe %e as "conv4:out" by "minmax" bits 4 range [-{{[12]}}[[R]]] {{.*}} group "add"
// CHECK:  nn.observe %f as "conv5:out" by "minmax" bits 4 range [-{{[12]}}[[R]]] {{.*}} group "add"
// CHECK:  nn.observe %g as "cat:out" by "minmax" bits 4 range [-{{[12]}}[[R]]] {{.*}} group "add"
func.func @main(%x: tensor<?x4x24x24xf32>) -> (tensor<?x4x24x24xf32>, tensor<?x8x24x24xf32>, tensor<?x8xf32>) {
  %w = nn.constant dense<[[[[0.3]], [[-0.7]], [[0.2]], [[0.45]]], [[[1.1]], [[-0.9]], [[0.2]], [[0.61]]], [[[0.4]], [[-0.9]], [[0.13]], [[0.5]]], [[[0.77]], [[0.15]], [[0.1]], [[-0.33]]]]> : tensor<4x4x1x1xf32>
  %a = nn.conv %x, %w from <onnx, "Conv", "conv1"> : (tensor<?x4x24x24xf32>, tensor<4x4x1x1xf32>) -> tensor<?x4x24x24xf32>
  %b = nn.conv %x, %w from <onnx, "Conv", "conv2"> : (tensor<?x4x24x24xf32>, tensor<4x4x1x1xf32>) -> tensor<?x4x24x24xf32>
  %c = nn.mul %a, %b from <onnx, "Mul", "mul"> : tensor<?x4x24x24xf32>
  %d = nn.conv %c, %w from <onnx, "Conv", "conv3"> : (tensor<?x4x24x24xf32>, tensor<4x4x1x1xf32>) -> tensor<?x4x24x24xf32>
  %e = nn.conv %c, %w from <onnx, "Conv", "conv4"> : (tensor<?x4x24x24xf32>, tensor<4x4x1x1xf32>) -> tensor<?x4x24x24xf32>
  %s = nn.add %d, %e from <onnx, "Add", "add"> : tensor<?x4x24x24xf32>
  %f = nn.conv %s, %w from <onnx, "Conv", "conv5"> : (tensor<?x4x24x24xf32>, tensor<4x4x1x1xf32>) -> tensor<?x4x24x24xf32>
  %g = nn.concat %f, %d axis 1 from <onnx, "Concat", "cat"> : (tensor<?x4x24x24xf32>, tensor<?x4x24x24xf32>) -> tensor<?x8x24x24xf32>
  %h = nn.global_average_pool %g from <onnx, "GlobalAveragePool", "gap"> : (tensor<?x8x24x24xf32>) -> tensor<?x8x1x1xf32>
  %i = nn.flatten %h axis 1 : (tensor<?x8x1x1xf32>) -> tensor<?x8xf32>
  func.return %f, %g, %i : tensor<?x4x24x24xf32>, tensor<?x8x24x24xf32>, tensor<?x8xf32>
}
