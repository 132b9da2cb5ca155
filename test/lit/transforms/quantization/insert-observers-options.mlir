// RUN: amct-opt %s --insert-observers='skip-layers=conv2' --remarks=missed 2>&1 | filecheck %s --check-prefixes SKIP,ONE
// RUN: amct-opt %s --insert-observers='skip-layer-types=ConvTranspose' --remarks=missed 2>&1 | filecheck %s --check-prefixes TYPE,ONE
// RUN: not amct-opt %s --insert-observers='skip-layers=typo' 2>&1 | filecheck %s --check-prefix TYPO
// RUN: amct-opt %s --insert-observers='only-layers=conv1' --remarks=missed 2>&1 | filecheck %s --check-prefixes ONLY,ONE
// RUN: not amct-opt %s --insert-observers='only-layers=typo' 2>&1 | filecheck %s --check-prefix ONLYTYPO
// RUN: not amct-opt %s --insert-observers='only-layers=r' 2>&1 | filecheck %s --check-prefix ONLYRELU
// RUN: echo '{"conv1": {}, "conv2": {"quant_enable": false}}' > %t.json
// RUN: amct-opt %s --insert-observers='config=%t.json' --remarks=missed 2>&1 | filecheck %s --check-prefixes ENABLE,ONE
// RUN: not amct-opt %s --insert-observers='only-layers=conv2 config=%t.json' 2>&1 | filecheck %s --check-prefix ONLYFILE
// RUN: not amct-opt %s --insert-observers='observer=best' 2>&1 | filecheck %s --check-prefix OBSERVER
// RUN: not amct-opt %s --insert-observers --profile=mine 2>&1 | filecheck %s --check-prefix PROFILE

// TYPO:          error: skip_layers names 'typo', which is not a layer or module of the model
// TYPO-NEXT:     hint: layers that can be quantized are conv1, conv2
// OBSERVER:      error: no observer is called 'best'
// OBSERVER-NEXT: hint: observers are minmax
// PROFILE:       error: no profile is called 'mine'
// PROFILE-NEXT:  hint: profiles are ascend

// SKIP:      [insert-observers missed skip-layers] "conv2": it is on the list of skip-layers
// TYPE:      [insert-observers missed skip-layer-types] "conv2": its type is on the list of skip-layer-types
// ONLY:      [insert-observers missed only-layers] "conv2": it is not on the list of only-layers
// ENABLE:    [insert-observers missed quant-enable] "conv2": the configuration does not enable it
// ONE:       [[O:%.*]] = nn.observe %x as "conv1:0"
// ONE:       nn.conv [[O]], %weight
// ONE:       nn.conv_transpose %x, %weight
// ONLYTYPO:  error: only_layers names 'typo', which is not a layer or module of the model
// ONLYRELU:  error: only_layers names 'r', which cannot be quantized: nothing quantizes nn.relu
// ONLYFILE:  .json: error: only_layers names 'conv2', which the configuration does not enable
func.func @main(%x: tensor<?x2x4x4xf32>) -> (tensor<?x2x4x4xf32>, tensor<?x2x4x4xf32>) {
  %weight = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %a = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<?x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<?x2x4x4xf32>
  %b = nn.conv_transpose %x, %weight from <onnx, "ConvTranspose", "conv2"> : (tensor<?x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<?x2x4x4xf32>
  %r = nn.relu %b from <onnx, "Relu", "r"> : tensor<?x2x4x4xf32>
  func.return %a, %r : tensor<?x2x4x4xf32>, tensor<?x2x4x4xf32>
}
