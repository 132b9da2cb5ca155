// RUN: CONSTANTS | amct-opt - --lower-to-ascend --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// CONSTANT: %w = nn.constant dense<1> : tensor<2x3x3x3xi8>

// The scale becomes its reciprocal, the zero point offset and offset_x, the scales' product deq_scale. Weight and bias stay as
// they are. Pads change order: top, bottom, left, right.
// CHECK-LABEL: @quantized
// CHECK-NEXT:    %w = nn.constant dense<1> : tensor<2x3x3x3xi8>
// CHECK-NEXT:    %q = ascend.AscendQuant %x scale 2.0 offset -3.0 : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xi8>
// CHECK-NEXT:    %b = nn.constant dense<[100, -100]> : tensor<2xi32>
// CHECK-NEXT:    %conv1_acc = ascend.Conv2D %q, %w, %b strides [1, 1, 2, 1] pads [1, 0, 2, 3] dilations [1, 1, 1, 2] data_format "NCHW" offset_x -3 from <onnx, "Conv", "conv1"> : ({{.*}}) -> tensor<1x2x2x5xi32>
// CHECK-NEXT:    %conv1_deq_scale = nn.constant dense<[1.250000e-01, 2.500000e-01]> : tensor<2xf32>
// CHECK-NEXT:    %conv1 = ascend.AscendDequant %conv1_acc, %conv1_deq_scale from <onnx, "Conv", "conv1"> : ({{.*}}) -> tensor<1x2x2x5xf32>
// CHECK-NEXT:    func.return %conv1
// REMARK:      remark: [lower-to-ascend applied lower] "conv1": computed by ascend.AscendDequant
func.func @quantized(%x: tensor<1x3x4x4xf32>) -> tensor<1x2x2x5xf32> {
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5], axis = 0> : (tensor<2x3x3x3xi8>) -> tensor<2x3x3x3xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xi8>) -> tensor<1x3x4x4xf32>
  %b = nn.constant dense<[100, -100]> : tensor<2xi32>
  %bd = nn.dequantize %b by <i32, scale = [0.125, 0.25], axis = 0> : (tensor<2xi32>) -> tensor<2xf32>
  %conv1 = nn.conv %d, %wd, %bd strides [2, 1] pads [1, 2, 0, 3] dilations [1, 2] from <onnx, "Conv", "conv1"> : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>, tensor<2xf32>) -> tensor<1x2x2x5xf32>
  func.return %conv1 : tensor<1x2x2x5xf32>
}

// -----

// One scale for the whole weight, groups; a bias in float is added after AscendDequant.
// CHECK-LABEL: @float_bias
// CHECK:         %conv1_acc = ascend.Conv2D %q, %w groups 3 {{.*}} offset_x -3
// CHECK-NEXT:    %conv1_deq_scale = nn.constant dense<1.250000e-01> : tensor<1xf32>
// CHECK-NEXT:    %conv1_deq = ascend.AscendDequant %conv1_acc, %conv1_deq_scale
// CHECK-NEXT:    %conv1 = ascend.BiasAdd %conv1_deq, %f data_format "NCHW" from <onnx, "Conv", "conv1">
// CHECK-NEXT:    func.return %conv1
// REMARK:      [lower-to-ascend applied lower] "conv1": computed by ascend.BiasAdd
func.func @float_bias(%x: tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xf32> {
  %f = nn.constant dense<0.5> : tensor<3xf32>
  %w = nn.constant dense<1> : tensor<3x1x3x3xi8>
  %wd = nn.dequantize %w by <i8, scale = 0.25> : (tensor<3x1x3x3xi8>) -> tensor<3x1x3x3xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xi8>) -> tensor<1x3x4x4xf32>
  %conv1 = nn.conv %d, %wd, %f pads [1, 1, 1, 1] groups 3 from <onnx, "Conv", "conv1"> : (tensor<1x3x4x4xf32>, tensor<3x1x3x3xf32>, tensor<3xf32>) -> tensor<1x3x4x4xf32>
  func.return %conv1 : tensor<1x3x4x4xf32>
}

// -----

