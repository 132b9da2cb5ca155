// Channels between two layers, through what scales with its input, also in regions; shared weights stay as others read them.
// RUN: amct-opt %s --equalize --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --input-file %t.remarks --check-prefix REMARKS
// RUN: amct-opt %s --equalize | amct-opt --equalize --remarks=all 2>&1 >/dev/null | filecheck %s --check-prefix TWICE

// REMARKS: warning: no calibration data
// REMARKS: [equalize missed graph-output] "last": its result is an output of the model
// REMARKS: [equalize missed graph-output] "same": its result is an output of the model
// REMARKS: [equalize applied equalized] "first": 2 of 3 channels divided by 2^-6 to 2^6, the error of last {{[0-9.]+}} dB smaller

// CHECK:       %w = nn.constant dense<{{.*}}6.400000e+01{{.*}}> : tensor<3x1x1x1xf32>
// CHECK-NEXT:  [[W:%w.*]] = nn.constant dense<1.000000e+00> : tensor<3x1x1x1xf32>
// CHECK-NEXT:  [[B:%.*]] = nn.constant dense<[2.000000e+00, 3.000000e+00, 2.000000e+00]> : tensor<3xf32>
// CHECK-NEXT:  nn.fused "ConvReLU2d" ({{.*}} = %x, {{.*}} = [[W]], {{.*}} = [[B]])
// CHECK:       [[V:%.*]] = nn.constant dense<1.000000e+00> : tensor<1x3x1x1xf32>
// CHECK-NEXT:  nn.conv {{.*}}, [[V]] from <onnx, "Conv", "last">
// CHECK-NEXT:  nn.conv %x, %w from <onnx, "Conv", "same">

// TWICE:       [equalize missed no-gain] "first": no factors make its readers' errors a fifth smaller
func.func @main(%x: tensor<1x1x4x4xf32>) -> (tensor<1x1x2x2xf32>, tensor<1x3x4x4xf32>) {
  %w = nn.constant dense<[[[[0.015625]]], [[[1.0]]], [[[64.0]]]]> : tensor<3x1x1x1xf32>
  %b = nn.constant dense<[0.03125, 3.0, 128.0]> : tensor<3xf32>
  %v = nn.constant dense<[[[[64.0]], [[1.0]], [[0.015625]]]]> : tensor<1x3x1x1xf32>
  %r = nn.fused "ConvReLU2d" (%p = %x, %q = %w, %c = %b) : (tensor<1x1x4x4xf32>, tensor<3x1x1x1xf32>, tensor<3xf32>) -> tensor<1x3x4x4xf32> {
    %y = nn.conv %p, %q, %c from <onnx, "Conv", "first"> : (tensor<1x1x4x4xf32>, tensor<3x1x1x1xf32>, tensor<3xf32>) -> tensor<1x3x4x4xf32>
    %z = nn.relu %y : tensor<1x3x4x4xf32>
    nn.yield %z : tensor<1x3x4x4xf32>
  }
  %m = nn.max_pool %r kernel [2, 2] strides [2, 2] : (tensor<1x3x4x4xf32>) -> tensor<1x3x2x2xf32>
  %l = nn.conv %m, %v from <onnx, "Conv", "last"> : (tensor<1x3x2x2xf32>, tensor<1x3x1x1xf32>) -> tensor<1x1x2x2xf32>
  %s = nn.conv %x, %w from <onnx, "Conv", "same"> : (tensor<1x1x4x4xf32>, tensor<3x1x1x1xf32>) -> tensor<1x3x4x4xf32>
  func.return %l, %s : tensor<1x1x2x2xf32>, tensor<1x3x4x4xf32>
}
