// RUN: amct-opt %s --fuse-activation --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks
// RUN: amct-opt %s --fuse-activation --split-input-file --print-debuginfo | filecheck %s --check-prefix LOC

// Ranks 1 and 3 in the names.
// CHECK-LABEL: @ranks
// CHECK:       nn.fused "ConvReLU1d"
// CHECK:       nn.fused "ConvTransposeAddReLU63d"
// REMARK:      "r3": fused into ConvTransposeAddReLU63d deconv3
// REMARK:      "r1": fused into ConvReLU1d conv1
func.func @ranks(%x: tensor<1x2x4xf32>, %v: tensor<1x2x4x4x4xf32>, %r: tensor<1x2x4x4x4xf32>) -> (tensor<1x2x4xf32>, tensor<1x2x4x4x4xf32>) {
  %w1 = nn.constant dense<1.0> : tensor<2x2x1xf32>
  %w3 = nn.constant dense<1.0> : tensor<2x2x1x1x1xf32>
  %c = nn.conv %x, %w1 from <onnx, "Conv", "conv1"> : (tensor<1x2x4xf32>, tensor<2x2x1xf32>) -> tensor<1x2x4xf32>
  %y = nn.relu %c from <onnx, "Relu", "r1"> : tensor<1x2x4xf32>
  %d = nn.conv_transpose %v, %w3 from <onnx, "ConvTranspose", "deconv3"> : (tensor<1x2x4x4x4xf32>, tensor<2x2x1x1x1xf32>) -> tensor<1x2x4x4x4xf32>
  %a = nn.add %d, %r from <onnx, "Add", "a3"> : tensor<1x2x4x4x4xf32>
  %z = nn.relu6 %a from <onnx, "Clip", "r3"> : tensor<1x2x4x4x4xf32>
  func.return %y, %z : tensor<1x2x4xf32>, tensor<1x2x4x4x4xf32>
}

// -----