// Channels last: the filter becomes [kh, kw, cin, cout], scales per channel are of the rank of the accumulator.
// CHECK-LABEL: @channels_last
// CHECK:         %w.filter = nn.constant dense<{{\[\[\[\[}}1, 4], [2, 5], [3, 6]]]]> : tensor<1x1x3x2xi8>
// CHECK-NEXT:    %y_acc = ascend.Conv2D %q, %w.filter strides [1, 1, 2, 1] pads [0, 0, 0, 1] offset_x -3
// CHECK-NEXT:    %y_deq_scale = nn.constant dense<{{\[\[\[\[}}1.250000e-01, 2.500000e-01]]]]> : tensor<1x1x1x2xf32>
// CHECK-NEXT:    %y = ascend.AscendDequant %y_acc, %y_deq_scale
// REMARK:      [lower-to-ascend applied lower] "y"
func.func @channels_last(%x: tensor<1x4x4x3xf32>) -> tensor<1x4x3x2xf32> {
  %w = nn.constant dense<[[[[1]], [[2]], [[3]]], [[[4]], [[5]], [[6]]]]> : tensor<2x3x1x1xi8>
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5], axis = 0> : (tensor<2x3x1x1xi8>) -> tensor<2x3x1x1xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x4x4x3xf32>) -> tensor<1x4x4x3xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<1x4x4x3xi8>) -> tensor<1x4x4x3xf32>
  %y = nn.conv %d, %wd layout nhwc strides [1, 2] pads [0, 0, 0, 1] : (tensor<1x4x4x3xf32>, tensor<2x3x1x1xf32>) -> tensor<1x4x3x2xf32>
  func.return %y : tensor<1x4x3x2xf32>
}

// -----

// One spatial axis: another of size 1 is put in before it, and taken out at the end.
// CHECK-LABEL: @one_axis
// CHECK:         %y_x = ascend.Unsqueeze %q axes [2] : (tensor<1x3x5xi8>) -> tensor<1x3x1x5xi8>
// CHECK-NEXT:    %w.filter = nn.constant {{.*}}tensor<2x3x1x3xi8>
// CHECK-NEXT:    %y_acc = ascend.Conv2D %y_x, %w.filter strides [1, 1, 1, 2] pads [0, 0, 1, 0] dilations [1, 1, 1, 2] data_format "NCHW" offset_x -3 : {{.*}} -> tensor<1x2x1x1xi32>
// CHECK:         [[D:%.*]] = ascend.AscendDequant %y_acc, %y_deq_scale
// CHECK-NEXT:    %y = ascend.Squeeze [[D]] axis [2] : (tensor<1x2x1x1xf32>) -> tensor<1x2x1xf32>
// REMARK:      [lower-to-ascend applied lower] "y": computed by ascend.Squeeze
func.func @one_axis(%x: tensor<1x3x5xf32>) -> tensor<1x2x1xf32> {
  %w = nn.constant dense<1> : tensor<2x3x3xi8>
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5], axis = 0> : (tensor<2x3x3xi8>) -> tensor<2x3x3xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x5xf32>) -> tensor<1x3x5xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x5xi8>) -> tensor<1x3x5xf32>
  %y = nn.conv %d, %wd strides [2] pads [1, 0] dilations [2] : (tensor<1x3x5xf32>, tensor<2x3x3xf32>) -> tensor<1x2x1xf32>
  func.return %y : tensor<1x2x1xf32>
}

// -----

// TensorFlow's depthwise layer: the filter becomes [kh, kw, C, multiplier].
// CHECK-LABEL: @depthwise
// CHECK:         %w.filter = nn.constant {{.*}}tensor<3x3x3x2xi8>
// CHECK-NEXT:    ascend.DepthwiseConv2D %q, %w.filter strides [1, 1, 1, 1] pads [1, 1, 1, 1] data_format "NCHW" offset_x -3 from <tensorflow, "DepthwiseConv2dNative", "dw">
// REMARK:      [lower-to-ascend applied lower] "dw"
func.func @depthwise(%x: tensor<1x3x4x4xf32>) -> tensor<1x6x4x4xf32> {
  %w = nn.constant dense<1> : tensor<6x1x3x3xi8>
  %wd = nn.dequantize %w by <i8, scale = 0.25> : (tensor<6x1x3x3xi8>) -> tensor<6x1x3x3xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xi8>) -> tensor<1x3x4x4xf32>
  %y = nn.conv %d, %wd pads [1, 1, 1, 1] groups 3 from <tensorflow, "DepthwiseConv2dNative", "dw"> : (tensor<1x3x4x4xf32>, tensor<6x1x3x3xf32>) -> tensor<1x6x4x4xf32>
  func.return %y : tensor<1x6x4x4xf32>
}

