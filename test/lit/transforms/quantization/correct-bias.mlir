// What quantization shifts an output by goes into the bias, where that helps; also after --round-weights. One case for each condition.
// RUN: amct-opt %s --insert-observers=weight-bits=3 --calibrate -o %t.mlir 2>/dev/null
// RUN: amct-opt %t.mlir --correct-bias -o %t.corrected.mlir --remarks=all 2>&1 | filecheck %s --check-prefix REMARK
// RUN: filecheck %s --input-file=%t.corrected.mlir
// RUN: amct-opt %t.mlir --round-weights=gptq -o %t.rounded.mlir 2>/dev/null
// RUN: filecheck %s --input-file=%t.rounded.mlir --check-prefix KEPT
// RUN: amct-opt %t.rounded.mlir --correct-bias --convert-observers 2>/dev/null | filecheck %s --check-prefix BOTH
// RUN: amct-opt %s --quantize='weight-bits=3 round-weights=gptq correct-bias=true' 2>/dev/null | filecheck %s --check-prefix BOTH
// RUN: amct-opt %s --insert-observers=weight-bits=3 --correct-bias --remarks=missed 2>&1 >/dev/null | filecheck %s --check-prefix CALIBRATED

// The bias is shared: the layer gets its own.
// CHECK:       [[C:%.*]] = nn.constant dense<{{.*}}> : tensor<2xf32>
// CHECK:       [[B:%.*]] = nn.constant dense<{{.*}}> : tensor<2xf32>
// CHECK:       nn.conv %{{.*}}, %w, [[B]] from <onnx, "Conv", "conv1">
// CHECK:       nn.conv_transpose %{{.*}}, %w, [[C]]

// REMARK:      [correct-bias missed bias] "plain": it has no bias
// REMARK:      [correct-bias applied corrected] "conv1": SQNR of its output {{[0-9.]+}} dB with the corrected bias, {{[0-9.]+}} dB with its own (on 8 samples, held back in turns)
// REMARK:      [correct-bias applied corrected] "up"
// REMARK:      [correct-bias missed improves] "whole": its output has {{[0-9.]+}} dB with the corrected bias, {{[0-9.]+}} dB with its own, which stays

// The float weight stays with its layer until conversion, so that the bias makes up for rounding, too.
// KEPT:        nn.conv {{.*}}"conv1"> {nn.rounded_from = dense<{{.*}}nn.plan = #nn.plan<input, operand 0 i8 observer "mse", operand 2 derived, weight by <i3, scale
// BOTH-NOT:    nn.rounded_from
// BOTH:        nn.dequantize %{{.*}} by <i4
// CALIBRATED:  [correct-bias missed calibrated] "conv1": its input has no parameters: --calibrate comes before --correct-bias
func.func @main(%v: tensor<?x2x6x6xf32>) -> (tensor<?x2x5x5xf32>, tensor<?x2x5x5xf32>, tensor<?x2x7x7xf32>, tensor<?x2x6x6xf32>) {
  %w = nn.constant dense<[[[[0.3, -0.7], [0.45, 1.1]], [[0.2, 0.61], [-0.9, 0.13]]], [[[0.77, 0.15], [-0.33, 0.5]], [[1.3, -0.26], [0.09, -1.0]]]]> : tensor<2x2x2x2xf32>
  %one = nn.constant dense<[[[[3.0]], [[-2.0]]], [[[1.0]], [[3.0]]]]> : tensor<2x2x1x1xf32>
  %b = nn.constant dense<[0.1, -0.2]> : tensor<2xf32>
  %zero = nn.constant dense<0.0> : tensor<2xf32>
  %x = nn.relu %v from <onnx, "Relu", "relu"> : tensor<?x2x6x6xf32>
  %a = nn.conv %x, %w, %b from <onnx, "Conv", "conv1"> : (tensor<?x2x6x6xf32>, tensor<2x2x2x2xf32>, tensor<2xf32>) -> tensor<?x2x5x5xf32>
  %p = nn.conv %x, %w from <onnx, "Conv", "plain"> : (tensor<?x2x6x6xf32>, tensor<2x2x2x2xf32>) -> tensor<?x2x5x5xf32>
  %c = nn.conv_transpose %x, %w, %b from <onnx, "ConvTranspose", "up"> : (tensor<?x2x6x6xf32>, tensor<2x2x2x2xf32>, tensor<2xf32>) -> tensor<?x2x7x7xf32>
  %d = nn.conv %x, %one, %zero from <onnx, "Conv", "whole"> : (tensor<?x2x6x6xf32>, tensor<2x2x1x1xf32>, tensor<2xf32>) -> tensor<?x2x6x6xf32>
  func.return %a, %p, %c, %d : tensor<?x2x5x5xf32>, tensor<?x2x5x5xf32>, tensor<?x2x7x7xf32>, tensor<?x2x6x6xf32>
}
