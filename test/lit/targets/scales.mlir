// Scales by layer and operand: layers in float are left out.
// RUN: amct-opt %s --quantize='observer=minmax skip-layers=fc2' -t scales -o %t.json --remarks=missed 2>&1 | filecheck %s --check-prefix REMARK
// RUN: filecheck %s --input-file=%t.json
// CHECK: {
// CHECK-NEXT: "fc1": {
// CHECK-NEXT: "lhs": {
// CHECK-NEXT: "type": "int8",
// CHECK-NEXT: "scale": {{[0-9.]+}},
// CHECK-NEXT: "zero_point": {{-?[0-9]+}}
// CHECK: "rhs": {
// CHECK-NEXT: "type": "int8",
// CHECK-NEXT: "scale": 0.031496062874794006,
// CHECK-NEXT: "zero_point": 0
// CHECK-NEXT: }
// CHECK-NOT: fc2
// REMARK: [insert-observers missed skip-layers] "fc2"

func.func @main(%x: tensor<?x2xf32> {nn.name = "x"}) -> (tensor<?x2xf32> {nn.name = "y"}) {
  %w = nn.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %v = nn.constant dense<[[4.0, 2.0], [3.0, 1.0]]> : tensor<2x2xf32>
  %0 = nn.matmul %x, %w from <onnx, "MatMul", "fc1"> : (tensor<?x2xf32>, tensor<2x2xf32>) -> tensor<?x2xf32>
  %1 = nn.matmul %0, %v from <onnx, "MatMul", "fc2"> : (tensor<?x2xf32>, tensor<2x2xf32>) -> tensor<?x2xf32>
  func.return %1 : tensor<?x2xf32>
}
