// Weights of fewer than 8 bits: on Ascend two-dimensional convolutions have them, other layers 8 (AMCT). 3 bits are stored in 4, 6 and 7 in 8.
// RUN: amct-opt %s --quantize='weight-bits=3' 2>/dev/null | filecheck %s --check-prefix THREE
// RUN: amct-opt %s --quantize='weight-bits=4' 2>/dev/null | filecheck %s --check-prefix FOUR
// RUN: amct-opt %s --quantize='weight-bits=6' 2>/dev/null | filecheck %s --check-prefix SIX
// RUN: amct-opt %s --quantize='weight-bits=7' 2>/dev/null | filecheck %s --check-prefix SEVEN
// RUN: amct-opt %s --quantize='weight-bits=6' --remarks=all 2>&1 >/dev/null | filecheck %s --check-prefix REMARK

// Profiles other than Ascend's have them in all layers, and report what no layer has.
// RUN: amct-opt %s --profile=qdq --quantize='weight-bits=4' 2>/dev/null | filecheck %s --check-prefix QDQ
// RUN: amct-opt %s --profile=qdq --quantize='weight-asymmetric=true' --remarks=all 2>&1 >/dev/null | filecheck %s --check-prefix OFFSET

// QDQ-DAG:    nn.dequantize %w.i4 by <i4,
// QDQ-DAG:    nn.dequantize %vw.i4 by <i4,
// QDQ-DAG:    nn.dequantize %mw.i4 by <i4,
// OFFSET-DAG: "volume": not as the configuration has it: cannot have an asymmetric weight
// OFFSET-DAG: "fc": not as the configuration has it: cannot have an asymmetric weight

// Asked of one layer it is an error; of a type only where no layer of it can.
// RUN: echo 'override_layer_configs { layer_name: "fc" calibration_config { arq_quantize { quant_bits: 7 } } }' > %t.cfg
// RUN: not amct-opt %s --quantize='config=%t.cfg' 2>&1 | filecheck %s --check-prefix LAYER
// RUN: echo 'override_layer_types { layer_type: "Conv" calibration_config { arq_quantize { quant_bits: 7 } } }' > %t.type.cfg
// RUN: amct-opt %s --quantize='config=%t.type.cfg' --remarks=all 2>&1 >/dev/null | filecheck %s --check-prefix TYPE

// A layer's own bits hold in place of all other settings.
// RUN: amct-opt %s --quantize='weight-bits=6 layer-weight-bits=conv:4,fc:8' --remarks=all 2>&1 >/dev/null | filecheck %s --check-prefix OWN
// RUN: not amct-opt %s --quantize='layer-weight-bits=fc:4' 2>&1 | filecheck %s --check-prefix NOT-FC
// RUN: not amct-opt %s --quantize='layer-weight-bits=conf:4' 2>&1 | filecheck %s --check-prefix TYPO
// RUN: not amct-opt %s --quantize='layer-weight-bits=conv' 2>&1 | filecheck %s --check-prefix NO-BITS
// RUN: not amct-opt %s --quantize='layer-weight-bits=conv:2' 2>&1 | filecheck %s --check-prefix TWO
// RUN: not amct-opt %s --quantize='layer-weight-bits=conv:5' 2>&1 | filecheck %s --check-prefix FIVE

// OWN:      "volume": not as the configuration has it: cannot have a weight of 6 bits
// OWN-NOT:  "fc": not as the configuration has it
// OWN:      "conv": {{.*}}; int4 weight per channel
// OWN:      "fc": {{.*}}; int8 weight per tensor
// NOT-FC:   error: layer_weight_bits gives 'fc' 4 bits, but its weight can have 8
// TYPO:     error: layer_weight_bits names 'conf', which is not a layer or module of the model
// NO-BITS:  error: layer-weight-bits: 'conv' does not give a layer bits
// NO-BITS:  hint: write layer:bits, conv1:8
// TWO:      error: layer_weight_bits gives 'conv' 2 bits, but its weight can have 3, 4, 6, 7, 8
// FIVE:     error: layer_weight_bits must be one of 2, 3, 4, 6, 7, 8, not 5

