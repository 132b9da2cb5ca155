// GRU of ONNX in integers, and each condition of it. Layers that are refused stay in `nn`.
// RUN: CONSTANTS | amct-opt - --lower-to-ascend --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// CONSTANT: %w = nn.constant dense<2> : tensor<1x3x2xi8>
// CONSTANT: %r = nn.constant dense<3> : tensor<1x3x1xi8>

// All conditions hold.
// CHECK-LABEL: @taken
// CHECK:         ascend.BasicGRUInplaceFillWindowCache
// REMARK:      [lower-to-ascend applied lower] "y": computed by ascend.BasicGRUInplaceFillWindowCache
func.func @taken(%x: tensor<4x1x2xf32>, %h: tensor<1x1x1xf32>, %b: tensor<1x6xf32>, %n: tensor<1xi32>) -> (tensor<4x1x1x1xf32>, tensor<1x1x1xf32>) {
  %wd = nn.dequantize %w by <i8, scale = 0.25> : (tensor<1x3x2xi8>) -> tensor<1x3x2xf32>
  %rd = nn.dequantize %r by <i8, scale = 0.25> : (tensor<1x3x1xi8>) -> tensor<1x3x1xf32>
  %xq = nn.quantize %x by <i8, scale = 0.5> : (tensor<4x1x2xf32>) -> tensor<4x1x2xi8>
  %xd = nn.dequantize %xq by <i8, scale = 0.5> : (tensor<4x1x2xi8>) -> tensor<4x1x2xf32>
  %hq = nn.quantize %h by <i8, scale = 0.25> : (tensor<1x1x1xf32>) -> tensor<1x1x1xi8>
  %hd = nn.dequantize %hq by <i8, scale = 0.25> : (tensor<1x1x1xi8>) -> tensor<1x1x1xf32>
  %y, %s = nn.opaque %xd, %wd, %rd, %hd framework "onnx" op_type "GRU" version 14 present [1, 1, 1, 0, 0, 1] attrs {hidden_size = 1 : i64, linear_before_reset = 1 : i64} from <onnx, "GRU", "y"> : (tensor<4x1x2xf32>, tensor<1x3x2xf32>, tensor<1x3x1xf32>, tensor<1x1x1xf32>) -> (tensor<4x1x1x1xf32>, tensor<1x1x1xf32>)
  func.return %y, %s : tensor<4x1x1x1xf32>, tensor<1x1x1xf32>
}

// -----

// A float bias.
// CHECK-LABEL: @bias
// CHECK:         nn.opaque
// REMARK:      [lower-to-ascend missed int32-bias] "y": its bias is not quantized
func.func @bias(%x: tensor<4x1x2xf32>, %h: tensor<1x1x1xf32>, %b: tensor<1x6xf32>, %n: tensor<1xi32>) -> (tensor<4x1x1x1xf32>, tensor<1x1x1xf32>) {
  %wd = nn.dequantize %w by <i8, scale = 0.25> : (tensor<1x3x2xi8>) -> tensor<1x3x2xf32>
  %rd = nn.dequantize %r by <i8, scale = 0.25> : (tensor<1x3x1xi8>) -> tensor<1x3x1xf32>
  %xq = nn.quantize %x by <i8, scale = 0.5> : (tensor<4x1x2xf32>) -> tensor<4x1x2xi8>
  %xd = nn.dequantize %xq by <i8, scale = 0.5> : (tensor<4x1x2xi8>) -> tensor<4x1x2xf32>
  %hq = nn.quantize %h by <i8, scale = 0.25> : (tensor<1x1x1xf32>) -> tensor<1x1x1xi8>
  %hd = nn.dequantize %hq by <i8, scale = 0.25> : (tensor<1x1x1xi8>) -> tensor<1x1x1xf32>
  %y, %s = nn.opaque %xd, %wd, %rd, %b, %hd framework "onnx" op_type "GRU" version 14 present [1, 1, 1, 1, 0, 1] attrs {hidden_size = 1 : i64, linear_before_reset = 1 : i64} from <onnx, "GRU", "y"> : (tensor<4x1x2xf32>, tensor<1x3x2xf32>, tensor<1x3x1xf32>, tensor<1x6xf32>, tensor<1x1x1xf32>) -> (tensor<4x1x1x1xf32>, tensor<1x1x1xf32>)
  func.return %y, %s : tensor<4x1x1x1xf32>, tensor<1x1x1xf32>
}

