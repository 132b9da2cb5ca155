// In profiles for onnxruntime the products of two neighbours fit in 16 bits: 128 is the largest sum of two weights of one sign.
// RUN: amct-opt %s --profile=qdq --quantize=portable=strict --remarks=all 2>&1 | filecheck %s --check-prefix STRICT
// RUN: amct-opt %s --profile=qdq --quantize=portable=off --remarks=all 2>&1 | filecheck %s --check-prefix OFF
// RUN: amct-opt %s --profile=qdq --quantize=weight-only=true --quantize-dynamic --remarks=all 2>&1 >/dev/null | filecheck %s --check-prefix DYNAMIC
// RUN: amct-opt %s --quantize --remarks=all 2>&1 | filecheck %s --check-prefix ASCEND
// RUN: not amct-opt %s --quantize=portable=on 2>&1 | filecheck %s --check-prefix UNKNOWN
// RUN: sed 's/"MatMul", "fc">/& {nn.plan = #nn.plan<input, weight i4 portable>}/' %s > %t.mlir
// RUN: not amct-opt %t.mlir 2>&1 | filecheck %s --check-prefix BITS

// STRICT-NOT: portable]
// STRICT:     nn.constant dense<{{\[\[64, 127\], \[64, -127\], \[32, 64\], \[0, -64\]\]}}> : tensor<4x2xi8>
// STRICT:     by <i8, scale = [0.015748031, 0.007874016], axis = 1>

// OFF-DAG:    portable] "fc": sums of products of 1 of 2 output channels may pass 16 bits, which onnxruntime gets wrong on processors without VNNI or dot products
// OFF-DAG:    nn.constant dense<{{\[\[127, 127\], \[127, -127\], \[64, 64\], \[0, -64\]\]}}> : tensor<4x2xi8>

// DYNAMIC:    portable] "fc": sums of products of 1 of 2 output channels may pass 16 bits

// ASCEND-NOT: portable]
// ASCEND:     nn.constant dense<{{\[\[127, 127\], \[127, -127\], \[64, 64\], \[0, -64\]\]}}> : tensor<4x2xi8>

// UNKNOWN:    error: --quantize: portable: 'on' is not one of strict, auto, off
// BITS:       a portable weight has 8 bits, without zero points, blocks, levels or given scales

func.func @main(%x: tensor<1x4xf32>) -> tensor<1x2xf32> {
  %w = nn.constant dense<[[1.0, 1.0], [1.0, -1.0], [0.5, 0.5], [0.0, -0.5]]> : tensor<4x2xf32>
  %y = nn.matmul %x, %w from <onnx, "MatMul", "fc"> : (tensor<1x4xf32>, tensor<4x2xf32>) -> tensor<1x2xf32>
  func.return %y : tensor<1x2xf32>
}
