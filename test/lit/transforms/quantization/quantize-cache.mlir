// RUN: amct-opt %s --quantize-cache --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// The cache holds what the product reads: past integers are real numbers again where the new ones join them. Shapes may be asked for, and
// elements may move before they are quantized.
// CHECK-LABEL: @cache
// CHECK-SAME:  %past: tensor<1x2x?x4xi8> {nn.name = "past"}
// CHECK-SAME:  -> (tensor<1x2x4x?xf32>, tensor<1x2x?x4xi8> {nn.name = "present"}, tensor<4xi64>)
// CHECK:       [[R:%.*]] = nn.dequantize %past by <i8, scale = 0.5, zero_point = 3> : (tensor<1x2x?x4xi8>) -> tensor<1x2x?x4xf32>
// CHECK-NEXT:  [[J:%.*]] = nn.concat [[R]], %new axis 2
// CHECK-NEXT:  [[Q:%.*]] = nn.quantize [[J]] by <i8, scale = 0.5, zero_point = 3> :
// CHECK-NEXT:  nn.shape [[J]]
// CHECK-NEXT:  nn.transpose [[J]]
// CHECK:       func.return {{%.*}}, [[Q]], {{%.*}} :
// REMARK:      [quantize-cache applied cache] "join": input 'past' and output 'present' are i8
func.func @cache(%past: tensor<1x2x?x4xf32> {nn.name = "past"}, %new: tensor<1x2x?x4xf32>) -> (tensor<1x2x4x?xf32>, tensor<1x2x?x4xf32> {nn.name = "present"}, tensor<4xi64>) {
  %j = nn.concat %past, %new axis 2 from <onnx, "Concat", "join"> : (tensor<1x2x?x4xf32>, tensor<1x2x?x4xf32>) -> tensor<1x2x?x4xf32>
  %s = nn.shape %j : (tensor<1x2x?x4xf32>) -> tensor<4xi64>
  %t = nn.transpose %j perm [0, 1, 3, 2] : (tensor<1x2x?x4xf32>) -> tensor<1x2x4x?xf32>
  %q = nn.quantize %t by <i8, scale = 0.5, zero_point = 3> : (tensor<1x2x4x?xf32>) -> tensor<1x2x4x?xi8>
  %r = nn.dequantize %q by <i8, scale = 0.5, zero_point = 3> : (tensor<1x2x4x?xi8>) -> tensor<1x2x4x?xf32>
  func.return %r, %j, %s : tensor<1x2x4x?xf32>, tensor<1x2x?x4xf32>, tensor<4xi64>
}

// -----

// past-joined: rounding the past would change what else reads it.
// CHECK-LABEL: @past
// CHECK-SAME:  %past: tensor<1x?x4xf32>
// REMARK:      [quantize-cache missed past-joined] "join": tail reads the past as well
func.func @past(%past: tensor<1x?x4xf32>, %new: tensor<1x?x4xf32>) -> (tensor<1x?x4xf32>, tensor<1x?x4xf32>, tensor<1x?x4xi8>) {
  %t = nn.relu %past from <onnx, "Relu", "tail"> : (tensor<1x?x4xf32>) -> tensor<1x?x4xf32>
  %j = nn.concat %past, %new axis 1 from <onnx, "Concat", "join"> : (tensor<1x?x4xf32>, tensor<1x?x4xf32>) -> tensor<1x?x4xf32>
  %q = nn.quantize %j by <i8, scale = 0.5> : (tensor<1x?x4xf32>) -> tensor<1x?x4xi8>
  func.return %t, %j, %q : tensor<1x?x4xf32>, tensor<1x?x4xf32>, tensor<1x?x4xi8>
}

// -----