// -----

// Three axes: the zero point has to be 0.
// CHECK-LABEL: @three_axes
// CHECK:         ascend.AscendQuant %x scale 2.0 offset 0.0
// CHECK:         ascend.Conv3D %q, %w data_format "NCDHW" strides [1, 1, 1, 1, 1] pads [1, 0, 0, 1, 0, 2] from
// REMARK:      [lower-to-ascend applied lower] "conv3"
func.func @three_axes(%x: tensor<1x3x4x4x4xf32>) -> tensor<1x2x4x4x5xf32> {
  %w = nn.constant dense<1> : tensor<2x3x2x2x2xi8>
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5], axis = 0> : (tensor<2x3x2x2x2xi8>) -> tensor<2x3x2x2x2xf32>
  %q = nn.quantize %x by <i8, scale = 0.5> : (tensor<1x3x4x4x4xf32>) -> tensor<1x3x4x4x4xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5> : (tensor<1x3x4x4x4xi8>) -> tensor<1x3x4x4x4xf32>
  %y = nn.conv %d, %wd pads [1, 0, 0, 0, 1, 2] from <onnx, "Conv", "conv3"> : (tensor<1x3x4x4x4xf32>, tensor<2x3x2x2x2xf32>) -> tensor<1x2x4x4x5xf32>
  func.return %y : tensor<1x2x4x4x5xf32>
}

// -----

// With a zero point it stays in float, on what AscendAntiQuant gives.
// CHECK-LABEL: @symmetric_activation
// CHECK:         %q = ascend.AscendQuant %x
// CHECK-NEXT:    %d = ascend.AscendAntiQuant %q scale 0.5 offset 3.0
// CHECK:         %y = ascend.Conv3D %d, %w
// REMARK:      [lower-to-ascend missed symmetric-activation] "conv3": Conv3D has no offset_x, so the zero point would have to be 0
func.func @symmetric_activation(%x: tensor<1x3x4x4x4xf32>) -> tensor<1x2x4x4x5xf32> {
  %w = nn.constant dense<1> : tensor<2x3x2x2x2xi8>
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5], axis = 0> : (tensor<2x3x2x2x2xi8>) -> tensor<2x3x2x2x2xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4x4xf32>) -> tensor<1x3x4x4x4xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4x4xi8>) -> tensor<1x3x4x4x4xf32>
  %y = nn.conv %d, %wd pads [1, 0, 0, 0, 1, 2] from <onnx, "Conv", "conv3"> : (tensor<1x3x4x4x4xf32>, tensor<2x3x2x2x2xf32>) -> tensor<1x2x4x4x5xf32>
  func.return %y : tensor<1x2x4x4x5xf32>
}

// -----

// A constraint of the Ascend operation is a remark too.
// CHECK-LABEL: @ascend_constraint
// CHECK:         %y = ascend.Conv3D %d, %w
// REMARK:      [lower-to-ascend missed ascend-constraint] "conv3": int8 operands need a dilation of 1 along the depth
func.func @ascend_constraint(%x: tensor<1x3x4x4x4xf32>) -> tensor<1x2x2x3x3xf32> {
  %w = nn.constant dense<1> : tensor<2x3x2x2x2xi8>
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5], axis = 0> : (tensor<2x3x2x2x2xi8>) -> tensor<2x3x2x2x2xf32>
  %q = nn.quantize %x by <i8, scale = 0.5> : (tensor<1x3x4x4x4xf32>) -> tensor<1x3x4x4x4xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5> : (tensor<1x3x4x4x4xi8>) -> tensor<1x3x4x4x4xf32>
  %y = nn.conv %d, %wd dilations [2, 1, 1] from <onnx, "Conv", "conv3"> : (tensor<1x3x4x4x4xf32>, tensor<2x3x2x2x2xf32>) -> tensor<1x2x2x3x3xf32>
  func.return %y : tensor<1x2x2x3x3xf32>
}

// -----

