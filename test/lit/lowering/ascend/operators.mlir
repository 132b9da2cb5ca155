// RUN: amct-opt %s --lower-to-ascend --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// The operator of a layer is that of its framework (AMCT's table 1). TensorFlow's pools pad as SAME or VALID do.
// CHECK-LABEL: @tensorflow_pools
// CHECK-NEXT:    %a = ascend.AvgPool %x ksize [1, 3, 3, 1] strides [1, 2, 2, 1] padding "SAME"
// CHECK-NEXT:    %b = ascend.MaxPool %a ksize [1, 2, 2, 1] strides [1, 1, 1, 1] padding "VALID"
// CHECK-NEXT:    %c = ascend.MaxPool %z ksize [1, 3, 3, 1] strides [1, 2, 2, 1] padding "SAME"
// REMARK:      [lower-to-ascend applied lower] "a": computed by ascend.AvgPool
func.func @tensorflow_pools(%x: tensor<1x?x?x3xf32>, %z: tensor<1x6x7x3xf32>) -> (tensor<1x?x?x3xf32>, tensor<1x3x4x3xf32>) {
  %a = nn.average_pool %x layout nhwc strides [2, 2] auto_pad same_upper kernel [3, 3] from <tensorflow, "AvgPool", "a"> : tensor<1x?x?x3xf32>
  %b = nn.max_pool %a layout nhwc kernel [2, 2] from <tensorflow, "MaxPool", "b"> : tensor<1x?x?x3xf32>
  %c = nn.max_pool %z layout nhwc strides [2, 2] pads [0, 1, 1, 1] kernel [3, 3] from <tensorflow, "MaxPoolV2", "c"> : (tensor<1x6x7x3xf32>) -> tensor<1x3x4x3xf32>
  func.return %b, %c : tensor<1x?x?x3xf32>, tensor<1x3x4x3xf32>
}

// -----

// Other padding is that of ONNX's pools: given, rounded up, counted.
// CHECK-LABEL: @same_or_valid
// CHECK-NEXT:    %a = ascend.MaxPoolV3 %x {{.*}} pads [1, 1, 1, 1]
// CHECK-NEXT:    %b = ascend.MaxPoolV3 %x {{.*}} ceil_mode true
// CHECK-NEXT:    %c = ascend.AvgPoolV2 %x exclusive false
// REMARK-DAG:  [lower-to-ascend missed same-or-valid] "a": MaxPool pads as SAME or VALID do, not by [1, 1, 1, 1]
// REMARK-DAG:  [lower-to-ascend missed same-or-valid] "b": MaxPool does not round sizes up
// REMARK-DAG:  [lower-to-ascend missed same-or-valid] "c": AvgPool does not count the padding
func.func @same_or_valid(%x: tensor<1x6x6x3xf32>) -> (tensor<1x3x3x3xf32>, tensor<1x3x3x3xf32>, tensor<1x6x6x3xf32>) {
  %a = nn.max_pool %x layout nhwc strides [2, 2] pads [1, 1, 1, 1] kernel [3, 3] from <tensorflow, "MaxPool", "a"> : (tensor<1x6x6x3xf32>) -> tensor<1x3x3x3xf32>
  %b = nn.max_pool %x layout nhwc strides [2, 2] kernel [3, 3] ceil_mode from <tensorflow, "MaxPool", "b"> : (tensor<1x6x6x3xf32>) -> tensor<1x3x3x3xf32>
  %c = nn.average_pool %x layout nhwc pads [1, 1, 1, 1] kernel [3, 3] count_include_pad from <tensorflow, "AvgPool", "c"> : tensor<1x6x6x3xf32>
  func.return %a, %b, %c : tensor<1x3x3x3xf32>, tensor<1x3x3x3xf32>, tensor<1x6x6x3xf32>
}

// -----

