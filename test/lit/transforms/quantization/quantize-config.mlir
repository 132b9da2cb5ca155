// AMCT's files: a configuration decides per layer, a record needs no data, and is written by -t record.
// RUN: echo 'activation_offset: false common_config { hfmg_quantize { } }' > %t.cfg
// RUN: echo 'override_layer_configs { layer_name: "conv2" calibration_config { arq_quantize { channel_wise: false } } }' >> %t.cfg
// RUN: amct-opt %s --insert-observers='config=%t.cfg' | filecheck %s --check-prefix OBSERVE
// RUN: echo 'record { key: "conv1" value { scale_d: 0.5 offset_d: -3 scale_w: [0.01, 0.02] offset_w: [0, 0] } }' > %t.txt
// RUN: amct-opt %s --quantize='record=%t.txt' --remarks=missed 2>&1 | filecheck %s --check-prefix RECORD
// RUN: amct-opt %s --quantize='record=%t.txt' -t record -o %t.again.txt 2>/dev/null && filecheck %s --check-prefix WRITTEN --input-file=%t.again.txt
// RUN: echo 'batch_number: 1' > %t.bad.cfg
// RUN: not amct-opt %s --quantize='config=%t.bad.cfg' 2>&1 | filecheck %s --check-prefix FIELD
// RUN: echo '{"conv9": {}}' > %t.bad.json
// RUN: not amct-opt %s --quantize='config=%t.bad.json' 2>&1 | filecheck %s --check-prefix LAYER
// RUN: echo 'record { key: "conv1" value { scale_d: 0 } }' > %t.bad.txt
// RUN: not amct-opt %s --quantize='record=%t.bad.txt' 2>&1 | filecheck %s --check-prefix SCALE

// OBSERVE:      nn.observe %x as "conv1:0" by "hfmg" symmetric
// OBSERVE:      nn.observe %x as "conv2:0" by "ifmr" symmetric

// RECORD:       [insert-observers missed record] "conv2": the record does not list it
// RECORD:       nn.constant dense<{{\[\[\[\[}}127]], {{\[\[}}-64]]], {{\[\[\[}}64]], {{\[\[}}-128]]]]> : tensor<2x2x1x1xi8>
// RECORD:       nn.quantize %x by <i8, scale = 0.5, zero_point = -3> given record
// RECORD:       nn.conv %x, %weight

// WRITTEN:      key: "conv1"
// WRITTEN-NEXT: value {
// WRITTEN-NEXT: scale_d: 0.5
// WRITTEN-NEXT: offset_d: -3
// WRITTEN-NEXT: scale_w: 0.00999999978
// WRITTEN-NEXT: scale_w: 0.0199999996
// WRITTEN-NEXT: offset_w: 0
// WRITTEN-NEXT: offset_w: 0
// WRITTEN-NOT:  key

// FIELD:        .bad.cfg:1: error: simplified configuration has no field 'batch_number'
// FIELD-NEXT:   hint: did you mean 'batch_num'?
// LAYER:        .bad.json: error: the configuration names 'conv9', which is not a layer or module of the model
// SCALE:        .bad.txt:1: error: layer 'conv1': scale_d must be positive and finite, not 0
func.func @main(%x: tensor<?x2x4x4xf32>) -> (tensor<?x2x4x4xf32>, tensor<?x2x4x4xf32>) {
  %weight = nn.constant dense<[[[[1.27]], [[-0.64]]], [[[1.28]], [[-2.56]]]]> : tensor<2x2x1x1xf32>
  %a = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<?x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<?x2x4x4xf32>
  %b = nn.conv %x, %weight from <onnx, "Conv", "conv2"> : (tensor<?x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<?x2x4x4xf32>
  func.return %a, %b : tensor<?x2x4x4xf32>, tensor<?x2x4x4xf32>
}
