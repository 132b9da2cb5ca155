// RUN: rm -rf %t && mkdir %t && amct-opt %s -o %t/net.mlir
// RUN: filecheck %s --check-prefix=FILE --input-file=%t/net.mlir
// RUN: amct-opt %t/net.mlir | filecheck %s --check-prefix=STDOUT
// RUN: xdsl-opt %t/net.mlir | filecheck %s --check-prefix=STDOUT
// RUN: amct-opt %t/net.mlir -o %t/again.mlir && cmp %t/net.safetensors %t/again.safetensors

// An array goes next to the file that is written; on stdout one that has a file keeps the reference to it, also under xdsl-opt.

// FILE: nn.constant #nn.external<"w", tensor<2xf32>>
// STDOUT: nn.constant #nn.external<"net.safetensors#w", tensor<2xf32>>
%w = nn.constant #nn.external<"w", tensor<2xf32>, "0x0000803F0000807F">