// A transposed convolution has its scales along axis 1. Its sizes follow from the geometry: input_size is 0.
// CHECK-LABEL: @transposed
// CHECK:         %up_input_size = nn.constant dense<0> : tensor<4xi64>
// CHECK-NEXT:    %up_acc = ascend.Conv2DTranspose %up_input_size, %q, %w output_padding [0, 0, 1, 0] strides [1, 1, 2, 2] pads [1, 0, 1, 2] data_format "NCHW" offset_x -3
// CHECK:         %up = ascend.AscendDequant
// REMARK:      [lower-to-ascend applied lower] "up"
func.func @transposed(%x: tensor<1x3x4x4xf32>) -> tensor<1x2x9x6xf32> {
  %w = nn.constant dense<1> : tensor<3x2x3x3xi8>
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5], axis = 1> : (tensor<3x2x3x3xi8>) -> tensor<3x2x3x3xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xi8>) -> tensor<1x3x4x4xf32>
  %up = nn.conv_transpose %d, %wd strides [2, 2] pads [1, 1, 0, 2] output_padding [1, 0] : (tensor<1x3x4x4xf32>, tensor<3x2x3x3xf32>) -> tensor<1x2x9x6xf32>
  func.return %up : tensor<1x2x9x6xf32>
}

// -----

// Groups share the scales along that axis, which are then not those of output channels.
// CHECK-LABEL: @channel_scales
// CHECK:         ascend.Conv2DTranspose %y_input_size, %d, %w groups 3
// REMARK:      [lower-to-ascend missed channel-scales] "y": its grouped weight has one scale for several output channels
func.func @channel_scales(%x: tensor<1x3x4x4xf32>) -> tensor<1x6x6x6xf32> {
  %w = nn.constant dense<1> : tensor<3x2x3x3xi8>
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5], axis = 1> : (tensor<3x2x3x3xi8>) -> tensor<3x2x3x3xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xi8>) -> tensor<1x3x4x4xf32>
  %y = nn.conv_transpose %d, %wd groups 3 : (tensor<1x3x4x4xf32>, tensor<3x2x3x3xf32>) -> tensor<1x6x6x6xf32>
  func.return %y : tensor<1x6x6x6xf32>
}

// -----

// Scales along another axis of the weight.
// CHECK-LABEL: @other_axis
// CHECK:         %d = ascend.AscendAntiQuant %q
// CHECK:         ascend.Conv2D
// REMARK:      [lower-to-ascend missed channel-scales] "conv1": its weight has scales along axis 1, not per output channel
func.func @other_axis(%x: tensor<1x3x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5, 1.0], axis = 1> : (tensor<2x3x3x3xi8>) -> tensor<2x3x3x3xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xi8>) -> tensor<1x3x4x4xf32>
  %conv1 = nn.conv %d, %wd pads [1, 1, 1, 1] : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x4x4xf32>
  func.return %conv1 : tensor<1x2x4x4xf32>
}

// -----

// A float weight.
// CHECK-LABEL: @int8_weight
// CHECK:         %d = ascend.AscendAntiQuant %q
// CHECK:         ascend.Conv2D
// REMARK:      [lower-to-ascend missed int8-weight] "conv1": its weight is not quantized
func.func @int8_weight(%x: tensor<1x3x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %wd = nn.constant dense<1.0> : tensor<2x3x3x3xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xi8>) -> tensor<1x3x4x4xf32>
  %conv1 = nn.conv %d, %wd pads [1, 1, 1, 1] : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x4x4xf32>
  func.return %conv1 : tensor<1x2x4x4xf32>
}

// -----

// int4 weights are stored as int8.
// CHECK-LABEL: @int4_weight
// CHECK:         nn.constant #nn.external<"w", tensor<2x3x3x3xi8>, "0xF8F8
// CHECK:         ascend.Conv2D %q, {{.*}} -> tensor<1x2x4x4xi32>
// CHECK:         ascend.AscendDequant
func.func @int4_weight(%x: tensor<1x3x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = nn.constant dense<-8> : tensor<2x3x3x3xi4>
  %wd = nn.dequantize %w by <i4, scale = [0.25, 0.5], axis = 0> : (tensor<2x3x3x3xi4>) -> tensor<2x3x3x3xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xi8>) -> tensor<1x3x4x4xf32>
  %conv1 = nn.conv %d, %wd pads [1, 1, 1, 1] : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x4x4xf32>
  func.return %conv1 : tensor<1x2x4x4xf32>
}

// -----

