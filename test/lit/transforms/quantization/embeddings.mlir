// RUN: amct-opt %s --profile=qdq --insert-observers="weight-only=true weight-bits=4 group-size=16 embeddings=true" --remarks=all 2>&1 | filecheck %s
// RUN: amct-opt %s --profile=qdq --insert-observers="weight-only=true weight-bits=4 group-size=16 embeddings=true" --convert-observers --remarks=all 2>&1 | filecheck %s --check-prefix INTEGERS
// RUN: amct-opt %s --profile=qdq --insert-observers="weight-only=true weight-bits=4 group-size=16" --remarks=all 2>&1 | filecheck %s --check-prefix ASKED
// RUN: echo 'record { key: "head" value { scale_w: 0.5 offset_w: 0 weight_compress_only: true } }' > %t.txt
// RUN: amct-opt %s --profile=qdq --insert-observers="record=%t.txt weight-only=true embeddings=true" --remarks=all 2>&1 | filecheck %s --check-prefix RECORD
// RUN: amct-opt %s --profile=ascend --insert-observers="weight-only=true embeddings=true" --remarks=all 2>&1 | filecheck %s --check-prefix ASCEND
// RUN: not amct-opt %s --insert-observers=embeddings=true 2>&1 | filecheck %s --check-prefix ALONE

// A table of embeddings, which is also the weight of a product: one tensor has the integers of both. Tables of other kinds stay float.
// CHECK-DAG: [insert-observers applied weight-only] "tokens": its table is quantized by itself
// CHECK-DAG: [insert-observers missed table-rows] "columns": its table is not a matrix of which it picks rows
// CHECK-DAG: [insert-observers missed table-finite] "infinite": its table holds NaN or Inf
// CHECK-DAG: [insert-observers missed table-learned] "cosines": its table holds cosines or sines of positions
// CHECK-LABEL: func.func @main
// CHECK: from <onnx, "Gather", "tokens"> {nn.plan = #nn.plan<weight i4 axis 1 block 16 search>}

// INTEGERS: [convert-observers applied quantized] "tokens": int4 weight per group of 16, alone
// INTEGERS-LABEL: func.func @main
// INTEGERS: [[TABLE:%\S+]] = nn.dequantize {{.*}} axis = 1, block = 16> : (tensor<3x16xi4>) -> tensor<3x16xf32>
// INTEGERS: nn.gather [[TABLE]], %i
// INTEGERS: nn.matmul %x, [[TABLE]] transpose_b

// ASKED: [insert-observers missed not-in-profile] "tokens": profile qdq does not quantize this operation
// RECORD: [insert-observers missed record] "tokens": records do not describe tables of embeddings
// ASCEND: [insert-observers missed picked-integers] "tokens": this target reads what is picked at run time as floats: use profile qdq
// ALONE: error: embeddings applies to weights that are quantized by themselves
// ALONE-NEXT: hint: give weight-only=true
func.func @main(%x: tensor<3x16xf32>, %i: tensor<2xi64>) {
  %t = nn.constant dense<0.5> : tensor<3x16xf32>
  %n = nn.constant dense<0x7F800000> : tensor<3x16xf32>
  %c = nn.constant dense<[[1.0], [0.5403023], [-0.41614684]]> : tensor<3x1xf32>
  %0 = nn.gather %t, %i from <onnx, "Gather", "tokens"> : (tensor<3x16xf32>, tensor<2xi64>) -> tensor<2x16xf32>
  %1 = nn.matmul %x, %t transpose_b from <onnx, "Gemm", "head"> : (tensor<3x16xf32>, tensor<3x16xf32>) -> tensor<3x3xf32>
  %2 = nn.gather %t, %i axis 1 from <onnx, "Gather", "columns"> : (tensor<3x16xf32>, tensor<2xi64>) -> tensor<3x2xf32>
  %3 = nn.gather %n, %i from <onnx, "Gather", "infinite"> : (tensor<3x16xf32>, tensor<2xi64>) -> tensor<2x16xf32>
  %4 = nn.gather %c, %i from <onnx, "Gather", "cosines"> : (tensor<3x1xf32>, tensor<2xi64>) -> tensor<2x1xf32>
  func.return
}