// -----

// The other direction.
// CHECK-LABEL: @direction
// CHECK:         nn.opaque
// REMARK:      [lower-to-ascend missed one-direction] "y": its direction is reverse
func.func @direction(%x: tensor<4x1x2xf32>, %h: tensor<1x1x1xf32>, %b: tensor<1x6xf32>, %n: tensor<1xi32>) -> (tensor<4x1x1x1xf32>, tensor<1x1x1xf32>) {
  %wd = nn.dequantize %w by <i8, scale = 0.25> : (tensor<1x3x2xi8>) -> tensor<1x3x2xf32>
  %rd = nn.dequantize %r by <i8, scale = 0.25> : (tensor<1x3x1xi8>) -> tensor<1x3x1xf32>
  %xq = nn.quantize %x by <i8, scale = 0.5> : (tensor<4x1x2xf32>) -> tensor<4x1x2xi8>
  %xd = nn.dequantize %xq by <i8, scale = 0.5> : (tensor<4x1x2xi8>) -> tensor<4x1x2xf32>
  %hq = nn.quantize %h by <i8, scale = 0.25> : (tensor<1x1x1xf32>) -> tensor<1x1x1xi8>
  %hd = nn.dequantize %hq by <i8, scale = 0.25> : (tensor<1x1x1xi8>) -> tensor<1x1x1xf32>
  %y, %s = nn.opaque %xd, %wd, %rd, %hd framework "onnx" op_type "GRU" version 14 present [1, 1, 1, 0, 0, 1] attrs {hidden_size = 1 : i64, linear_before_reset = 1 : i64, direction = "reverse"} from <onnx, "GRU", "y"> : (tensor<4x1x2xf32>, tensor<1x3x2xf32>, tensor<1x3x1xf32>, tensor<1x1x1xf32>) -> (tensor<4x1x1x1xf32>, tensor<1x1x1xf32>)
  func.return %y, %s : tensor<4x1x1x1xf32>, tensor<1x1x1xf32>
}

// -----

// Sequences of several lengths.
// CHECK-LABEL: @lengths
// CHECK:         nn.opaque
// REMARK:      [lower-to-ascend missed no-lengths] "y": it has the input sequence_lens
func.func @lengths(%x: tensor<4x1x2xf32>, %h: tensor<1x1x1xf32>, %b: tensor<1x6xf32>, %n: tensor<1xi32>) -> (tensor<4x1x1x1xf32>, tensor<1x1x1xf32>) {
  %wd = nn.dequantize %w by <i8, scale = 0.25> : (tensor<1x3x2xi8>) -> tensor<1x3x2xf32>
  %rd = nn.dequantize %r by <i8, scale = 0.25> : (tensor<1x3x1xi8>) -> tensor<1x3x1xf32>
  %xq = nn.quantize %x by <i8, scale = 0.5> : (tensor<4x1x2xf32>) -> tensor<4x1x2xi8>
  %xd = nn.dequantize %xq by <i8, scale = 0.5> : (tensor<4x1x2xi8>) -> tensor<4x1x2xf32>
  %hq = nn.quantize %h by <i8, scale = 0.25> : (tensor<1x1x1xf32>) -> tensor<1x1x1xi8>
  %hd = nn.dequantize %hq by <i8, scale = 0.25> : (tensor<1x1x1xi8>) -> tensor<1x1x1xf32>
  %y, %s = nn.opaque %xd, %wd, %rd, %n, %hd framework "onnx" op_type "GRU" version 14 present [1, 1, 1, 0, 1, 1] attrs {hidden_size = 1 : i64, linear_before_reset = 1 : i64} from <onnx, "GRU", "y"> : (tensor<4x1x2xf32>, tensor<1x3x2xf32>, tensor<1x3x1xf32>, tensor<1xi32>, tensor<1x1x1xf32>) -> (tensor<4x1x1x1xf32>, tensor<1x1x1xf32>)
  func.return %y, %s : tensor<4x1x1x1xf32>, tensor<1x1x1xf32>
}

