// Weights on their grid by the layers' outputs: scales go into plans, and conversion finds the integers again. One case for each condition.
// RUN: amct-opt %s --insert-observers=weight-bits=4 --calibrate -o %t.mlir 2>/dev/null
// RUN: amct-opt %t.mlir --round-weights=gptq -o %t.rounded.mlir --remarks=all 2>%t.remarks
// RUN: filecheck %s --input-file=%t.remarks --check-prefix REMARK
// RUN: filecheck %s --input-file=%t.rounded.mlir
// RUN: amct-opt %t.rounded.mlir --convert-observers | filecheck %s --check-prefix CONVERTED
// RUN: amct-opt %s --quantize='weight-bits=4 round-weights=gptq' 2>/dev/null | filecheck %s --check-prefix CONVERTED
// RUN: amct-opt %t.mlir --round-weights --remarks=all 2>&1 >/dev/null | filecheck %s --check-prefix MISMATCH
// RUN: amct-opt %s --insert-observers=weight-bits=4 --round-weights --remarks=missed 2>&1 >/dev/null | filecheck %s --check-prefix CALIBRATED
// RUN: not amct-opt %t.mlir --round-weights=up 2>&1 | filecheck %s --check-prefix METHOD

// Two layers have one weight: each gets its own.
// CHECK:       [[A:%.*]] = nn.constant dense<{{.*}}> : tensor<2x2x2x2xf32>
// CHECK:       [[B:%.*]] = nn.constant dense<{{.*}}> : tensor<2x2x2x2xf32>
// CHECK:       nn.conv %{{.*}}, {{.*}}"conv1"{{.*}}nn.plan = #nn.plan<input, operand 0 i8 observer "mse", weight by <i4, scale = [{{.*}}, {{.*}}], axis = 0>>}
// CHECK:       nn.conv %{{.*}}, {{.*}}"conv2"{{.*}}nn.plan = #nn.plan<input, operand 0 i8 observer "mse", weight by <i4, scale = [{{.*}}, {{.*}}], axis = 0>>}

// REMARK:      [round-weights applied rounded] "conv1": SQNR of its output {{[0-9.]+}} dB by gptq, {{[0-9.]+}} dB by nearest rounding
// REMARK:      [round-weights applied rounded] "conv2"
// REMARK:      [round-weights missed improves] "whole": its output has inf dB by gptq, inf dB by nearest rounding, which stays

// CONVERTED-COUNT-3: nn.dequantize %{{.*}} by <i4
// MISMATCH:    [round-weights applied rounded] "conv1": SQNR of its output {{[0-9.]+}} dB by mismatch, {{[0-9.]+}} dB by nearest rounding
// CALIBRATED:  [round-weights missed calibrated] "conv1": its input has no parameters: --calibrate comes before --round-weights
// METHOD:      error: --round-weights: method: 'up' is not one of nearest, gptq, mismatch, adaround
func.func @main(%x: tensor<?x2x6x6xf32>) -> (tensor<?x2x5x5xf32>, tensor<?x2x7x7xf32>, tensor<?x2x7x7xf32>, tensor<?x2x6x6xf32>) {
  %w = nn.constant dense<[[[[0.3, -0.7], [0.45, 1.1]], [[0.2, 0.61], [-0.9, 0.13]]], [[[0.77, 0.15], [-0.33, 0.5]], [[1.3, -0.26], [0.09, -1.0]]]]> : tensor<2x2x2x2xf32>
  %one = nn.constant dense<[[[[7.0]], [[-4.0]]], [[[3.0]], [[7.0]]]]> : tensor<2x2x1x1xf32>
  %a = nn.conv %x, %w from <onnx, "Conv", "conv1"> : (tensor<?x2x6x6xf32>, tensor<2x2x2x2xf32>) -> tensor<?x2x5x5xf32>
  %b = nn.conv %x, %w pads [1, 1, 1, 1] from <onnx, "Conv", "conv2"> : (tensor<?x2x6x6xf32>, tensor<2x2x2x2xf32>) -> tensor<?x2x7x7xf32>
  %c = nn.conv_transpose %x, %w from <onnx, "ConvTranspose", "up"> : (tensor<?x2x6x6xf32>, tensor<2x2x2x2xf32>) -> tensor<?x2x7x7xf32>
  %d = nn.conv %x, %one from <onnx, "Conv", "whole"> : (tensor<?x2x6x6xf32>, tensor<2x2x1x1xf32>) -> tensor<?x2x6x6xf32>
  func.return %a, %b, %c, %d : tensor<?x2x5x5xf32>, tensor<?x2x7x7xf32>, tensor<?x2x7x7xf32>, tensor<?x2x6x6xf32>
}
