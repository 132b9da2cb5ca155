// A residual stream and values of heads, whose layers are in fused regions, as the profile makes them. The scale of the norm, which
// has an outlier, goes into the layers behind it.
// RUN: amct-opt %s --rotate --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --input-file %t.remarks --check-prefix REMARKS

// REMARKS: [rotate applied rotated] "norm": a stream of 4 channels, which 2 layers write and 2 read; on samples that did not calibrate
// REMARKS: [rotate {{.*}}] "out":

// CHECK-NOT:  6.000000e+01
// CHECK:      [[T:%table.*]] = nn.constant
// CHECK-NEXT: [[X:%.*]] = nn.gather [[T]], %i
// CHECK:      [[N:%.*]] = nn.div [[X]],
// CHECK-NEXT: [[W:%w.*]] = nn.constant
// CHECK-NEXT: nn.fused "LinearAdd" ({{.*}} = [[N]], {{.*}} = [[W]], {{.*}} = [[X]])
func.func @main(%i: tensor<8xi64>, %p: tensor<1x2x8x8xf32>) -> tensor<1x8x4xf32> {
  %table = nn.constant dense<[[0.3, -0.8, 0.2, 0.7], [0.1, -0.2, 0.5, 0.1], [-0.9, 0.4, 0.6, 0.1], [0.5, 0.3, -0.7, 0.2]]> : tensor<4x4xf32>
  %g = nn.constant dense<[1.0, 60.0, 0.8, 1.2]> : tensor<4xf32>
  %w = nn.constant dense<[[0.3, -0.8, 0.2, 0.7], [0.001, -0.002, 0.0015, 0.001], [-0.9, 0.4, 0.6, 0.1], [0.5, 0.3, -0.7, 0.2]]> : tensor<4x4xf32>
  %x = nn.gather %table, %i from <onnx, "Gather", "embed"> : (tensor<4x4xf32>, tensor<8xi64>) -> tensor<8x4xf32>
  %s = nn.mul %x, %x : tensor<8x4xf32>
  %m = nn.reduce_mean %s axes [-1] keepdims : (tensor<8x4xf32>) -> tensor<8x1xf32>
  %q = nn.sqrt %m : tensor<8x1xf32>
  %n = nn.div %x, %q from <onnx, "Div", "norm"> : (tensor<8x4xf32>, tensor<8x1xf32>) -> tensor<8x4xf32>
  %k = nn.mul %n, %g from <onnx, "Mul", "scale"> : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  %r = nn.fused "LinearAdd" (%a = %k, %b = %w, %c = %x) : (tensor<8x4xf32>, tensor<4x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32> {
    %d = nn.matmul %a, %b from <onnx, "MatMul", "up"> : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
    %e = nn.add %c, %d from <onnx, "Add", "sum"> : tensor<8x4xf32>
    nn.yield %e : tensor<8x4xf32>
  }
  %y = nn.matmul %r, %w from <onnx, "MatMul", "values"> : (tensor<8x4xf32>, tensor<4x4xf32>) -> tensor<8x4xf32>
  %h = nn.reshape %y to [1, 8, 2, 2] : (tensor<8x4xf32>) -> tensor<1x8x2x2xf32>
  %v = nn.transpose %h perm [0, 2, 1, 3] : (tensor<1x8x2x2xf32>) -> tensor<1x2x8x2xf32>
  %z = nn.matmul %p, %v : (tensor<1x2x8x8xf32>, tensor<1x2x8x2xf32>) -> tensor<1x2x8x2xf32>
  %o = nn.transpose %z perm [0, 2, 1, 3] : (tensor<1x2x8x2xf32>) -> tensor<1x8x2x2xf32>
  %j = nn.reshape %o to [1, 8, 4] : (tensor<1x8x2x2xf32>) -> tensor<1x8x4xf32>
  %out = nn.matmul %j, %w from <onnx, "MatMul", "out"> : (tensor<1x8x4xf32>, tensor<4x4xf32>) -> tensor<1x8x4xf32>
  func.return %out : tensor<1x8x4xf32>
}