// -----

// A clip.
// CHECK-LABEL: @activations
// CHECK:         nn.opaque
// REMARK:      [lower-to-ascend missed default-activations] "y": its clip is set
func.func @activations(%x: tensor<4x1x2xf32>, %h: tensor<1x1x1xf32>, %b: tensor<1x6xf32>, %n: tensor<1xi32>) -> (tensor<4x1x1x1xf32>, tensor<1x1x1xf32>) {
  %wd = nn.dequantize %w by <i8, scale = 0.25> : (tensor<1x3x2xi8>) -> tensor<1x3x2xf32>
  %rd = nn.dequantize %r by <i8, scale = 0.25> : (tensor<1x3x1xi8>) -> tensor<1x3x1xf32>
  %xq = nn.quantize %x by <i8, scale = 0.5> : (tensor<4x1x2xf32>) -> tensor<4x1x2xi8>
  %xd = nn.dequantize %xq by <i8, scale = 0.5> : (tensor<4x1x2xi8>) -> tensor<4x1x2xf32>
  %hq = nn.quantize %h by <i8, scale = 0.25> : (tensor<1x1x1xf32>) -> tensor<1x1x1xi8>
  %hd = nn.dequantize %hq by <i8, scale = 0.25> : (tensor<1x1x1xi8>) -> tensor<1x1x1xf32>
  %y, %s = nn.opaque %xd, %wd, %rd, %hd framework "onnx" op_type "GRU" version 14 present [1, 1, 1, 0, 0, 1] attrs {hidden_size = 1 : i64, linear_before_reset = 1 : i64, clip = 1.0 : f32} from <onnx, "GRU", "y"> : (tensor<4x1x2xf32>, tensor<1x3x2xf32>, tensor<1x3x1xf32>, tensor<1x1x1xf32>) -> (tensor<4x1x1x1xf32>, tensor<1x1x1xf32>)
  func.return %y, %s : tensor<4x1x1x1xf32>, tensor<1x1x1xf32>
}

// -----

// The reset gate comes first.
// CHECK-LABEL: @reset
// CHECK:         nn.opaque
// REMARK:      [lower-to-ascend missed linear-before-reset] "y": its linear_before_reset is 0
func.func @reset(%x: tensor<4x1x2xf32>, %h: tensor<1x1x1xf32>, %b: tensor<1x6xf32>, %n: tensor<1xi32>) -> (tensor<4x1x1x1xf32>, tensor<1x1x1xf32>) {
  %wd = nn.dequantize %w by <i8, scale = 0.25> : (tensor<1x3x2xi8>) -> tensor<1x3x2xf32>
  %rd = nn.dequantize %r by <i8, scale = 0.25> : (tensor<1x3x1xi8>) -> tensor<1x3x1xf32>
  %xq = nn.quantize %x by <i8, scale = 0.5> : (tensor<4x1x2xf32>) -> tensor<4x1x2xi8>
  %xd = nn.dequantize %xq by <i8, scale = 0.5> : (tensor<4x1x2xi8>) -> tensor<4x1x2xf32>
  %hq = nn.quantize %h by <i8, scale = 0.25> : (tensor<1x1x1xf32>) -> tensor<1x1x1xi8>
  %hd = nn.dequantize %hq by <i8, scale = 0.25> : (tensor<1x1x1xi8>) -> tensor<1x1x1xf32>
  %y, %s = nn.opaque %xd, %wd, %rd, %hd framework "onnx" op_type "GRU" version 14 present [1, 1, 1, 0, 0, 1] attrs {hidden_size = 1 : i64} from <onnx, "GRU", "y"> : (tensor<4x1x2xf32>, tensor<1x3x2xf32>, tensor<1x3x1xf32>, tensor<1x1x1xf32>) -> (tensor<4x1x1x1xf32>, tensor<1x1x1xf32>)
  func.return %y, %s : tensor<4x1x1x1xf32>, tensor<1x1x1xf32>
}

