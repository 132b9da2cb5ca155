// RUN: amct-opt %s --insert-observers=observer=minmax 2>/dev/null | filecheck %s --check-prefix ASCEND
// RUN: amct-opt %s --profile=ppq --insert-observers=observer=minmax -o %t.mlir --remarks=missed 2>&1 | filecheck %s --check-prefix REMARK
// RUN: filecheck %s --check-prefix PPQ --input-file=%t.mlir
// RUN: amct-opt %s --profile=qdq --insert-observers=observer=minmax 2>/dev/null | filecheck %s --check-prefix QDQ

// Plans are read again; deciding once more changes nothing.
// RUN: amct-opt %t.mlir --profile=ppq --insert-observers=observer=minmax 2>/dev/null | diff %t.mlir -

// Each operand and result of each layer says how it is quantized, whether a profile has points on inputs of layers or on values.
// ASCEND: "conv1"> {nn.plan = #nn.plan<input, operand 0 i8 observer "minmax", operand 2 derived, weight i8 axis 0>}
// ASCEND: "conv2"> {nn.plan = #nn.plan<input, operand 0 i8 observer "minmax", weight i8 axis 0>}
// ASCEND: "mul1"> :
// ASCEND: "pool"> {nn.plan = #nn.plan<float "tensor-only">}
// ASCEND: "fc"> {nn.plan = #nn.plan<input, operand 0 i8 observer "minmax", weight i8>}

// PPQ: "conv1"> {nn.plan = #nn.plan<input, operand 0 value i8 observer "minmax", operand 2 derived, result shared with "relu1:out", weight i8 axis 0 portable>}
// PPQ: "relu1"> {nn.plan = #nn.plan<input, operand 0 shared with "relu1:out", result i8 observer "minmax">}
// PPQ: "conv2"> {nn.plan = #nn.plan<input, operand 0 shared with "conv1:0", result i8 observer "minmax", weight i8 axis 0 portable>}
// PPQ: "mul1"> {nn.plan = #nn.plan<input, operand 0 shared with "conv2:out", operand 1 float "constant-operand", result i8 observer "minmax">}
// PPQ: "cat"> {nn.plan = #nn.plan<input, operand 0 shared with "relu1:out", operand 1 shared with "mul1:out", result i8 observer "minmax", aligned output>}
// PPQ: "pool"> {nn.plan = #nn.plan<input, operand 0 shared with "cat:out", result shared with "cat:out">}
// PPQ: "flat"> {nn.plan = #nn.plan<input, operand 0 shared with "cat:out", result shared with "cat:out">}
// PPQ: "fc"> {nn.plan = #nn.plan<input, operand 0 shared with "cat:out", result i8 observer "minmax", weight i8 axis 1 portable>}
// PPQ: "erf"> {nn.plan = #nn.plan<float "not-in-profile">}
// REMARK: [insert-observers missed not-in-profile] "erf"

// QDQ: "conv1"> {nn.plan = #nn.plan<input, operand 0 value i8 observer "minmax", operand 2 derived, result shared with "relu1:out", weight i8 axis 0 portable>}
// QDQ: "relu1"> {nn.plan = #nn.plan<input, operand 0 shared with "relu1:out", result i8 observer "minmax">}
// QDQ: "conv2"> {nn.plan = #nn.plan<input, operand 0 shared with "conv1:0", result i8 observer "minmax", weight i8 axis 0 portable>}
// QDQ: "mul1"> {nn.plan = #nn.plan<float "between">}
// QDQ: "cat"> {nn.plan = #nn.plan<float "between">}
// QDQ: "pool"> {nn.plan = #nn.plan<float "between">}
// QDQ: "flat"> {nn.plan = #nn.plan<float "between">}
// QDQ: "fc"> {nn.plan = #nn.plan<input, operand 0 value i8 observer "minmax", weight i8 axis 1 portable>}
// QDQ: "erf"> {nn.plan = #nn.plan<float "not-in-profile">}
func.func @main(%x: tensor<1x2x4x4xf32>, %k: tensor<1x2x4x4xf32>) -> (tensor<1x4x2x2xf32>, tensor<1x3xf32>) {
  %w = nn.constant dense<0.5> : tensor<2x2x1x1xf32>
  %b = nn.constant dense<0.25> : tensor<2xf32>
  %v = nn.constant dense<0.5> : tensor<16x3xf32>
  %two = nn.constant dense<2.0> : tensor<2x1x1xf32>
  %a = nn.conv %x, %w, %b from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %r = nn.relu %a from <onnx, "Relu", "relu1"> : tensor<1x2x4x4xf32>
  %c = nn.conv %x, %w from <onnx, "Conv", "conv2"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %m = nn.mul %c, %two from <onnx, "Mul", "mul1"> : (tensor<1x2x4x4xf32>, tensor<2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %j = nn.concat %r, %m axis 1 from <onnx, "Concat", "cat"> : (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) -> tensor<1x4x4x4xf32>
  %p = nn.max_pool %j kernel [2, 2] strides [2, 2] from <onnx, "MaxPool", "pool"> : (tensor<1x4x4x4xf32>) -> tensor<1x4x2x2xf32>
  %f = nn.flatten %p axis 1 from <onnx, "Flatten", "flat"> : (tensor<1x4x2x2xf32>) -> tensor<1x16xf32>
  %y = nn.matmul %f, %v from <onnx, "Gemm", "fc"> : (tensor<1x16xf32>, tensor<16x3xf32>) -> tensor<1x3xf32>
  %z = nn.erf %y from <onnx, "Erf", "erf"> : tensor<1x3xf32>
  func.return %p, %z : tensor<1x4x2x2xf32>, tensor<1x3xf32>
}
