// RUN: amct-opt %s --split-input-file --fuse-mul --remarks=all --print-debuginfo 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks
// RUN: xdsl-opt %s --split-input-file -p standard-to-nn,fuse-mul 2>/dev/null | filecheck %s --check-prefix FOREIGN

// Weights and factors of other dialects are folded, also those that are written out in full.
// CHECK-LABEL: @constants
// CHECK:       nn.constant dense<4.000000e+00> : tensor<2x1x1x1xf32>
// CHECK-NEXT:  nn.conv
// CHECK-NEXT:  func.return
// FOREIGN-LABEL: @constants
// FOREIGN-NOT:   nn.mul
// REMARK:      [standard-to-nn applied counterpart] "w": is 'nn.constant'
// REMARK:      [standard-to-nn applied counterpart] "m": is 'nn.mul'
// REMARK:      [fuse-mul applied compute-mul] "m"
func.func @constants(%x: tensor<1x1x2x2xf32>) -> tensor<1x2x2x2xf32> {
  %w = arith.constant dense<0.5> : tensor<2x1x1x1xf32>
  %two = arith.constant dense<2.0> : tensor<f32>
  %four = arith.constant dense<4.0> : tensor<1x2x2x2xf32>
  %c = nn.conv %x, %w : (tensor<1x1x2x2xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x2x2xf32>
  %m = arith.mulf %c, %four : tensor<1x2x2x2xf32>
  %y = nn.mul %m, %two : (tensor<1x2x2x2xf32>, tensor<f32>) -> tensor<1x2x2x2xf32>
  func.return %y : tensor<1x2x2x2xf32>
}

// -----

// Calls are inlined, one into the other; the layers of later copies get names of their own. A private function goes.
// CHECK-NOT:   @twice
// CHECK-LABEL: @calls
// CHECK:       nn.relu %x from <onnx, "Relu", "act"> : tensor<2xf32> loc({{.*}}:36:3)
// CHECK-NEXT:  nn.relu %{{.*}} from <onnx, "Relu", "act.2">
// CHECK-NEXT:  func.return
// REMARK:      [standard-to-nn applied inline] "b": is a copy of @twice
// REMARK:      [standard-to-nn missed inline] "f": @outside has no body in this module
func.func private @twice(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = nn.relu %x from <onnx, "Relu", "act"> : tensor<2xf32>
  func.return %y : tensor<2xf32>
}
func.func @calls(%x: tensor<2xf32>) -> tensor<2xf32> {
  %a = func.call @twice(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %b = func.call @twice(%a) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %b : tensor<2xf32>
}
func.func private @outside(tensor<2xf32>) -> tensor<2xf32>
func.func private @other(%x: tensor<2xf32>) -> tensor<2xf32> {
  %f = func.call @outside(%x) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %f : tensor<2xf32>
}

// -----

// A function that calls itself stays.
// CHECK-LABEL: @self
// CHECK:       func.call @self
// REMARK:      [standard-to-nn missed inline] "y": @self calls itself
func.func @self(%x: tensor<2xf32>) -> tensor<2xf32> {
  %r = nn.relu %x : tensor<2xf32>
  %y = func.call @self(%r) : (tensor<2xf32>) -> tensor<2xf32>
  func.return %y : tensor<2xf32>
}

// -----

// Shapes and arithmetic.
// CHECK-LABEL: @tensors
// CHECK-NEXT:  %a = nn.reshape %x to [0, 2, 4]
// CHECK-NEXT:  %b = nn.reshape %a to [-1, 8]
// CHECK-NEXT:  %c = nn.reshape %b to [-1, 2, 2, 2]
// CHECK-NEXT:  %d = nn.slice %c starts [0, 1, 0, 0] ends [1, 2, 2, 2] steps [1, 1, 1, 1]
// CHECK-NEXT:  %e = nn.concat %d, %d axis 1
// CHECK-NEXT:  %f = nn.max %e, %e
// CHECK-NEXT:  %g = nn.exp %f
// CHECK-NEXT:  %h = nn.cast %g : (tensor<1x2x2x2xf32>) -> tensor<1x2x2x2xf16>
// CHECK-NEXT:  %i = nn.reshape %h to [4, 2]
func.func @tensors(%x: tensor<?x2x?xf32>) -> tensor<4x2xf16> {
  %a = tensor.cast %x : tensor<?x2x?xf32> to tensor<?x2x4xf32>
  %b = tensor.collapse_shape %a [[0], [1, 2]] : tensor<?x2x4xf32> into tensor<?x8xf32>
  %n = arith.constant 1 : index
  %c = tensor.expand_shape %b [[0], [1, 2, 3]] output_shape [%n, 2, 2, 2] : tensor<?x8xf32> into tensor<?x2x2x2xf32>
  %d = tensor.extract_slice %c[0, 1, 0, 0] [1, 1, 2, 2] [1, 1, 1, 1] : tensor<?x2x2x2xf32> to tensor<1x1x2x2xf32>
  %e = tensor.concat dim(1) %d, %d : (tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>) -> tensor<1x2x2x2xf32>
  %f = arith.maximumf %e, %e : tensor<1x2x2x2xf32>
  %g = math.exp %f : tensor<1x2x2x2xf32>
  %h = arith.truncf %g : tensor<1x2x2x2xf32> to tensor<1x2x2x2xf16>
  %shape = arith.constant dense<[4, 2]> : tensor<2xi64>
  %i = tensor.reshape %h(%shape) : (tensor<1x2x2x2xf16>, tensor<2xi64>) -> tensor<4x2xf16>
  %r = nn.relu %i : tensor<4x2xf16>
  func.return %r : tensor<4x2xf16>
}

// -----

// What has no counterpart stays, with its place: arith counts with truth values, nn combines them.
// CHECK-LABEL: @left
// CHECK:       arith.addi
// CHECK:       tensor.empty
// REMARK:      standard-to-nn.mlir:{{.*}}: remark: [standard-to-nn missed counterpart] "b": 'arith.addi' has no counterpart in nn for tensor<2xi1>
// REMARK:      standard-to-nn.mlir:{{.*}}: remark: [standard-to-nn missed counterpart] "e": 'tensor.empty' has no counterpart in nn for tensor<2xf32>
func.func @left(%x: tensor<2xf32>, %a: tensor<2xi1>) -> (tensor<2xi1>, tensor<2xf32>) {
  %b = arith.addi %a, %a : tensor<2xi1>
  %e = tensor.empty() : tensor<2xf32>
  %r = nn.add %x, %e : tensor<2xf32>
  func.return %b, %r : tensor<2xi1>, tensor<2xf32>
}

// -----

// A module without nn is not touched.
// CHECK-LABEL: @foreign
// CHECK:       arith.addf
// REMARK-NOT:  "foreign"
func.func @foreign(%x: tensor<2xf32>) -> tensor<2xf32> {
  %foreign = arith.addf %x, %x : tensor<2xf32>
  func.return %foreign : tensor<2xf32>
}