// So do the bits of its activation, where it can have them.
// RUN: amct-opt %s --quantize='layer-bits=fc:16' 2>/dev/null | filecheck %s --check-prefix WIDE
// RUN: not amct-opt %s --quantize='layer-bits=volume:16' 2>&1 | filecheck %s --check-prefix NARROW

// WIDE:     nn.quantize %x by <i8,
// WIDE:     nn.quantize %m by <i16,
// NARROW:   error: layer_bits gives 'volume' 16 bits: it cannot have an input of 16 bits

// THREE:  %w.i4 = nn.constant dense<{{\[\[\[\[}}3]], {{.*}} : tensor<2x2x1x1xi4>
// FOUR:   %w.i4 = nn.constant dense<{{\[\[\[\[}}7]], {{\[\[}}-4]]], {{\[\[\[}}4]], {{\[\[}}-8]]]]> : tensor<2x2x1x1xi4>
// FOUR:   nn.dequantize %w.i4 by <i4, scale = [0.18142857, 0.32], axis = 0>
// FOUR:   nn.dequantize %vw.i8
// FOUR:   nn.dequantize %mw.i8
// SIX:    %w.i8 = nn.constant dense<{{\[\[\[\[}}31]], {{\[\[}}-16]]], {{\[\[\[}}16]], {{\[\[}}-32]]]]> : tensor<2x2x1x1xi8>
// SIX:    nn.dequantize %w.i8 by <i8, scale = [0.04096774, 0.08], axis = 0>
// SIX:    %mw.i8 = nn.constant dense<{{\[\[}}127, 64], [64, 32]]> : tensor<2x2xi8>
// SEVEN:  %w.i8 = nn.constant dense<{{\[\[\[\[}}63]], {{\[\[}}-32]]], {{\[\[\[}}32]], {{\[\[}}-64]]]]> : tensor<2x2x1x1xi8>

// REMARK-NOT: "conv": not as the configuration has it
// REMARK: [insert-observers analysis configuration] "volume": not as the configuration has it: cannot have a weight of 6 bits: only two-dimensional convolutions can
// REMARK: [insert-observers analysis configuration] "fc": not as the configuration has it: cannot have a weight of 6 bits: only two-dimensional convolutions can
// REMARK: "conv": {{.*}}; int6 weight per channel
// REMARK: "volume": {{.*}}; int8 weight per channel
// REMARK: "fc": {{.*}}; int8 weight per tensor

// LAYER:  .cfg: error: layer 'fc' (Gemm) cannot have a weight of 7 bits: only two-dimensional convolutions can
// TYPE:   "volume": not as the configuration has it: cannot have a weight of 7 bits
// TYPE:   "conv": {{.*}}; int7 weight per channel
func.func @main(%x: tensor<1x2x4x4xf32>, %v: tensor<1x1x4x4x4xf32>, %m: tensor<2x2xf32>) {
  %w = nn.constant dense<[[[[1.27]], [[-0.64]]], [[[1.28]], [[-2.56]]]]> : tensor<2x2x1x1xf32>
  %vw = nn.constant dense<1.0> : tensor<1x1x1x1x1xf32>
  %mw = nn.constant dense<[[1.0, 0.5], [0.5, 0.25]]> : tensor<2x2xf32>
  %0 = nn.conv %x, %w from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %1 = nn.conv %v, %vw from <onnx, "Conv", "volume"> : (tensor<1x1x4x4x4xf32>, tensor<1x1x1x1x1xf32>) -> tensor<1x1x4x4x4xf32>
  %2 = nn.matmul %m, %mw from <onnx, "Gemm", "fc"> : tensor<2x2xf32>
  func.return
}