// A weight of another width.
// CHECK-LABEL: @int16_weight
// CHECK:         %d = ascend.AscendAntiQuant %q
// CHECK:         ascend.Conv2D
// REMARK:      [lower-to-ascend missed int8-weight] "conv1": its weight is i16, not i8 or i4
func.func @int16_weight(%x: tensor<1x3x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = nn.constant dense<1> : tensor<2x3x3x3xi16>
  %wd = nn.dequantize %w by <i16, scale = [0.25, 0.5], axis = 0> : (tensor<2x3x3x3xi16>) -> tensor<2x3x3x3xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xi8>) -> tensor<1x3x4x4xf32>
  %conv1 = nn.conv %d, %wd pads [1, 1, 1, 1] : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x4x4xf32>
  func.return %conv1 : tensor<1x2x4x4xf32>
}

// -----

// A weight computed at run time.
// CHECK-LABEL: @constant_weight
// CHECK:         %d = ascend.AscendAntiQuant %q
// CHECK:         ascend.Conv2D
// REMARK:      [lower-to-ascend missed constant-weight] "conv1": its weight is computed at run time
func.func @constant_weight(%x: tensor<1x3x4x4xf32>, %w: tensor<2x3x3x3xi8>) -> tensor<1x2x4x4xf32> {
  %wd = nn.dequantize %w by <i8, scale = 0.5> : (tensor<2x3x3x3xi8>) -> tensor<2x3x3x3xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xi8>) -> tensor<1x3x4x4xf32>
  %conv1 = nn.conv %d, %wd pads [1, 1, 1, 1] : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x4x4xf32>
  func.return %conv1 : tensor<1x2x4x4xf32>
}

// -----

// A weight with a zero point.
// CHECK-LABEL: @symmetric_weight
// CHECK:         %d = ascend.AscendAntiQuant %q
// CHECK:         ascend.Conv2D
// REMARK:      [lower-to-ascend missed symmetric-weight] "conv1": its weight has zero points that are not 0
func.func @symmetric_weight(%x: tensor<1x3x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %wd = nn.dequantize %w by <i8, scale = 0.5, zero_point = 1> : (tensor<2x3x3x3xi8>) -> tensor<2x3x3x3xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xi8>) -> tensor<1x3x4x4xf32>
  %conv1 = nn.conv %d, %wd pads [1, 1, 1, 1] : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x4x4xf32>
  func.return %conv1 : tensor<1x2x4x4xf32>
}

// -----

// An activation of 16 bits.
// CHECK-LABEL: @int16_activation
// CHECK:         %q = ascend.AscendQuant %x dst_type 6 {{.*}}scale 512.0 offset -32768.0 : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xi16>
// CHECK:         ascend.Conv2D %q, %w {{.*}}offset_x -32768{{.*}} : (tensor<1x3x4x4xi16>, tensor<2x3x3x3xi8>) -> tensor<1x2x4x4xi32>
// CHECK:         ascend.AscendDequant
func.func @int16_activation(%x: tensor<1x3x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5], axis = 0> : (tensor<2x3x3x3xi8>) -> tensor<2x3x3x3xf32>
  %q = nn.quantize %x by <i16, scale = 0.001953125, zero_point = -32768> : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xi16>
  %d = nn.dequantize %q by <i16, scale = 0.001953125, zero_point = -32768> : (tensor<1x3x4x4xi16>) -> tensor<1x3x4x4xf32>
  %conv1 = nn.conv %d, %wd pads [1, 1, 1, 1] : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x4x4xf32>
  func.return %conv1 : tensor<1x2x4x4xf32>
}

// -----

// An unsigned activation.
// CHECK-LABEL: @integer_activation
// CHECK-NOT:     AscendQuant
// CHECK:         ascend.Conv2D
// REMARK:      [lower-to-ascend missed integer-activation] "conv1": its activation is ui8, not i8 or i16
func.func @integer_activation(%x: tensor<1x3x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5], axis = 0> : (tensor<2x3x3x3xi8>) -> tensor<2x3x3x3xf32>
  %q = nn.quantize %x by <ui8, scale = 0.5, zero_point = 3> : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xui8>
  %d = nn.dequantize %q by <ui8, scale = 0.5, zero_point = 3> : (tensor<1x3x4x4xui8>) -> tensor<1x3x4x4xf32>
  %conv1 = nn.conv %d, %wd pads [1, 1, 1, 1] : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x4x4xf32>
  func.return %conv1 : tensor<1x2x4x4xf32>
}

