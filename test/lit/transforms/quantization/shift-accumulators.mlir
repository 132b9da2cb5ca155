// Shift-N: a shift for each output channel of a convolution, one for a matrix product.
// RUN: echo 'record { key: "conv1" value { scale_d: 0.5 offset_d: -3 scale_w: [0.01, 0.02] offset_w: [0, 0] shift_bit: [2, 3] } }' > %t.txt
// RUN: echo 'record { key: "conv2" value { scale_d: 0.5 offset_d: -3 scale_w: 0.02 offset_w: 0 shift_bit: [4, 5] } }' >> %t.txt
// RUN: echo 'record { key: "pool" value { scale_d: 0.5 offset_d: 0 scale_w: 1 offset_w: 0 shift_bit: 0 } }' >> %t.txt
// RUN: echo 'record { key: "plain" value { scale_d: 0.5 offset_d: 0 scale_w: 0.5 offset_w: 0 } }' >> %t.txt
// RUN: echo 'record { key: "fc" value { scale_d: 0.5 offset_d: 0 scale_w: 0.5 offset_w: 0 shift_bit: 6 } }' >> %t.txt
// RUN: amct-opt %s --insert-observers='record=%t.txt joint-quant=true' --convert-observers -o %t.mlir --remarks=missed 2>&1 | filecheck %s --check-prefix PLANNED
// RUN: amct-opt %t.mlir --shift-accumulators -o %t.shifted.mlir
// RUN: filecheck %s --input-file=%t.shifted.mlir
// RUN: amct-opt %t.mlir --shift-accumulators --remarks=all 2>&1 >/dev/null | filecheck %s --check-prefix REMARK
// RUN: amct-opt %t.shifted.mlir --convert-layout=to=nhwc | filecheck %s --check-prefix LAYOUT
// RUN: amct-opt %t.shifted.mlir --lower-to-ascend | filecheck %s --check-prefix ASCEND
// RUN: not amct-opt %t.mlir --quantize=shift=true 2>&1 | filecheck %s --check-prefix OPTION
// RUN: not amct-opt %s --insert-observers='record=%t.txt joint-quant=false' 2>&1 | filecheck %s --check-prefix RECORD
// RUN: echo 'record { key: "conv1" value { scale_d: 0.5 offset_d: -3 scale_w: 0.01 offset_w: 0 shift_bit: [1, 2, 3] } }' > %t.three.txt
// RUN: not amct-opt %s --insert-observers='record=%t.three.txt joint-quant=true' 2>&1 | filecheck %s --check-prefix THREE

// Inside a region the sums are those of its convolution; a scale for the whole weight is one for each shift.
// CHECK:       [[C:%.*]] = nn.conv
// CHECK-NEXT:  nn.shift_accumulator [[C]] of <i32, scale = [0.005, 0.01], axis = 1> by [2, 3] from <onnx, "ShiftN", "conv1.shift"> : tensor<?x2x4x4xf32>
// CHECK:       nn.fused "ConvReLU2d"
// CHECK:       [[D:%.*]] = nn.conv
// CHECK-NEXT:  [[S:%.*]] = nn.shift_accumulator [[D]] of <i32, scale = [0.01, 0.01], axis = 1> by [4, 5]
// CHECK-NEXT:  nn.relu [[S]]
// CHECK:       nn.average_pool
// CHECK-NEXT:  nn.flatten
// CHECK:       [[F:%.*]] = nn.matmul
// CHECK-NEXT:  nn.shift_accumulator [[F]] of <i32, scale = 0.25> by [6]

// PLANNED:      [insert-observers missed pool] "pool": the sums of pools are not shifted (AMCT)
// PLANNED-NEXT: [insert-observers missed record] "plain": the record does not shift it

// REMARK:      [shift-accumulators applied shifted] "conv1": its sums are shifted right by 2 to 3, from the record
// REMARK-NEXT: [shift-accumulators applied shifted] "conv2": its sums are shifted right by 4 to 5, from the record
// REMARK-NEXT: [shift-accumulators applied shifted] "fc": its sums are shifted right by 6, from the record

// LAYOUT:      nn.shift_accumulator {{.*}} of <i32, scale = [0.005, 0.01], axis = 3> by [2, 3]
// ASCEND:      ascend.AscendDequant {{.*}} shift_n [2, 3] from <onnx, "ShiftN", "conv1.shift">
// ASCEND:      ascend.AscendDequant {{.*}} shift_n [4, 5]
// ASCEND:      ascend.AscendDequant {{.*}} shift_n [6]
// OPTION:      error: shift requires joint_quant
// RECORD:      error: layer 'conv1': shift_bit requires joint_quant
// THREE:       error: layer 'conv1': shift_bit has 3 numbers, but the layer takes one or 2
func.func @main(%x: tensor<?x2x4x4xf32>) -> tensor<?x2xf32> {
  %weight = nn.constant dense<[[[[1.27]], [[-0.64]]], [[[1.28]], [[-2.56]]]]> : tensor<2x2x1x1xf32>
  %columns = nn.constant dense<0.5> : tensor<32x2xf32>
  %square = nn.constant dense<0.5> : tensor<2x2xf32>
  %1 = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<?x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<?x2x4x4xf32>
  %2 = nn.fused "ConvReLU2d" (%a = %1, %w = %weight) : (tensor<?x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<?x2x4x4xf32> {
    %c = nn.conv %a, %w from <onnx, "Conv", "conv2"> : (tensor<?x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<?x2x4x4xf32>
    %r = nn.relu %c : tensor<?x2x4x4xf32>
    nn.yield %r : tensor<?x2x4x4xf32>
  }
  %3 = nn.average_pool %2 kernel [1, 1] from <onnx, "AveragePool", "pool"> : tensor<?x2x4x4xf32>
  %4 = nn.flatten %3 : (tensor<?x2x4x4xf32>) -> tensor<?x32xf32>
  %5 = nn.matmul %4, %columns from <onnx, "Gemm", "fc"> : (tensor<?x32xf32>, tensor<32x2xf32>) -> tensor<?x2xf32>
  %6 = nn.matmul %5, %square from <onnx, "Gemm", "plain"> : (tensor<?x2xf32>, tensor<2x2xf32>) -> tensor<?x2xf32>
  func.return %6 : tensor<?x2xf32>
}
