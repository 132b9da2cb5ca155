// RUN: amct-opt %s --quantize-dynamic --profile qdq --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks
// RUN: amct-opt %s --quantize-dynamic --split-input-file --remarks=all 2>%t.points | filecheck %s --check-prefix POINTS
// RUN: filecheck %s --check-prefix HALF < %t.points

// Each row has the scale of its largest number. Layers that read the same value share its integers; weights are [K, N], a bias is added at
// the end. For Ascend the product stands between points, which --lower-to-ascend takes like others, and rows are scaled after it.
// POINTS-LABEL: @rows
// POINTS:       [[S:%.*]] = nn.div
// POINTS-NEXT:  [[D:%.*]] = nn.div %x, [[S]]
// POINTS-NEXT:  [[Q:%.*]] = nn.quantize [[D]] by <i8, scale = 1.0>
// POINTS-NEXT:  [[R:%.*]] = nn.dequantize [[Q]] by <i8, scale = 1.0>
// POINTS:       [[P:%.*]] = nn.matmul [[R]], %w transpose_b from <onnx, "Gemm", "fc">
// POINTS-NEXT:  [[Y:%.*]] = nn.mul [[P]], [[S]]
// POINTS-NEXT:  nn.add [[Y]], %b from <onnx, "Gemm", "fc">
// POINTS:       nn.matmul [[R]], %v
// CHECK-LABEL: @rows
// CHECK:       [[A:%.*]] = nn.abs %x
// CHECK-NEXT:  [[M:%.*]] = nn.reduce_max [[A]] axes [-1] keepdims
// CHECK-NEXT:  [[L:%.*]] = nn.constant dense<1.49287783e-36>
// CHECK-NEXT:  [[N:%.*]] = nn.max [[M]], [[L]]
// CHECK-NEXT:  [[C:%.*]] = nn.constant dense<1.270000e+02>
// CHECK-NEXT:  [[S:%.*]] = nn.div [[N]], [[C]]
// CHECK-NEXT:  [[D:%.*]] = nn.div %x, [[S]]
// CHECK-NEXT:  [[R:%.*]] = nn.round [[D]]
// CHECK-NEXT:  [[Z:%.*]] = nn.constant dense<1.280000e+02>
// CHECK-NEXT:  [[P:%.*]] = nn.add [[R]], [[Z]]
// CHECK-NEXT:  [[Q:%.*]] = nn.cast [[P]] : (tensor<1x?x4xf32>) -> tensor<1x?x4xui8>
// CHECK:       [[I:%.*]] = nn.matmul_integer [[Q]], {{%.*}} lhs_zero_point 128
// CHECK-NEXT:  [[F:%.*]] = nn.cast [[I]] : (tensor<1x?x2xi32>) -> tensor<1x?x2xf32>
// CHECK-NEXT:  [[SS:%.*]] = nn.mul [[S]], {{%.*}} : (tensor<1x?x1xf32>, tensor<2xf32>) -> tensor<1x?x2xf32>
// CHECK-NEXT:  [[Y:%.*]] = nn.mul [[F]], [[SS]]
// CHECK-NEXT:  nn.add [[Y]], %b from <onnx, "Gemm", "fc">
// CHECK:       nn.matmul_integer [[Q]]
// REMARK:      [quantize-dynamic applied dynamic] "fc": a scale for each row of its input, in each run
// REMARK:      [quantize-dynamic applied dynamic] "other": a scale for each row of its input, in each run
func.func @rows(%x: tensor<1x?x4xf32>, %b: tensor<2xf32>) -> (tensor<1x?x2xf32>, tensor<1x?x2xf32>) {
  %q = nn.constant dense<[[1, 2, 3, 4], [5, 6, 7, 8]]> : tensor<2x4xi8>
  %w = nn.dequantize %q by <i8, scale = [0.5, 0.25], axis = 0> : (tensor<2x4xi8>) -> tensor<2x4xf32>
  %y = nn.matmul %x, %w, %b transpose_b from <onnx, "Gemm", "fc"> : (tensor<1x?x4xf32>, tensor<2x4xf32>, tensor<2xf32>) -> tensor<1x?x2xf32>
  %r = nn.constant dense<[[1, 2], [3, 4], [5, 6], [7, 8]]> : tensor<4x2xi8>
  %v = nn.dequantize %r by <i8, scale = 0.5> : (tensor<4x2xi8>) -> tensor<4x2xf32>
  %z = nn.matmul %x, %v from <onnx, "MatMul", "other"> : (tensor<1x?x4xf32>, tensor<4x2xf32>) -> tensor<1x?x2xf32>
  func.return %y, %z : tensor<1x?x2xf32>, tensor<1x?x2xf32>
}

// -----