// -----

// An activation with a scale per channel.
// CHECK-LABEL: @per_tensor_activation
// CHECK-NOT:     AscendQuant
// CHECK:         ascend.Conv2D
// REMARK:      [lower-to-ascend missed per-tensor-activation] "conv1": AscendQuant has one scale for the whole tensor
func.func @per_tensor_activation(%x: tensor<1x3x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5], axis = 0> : (tensor<2x3x3x3xi8>) -> tensor<2x3x3x3xf32>
  %q = nn.quantize %x by <i8, scale = [0.5, 0.25, 1.0], axis = 1> : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xi8>
  %d = nn.dequantize %q by <i8, scale = [0.5, 0.25, 1.0], axis = 1> : (tensor<1x3x4x4xi8>) -> tensor<1x3x4x4xf32>
  %conv1 = nn.conv %d, %wd pads [1, 1, 1, 1] : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x4x4xf32>
  func.return %conv1 : tensor<1x2x4x4xf32>
}

// -----

// Quantize and dequantize that differ.
// CHECK-LABEL: @equal_parameters
// CHECK:         %q = ascend.AscendQuant %x scale 2.0 offset -3.0
// CHECK-NEXT:    %d = ascend.AscendAntiQuant %q scale 0.25 offset 3.0
// CHECK:         ascend.Conv2D %d
// REMARK:      [lower-to-ascend missed equal-parameters] "conv1": its quantize and dequantize differ
func.func @equal_parameters(%x: tensor<1x3x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5], axis = 0> : (tensor<2x3x3x3xi8>) -> tensor<2x3x3x3xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xi8>
  %d = nn.dequantize %q by <i8, scale = 0.25, zero_point = -3> : (tensor<1x3x4x4xi8>) -> tensor<1x3x4x4xf32>
  %conv1 = nn.conv %d, %wd pads [1, 1, 1, 1] : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x4x4xf32>
  func.return %conv1 : tensor<1x2x4x4xf32>
}

// -----

// Integers from elsewhere.
// CHECK-LABEL: @quantize_before
// CHECK:         %d = ascend.AscendAntiQuant %x scale 0.5 offset 0.0
// CHECK:         ascend.Conv2D %d
// REMARK:      [lower-to-ascend missed quantize-before] "conv1": its activation comes as integers, not from a quantize
func.func @quantize_before(%x: tensor<1x3x4x4xi8>) -> tensor<1x2x4x4xf32> {
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5], axis = 0> : (tensor<2x3x3x3xi8>) -> tensor<2x3x3x3xf32>
  %d = nn.dequantize %x by <i8, scale = 0.5> : (tensor<1x3x4x4xi8>) -> tensor<1x3x4x4xf32>
  %conv1 = nn.conv %d, %wd pads [1, 1, 1, 1] : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x4x4xf32>
  func.return %conv1 : tensor<1x2x4x4xf32>
}

// -----

// A type that AscendQuant does not take.
// CHECK-LABEL: @float_type
// CHECK-NOT:     AscendQuant
// CHECK:         ascend.Conv2D
// REMARK:      [lower-to-ascend missed float-type] "conv1": AscendQuant takes f16 or f32, not f64
func.func @float_type(%x: tensor<1x3x4x4xf64>) -> tensor<1x2x4x4xf32> {
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5], axis = 0> : (tensor<2x3x3x3xi8>) -> tensor<2x3x3x3xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xf64>) -> tensor<1x3x4x4xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xi8>) -> tensor<1x3x4x4xf32>
  %conv1 = nn.conv %d, %wd pads [1, 1, 1, 1] : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x4x4xf32>
  func.return %conv1 : tensor<1x2x4x4xf32>
}

// -----

// A bias of other scales.
// CHECK-LABEL: @bias_scale
// CHECK:         %d = ascend.AscendAntiQuant %q
// CHECK:         ascend.Conv2D
// REMARK:      [lower-to-ascend missed bias-scale] "conv1": the scale of its bias is not activation scale times weight scale
func.func @bias_scale(%x: tensor<1x3x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5], axis = 0> : (tensor<2x3x3x3xi8>) -> tensor<2x3x3x3xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xi8>) -> tensor<1x3x4x4xf32>
  %b = nn.constant dense<[100, -100]> : tensor<2xi32>
  %bd = nn.dequantize %b by <i32, scale = [0.5, 0.25], axis = 0> : (tensor<2xi32>) -> tensor<2xf32>
  %conv1 = nn.conv %d, %wd, %bd pads [1, 1, 1, 1] : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  func.return %conv1 : tensor<1x2x4x4xf32>
}

