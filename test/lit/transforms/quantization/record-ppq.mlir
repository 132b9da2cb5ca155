// Records under a profile that quantizes values: what is given for a layer's input is that of the value.
// RUN: amct-opt %s --profile=ppq --quantize -t record -o %t.txt 2>/dev/null
// RUN: filecheck %s --check-prefix WRITTEN --input-file=%t.txt
// RUN: amct-opt %s --profile=ppq --quantize='record=%t.txt' --remarks=all 2>&1 | filecheck %s
// RUN: echo 'record { key: "conv1" value { scale_d: 0.5 offset_d: 3 scale_w: 1 offset_w: 0 } }' > %t.one.txt
// RUN: amct-opt %s --profile=ppq --quantize='record=%t.one.txt' --remarks=missed 2>&1 | filecheck %s --check-prefix ONE
// RUN: echo 'record { key: "conv1" value { scale_d: 0.5 offset_d: 3 scale_w: 1 offset_w: 0 } }' > %t.two.txt
// RUN: echo 'record { key: "sum:1" value { scale_d: 0.25 offset_d: 3 is_tensor_quantize: true } }' >> %t.two.txt
// RUN: echo 'record { key: "sum" value { scale_d: 0.25 offset_d: 3 scale_w: 1 offset_w: 0 } }' >> %t.two.txt
// RUN: not amct-opt %s --profile=ppq --quantize='record=%t.two.txt' 2>&1 | filecheck %s --check-prefix TWO
// RUN: echo 'record { key: "sum:2" value { scale_d: 0.25 offset_d: 3 is_tensor_quantize: true } }' > %t.none.txt
// RUN: not amct-opt %s --profile=ppq --quantize='record=%t.none.txt' 2>&1 | filecheck %s --check-prefix NONE
// RUN: echo 'record { key: "sum" value { scale_d: 0.5 offset_d: 3 scale_w: 1 offset_w: 0 } }' > %t.differ.txt
// RUN: echo 'record { key: "sum:1" value { scale_d: 0.25 offset_d: 3 is_tensor_quantize: true } }' >> %t.differ.txt
// RUN: amct-opt %s --profile=ppq --quantize='record=%t.differ.txt' --remarks=all 2>&1 | filecheck %s --check-prefix DIFFER

// The relu is one with the convolution, what comes out of the last layer has no reader.
// WRITTEN:      key: "conv1"
// WRITTEN:      key: "pool"
// WRITTEN:      key: "conv2"
// WRITTEN:      key: "sum"
// WRITTEN:      scale_w: 1
// WRITTEN:      key: "sum:1"
// WRITTEN:      is_tensor_quantize: true
// WRITTEN-NOT:  key

// CHECK-DAG:    "conv1": its result takes the point of relu
// CHECK-DAG:    "sum": its result stays float: the record has no parameters for it
// CHECK:        nn.quantize %x by {{.*}} given record group "sum"
// CHECK:        nn.quantize %r by {{.*}} given record :
// CHECK:        nn.quantize %c by {{.*}} given record group "sum"
// CHECK:        func.return %s :

// ONE:          [insert-observers missed record] "conv2": the record does not list it
// ONE:          nn.quantize %x by <i8, scale = 0.5, zero_point = 3> given record :
// ONE:          nn.conv %x.dq, %w
// ONE-NOT:      nn.quantize
// ONE:          nn.conv %p, %v from

// TWO:          .two.txt: error: layer 'sum:1': layer 'conv1' has the same input with other parameters
// TWO-NEXT:     hint: this profile has one point on each value
// NONE:         .none.txt: error: layer 'sum:2': is not an input of a quantized layer

// DIFFER:       "sum": the parameters that {{.*}} have already differ: not aligned
// DIFFER:       nn.quantize %x by <i8, scale = 0.25, zero_point = 3> given record :
// DIFFER:       nn.quantize %c by <i8, scale = 0.5, zero_point = 3> given record :
func.func @main(%x: tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32> {
  %w = nn.constant dense<1.0> : tensor<2x2x2x2xf32>
  %v = nn.constant dense<2.0> : tensor<2x2x1x1xf32>
  %a = nn.conv %x, %w pads [1, 1, 1, 1] from <onnx, "Conv", "conv1"> : (tensor<1x2x3x3xf32>, tensor<2x2x2x2xf32>) -> tensor<1x2x4x4xf32>
  %r = nn.relu %a from <onnx, "Relu", "relu"> : tensor<1x2x4x4xf32>
  %p = nn.max_pool %r kernel [2, 2] from <onnx, "MaxPool", "pool"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x3x3xf32>
  %c = nn.conv %p, %v from <onnx, "Conv", "conv2"> : (tensor<1x2x3x3xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x3x3xf32>
  %s = nn.add %c, %x from <onnx, "Add", "sum"> : tensor<1x2x3x3xf32>
  func.return %s : tensor<1x2x3x3xf32>
}