// input-float: what is quantized already stays. Ascend has points of float16 as well.
// HALF:        [quantize-dynamic applied dynamic] "half"
// HALF-NEXT:   [quantize-dynamic missed input-float] "static"
// CHECK-LABEL: @input
// CHECK-NOT:   nn.matmul_integer
// REMARK:      [quantize-dynamic missed input-float] "half": its input is of f16
// REMARK:      [quantize-dynamic missed input-float] "static": its input is quantized already
func.func @input(%x: tensor<3x2xi8>, %h: tensor<3x2xf16>) -> (tensor<3x2xf16>, tensor<3x2xf32>) {
  %q = nn.constant dense<[[1, 2], [5, 6]]> : tensor<2x2xi8>
  %v = nn.dequantize %q by <i8, scale = 0.5> : (tensor<2x2xi8>) -> tensor<2x2xf16>
  %w = nn.dequantize %q by <i8, scale = 0.5> : (tensor<2x2xi8>) -> tensor<2x2xf32>
  %z = nn.matmul %h, %v from <onnx, "MatMul", "half"> : (tensor<3x2xf16>, tensor<2x2xf16>) -> tensor<3x2xf16>
  %r = nn.dequantize %x by <i8, scale = 0.1> : (tensor<3x2xi8>) -> tensor<3x2xf32>
  %y = nn.matmul %r, %w from <onnx, "MatMul", "static"> : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  func.return %z, %y : tensor<3x2xf16>, tensor<3x2xf32>
}

// -----

// rows: a scale for each column would not leave the sum.
// CHECK-LABEL: @vector
// CHECK-NOT:   nn.matmul_integer
// REMARK:      [quantize-dynamic missed rows] "turned": its input is transposed
// REMARK:      [quantize-dynamic missed rows] "vector": its input is a vector
func.func @vector(%x: tensor<2x3xf32>, %u: tensor<2xf32>) -> (tensor<3x2xf32>, tensor<2xf32>) {
  %q = nn.constant dense<[[1, 2], [5, 6]]> : tensor<2x2xi8>
  %w = nn.dequantize %q by <i8, scale = 0.5> : (tensor<2x2xi8>) -> tensor<2x2xf32>
  %y = nn.matmul %x, %w transpose_a from <onnx, "Gemm", "turned"> : (tensor<2x3xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %z = nn.matmul %u, %w from <onnx, "MatMul", "vector"> : (tensor<2xf32>, tensor<2x2xf32>) -> tensor<2xf32>
  func.return %y, %z : tensor<3x2xf32>, tensor<2xf32>
}

// -----

// int8-matrix: other integers, zero points, groups, scales of what is summed over.
// CHECK-LABEL: @weight
// CHECK-NOT:   nn.matmul_integer
// REMARK:      [quantize-dynamic missed int8-matrix] "narrow": its weight is of i4
// REMARK:      [quantize-dynamic missed int8-matrix] "points": its weight has zero points
// REMARK:      [quantize-dynamic missed int8-matrix] "inputs": its weight has scales for input channels
// REMARK:      [quantize-dynamic missed int8-matrix] "batch": its weight is of rank 3
// REMARK:      warning: --quantize-dynamic: no input is quantized; 'narrow' because its weight is of i4
func.func @weight(%x: tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<1x3x2xf32>) {
  %n = nn.constant dense<[[1, 2], [5, 6]]> : tensor<2x2xi4>
  %q = nn.constant dense<[[1, 2], [5, 6]]> : tensor<2x2xi8>
  %c = nn.constant dense<[[[1, 2], [5, 6]]]> : tensor<1x2x2xi8>
  %u = nn.dequantize %n by <i4, scale = 0.5> : (tensor<2x2xi4>) -> tensor<2x2xf32>
  %v = nn.dequantize %q by <i8, scale = 0.5, zero_point = 3> : (tensor<2x2xi8>) -> tensor<2x2xf32>
  %w = nn.dequantize %q by <i8, scale = [0.5, 0.25], axis = 0> : (tensor<2x2xi8>) -> tensor<2x2xf32>
  %t = nn.dequantize %c by <i8, scale = 0.5> : (tensor<1x2x2xi8>) -> tensor<1x2x2xf32>
  %a = nn.matmul %x, %u from <onnx, "MatMul", "narrow"> : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %b = nn.matmul %x, %v from <onnx, "MatMul", "points"> : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %d = nn.matmul %x, %w from <onnx, "MatMul", "inputs"> : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %e = nn.matmul %x, %t from <onnx, "MatMul", "batch"> : (tensor<3x2xf32>, tensor<1x2x2xf32>) -> tensor<1x3x2xf32>
  func.return %a, %b, %d, %e : tensor<3x2xf32>, tensor<3x2xf32>, tensor<3x2xf32>, tensor<1x3x2xf32>
}

// -----

// A product in a region of its activation.
// CHECK-LABEL: @region
// CHECK-NOT:   nn.fused
// CHECK:       nn.matmul_integer
// CHECK:       nn.add {{%.*}}, %b from <onnx, "Gemm", "fc">
// CHECK-NEXT:  nn.relu
// REMARK:      [quantize-dynamic applied dynamic] "fc": a scale for each row of its input, in each run
func.func @region(%x: tensor<3x2xf32>, %b: tensor<2xf32>) -> tensor<3x2xf32> {
  %q = nn.constant dense<[[1, 2], [5, 6]]> : tensor<2x2xi8>
  %w = nn.dequantize %q by <i8, scale = 0.5> : (tensor<2x2xi8>) -> tensor<2x2xf32>
  %y = nn.fused "LinearReLU" (%x_1 = %x, %w_1 = %w, %b_1 = %b) : (tensor<3x2xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<3x2xf32> {
    %fc = nn.matmul %x_1, %w_1, %b_1 from <onnx, "Gemm", "fc"> : (tensor<3x2xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
    %r = nn.relu %fc : tensor<3x2xf32>
    nn.yield %r : tensor<3x2xf32>
  }
  func.return %y : tensor<3x2xf32>
}