// quantized-reads: a reader that takes floats, and a cache that nothing reads.
// CHECK-LABEL: @float
// CHECK-SAME:  %past: tensor<1x?x4xf32>
// REMARK:      [quantize-cache missed quantized-reads] "join": 'nn.relu' act reads its values as floats
// REMARK:      [quantize-cache missed quantized-reads] "unread": nothing quantizes its values
func.func @float(%past: tensor<1x?x4xf32>, %other: tensor<1x?x4xf32>, %new: tensor<1x?x4xf32>) -> (tensor<1x?x4xf32>, tensor<1x?x4xf32>, tensor<1x?x4xf32>) {
  %j = nn.concat %past, %new axis 1 from <onnx, "Concat", "join"> : (tensor<1x?x4xf32>, tensor<1x?x4xf32>) -> tensor<1x?x4xf32>
  %a = nn.relu %j from <onnx, "Relu", "act"> : (tensor<1x?x4xf32>) -> tensor<1x?x4xf32>
  %u = nn.concat %other, %new axis 1 from <onnx, "Concat", "unread"> : (tensor<1x?x4xf32>, tensor<1x?x4xf32>) -> tensor<1x?x4xf32>
  func.return %j, %a, %u : tensor<1x?x4xf32>, tensor<1x?x4xf32>, tensor<1x?x4xf32>
}

// -----

// same-parameters: one cache cannot hold the integers of both readers. one-scale: an axis of scales moves with the elements.
// CHECK-LABEL: @parameters
// CHECK-SAME:  %past: tensor<1x?x2xf32>
// REMARK:      [quantize-cache missed same-parameters] "join": its values are quantized in 2 ways
// REMARK:      [quantize-cache missed one-scale] "scales": its values have more than one scale
func.func @parameters(%past: tensor<1x?x2xf32>, %other: tensor<1x?x2xf32>, %new: tensor<1x?x2xf32>) -> (tensor<1x?x2xf32>, tensor<1x?x2xf32>, tensor<1x?x2xi8>, tensor<1x?x2xi8>, tensor<1x?x2xi8>) {
  %j = nn.concat %past, %new axis 1 from <onnx, "Concat", "join"> : (tensor<1x?x2xf32>, tensor<1x?x2xf32>) -> tensor<1x?x2xf32>
  %k = nn.concat %other, %new axis 1 from <onnx, "Concat", "scales"> : (tensor<1x?x2xf32>, tensor<1x?x2xf32>) -> tensor<1x?x2xf32>
  %a = nn.quantize %j by <i8, scale = 0.5> : (tensor<1x?x2xf32>) -> tensor<1x?x2xi8>
  %b = nn.quantize %j by <i8, scale = 0.25> : (tensor<1x?x2xf32>) -> tensor<1x?x2xi8>
  %c = nn.quantize %k by <i8, scale = [0.5, 0.25], axis = 2> : (tensor<1x?x2xf32>) -> tensor<1x?x2xi8>
  func.return %j, %k, %a, %b, %c : tensor<1x?x2xf32>, tensor<1x?x2xf32>, tensor<1x?x2xi8>, tensor<1x?x2xi8>, tensor<1x?x2xi8>
}

// -----

// What is not returned, is computed, or holds integers already is not a cache.
// CHECK-LABEL: @none
// CHECK-NOT:   nn.quantize
// REMARK-NOT:  [quantize-cache
// REMARK:      warning: --quantize-cache: no cache holds integers; no output is an input of floats with new values joined to it
func.func @none(%past: tensor<1x?x4xf32>, %whole: tensor<1x?x4xi8>, %new: tensor<1x?x4xf32>, %more: tensor<1x?x4xi8>) -> (tensor<1x?x4xf32>, tensor<1x?x4xi8>) {
  %j = nn.concat %past, %new axis 1 : (tensor<1x?x4xf32>, tensor<1x?x4xf32>) -> tensor<1x?x4xf32>
  %a = nn.relu %j : (tensor<1x?x4xf32>) -> tensor<1x?x4xf32>
  %k = nn.concat %whole, %more axis 1 : (tensor<1x?x4xi8>, tensor<1x?x4xi8>) -> tensor<1x?x4xi8>
  func.return %a, %k : tensor<1x?x4xf32>, tensor<1x?x4xi8>
}
