// RUN: not amct-opt %s --split-input-file 2>&1 | filecheck %s

// CHECK:      :8:3: error: 'nn.observe' op gives 'conv2:0' other parameters than 'conv1:0' ({{.*}}:6:3) of its group 'sum' has
// CHECK-NEXT: hint: members of a group share scale and zero point
func.func @observed(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %a = nn.observe %x as "conv1:0" by "minmax" gives <i8, scale = 0.5> given data group "sum" : tensor<4xf32>
  %b = nn.observe %x as "free:0" by "minmax" group "sum" : tensor<4xf32>
  %c = nn.observe %y as "conv2:0" by "minmax" gives <i8, scale = 0.25> given data group "sum" : tensor<4xf32>
  func.return
}

// -----

// CHECK:      error: 'nn.quantize' op gives 'y.q' other parameters than 'x.q'
func.func @quantized(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %x.q = nn.quantize %x by <i8, scale = 0.5> group "sum" : (tensor<4xf32>) -> tensor<4xi8>
  %y.q = nn.quantize %y by <i8, scale = 0.5, zero_point = 1> group "sum" : (tensor<4xf32>) -> tensor<4xi8>
  func.return
}

// -----

// CHECK:      error: 'nn.quantize' op gives 'y.q' other parameters than 'conv1:0'
func.func @mixed(%x: tensor<4xf32>, %y: tensor<4xf32>) {
  %a = nn.observe %x as "conv1:0" by "minmax" gives <i8, scale = 0.5> given data group "sum" : tensor<4xf32>
  %y.q = nn.quantize %y by <i8, scale = 0.25> group "sum" : (tensor<4xf32>) -> tensor<4xi8>
  func.return
}

// -----

// CHECK:      error: 'nn.dequantize' op carries other parameters than 'x.q' of group 'sum', which it reads
func.func @dequantized(%x: tensor<4xf32>) {
  %x.q = nn.quantize %x by <i8, scale = 0.5> group "sum" : (tensor<4xf32>) -> tensor<4xi8>
  %d = nn.dequantize %x.q by <i8, scale = 0.25> : (tensor<4xi8>) -> tensor<4xf32>
  func.return
}

// -----

// CHECK:      error: 'nn.observe' op joint needs a group
func.func @joint(%x: tensor<4xf32>) {
  %a = nn.observe %x as "conv1:0" by "minmax" joint : tensor<4xf32>
  func.return
}
