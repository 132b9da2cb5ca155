// One case for each condition.
// RUN: echo 'common_config { dmq_balancer { } } skip_layers: "skipped"' > %t.cfg
// RUN: echo 'override_layer_configs { layer_name: "pool" calibration_config { dmq_balancer { } } }' >> %t.cfg
// RUN: amct-opt %s --insert-observers='config=%t.cfg' --balance-channels --remarks=all 2>&1 >/dev/null | filecheck %s
// RUN: echo 'record { key: "large" value { scale_d: 0.5 offset_d: 0 scale_w: 0.01 offset_w: 0 tensor_balance_factor: [2, 4, 8] } }' > %t.txt
// RUN: not amct-opt %s --insert-observers='record=%t.txt' 2>&1 | filecheck %s --check-prefix LENGTH
// RUN: echo 'record { key: "large" value { scale_d: 0.5 offset_d: 0 scale_w: 0.01 offset_w: 0 tensor_balance_factor: [2, 4] } }' > %t.large.txt
// RUN: amct-opt %s --insert-observers='record=%t.large.txt' --balance-channels --remarks=missed 2>&1 >/dev/null | filecheck %s --check-prefix FINITE
// RUN: not amct-opt %s --insert-observers='dmq=0.9' 2>&1 | filecheck %s --check-prefix STRENGTH
// RUN: not amct-opt %s --profile=qdq --insert-observers=dmq=0.5 2>&1 | filecheck %s --check-prefix PROFILE


// CHECK:      warning: dmq_balancer of 'pool' is dropped: it has no weight
// CHECK:      [insert-observers missed weight] "pool": its channels are not balanced: it has no weight
// CHECK:      [insert-observers missed skip-layers] "skipped": it is on the list of skip-layers
// CHECK:      [insert-observers missed weight-constant] "computed": its weight is computed at run time
// CHECK:      [insert-observers missed weight-constant] "infinite": its weight holds NaN or Inf
// CHECK:      [insert-observers missed observed] "observed": its channels are not balanced: its input is observed already
// CHECK:      [insert-observers missed own-operands] "residual": its channels are not balanced: another operation of its region reads the same operand
// CHECK:      [insert-observers missed own-operands] "twice": its channels are not balanced: another operation of its region reads the same operand
// CHECK:      [insert-observers missed input-computed] "inner": its input is computed inside the fused region
// CHECK:      [balance-channels applied balanced] "large"

// LENGTH:     .txt: error: layer 'large': tensor_balance_factor has 3 numbers, but it has 2 input channels
// FINITE:     [insert-observers missed record] "pool": the record does not list it
// FINITE:     [balance-channels missed finite] "large": its factors, or its weight times these, leave the range of their type
// STRENGTH:   error: migration_strength must lie in [0.2, 0.8], not 0.9
// PROFILE:    error: profile qdq does not support dmq_balancer: inputs are quantized where they are made, before balancing
func.func @main(%x: tensor<1x2x2x2xf32>, %v: tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32> {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %inf = nn.constant dense<0x7F800000> : tensor<2x2x1x1xf32>
  %large = nn.constant dense<3.0e+38> : tensor<2x2x1x1xf32>
  %a = nn.conv %x, %large from <onnx, "Conv", "large"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %b = nn.average_pool %x kernel [1, 1] from <onnx, "AveragePool", "pool"> : tensor<1x2x2x2xf32>
  %c = nn.average_pool %x kernel [1, 1] from <onnx, "AveragePool", "pool2"> : tensor<1x2x2x2xf32>
  %d = nn.conv %x, %w from <onnx, "Conv", "skipped"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %e = nn.conv %x, %v from <onnx, "Conv", "computed"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %f = nn.conv %x, %inf from <onnx, "Conv", "infinite"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %o = nn.observe %x as "observed:0" by "minmax" : tensor<1x2x2x2xf32>
  %g = nn.conv %o, %w from <onnx, "Conv", "observed"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
  %i = nn.fused "ConvAdd2d" (%p = %x, %q = %w) : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32> {
    %r = nn.conv %p, %q from <onnx, "Conv", "residual"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
    %s = nn.add %r, %p : tensor<1x2x2x2xf32>
    nn.yield %s : tensor<1x2x2x2xf32>
  }
  %j = nn.fused "ConvConv2d" (%p = %x, %q = %w) : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32> {
    %r = nn.conv %p, %q from <onnx, "Conv", "twice"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
    %s = nn.conv %r, %q from <onnx, "Conv", "inner"> : (tensor<1x2x2x2xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x2x2xf32>
    nn.yield %s : tensor<1x2x2x2xf32>
  }
  func.return %x : tensor<1x2x2x2xf32>
}
