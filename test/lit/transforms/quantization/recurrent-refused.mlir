// RUN: amct-opt %s --insert-observers --remarks=all 2>&1 >/dev/null | filecheck %s

// A recurrent layer that computes in integers, and one that differs from it by each condition.
// CHECK: [insert-observers applied observed] "gru": input and state observed by mse
// CHECK: [insert-observers missed recurrent-type] "rnn": no operator computes RNN in integers
// CHECK: [insert-observers missed one-direction] "reverse": its direction is reverse
// CHECK: [insert-observers missed initial-state] "constant-state": its initial state is a constant, not an input of the model
// CHECK: [insert-observers missed no-lengths] "lengths": it has the input sequence_lens
// CHECK: [insert-observers missed default-activations] "clipped": its clip is set
// CHECK: [insert-observers missed linear-before-reset] "reset-first": its linear_before_reset is 0
// CHECK: [insert-observers missed all-outputs] "one-output": its node has 1 of 2 outputs
// CHECK: [insert-observers missed bias-constant] "biased": its bias is computed at run time
func.func @main(%x: tensor<4x1x2xf32>, %h: tensor<1x1x1xf32>, %n: tensor<1xi32>, %b: tensor<1x6xf32>) -> tensor<4x1x1x1xf32> {
  %w = nn.constant dense<0.5> : tensor<1x3x2xf32>
  %r = nn.constant dense<0.5> : tensor<1x3x1xf32>
  %k = nn.constant dense<0.0> : tensor<1x1x1xf32>
  %0:2 = nn.opaque %x, %w, %r, %h framework "onnx" op_type "GRU" version 14 attrs {hidden_size = 1 : i64, linear_before_reset = 1 : i64} present [1, 1, 1, 0, 0, 1] from <onnx, "GRU", "gru"> : (tensor<4x1x2xf32>, tensor<1x3x2xf32>, tensor<1x3x1xf32>, tensor<1x1x1xf32>) -> (tensor<4x1x1x1xf32>, tensor<1x1x1xf32>)
  %1:2 = nn.opaque %x, %w, %r, %h framework "onnx" op_type "RNN" version 14 attrs {hidden_size = 1 : i64} present [1, 1, 1, 0, 0, 1] from <onnx, "RNN", "rnn"> : (tensor<4x1x2xf32>, tensor<1x3x2xf32>, tensor<1x3x1xf32>, tensor<1x1x1xf32>) -> (tensor<4x1x1x1xf32>, tensor<1x1x1xf32>)
  %2:2 = nn.opaque %x, %w, %r, %h framework "onnx" op_type "GRU" version 14 attrs {hidden_size = 1 : i64, linear_before_reset = 1 : i64, direction = "reverse"} present [1, 1, 1, 0, 0, 1] from <onnx, "GRU", "reverse"> : (tensor<4x1x2xf32>, tensor<1x3x2xf32>, tensor<1x3x1xf32>, tensor<1x1x1xf32>) -> (tensor<4x1x1x1xf32>, tensor<1x1x1xf32>)
  %3:2 = nn.opaque %x, %w, %r, %k framework "onnx" op_type "GRU" version 14 attrs {hidden_size = 1 : i64, linear_before_reset = 1 : i64} present [1, 1, 1, 0, 0, 1] from <onnx, "GRU", "constant-state"> : (tensor<4x1x2xf32>, tensor<1x3x2xf32>, tensor<1x3x1xf32>, tensor<1x1x1xf32>) -> (tensor<4x1x1x1xf32>, tensor<1x1x1xf32>)
  %4:2 = nn.opaque %x, %w, %r, %n, %h framework "onnx" op_type "GRU" version 14 attrs {hidden_size = 1 : i64, linear_before_reset = 1 : i64} present [1, 1, 1, 0, 1, 1] from <onnx, "GRU", "lengths"> : (tensor<4x1x2xf32>, tensor<1x3x2xf32>, tensor<1x3x1xf32>, tensor<1xi32>, tensor<1x1x1xf32>) -> (tensor<4x1x1x1xf32>, tensor<1x1x1xf32>)
  %5:2 = nn.opaque %x, %w, %r, %h framework "onnx" op_type "GRU" version 14 attrs {hidden_size = 1 : i64, linear_before_reset = 1 : i64, clip = 1.0 : f32} present [1, 1, 1, 0, 0, 1] from <onnx, "GRU", "clipped"> : (tensor<4x1x2xf32>, tensor<1x3x2xf32>, tensor<1x3x1xf32>, tensor<1x1x1xf32>) -> (tensor<4x1x1x1xf32>, tensor<1x1x1xf32>)
  %6:2 = nn.opaque %x, %w, %r, %h framework "onnx" op_type "GRU" version 14 attrs {hidden_size = 1 : i64} present [1, 1, 1, 0, 0, 1] from <onnx, "GRU", "reset-first"> : (tensor<4x1x2xf32>, tensor<1x3x2xf32>, tensor<1x3x1xf32>, tensor<1x1x1xf32>) -> (tensor<4x1x1x1xf32>, tensor<1x1x1xf32>)
  %7 = nn.opaque %x, %w, %r, %h framework "onnx" op_type "GRU" version 14 attrs {hidden_size = 1 : i64, linear_before_reset = 1 : i64} present [1, 1, 1, 0, 0, 1] from <onnx, "GRU", "one-output"> : (tensor<4x1x2xf32>, tensor<1x3x2xf32>, tensor<1x3x1xf32>, tensor<1x1x1xf32>) -> tensor<4x1x1x1xf32>
  %8:2 = nn.opaque %x, %w, %r, %b, %h framework "onnx" op_type "GRU" version 14 attrs {hidden_size = 1 : i64, linear_before_reset = 1 : i64} present [1, 1, 1, 1, 0, 1] from <onnx, "GRU", "biased"> : (tensor<4x1x2xf32>, tensor<1x3x2xf32>, tensor<1x3x1xf32>, tensor<1x6xf32>, tensor<1x1x1xf32>) -> (tensor<4x1x1x1xf32>, tensor<1x1x1xf32>)
  func.return %0#0 : tensor<4x1x1x1xf32>
}
