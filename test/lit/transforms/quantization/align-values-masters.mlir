// RUN: amct-opt %s --profile=ppq --insert-observers --split-input-file | filecheck %s
// RUN: amct-opt %s --profile=ppq --insert-observers=align-resize=input --split-input-file | filecheck %s --check-prefix INPUT
// RUN: amct-opt %s --profile=qdq --insert-observers --split-input-file | filecheck %s --check-prefix QDQ

// A group's range is that of the members that follow no other one: the operands of a Concat follow its result, the operands of an
// addition follow nothing. Profile qdq aligns nothing.
// QDQ-NOT: group
// CHECK-LABEL: @merged
// CHECK:       nn.observe %h as "h:out" by "mse" group "c" master
// CHECK:       nn.observe %a as "a:out" by "mse" group "c" :
// CHECK:       nn.observe %b as "b:out" by "mse" group "c" :
// CHECK:       nn.observe %c as "c:out" by "mse" group "c" master
func.func @merged(%x: tensor<1x2xf32>) -> tensor<1x4xf32> {
  %w = nn.constant dense<1.0> : tensor<2x4xf32>
  %v = nn.constant dense<1.0> : tensor<2x2xf32>
  %h = nn.matmul %x, %w from <onnx, "MatMul", "h"> : (tensor<1x2xf32>, tensor<2x4xf32>) -> tensor<1x4xf32>
  %a = nn.matmul %x, %v from <onnx, "MatMul", "a"> : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %b = nn.matmul %x, %v from <onnx, "MatMul", "b"> : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %c = nn.concat %a, %b axis 1 from <onnx, "Concat", "c"> : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x4xf32>
  %s = nn.add %h, %c from <onnx, "Add", "s"> : tensor<1x4xf32>
  func.return %s : tensor<1x4xf32>
}

// -----

// An operand with another reader does not follow: the result may lie after an activation, which cuts off what this reader needs.
// CHECK-LABEL: @other_reader
// CHECK:       nn.observe %a as "a:out" by "mse" group "c" master
// CHECK:       nn.observe %e as "e:out" by "mse" group "c" :
// CHECK:       nn.observe %r as "r:out" by "mse" group "c" master
func.func @other_reader(%x: tensor<1x2xf32>) -> tensor<1x4xf32> {
  %v = nn.constant dense<1.0> : tensor<2x2xf32>
  %a = nn.matmul %x, %v from <onnx, "MatMul", "a"> : (tensor<1x2xf32>, tensor<2x2xf32>) -> tensor<1x2xf32>
  %e = nn.sigmoid %a from <onnx, "Sigmoid", "e"> : tensor<1x2xf32>
  %c = nn.concat %a, %e axis 1 from <onnx, "Concat", "c"> : (tensor<1x2xf32>, tensor<1x2xf32>) -> tensor<1x4xf32>
  %r = nn.relu %c from <onnx, "Relu", "r"> : tensor<1x4xf32>
  func.return %r : tensor<1x4xf32>
}

// -----

// Nearest neighbours are elements of the operand. Between two elements lies what both have a part in: the group takes the range of both.
// CHECK-LABEL: @resized
// CHECK:       nn.observe %x as "n:0" by "mse" group "n" :
// CHECK:       nn.observe %y as "l:0" by "mse" group "l" :
// CHECK:       nn.observe %n as "n:out" by "mse" group "n" master
// CHECK:       nn.observe %r as "r:out" by "mse" group "l" :

// The result of cubic interpolation, and what a clip makes of a result, may lie outside the operand's range.
// INPUT-LABEL: @resized
// INPUT:       nn.observe %x as "n:0" by "mse" group "n" master
// INPUT:       nn.observe %y as "l:0" by "mse" group "l" :
// INPUT:       nn.observe %z as "q:0" by "mse" group "q" :
// INPUT:       nn.observe %n as "n:out" by "mse" group "n" :
// INPUT:       nn.observe %r as "r:out" by "mse" group "l" :
// INPUT:       nn.observe %q as "q:out" by "mse" group "q" :
func.func @resized(%x: tensor<1x1x2x2xf32>, %y: tensor<1x1x2x2xf32>, %z: tensor<1x1x2x2xf32>) -> (tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>) {
  %n = nn.resize %x scales [1.0, 1.0, 2.0, 2.0] from <onnx, "Resize", "n"> : (tensor<1x1x2x2xf32>) -> tensor<1x1x4x4xf32>
  %l = nn.resize %y scales [1.0, 1.0, 2.0, 2.0] mode linear from <onnx, "Resize", "l"> : (tensor<1x1x2x2xf32>) -> tensor<1x1x4x4xf32>
  %r = nn.relu %l from <onnx, "Relu", "r"> : tensor<1x1x4x4xf32>
  %q = nn.resize %z scales [1.0, 1.0, 2.0, 2.0] mode cubic from <onnx, "Resize", "q"> : (tensor<1x1x2x2xf32>) -> tensor<1x1x4x4xf32>
  func.return %n, %r, %q : tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>, tensor<1x1x4x4xf32>
}

// -----

// A region that begins with a passive operation gives values of its own.
// CHECK-LABEL: @pool_and_activation
// CHECK:       %r = nn.fused "MaxPoolReLU"
// CHECK:       nn.observe %r as "p:out"
func.func @pool_and_activation(%x: tensor<1x1x4x4xf32>) -> tensor<1x1x2x2xf32> {
  %r = nn.fused "MaxPoolReLU" (%a = %x) : (tensor<1x1x4x4xf32>) -> tensor<1x1x2x2xf32> {
    %p = nn.max_pool %a kernel [2, 2] strides [2, 2] from <onnx, "MaxPool", "p"> : (tensor<1x1x4x4xf32>) -> tensor<1x1x2x2xf32>
    %b = nn.relu %p : tensor<1x1x2x2xf32>
    nn.yield %b : tensor<1x1x2x2xf32>
  }
  func.return %r : tensor<1x1x2x2xf32>
}
