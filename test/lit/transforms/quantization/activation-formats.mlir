// RUN: amct-opt %s --profile=qdq --insert-observers=activation-format=fp8-e4m3 --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// The input of a layer whose weight becomes floats of 8 bits becomes such floats, too.
// CHECK-LABEL: @main(%x: tensor<3x40xf32>)
// CHECK:       %[[X:.*]] = nn.observe %x as "fc:0" by "minmax" symmetric number_format "fp8-e4m3"
// CHECK:       nn.matmul %[[X]], %w from <onnx, "MatMul", "fc"> {nn.plan = #nn.plan<weight "fp8-e4m3" axis 1>}
// REMARK:      [insert-observers analysis input-format] "fc": its input becomes fp8-e4m3, observed by minmax
func.func @main(%x: tensor<3x40xf32>) -> tensor<3x2xf32> {
  %w = nn.constant dense<1.0> : tensor<40x2xf32>
  %y = nn.matmul %x, %w from <onnx, "MatMul", "fc"> : (tensor<3x40xf32>, tensor<40x2xf32>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// -----

// One that comes as integers stays as it is.
// CHECK-LABEL: @main(%q: tensor<3x40xi8>)
// CHECK:       %[[X:.*]] = nn.dequantize %q
// CHECK-NOT:   nn.observe
// CHECK:       nn.matmul %[[X]], %w
// REMARK:      [insert-observers missed weight-quantized] "fc": its input is quantized in the model, its weight is not: both stay so
func.func @main(%q: tensor<3x40xi8>) -> tensor<3x2xf32> {
  %w = nn.constant dense<1.0> : tensor<40x2xf32>
  %x = nn.dequantize %q by <i8, scale = 0.1> : (tensor<3x40xi8>) -> tensor<3x40xf32>
  %y = nn.matmul %x, %w from <onnx, "MatMul", "fc"> : (tensor<3x40xf32>, tensor<40x2xf32>) -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// -----

// So does one that is computed inside of the layer's region.
// CHECK-LABEL: @main(%r: tensor<3x40xf32>)
// CHECK-NOT:   nn.observe
// REMARK:      [insert-observers missed input-format] "fc": its input stays float: it is computed in the same region
func.func @main(%r: tensor<3x40xf32>) -> tensor<3x2xf32> {
  %w = nn.constant dense<1.0> : tensor<40x2xf32>
  %y = nn.fused "Act" (%a = %r, %b = %w) : (tensor<3x40xf32>, tensor<40x2xf32>) -> tensor<3x2xf32> {
    %s = nn.sin %a : tensor<3x40xf32>
    %p = nn.matmul %s, %b from <onnx, "MatMul", "fc"> : (tensor<3x40xf32>, tensor<40x2xf32>) -> tensor<3x2xf32>
    nn.yield %p : tensor<3x2xf32>
  }
  func.return %y : tensor<3x2xf32>
}