// Caffe's Pooling: mode 1 is the mean, ceil_mode 0 rounds up. On integers it sums.
// CHECK-LABEL: @caffe_pools
// CHECK:         %a = ascend.Pooling %x window [3, 3] stride [2, 2] pad [0, 1, 0, 1]
// CHECK-NEXT:    %b = ascend.Pooling %x mode 1 window [2, 2] stride [2, 2] ceil_mode 1
// CHECK-NEXT:    %c = ascend.Pooling %x mode 1 global_pooling true
// CHECK:         %s_sum = ascend.Pooling %q mode 1 window [2, 2] stride [2, 2] offset_x -3
// CHECK-NEXT:    %s_deq_scale = nn.constant dense<1.250000e-01>
// CHECK-NEXT:    %s = ascend.AscendDequant %s_sum
// REMARK-DAG:  [lower-to-ascend applied lower] "s": computed by ascend.AscendDequant
func.func @caffe_pools(%x: tensor<1x3x6x6xf32>) -> (tensor<1x3x3x3xf32>, tensor<1x3x3x3xf32>, tensor<1x3x1x1xf32>, tensor<1x3x3x3xf32>) {
  %a = nn.max_pool %x strides [2, 2] pads [0, 0, 1, 1] kernel [3, 3] ceil_mode from <caffe, "Pooling", "a"> : (tensor<1x3x6x6xf32>) -> tensor<1x3x3x3xf32>
  %b = nn.average_pool %x strides [2, 2] kernel [2, 2] from <caffe, "Pooling", "b"> : (tensor<1x3x6x6xf32>) -> tensor<1x3x3x3xf32>
  %c = nn.global_average_pool %x from <caffe, "Pooling", "c"> : (tensor<1x3x6x6xf32>) -> tensor<1x3x1x1xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x6x6xf32>) -> tensor<1x3x6x6xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<1x3x6x6xi8>) -> tensor<1x3x6x6xf32>
  %s = nn.average_pool %d strides [2, 2] kernel [2, 2] ceil_mode from <caffe, "Pooling", "s"> : (tensor<1x3x6x6xf32>) -> tensor<1x3x3x3xf32>
  func.return %a, %b, %c, %s : tensor<1x3x3x3xf32>, tensor<1x3x3x3xf32>, tensor<1x3x1x1xf32>, tensor<1x3x3x3xf32>
}

// -----

// CHECK-LABEL: @caffe_refused
// CHECK-NEXT:    %a = ascend.AvgPoolV2 %x {{.*}} pads [1, 1, 1, 1]
// CHECK-NEXT:    %b = ascend.MaxPoolV3 %x
// CHECK-NEXT:    %c_axes
// CHECK-NEXT:    %c = ascend.ReduceMean %x
// REMARK-DAG:  [lower-to-ascend missed counted-padding] "a": Pooling counts the padding of a mean as zeros
// REMARK-DAG:  [lower-to-ascend missed channels-second] "b": Pooling has its channels on axis 1
// REMARK-DAG:  [lower-to-ascend missed channels-second] "c": Pooling has its channels on axis 1
func.func @caffe_refused(%x: tensor<1x6x6x6xf32>) -> (tensor<1x6x6x6xf32>, tensor<1x5x5x6xf32>, tensor<1x1x1x6xf32>) {
  %a = nn.average_pool %x pads [1, 1, 1, 1] kernel [3, 3] from <caffe, "Pooling", "a"> : tensor<1x6x6x6xf32>
  %b = nn.max_pool %x layout nhwc kernel [2, 2] from <caffe, "Pooling", "b"> : (tensor<1x6x6x6xf32>) -> tensor<1x5x5x6xf32>
  %c = nn.global_average_pool %x layout nhwc from <caffe, "Pooling", "c"> : (tensor<1x6x6x6xf32>) -> tensor<1x1x1x6xf32>
  func.return %a, %b, %c : tensor<1x6x6x6xf32>, tensor<1x5x5x6xf32>, tensor<1x1x1x6xf32>
}

// -----

// Conv2DBackpropInput has no bias: it is added in float. A size that does not follow from the geometry is said.
// CHECK-LABEL: @backprop
// CHECK:         %y_input_size = nn.constant dense<[0, 9, 8, 0]> : tensor<4xi32>
// CHECK-NEXT:    %y_acc = ascend.Conv2DBackpropInput %y_input_size, %w.filter, %q strides [1, 2, 2, 1] pads [0, 0, 0, 0] from
// CHECK:         %y_deq = ascend.AscendDequant %y_acc
// CHECK-NEXT:    %y = ascend.BiasAdd %y_deq, %b from
// REMARK:      [lower-to-ascend applied lower] "up": computed by ascend.BiasAdd
func.func @backprop(%x: tensor<1x4x3x2xf32>) -> tensor<1x9x8x3xf32> {
  %w = nn.constant dense<1> : tensor<2x3x2x3xi8>
  %wd = nn.dequantize %w by <i8, scale = [0.25, 0.5, 1.0], axis = 1> : (tensor<2x3x2x3xi8>) -> tensor<2x3x2x3xf32>
  %b = nn.constant dense<7> : tensor<3xi32>
  %bd = nn.dequantize %b by <i32, scale = [0.125, 0.25, 0.5], axis = 0> : (tensor<3xi32>) -> tensor<3xf32>
  %q = nn.quantize %x by <i8, scale = 0.5> : (tensor<1x4x3x2xf32>) -> tensor<1x4x3x2xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5> : (tensor<1x4x3x2xi8>) -> tensor<1x4x3x2xf32>
  %y = nn.conv_transpose %d, %wd, %bd layout nhwc strides [2, 2] output_padding [1, 1] from <tensorflow, "Conv2DBackpropInput", "up"> : (tensor<1x4x3x2xf32>, tensor<2x3x2x3xf32>, tensor<3xf32>) -> tensor<1x9x8x3xf32>
  func.return %y : tensor<1x9x8x3xf32>
}

