// RUN: amct-opt %s --quantize="weight-only=true skip-layers=skipped" --remarks=all 2>&1 | filecheck %s
// RUN: amct-opt %s --quantize --remarks=all 2>&1 >/dev/null | filecheck %s --check-prefix=BOTH
// RUN: amct-opt %s --profile=qdq --insert-observers --remarks=missed 2>&1 | filecheck %s --check-prefix=VALUES
// RUN: echo 'record { key: "gru" value { scale_w: 0.01 offset_w: 0 scale_r: 0.01 offset_r: 0 } }' > %t.txt
// RUN: amct-opt %s --insert-observers="record=%t.txt" --remarks=all 2>&1 | filecheck %s --check-prefix=RECORD

// W and R of a recurrent layer of ONNX are integers where only weights are quantized: a scale for each row of gates.
// CHECK: [insert-observers applied weight-only] "gru": it stays float, its weights W and R are quantized
// CHECK: [insert-observers missed weight-constant] "computed": its weight R is computed at run time
// CHECK: [insert-observers missed weight-constant] "infinite": its weight W does not hold finite floats
// CHECK: [insert-observers missed skip-layers] "skipped"
// CHECK: [convert-observers applied quantized] "gru": W int8 weight per channel, R int8 weight per channel, alone
// BOTH: [insert-observers missed initial-state] "gru": it has no initial state: the model does not take one as an input
// VALUES: [insert-observers missed weight-only] "gru": profile qdq quantizes only its weights, on request
// RECORD: [insert-observers applied weight-only] "gru"
// RECORD: [insert-observers missed record] "skipped": the record does not list it
// CHECK: %{{.*}} = nn.constant {{.*}} : tensor<1x3x2xi8>
// CHECK: nn.dequantize {{.*}}axis = 1{{.*}} : (tensor<1x3x2xi8>) -> tensor<1x3x2xf32>
// CHECK: nn.dequantize {{.*}}axis = 1{{.*}} : (tensor<1x3x1xi8>) -> tensor<1x3x1xf32>
func.func @main(%x: tensor<4x1x2xf32>, %c: tensor<1x3x1xf32>) -> (tensor<4x1x1x1xf32>, tensor<4x1x1x1xf32>, tensor<4x1x1x1xf32>, tensor<4x1x1x1xf32>) {
  %w = nn.constant dense<[[[1.0, -2.0], [0.5, 0.25], [4.0, 3.0]]]> : tensor<1x3x2xf32>
  %r = nn.constant dense<[[[1.0], [0.5], [4.0]]]> : tensor<1x3x1xf32>
  %i = nn.constant dense<0x7F800000> : tensor<1x3x2xf32>
  %0 = nn.opaque %x, %w, %r framework "onnx" op_type "GRU" version 14 attrs {hidden_size = 1 : i64} from <onnx, "GRU", "gru"> : (tensor<4x1x2xf32>, tensor<1x3x2xf32>, tensor<1x3x1xf32>) -> tensor<4x1x1x1xf32>
  %1 = nn.opaque %x, %w, %c framework "onnx" op_type "GRU" version 14 attrs {hidden_size = 1 : i64} from <onnx, "GRU", "computed"> : (tensor<4x1x2xf32>, tensor<1x3x2xf32>, tensor<1x3x1xf32>) -> tensor<4x1x1x1xf32>
  %2 = nn.opaque %x, %i, %r framework "onnx" op_type "GRU" version 14 attrs {hidden_size = 1 : i64} from <onnx, "GRU", "infinite"> : (tensor<4x1x2xf32>, tensor<1x3x2xf32>, tensor<1x3x1xf32>) -> tensor<4x1x1x1xf32>
  %3 = nn.opaque %x, %w, %r framework "onnx" op_type "GRU" version 14 attrs {hidden_size = 1 : i64} from <onnx, "GRU", "skipped"> : (tensor<4x1x2xf32>, tensor<1x3x2xf32>, tensor<1x3x1xf32>) -> tensor<4x1x1x1xf32>
  func.return %0, %1, %2, %3 : tensor<4x1x1x1xf32>, tensor<4x1x1x1xf32>, tensor<4x1x1x1xf32>, tensor<4x1x1x1xf32>
}