// -----

// One output of two.
// CHECK-LABEL: @outputs
// CHECK:         nn.opaque
// REMARK:      [lower-to-ascend missed all-outputs] "y": its node has 1 of 2 outputs
func.func @outputs(%x: tensor<4x1x2xf32>, %h: tensor<1x1x1xf32>, %b: tensor<1x6xf32>, %n: tensor<1xi32>) -> tensor<4x1x1x1xf32> {
  %wd = nn.dequantize %w by <i8, scale = 0.25> : (tensor<1x3x2xi8>) -> tensor<1x3x2xf32>
  %rd = nn.dequantize %r by <i8, scale = 0.25> : (tensor<1x3x1xi8>) -> tensor<1x3x1xf32>
  %xq = nn.quantize %x by <i8, scale = 0.5> : (tensor<4x1x2xf32>) -> tensor<4x1x2xi8>
  %xd = nn.dequantize %xq by <i8, scale = 0.5> : (tensor<4x1x2xi8>) -> tensor<4x1x2xf32>
  %hq = nn.quantize %h by <i8, scale = 0.25> : (tensor<1x1x1xf32>) -> tensor<1x1x1xi8>
  %hd = nn.dequantize %hq by <i8, scale = 0.25> : (tensor<1x1x1xi8>) -> tensor<1x1x1xf32>
  %y = nn.opaque %xd, %wd, %rd, %hd framework "onnx" op_type "GRU" version 14 present [1, 1, 1, 0, 0, 1] attrs {hidden_size = 1 : i64, linear_before_reset = 1 : i64} from <onnx, "GRU", "y"> : (tensor<4x1x2xf32>, tensor<1x3x2xf32>, tensor<1x3x1xf32>, tensor<1x1x1xf32>) -> tensor<4x1x1x1xf32>
  func.return %y : tensor<4x1x1x1xf32>
}

// -----

// An input of int4.
// CHECK-LABEL: @types
// CHECK:         nn.opaque
// REMARK:      [lower-to-ascend missed integer-type] "y": its input is i4, not i8 or i16
func.func @types(%x: tensor<4x1x2xf32>, %h: tensor<1x1x1xf32>, %b: tensor<1x6xf32>, %n: tensor<1xi32>) -> (tensor<4x1x1x1xf32>, tensor<1x1x1xf32>) {
  %wd = nn.dequantize %w by <i8, scale = 0.25> : (tensor<1x3x2xi8>) -> tensor<1x3x2xf32>
  %rd = nn.dequantize %r by <i8, scale = 0.25> : (tensor<1x3x1xi8>) -> tensor<1x3x1xf32>
  %xq = nn.quantize %x by <i4, scale = 0.5> : (tensor<4x1x2xf32>) -> tensor<4x1x2xi4>
  %xd = nn.dequantize %xq by <i4, scale = 0.5> : (tensor<4x1x2xi4>) -> tensor<4x1x2xf32>
  %hq = nn.quantize %h by <i8, scale = 0.25> : (tensor<1x1x1xf32>) -> tensor<1x1x1xi8>
  %hd = nn.dequantize %hq by <i8, scale = 0.25> : (tensor<1x1x1xi8>) -> tensor<1x1x1xf32>
  %y, %s = nn.opaque %xd, %wd, %rd, %hd framework "onnx" op_type "GRU" version 14 present [1, 1, 1, 0, 0, 1] attrs {hidden_size = 1 : i64, linear_before_reset = 1 : i64} from <onnx, "GRU", "y"> : (tensor<4x1x2xf32>, tensor<1x3x2xf32>, tensor<1x3x1xf32>, tensor<1x1x1xf32>) -> (tensor<4x1x1x1xf32>, tensor<1x1x1xf32>)
  func.return %y, %s : tensor<4x1x1x1xf32>, tensor<1x1x1xf32>
}