// -----

// Nor has it an offset_x: with a zero point the layer is Conv2DTranspose, in integers all the same.
// CHECK-LABEL: @symmetric_activation
// CHECK:         %y_acc = ascend.Conv2DTranspose %y_input_size, %q, %w.filter {{.*}} offset_x -3
// REMARK:      [lower-to-ascend missed symmetric-activation] "up": Conv2DBackpropInput has no offset_x, its zero point would have to be 0
func.func @symmetric_activation(%x: tensor<1x4x4x2xf32>) -> tensor<1x8x8x3xf32> {
  %w = nn.constant dense<1> : tensor<2x3x2x2xi8>
  %wd = nn.dequantize %w by <i8, scale = 0.25> : (tensor<2x3x2x2xi8>) -> tensor<2x3x2x2xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<1x4x4x2xi8>) -> tensor<1x4x4x2xf32>
  %y = nn.conv_transpose %d, %wd layout nhwc strides [2, 2] from <tensorflow, "Conv2DBackpropInput", "up"> : (tensor<1x4x4x2xf32>, tensor<2x3x2x2xf32>) -> tensor<1x8x8x3xf32>
  func.return %y : tensor<1x8x8x3xf32>
}

// -----

// CHECK-LABEL: @known_sizes
// CHECK:         ascend.Conv2DTranspose %y_input_size, %x, %w output_padding [0, 0, 1, 1]
// REMARK:      [lower-to-ascend missed known-sizes] "up": the sizes of its result are not known, and do not follow from those of x
func.func @known_sizes(%x: tensor<1x2x?x4xf32>, %w: tensor<2x3x2x2xf32>) -> tensor<1x3x?x9xf32> {
  %y = nn.conv_transpose %x, %w strides [2, 2] output_padding [1, 1] from <tensorflow, "Conv2DBackpropInput", "up"> : (tensor<1x2x?x4xf32>, tensor<2x3x2x2xf32>) -> tensor<1x3x?x9xf32>
  func.return %y : tensor<1x3x?x9xf32>
}

// -----

