// Where AscendDequant stands among fused operations. Synthetic ranges will do: only structure is looked at.
// RUN: amct-opt %s --fuse-all --quantize --lower-to-ascend --legalize-ascend --split-input-file --remarks=missed 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks
// RUN: amct-opt %s --quantize --lower-to-ascend --legalize-ascend --split-input-file 2>/dev/null | filecheck %s --check-prefix PLAIN

// Directly after a MatMul, unless an Add of one number per column follows alone: that is an int32 bias, part of the sums. Without
// the fusion it stays an addition of floats.
// CHECK-LABEL: @bias
// CHECK:         [[B:%.*]] = nn.constant dense<{{.*}}> : tensor<3xi32>
// CHECK:         [[A:%.*]] = ascend.BatchMatMulV2 {{%.*}}, {{%.*}}, [[B]]
// CHECK:         [[Y:%.*]] = ascend.AscendDequant [[A]]
// CHECK-NEXT:    func.return [[Y]]
// PLAIN-LABEL: @bias
// PLAIN:         [[A:%.*]] = ascend.BatchMatMulV2 {{%[^,]*}}, {{%[^,]*}} offset_x
// PLAIN:         [[D:%.*]] = ascend.AscendDequant [[A]]
// PLAIN-NEXT:    ascend.Add [[D]]
func.func @bias(%x: tensor<2x4xf32>) -> tensor<2x3xf32> {
  %w = nn.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0], [1.0, 2.0, 3.0]]> : tensor<4x3xf32>
  %b = nn.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %m = nn.matmul %x, %w from <onnx, "MatMul", "m"> : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  %y = nn.add %m, %b from <onnx, "Add", "a"> : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}

// -----

// Another consumer of the product.
// REMARK:      [fuse-bias missed result-used-once] "a": the result of m has 2 uses
// CHECK-LABEL: @two_consumers
// CHECK:         [[A:%.*]] = ascend.BatchMatMulV2 {{%[^,]*}}, {{%[^,]*}} offset_x
// CHECK:         [[D:%.*]] = ascend.AscendDequant [[A]]
// CHECK-NEXT:    [[Y:%.*]] = ascend.Add [[D]], %b
// CHECK-NEXT:    func.return [[Y]], [[D]]
// PLAIN-LABEL: @two_consumers
func.func @two_consumers(%x: tensor<2x4xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %w = nn.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0], [1.0, 2.0, 3.0]]> : tensor<4x3xf32>
  %b = nn.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %m = nn.matmul %x, %w from <onnx, "MatMul", "m"> : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  %y = nn.add %m, %b from <onnx, "Add", "a"> : (tensor<2x3xf32>, tensor<3xf32>) -> tensor<2x3xf32>
  func.return %y, %m : tensor<2x3xf32>, tensor<2x3xf32>
}

// -----

// One number per row is not a bias.
// REMARK:      [fuse-bias missed runs-along-channels] "a": the constant [2, 1] varies along other axes than the channels
// CHECK-LABEL: @rows
// CHECK:         [[A:%.*]] = ascend.BatchMatMulV2 {{%[^,]*}}, {{%[^,]*}} offset_x
// CHECK:         [[D:%.*]] = ascend.AscendDequant [[A]]
// CHECK-NEXT:    ascend.Add [[D]], %b
// PLAIN-LABEL: @rows
func.func @rows(%x: tensor<2x4xf32>) -> tensor<2x3xf32> {
  %w = nn.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0], [1.0, 2.0, 3.0]]> : tensor<4x3xf32>
  %b = nn.constant dense<[[1.0], [2.0]]> : tensor<2x1xf32>
  %m = nn.matmul %x, %w from <onnx, "MatMul", "m"> : (tensor<2x4xf32>, tensor<4x3xf32>) -> tensor<2x3xf32>
  %y = nn.add %m, %b from <onnx, "Add", "a"> : (tensor<2x3xf32>, tensor<2x1xf32>) -> tensor<2x3xf32>
  func.return %y : tensor<2x3xf32>
}

// -----

// A region of a convolution, a residual addition and an activation: the convolution alone computes in integers.
// CHECK-LABEL: @region
// CHECK:         [[Q:%.*]] = ascend.AscendQuant %x
// CHECK:         [[A:%.*]] = ascend.Conv2D [[Q]], {{%.*}}, {{%.*}} strides
// CHECK:         [[D:%.*]] = ascend.AscendDequant [[A]]
// CHECK-NEXT:    [[S:%.*]] = ascend.Add [[D]], %x
// CHECK-NEXT:    [[R:%.*]] = ascend.Relu [[S]]
// CHECK-NEXT:    func.return [[R]]
// PLAIN-LABEL: @region
// PLAIN:         ascend.Relu
func.func @region(%x: tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32> {
  %w = nn.constant dense<[[[[1.0]], [[2.0]]], [[[3.0]], [[4.0]]]]> : tensor<2x2x1x1xf32>
  %b = nn.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %c = nn.conv %x, %w, %b from <onnx, "Conv", "c"> : (tensor<1x2x3x3xf32>, tensor<2x2x1x1xf32>, tensor<2xf32>) -> tensor<1x2x3x3xf32>
  %s = nn.add %c, %x from <onnx, "Add", "s"> : tensor<1x2x3x3xf32>
  %r = nn.relu %s from <onnx, "Relu", "r"> : tensor<1x2x3x3xf32>
  func.return %r : tensor<1x2x3x3xf32>
}