// -----

// An input of int8, a state of int16.
// CHECK-LABEL: @different
// CHECK:         nn.opaque
// REMARK:      [lower-to-ascend missed equal-types] "y": its input and state are integers of different types
func.func @different(%x: tensor<4x1x2xf32>, %h: tensor<1x1x1xf32>, %b: tensor<1x6xf32>, %n: tensor<1xi32>) -> (tensor<4x1x1x1xf32>, tensor<1x1x1xf32>) {
  %wd = nn.dequantize %w by <i8, scale = 0.25> : (tensor<1x3x2xi8>) -> tensor<1x3x2xf32>
  %rd = nn.dequantize %r by <i8, scale = 0.25> : (tensor<1x3x1xi8>) -> tensor<1x3x1xf32>
  %xq = nn.quantize %x by <i8, scale = 0.5> : (tensor<4x1x2xf32>) -> tensor<4x1x2xi8>
  %xd = nn.dequantize %xq by <i8, scale = 0.5> : (tensor<4x1x2xi8>) -> tensor<4x1x2xf32>
  %hq = nn.quantize %h by <i16, scale = 0.25> : (tensor<1x1x1xf32>) -> tensor<1x1x1xi16>
  %hd = nn.dequantize %hq by <i16, scale = 0.25> : (tensor<1x1x1xi16>) -> tensor<1x1x1xf32>
  %y, %s = nn.opaque %xd, %wd, %rd, %hd framework "onnx" op_type "GRU" version 14 present [1, 1, 1, 0, 0, 1] attrs {hidden_size = 1 : i64, linear_before_reset = 1 : i64} from <onnx, "GRU", "y"> : (tensor<4x1x2xf32>, tensor<1x3x2xf32>, tensor<1x3x1xf32>, tensor<1x1x1xf32>) -> (tensor<4x1x1x1xf32>, tensor<1x1x1xf32>)
  func.return %y, %s : tensor<4x1x1x1xf32>, tensor<1x1x1xf32>
}

// -----

// A scale per column.
// CHECK-LABEL: @scales
// CHECK:         nn.opaque
// REMARK:      [lower-to-ascend missed per-tensor-activation] "y": the operator has one scale for its input
func.func @scales(%x: tensor<4x1x2xf32>, %h: tensor<1x1x1xf32>, %b: tensor<1x6xf32>, %n: tensor<1xi32>) -> (tensor<4x1x1x1xf32>, tensor<1x1x1xf32>) {
  %wd = nn.dequantize %w by <i8, scale = 0.25> : (tensor<1x3x2xi8>) -> tensor<1x3x2xf32>
  %rd = nn.dequantize %r by <i8, scale = 0.25> : (tensor<1x3x1xi8>) -> tensor<1x3x1xf32>
  %xq = nn.quantize %x by <i8, scale = [0.5, 0.25], axis = 2> : (tensor<4x1x2xf32>) -> tensor<4x1x2xi8>
  %xd = nn.dequantize %xq by <i8, scale = [0.5, 0.25], axis = 2> : (tensor<4x1x2xi8>) -> tensor<4x1x2xf32>
  %hq = nn.quantize %h by <i8, scale = 0.25> : (tensor<1x1x1xf32>) -> tensor<1x1x1xi8>
  %hd = nn.dequantize %hq by <i8, scale = 0.25> : (tensor<1x1x1xi8>) -> tensor<1x1x1xf32>
  %y, %s = nn.opaque %xd, %wd, %rd, %hd framework "onnx" op_type "GRU" version 14 present [1, 1, 1, 0, 0, 1] attrs {hidden_size = 1 : i64, linear_before_reset = 1 : i64} from <onnx, "GRU", "y"> : (tensor<4x1x2xf32>, tensor<1x3x2xf32>, tensor<1x3x1xf32>, tensor<1x1x1xf32>) -> (tensor<4x1x1x1xf32>, tensor<1x1x1xf32>)
  func.return %y, %s : tensor<4x1x1x1xf32>, tensor<1x1x1xf32>
}