// Dense layers: Linear where the second operand is a weight, quantized or not, MatMul where it is computed.
// CHECK-LABEL: @linear
// CHECK:       nn.fused "LinearReLU"
// CHECK:       nn.fused "LinearAdd"
// CHECK:       nn.fused "LinearAddReLU"
// CHECK:       nn.fused "MatMulReLU"
// CHECK:       nn.fused "LinearReLU6"
func.func @linear(%x: tensor<2x2xf32>, %r: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %w = nn.constant dense<1.0> : tensor<2x2xf32>
  %b = nn.constant dense<1.0> : tensor<2xf32>
  %q = nn.constant dense<1> : tensor<2x2xi8>
  %f1 = nn.matmul %x, %w, %b from <onnx, "Gemm", "fc1"> : (tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<2x2xf32>
  %r1 = nn.relu %f1 : tensor<2x2xf32>
  %f2 = nn.matmul %r1, %w from <onnx, "MatMul", "fc2"> : tensor<2x2xf32>
  %a2 = nn.add %r, %f2 : tensor<2x2xf32>
  %f3 = nn.matmul %a2, %w from <onnx, "MatMul", "fc3"> : tensor<2x2xf32>
  %a3 = nn.add %f3, %r : tensor<2x2xf32>
  %r3 = nn.relu %a3 : tensor<2x2xf32>
  %m = nn.matmul %r3, %r from <onnx, "MatMul", "product"> : tensor<2x2xf32>
  %r4 = nn.relu %m : tensor<2x2xf32>
  %wq = nn.dequantize %q by <i8, scale = 0.5> : (tensor<2x2xi8>) -> tensor<2x2xf32>
  %f5 = nn.matmul %r4, %wq from <onnx, "MatMul", "fc5"> : tensor<2x2xf32>
  %r5 = nn.relu6 %f5 : tensor<2x2xf32>
  func.return %r5 : tensor<2x2xf32>
}

// -----

// A BiasAdd that was not folded goes in; the location holds all parts; inner operations keep their own.
// CHECK-LABEL: @bias_add
// CHECK:       nn.fused "ConvReLU2d" ({{%.*}} = %x, {{%.*}} = %weight, {{%.*}} = %bias) from <tf, "Conv2D", "conv">
// CHECK-NEXT:  nn.conv
// CHECK-NEXT:  nn.bias_add
// CHECK-NEXT:  nn.relu
// LOC-LABEL:   @bias_add
// LOC:         nn.conv {{.*}} loc("[[F:.*]]":[[C:[0-9]+]]:3)
// LOC-NEXT:    nn.bias_add {{.*}} loc("[[F]]":[[B:[0-9]+]]:3)
// LOC-NEXT:    nn.relu {{.*}} loc("[[F]]":[[R:[0-9]+]]:3)
// LOC:         } loc(fused["[[F]]":[[C]]:3, "[[F]]":[[B]]:3, "[[F]]":[[R]]:3])
func.func @bias_add(%x: tensor<1x2x4x4xf32>, %bias: tensor<2xf32>) -> tensor<1x2x4x4xf32> {
  %weight = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %c = nn.conv %x, %weight from <tf, "Conv2D", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %b = nn.bias_add %c, %bias from <tf, "BiasAdd", "bias"> : (tensor<1x2x4x4xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.relu %b from <tf, "Relu", "relu"> : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// The longest chain wins, and what is convolved and added too comes in twice: quantizing the one leaves the other.
// CHECK-LABEL: @residual_of_itself
// CHECK:       nn.fused "ConvAddReLU2d" ([[X:%.*]] = %x, {{%.*}} = %weight, [[R:%.*]] = %x)
// CHECK-NEXT:  nn.conv [[X]],
// CHECK-NEXT:  nn.add {{%.*}}, [[R]]
// CHECK-NEXT:  nn.relu
// CHECK:       nn.fused "ConvAddReLU2d"
func.func @residual_of_itself(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %weight = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %c = nn.conv %x, %weight from <onnx, "Conv", "c1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %a = nn.add %c, %x from <onnx, "Add", "a1"> : tensor<1x2x4x4xf32>
  %y = nn.relu %a from <onnx, "Relu", "r1"> : tensor<1x2x4x4xf32>
  %d = nn.conv %y, %weight from <onnx, "Conv", "c2"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %b = nn.add %d, %y from <onnx, "Add", "a2"> : tensor<1x2x4x4xf32>
  %z = nn.relu %b from <onnx, "Relu", "r2"> : tensor<1x2x4x4xf32>
  func.return %z : tensor<1x2x4x4xf32>
}

// -----

// Both operands are convolutions: one goes in, the other is the residual; one that is used elsewhere is never the one.
// CHECK-LABEL: @two_convolutions
// CHECK:       [[SHARED:%.*]] = nn.conv {{.*}} from <onnx, "Conv", "shared">
// CHECK:       [[SECOND:%.*]] = nn.conv {{.*}} from <onnx, "Conv", "second">
// CHECK:       [[Y:%.*]] = nn.fused "ConvAddReLU2d" ({{.*}} = [[SECOND]]) from <onnx, "Conv", "first">
// CHECK:       nn.fused "ConvAdd2d" ({{.*}} = [[SHARED]]) from <onnx, "Conv", "third">
func.func @two_convolutions(%x: tensor<1x2x4x4xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) {
  %weight = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %s = nn.conv %x, %weight from <onnx, "Conv", "shared"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %c = nn.conv %s, %weight from <onnx, "Conv", "first"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %d = nn.conv %x, %weight from <onnx, "Conv", "second"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %a = nn.add %c, %d : tensor<1x2x4x4xf32>
  %y = nn.relu %a : tensor<1x2x4x4xf32>
  %e = nn.conv %y, %weight from <onnx, "Conv", "third"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %b = nn.add %s, %e : tensor<1x2x4x4xf32>
  func.return %y, %b : tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>
}

// -----

// Clips by their bounds.
// CHECK-LABEL: @clips
// CHECK:       nn.fused "ConvReLU62d"
// CHECK:       nn.fused "ConvReLU2d"
// CHECK:       nn.fused "ConvClip2d"
func.func @clips(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %weight = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %c = nn.conv %x, %weight : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %r = nn.clip %c min 0.0 max 6.0 : tensor<1x2x4x4xf32>
  %d = nn.conv %r, %weight : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %s = nn.clip %d min 0.0 : tensor<1x2x4x4xf32>
  %e = nn.conv %s, %weight : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %t = nn.clip %e min -1.0 max 1.0 : tensor<1x2x4x4xf32>
  func.return %t : tensor<1x2x4x4xf32>
}

// -----

// PPQ's relu and clip after any operation: Add, Concat, pooling.
// CHECK-LABEL: @any
// CHECK:       nn.fused "AddReLU" ({{%.*}} = %x, {{%.*}} = %r) from <onnx, "Add", "add">
// CHECK:       nn.fused "ConcatReLU6"
// CHECK:       nn.fused "MaxPoolClip"
// REMARK:      [fuse-activation applied any-activation] "ra": fused into AddReLU add
func.func @any(%x: tensor<1x2x4x4xf32>, %r: tensor<1x2x4x4xf32>) -> tensor<1x4x4x4xf32> {
  %a = nn.add %x, %r from <onnx, "Add", "add"> : tensor<1x2x4x4xf32>
  %b = nn.relu %a from <onnx, "Relu", "ra"> : tensor<1x2x4x4xf32>
  %c = nn.concat %b, %x axis 1 from <onnx, "Concat", "cat"> : (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) -> tensor<1x4x4x4xf32>
  %d = nn.relu6 %c from <onnx, "Clip", "rc"> : tensor<1x4x4x4xf32>
  %p = nn.max_pool %d kernel [1, 1] from <onnx, "MaxPool", "pool"> : tensor<1x4x4x4xf32>
  %e = nn.clip %p max 1.0 from <onnx, "Clip", "rp"> : tensor<1x4x4x4xf32>
  func.return %e : tensor<1x4x4x4xf32>
}

// -----

// An add whose convolution is used elsewhere too: not into the convolution, but the relu goes with it, and both are told.
// CHECK-LABEL: @shared
// CHECK:       [[C:%.*]] = nn.conv
// CHECK:       nn.fused "AddReLU" ({{%.*}} = [[C]], {{%.*}} = %r)
// REMARK:      [fuse-activation missed used-inside] "add": the result of conv is also a graph output
// REMARK:      [fuse-activation applied any-activation] "relu": fused into AddReLU add
func.func @shared(%x: tensor<1x2x4x4xf32>, %r: tensor<1x2x4x4xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) {
  %weight = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %a = nn.add %c, %r from <onnx, "Add", "add"> : tensor<1x2x4x4xf32>
  %y = nn.relu %a from <onnx, "Relu", "relu"> : tensor<1x2x4x4xf32>
  func.return %c, %y : tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>
}

// -----

// On quantized weights and activations too, the points staying outside.
// CHECK-LABEL: @quantized
// CHECK:       [[X:%.*]] = nn.dequantize
// CHECK:       [[W:%.*]] = nn.dequantize
// CHECK:       nn.fused "ConvReLU2d" ({{%.*}} = [[X]], {{%.*}} = [[W]])
func.func @quantized(%x: tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xf32> {
  %q = nn.constant dense<1> : tensor<2x2x1x1xi8>
  %f = nn.dequantize %x by <i8, scale = 0.5> : (tensor<1x2x4x4xi8>) -> tensor<1x2x4x4xf32>
  %w = nn.dequantize %q by <i8, scale = 0.5> : (tensor<2x2x1x1xi8>) -> tensor<2x2x1x1xf32>
  %c = nn.conv %f, %w : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.relu %c : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// A relu after a max pool goes before it: the largest element stays the same, and the pool reads what the relu leaves.
// CHECK-LABEL: @pooled
// CHECK:       [[C:%.*]] = nn.fused "ConvReLU2d"
// CHECK-NEXT:    [[I:%.*]] = nn.conv {{.*}} "conv1"
// CHECK-NEXT:    nn.relu [[I]] from <onnx, "Relu", "r"> : tensor<1x2x4x4xf32>
// CHECK:       [[P:%.*]] = nn.max_pool [[C]] kernel [2, 2] pads [1, 0, 1, 0] from <onnx, "MaxPool", "pool"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x5x3xf32>
// CHECK-NEXT:  func.return [[P]]
// REMARK:      [fuse-activation applied compute-pool-activation] "r": fused into ConvReLU2d conv1, before pool
func.func @pooled(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x5x3xf32> {
  %weight = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %p = nn.max_pool %c kernel [2, 2] pads [1, 0, 1, 0] from <onnx, "MaxPool", "pool"> : (tensor<1x2x4x4xf32>) -> tensor<1x2x5x3xf32>
  %y = nn.relu %p from <onnx, "Relu", "r"> : tensor<1x2x5x3xf32>
  func.return %y : tensor<1x2x5x3xf32>
}

// -----

// With a BiasAdd, and the pool over all of space.
// CHECK-LABEL: @pooled_globally
// CHECK:       [[C:%.*]] = nn.fused "ConvReLU62d"
// CHECK:       nn.bias_add
// CHECK-NEXT:  nn.relu6
// CHECK:       nn.global_max_pool [[C]]
func.func @pooled_globally(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x1x1xf32> {
  %weight = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %b = nn.constant dense<1.0> : tensor<2xf32>
  %c = nn.conv %x, %weight : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %d = nn.bias_add %c, %b : (tensor<1x2x4x4xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %p = nn.global_max_pool %d : (tensor<1x2x4x4xf32>) -> tensor<1x2x1x1xf32>
  %y = nn.relu6 %p : tensor<1x2x1x1xf32>
  func.return %y : tensor<1x2x1x1xf32>
}