// -----

// A bias of another width.
// CHECK-LABEL: @int32_bias
// CHECK:         %d = ascend.AscendAntiQuant %q
// CHECK:         ascend.Conv2D
// REMARK:      [lower-to-ascend missed int32-bias] "conv1": its bias is i16, not i32
func.func @int32_bias(%x: tensor<1x3x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5], axis = 0> : (tensor<2x3x3x3xi8>) -> tensor<2x3x3x3xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xi8>) -> tensor<1x3x4x4xf32>
  %b = nn.constant dense<[100, -100]> : tensor<2xi16>
  %bd = nn.dequantize %b by <i16, scale = [0.125, 0.25], axis = 0> : (tensor<2xi16>) -> tensor<2xf32>
  %conv1 = nn.conv %d, %wd, %bd pads [1, 1, 1, 1] : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  func.return %conv1 : tensor<1x2x4x4xf32>
}

// -----

// A bias computed at run time.
// CHECK-LABEL: @constant_bias
// CHECK:         %d = ascend.AscendAntiQuant %q
// CHECK:         ascend.Conv2D
// REMARK:      [lower-to-ascend missed constant-bias] "conv1": its bias is computed at run time
func.func @constant_bias(%x: tensor<1x3x4x4xf32>, %b: tensor<2xi32>) -> tensor<1x2x4x4xf32> {
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5], axis = 0> : (tensor<2x3x3x3xi8>) -> tensor<2x3x3x3xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xi8>) -> tensor<1x3x4x4xf32>
  %bd = nn.dequantize %b by <i32, scale = [0.125, 0.25], axis = 0> : (tensor<2xi32>) -> tensor<2xf32>
  %conv1 = nn.conv %d, %wd, %bd pads [1, 1, 1, 1] : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  func.return %conv1 : tensor<1x2x4x4xf32>
}

// -----

// A bias with a zero point.
// CHECK-LABEL: @symmetric_bias
// CHECK:         %d = ascend.AscendAntiQuant %q
// CHECK:         ascend.Conv2D
// REMARK:      [lower-to-ascend missed symmetric-bias] "conv1": its bias has zero points that are not 0
func.func @symmetric_bias(%x: tensor<1x3x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5], axis = 0> : (tensor<2x3x3x3xi8>) -> tensor<2x3x3x3xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x4x4xi8>) -> tensor<1x3x4x4xf32>
  %b = nn.constant dense<[100, -100]> : tensor<2xi32>
  %bd = nn.dequantize %b by <i32, scale = [0.125, 0.25], zero_point = 1, axis = 0> : (tensor<2xi32>) -> tensor<2xf32>
  %conv1 = nn.conv %d, %wd, %bd pads [1, 1, 1, 1] : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  func.return %conv1 : tensor<1x2x4x4xf32>
}

// -----

// Scales whose product is not a normal number.
// CHECK-LABEL: @scale_range
// CHECK:         %d = ascend.AscendAntiQuant %q
// CHECK:         ascend.Conv2D
// REMARK:      [lower-to-ascend missed scale-range] "conv1": activation scale times weight scale leaves the normal range of float32
func.func @scale_range(%x: tensor<1x3x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %wd = nn.dequantize %w by <i8, scale = [1.0e-30, 1.0], axis = 0> : (tensor<2x3x3x3xi8>) -> tensor<2x3x3x3xf32>
  %q = nn.quantize %x by <i8, scale = 1.0e-30, zero_point = -3> : (tensor<1x3x4x4xf32>) -> tensor<1x3x4x4xi8>
  %d = nn.dequantize %q by <i8, scale = 1.0e-30, zero_point = -3> : (tensor<1x3x4x4xi8>) -> tensor<1x3x4x4xf32>
  %conv1 = nn.conv %d, %wd pads [1, 1, 1, 1] : (tensor<1x3x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x4x4xf32>
  func.return %conv1 : tensor<1x2x4x4xf32>
}
