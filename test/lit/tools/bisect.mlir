// RUN: printf '\223NUMPY\001\000\074\000{"descr": "<f4", "fortran_order": False, "shape": (2, 2), }\n' > %t.npy
// RUN: printf '\000\000\200?\000\000\000@\000\000\200?\000\000\000@' >> %t.npy
// RUN: sed 's/dense<0.25>/dense<0.5>/' %s > %t.mlir
// RUN: not amct bisect %s %t.mlir --inputs %t.npy 2>%t.err | filecheck %s
// RUN: filecheck %s --check-prefix=ERROR < %t.err
// RUN: amct bisect %s %s --inputs %t.npy | filecheck %s --check-prefix=SAME
// RUN: amct-opt %s -t onnx -o %t.onnx
// RUN: not amct bisect %s %t.onnx --inputs %t.npy --b-outputs first 2>&1 | filecheck %s --check-prefix=OTHER
// RUN: amct bisect %t.onnx %t.onnx --inputs %t.npy --outputs z --b-outputs z | filecheck %s --check-prefix=CUT

// The first layer that differs by more than rounding is named; layers after it are compared on the values of A. How models are
// read is said for A and B apart.

// CHECK: first {{.*}} equal
// CHECK: second {{.*}} parts
// CHECK: third {{.*}} equal
// ERROR: error: the models part here: layer 'second' (nn.matmul) is 1.5 at [0, 0] instead of 0.75
// SAME: the models compute the same
// OTHER: error: has no value 'first'
// CUT: second
// CUT-NOT: third
// CUT: the models compute the same

func.func @main(%x: tensor<2x2xf32> {nn.name = "x"}) -> tensor<2x3xf32> {
  %w = nn.constant dense<0.25> : tensor<2x3xf32>
  %y = nn.relu %x from <onnx, "Relu", "first"> : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %z = nn.matmul %y, %w from <onnx, "MatMul", "second"> : (tensor<2x2xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  %u = nn.sigmoid %z from <onnx, "Sigmoid", "third"> : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %u : tensor<2x3xf32>
}