// -----

// No state.
// CHECK-LABEL: @state
// CHECK:         nn.opaque
// REMARK:      [lower-to-ascend missed quantize-before] "y": its state is not quantized
func.func @state(%x: tensor<4x1x2xf32>, %h: tensor<1x1x1xf32>, %b: tensor<1x6xf32>, %n: tensor<1xi32>) -> (tensor<4x1x1x1xf32>, tensor<1x1x1xf32>) {
  %wd = nn.dequantize %w by <i8, scale = 0.25> : (tensor<1x3x2xi8>) -> tensor<1x3x2xf32>
  %rd = nn.dequantize %r by <i8, scale = 0.25> : (tensor<1x3x1xi8>) -> tensor<1x3x1xf32>
  %xq = nn.quantize %x by <i8, scale = 0.5> : (tensor<4x1x2xf32>) -> tensor<4x1x2xi8>
  %xd = nn.dequantize %xq by <i8, scale = 0.5> : (tensor<4x1x2xi8>) -> tensor<4x1x2xf32>
  %y, %s = nn.opaque %xd, %wd, %rd framework "onnx" op_type "GRU" version 14 present [1, 1, 1] attrs {hidden_size = 1 : i64, linear_before_reset = 1 : i64} from <onnx, "GRU", "y"> : (tensor<4x1x2xf32>, tensor<1x3x2xf32>, tensor<1x3x1xf32>) -> (tensor<4x1x1x1xf32>, tensor<1x1x1xf32>)
  func.return %y, %s : tensor<4x1x1x1xf32>, tensor<1x1x1xf32>
}

// -----

// A cell state of the model itself.
// CHECK-LABEL: @cell
// CHECK:         nn.opaque
// REMARK:      [lower-to-ascend missed initial-state] "y": its initial cell is a constant, not an input of the model
func.func @cell(%x: tensor<4x1x2xf32>, %h: tensor<1x1x1xf32>) -> (tensor<4x1x1x1xf32>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) {
  %w = nn.constant dense<2> : tensor<1x4x2xi8>
  %r = nn.constant dense<3> : tensor<1x4x1xi8>
  %c = nn.constant dense<0.5> : tensor<1x1x1xf32>
  %wd = nn.dequantize %w by <i8, scale = 0.25> : (tensor<1x4x2xi8>) -> tensor<1x4x2xf32>
  %rd = nn.dequantize %r by <i8, scale = 0.25> : (tensor<1x4x1xi8>) -> tensor<1x4x1xf32>
  %xq = nn.quantize %x by <i8, scale = 0.5> : (tensor<4x1x2xf32>) -> tensor<4x1x2xi8>
  %xd = nn.dequantize %xq by <i8, scale = 0.5> : (tensor<4x1x2xi8>) -> tensor<4x1x2xf32>
  %hq = nn.quantize %h by <i8, scale = 0.25> : (tensor<1x1x1xf32>) -> tensor<1x1x1xi8>
  %hd = nn.dequantize %hq by <i8, scale = 0.25> : (tensor<1x1x1xi8>) -> tensor<1x1x1xf32>
  %y, %s, %t = nn.opaque %xd, %wd, %rd, %hd, %c framework "onnx" op_type "LSTM" version 14 present [1, 1, 1, 0, 0, 1, 1] attrs {hidden_size = 1 : i64} from <onnx, "LSTM", "y"> : (tensor<4x1x2xf32>, tensor<1x4x2xf32>, tensor<1x4x1xf32>, tensor<1x1x1xf32>, tensor<1x1x1xf32>) -> (tensor<4x1x1x1xf32>, tensor<1x1x1xf32>, tensor<1x1x1xf32>)
  func.return %y, %s, %t : tensor<4x1x1x1xf32>, tensor<1x1x1xf32>, tensor<1x1x1xf32>
}