// Caffe: Deconvolution, InnerProduct with the axes before its own.
// CHECK-LABEL: @caffe_products
// CHECK:         %up_acc = ascend.Deconvolution %q, %w strides [2, 2] pads [1, 1, 1, 1] groups 2 offset_x -3
// CHECK:         %fc = ascend.FullyConnection %z, %v, %c num_output 4 axis 2
// CHECK-NEXT:    %gc = ascend.FullyConnection %m, %u num_output 5 transpose true
// REMARK-DAG:  [lower-to-ascend applied lower] "fc": computed by ascend.FullyConnection
func.func @caffe_products(%x: tensor<1x2x4x4xf32>, %z: tensor<2x3x8xf32>, %v: tensor<4x8xf32>, %c: tensor<4xf32>, %m: tensor<?x8xf32>, %u: tensor<8x5xf32>) -> (tensor<1x6x7x7xf32>, tensor<2x3x4xf32>, tensor<?x5xf32>) {
  %w = nn.constant dense<1> : tensor<2x3x3x3xi8>
  %wd = nn.dequantize %w by <i8, scale = 0.25> : (tensor<2x3x3x3xi8>) -> tensor<2x3x3x3xf32>
  %q = nn.quantize %x by <i8, scale = 0.5, zero_point = -3> : (tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xi8>
  %d = nn.dequantize %q by <i8, scale = 0.5, zero_point = -3> : (tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xf32>
  %up = nn.conv_transpose %d, %wd groups 2 strides [2, 2] pads [1, 1, 1, 1] from <caffe, "Deconvolution", "up"> : (tensor<1x2x4x4xf32>, tensor<2x3x3x3xf32>) -> tensor<1x6x7x7xf32>
  %fc = nn.matmul %z, %v, %c transpose_b from <caffe, "InnerProduct", "fc"> : (tensor<2x3x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  %gc = nn.matmul %m, %u from <caffe, "InnerProduct", "gc"> : (tensor<?x8xf32>, tensor<8x5xf32>) -> tensor<?x5xf32>
  func.return %up, %fc, %gc : tensor<1x6x7x7xf32>, tensor<2x3x4xf32>, tensor<?x5xf32>
}

// -----

// CHECK-LABEL: @products_refused
// CHECK:         ascend.Conv2DTranspose %up_input_size, %x, %w output_padding [0, 0, 1, 1]
// CHECK:         %last = ascend.Conv2DTranspose %last_input_size, %x, %c.filter strides [1, 2, 2, 1]
// CHECK:         %fc = ascend.BatchMatMulV2 %z, %v
// CHECK:         ascend.Conv2D
// CHECK:         ascend.DepthwiseConv2D
// REMARK-DAG:  [lower-to-ascend missed output-padding] "up": Deconvolution adds nothing to the size of its result
// REMARK-DAG:  [lower-to-ascend missed spatial-rank] "last": Deconvolution has two spatial axes, after the channels
// REMARK-DAG:  [lower-to-ascend missed inner-product] "fc": FullyConnection multiplies rank 2 or 3 by a matrix
// REMARK-DAG:  [lower-to-ascend missed spatial-rank] "dw": DepthwiseConv2D has two spatial axes
func.func @products_refused(%x: tensor<1x2x4x4xf32>, %w: tensor<2x3x2x2xf32>, %z: tensor<2x3x5x8xf32>, %v: tensor<8x4xf32>, %l: tensor<1x2x7xf32>) -> (tensor<1x3x9x9xf32>, tensor<1x4x8x3xf32>, tensor<2x3x5x4xf32>, tensor<1x2x5xf32>) {
  %c = nn.constant dense<1.0> : tensor<4x3x2x2xf32>
  %up = nn.conv_transpose %x, %w strides [2, 2] output_padding [1, 1] from <caffe, "Deconvolution", "up"> : (tensor<1x2x4x4xf32>, tensor<2x3x2x2xf32>) -> tensor<1x3x9x9xf32>
  %last = nn.conv_transpose %x, %c layout nhwc strides [2, 2] from <caffe, "Deconvolution", "last"> : (tensor<1x2x4x4xf32>, tensor<4x3x2x2xf32>) -> tensor<1x4x8x3xf32>
  %fc = nn.matmul %z, %v from <caffe, "InnerProduct", "fc"> : (tensor<2x3x5x8xf32>, tensor<8x4xf32>) -> tensor<2x3x5x4xf32>
  %k = nn.constant dense<1.0> : tensor<2x1x3xf32>
  %dw = nn.conv %l, %k groups 2 from <tensorflow, "DepthwiseConv2dNative", "dw"> : (tensor<1x2x7xf32>, tensor<2x1x3xf32>) -> tensor<1x2x5xf32>
  %f = nn.constant dense<1.0> : tensor<2x1x3x3xf32>
  %planar = nn.conv %x, %f groups 2 from <tensorflow, "DepthwiseConv2dNative", "planar"> : (tensor<1x2x4x4xf32>, tensor<2x1x3x3xf32>) -> tensor<1x2x2x2xf32>
  func.return %up, %last, %fc, %dw : tensor<1x3x9x9xf32>, tensor<1x4x8x3xf32>, tensor<2x3x5x4xf32>, tensor<1x2x5xf32>
}

// -----

// Caffe's elementwise layers.
// CHECK-LABEL: @caffe_elementwise
// CHECK-NEXT:    %a = ascend.Eltwise %x, %x N 2 from
// CHECK-NEXT:    %b = ascend.Eltwise %a, %x mode 0 N 2
// CHECK-NEXT:    %c = ascend.Eltwise %b, %x mode 2 N 2
// CHECK-NEXT:    %d_scale = nn.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00]> : tensor<3xf32>
// CHECK-NEXT:    %d = ascend.Scale %c, %d_scale from
// CHECK-NEXT:    %e_bias = nn.constant dense<5.000000e-01> : tensor<f32>
// CHECK-NEXT:    %e = ascend.Bias %d, %e_bias axis 0 num_axes 0
// CHECK-NEXT:    %f_bias = nn.constant {{.*}} : tensor<3x2xf32>
// CHECK-NEXT:    %f = ascend.Bias %e, %f_bias num_axes 2
// REMARK-DAG:  [lower-to-ascend applied lower] "bn": computed by ascend.BNInference
func.func @caffe_elementwise(%x: tensor<1x3x2x2xf32>) -> tensor<1x3x2x2xf32> {
  %a = nn.add %x, %x from <caffe, "Eltwise", "a"> : tensor<1x3x2x2xf32>
  %b = nn.mul %a, %x from <caffe, "Eltwise", "b"> : tensor<1x3x2x2xf32>
  %c = nn.max %b, %x from <caffe, "Eltwise", "c"> : tensor<1x3x2x2xf32>
  %s = nn.constant dense<[[[1.0]], [[2.0]], [[3.0]]]> : tensor<3x1x1xf32>
  %d = nn.mul %c, %s from <caffe, "Scale", "d"> : (tensor<1x3x2x2xf32>, tensor<3x1x1xf32>) -> tensor<1x3x2x2xf32>
  %h = nn.constant dense<0.5> : tensor<1xf32>
  %e = nn.add %d, %h from <caffe, "Scale", "d"> : (tensor<1x3x2x2xf32>, tensor<1xf32>) -> tensor<1x3x2x2xf32>
  %t = nn.constant dense<[[[1.0], [2.0]], [[3.0], [4.0]], [[5.0], [6.0]]]> : tensor<3x2x1xf32>
  %f = nn.add %e, %t from <caffe, "Bias", "f"> : (tensor<1x3x2x2xf32>, tensor<3x2x1xf32>) -> tensor<1x3x2x2xf32>
  %one = nn.constant dense<1.0> : tensor<3xf32>
  %zero = nn.constant dense<0.0> : tensor<3xf32>
  %v = nn.constant dense<2.0> : tensor<3xf32>
  %bn = nn.batch_norm %f, %one, %zero, %v, %v from <caffe, "BatchNorm", "bn"> : (tensor<1x3x2x2xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<1x3x2x2xf32>
  func.return %bn : tensor<1x3x2x2xf32>
}

// -----

// CHECK-LABEL: @elementwise_refused
// CHECK:         ascend.Mul %x, %two
// CHECK:         ascend.Mul %i, %n
// CHECK:         ascend.Mul {{.*}}, %g
// CHECK:         ascend.Add {{.*}}, %y
// CHECK:         ascend.BNInfer
// REMARK-DAG:  [lower-to-ascend missed equal-shapes] "a": Eltwise takes tensors of one shape
// REMARK-DAG:  [lower-to-ascend missed float-type] "i": Caffe's layers are of floats, not i32
// REMARK-DAG:  [lower-to-ascend missed covered-axes] "s": its scale repeats along an axis between others that it covers
// REMARK-DAG:  [lower-to-ascend missed constant-bias] "b": its bias is computed at run time
// REMARK-DAG:  [lower-to-ascend missed no-scale] "bn": BNInference neither scales nor adds, and something was folded into the layer
func.func @elementwise_refused(%x: tensor<2x3x2x2xf32>, %i: tensor<2x3xi32>, %y: tensor<2x3x2x2xf32>) -> (tensor<2x3xi32>, tensor<2x3x2x2xf32>) {
  %two = nn.constant dense<2.0> : tensor<f32>
  %a = nn.mul %x, %two from <caffe, "Eltwise", "a"> : (tensor<2x3x2x2xf32>, tensor<f32>) -> tensor<2x3x2x2xf32>
  %n = nn.constant dense<2> : tensor<3xi32>
  %j = nn.mul %i, %n from <caffe, "Scale", "i"> : (tensor<2x3xi32>, tensor<3xi32>) -> tensor<2x3xi32>
  %g = nn.constant dense<2.0> : tensor<3x1x2xf32>
  %s = nn.mul %a, %g from <caffe, "Scale", "s"> : (tensor<2x3x2x2xf32>, tensor<3x1x2xf32>) -> tensor<2x3x2x2xf32>
  %b = nn.add %s, %y from <caffe, "Bias", "b"> : tensor<2x3x2x2xf32>
  %v = nn.constant dense<2.0> : tensor<3xf32>
  %bn = nn.batch_norm %b, %v, %v, %v, %v from <caffe, "BatchNorm", "bn"> : (tensor<2x3x2x2xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<2x3x2x2xf32>
  func.return %j, %bn : tensor<2x3xi32>, tensor<2x3x2x2xf32>
}
