// RUN: CONSTANTS | amct-opt - --fuse-bn --fuse-activation --split-input-file --remarks=all 2>%t.remarks | filecheck %s
// RUN: filecheck %s --check-prefix REMARK < %t.remarks

// CONSTANT: %weight = nn.constant dense<[[[[1.0]], [[3.0]]], [[[5.0]], [[7.0]]]]> : tensor<2x2x1x1xf32>
// CONSTANT: %one = nn.constant dense<1.0> : tensor<2xf32>

// Horizon's 21 combinations: {Conv2d, ConvTranspose2d} x [BatchNorm2d] x [add] x [ReLU | ReLU6]. The batch norm is folded first;
// the convolution is the left operand of the add with ReLU, and the right one with ReLU6 and alone.

// CHECK-LABEL: @conv_bn_relu(
// CHECK-NOT:   nn.batch_norm
// CHECK:       [[Y:%.*]] = nn.fused "ConvReLU2d" ({{%.*}} = %x, {{%.*}} = {{%.*}}, {{%.*}} = {{%.*}}) from <onnx, "Conv", "conv"> :
// CHECK-NEXT:  [[C:%.*]] = nn.conv {{.*}}
// CHECK-NEXT:  [[R:%.*]] = nn.relu [[C]]
// CHECK-NEXT:  nn.yield [[R]]
// CHECK-NEXT:  }
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-activation applied compute-activation] "relu": fused into ConvReLU2d conv
func.func @conv_bn_relu(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %b = nn.batch_norm %c, %one, %one, %one, %one from <onnx, "BatchNormalization", "bn"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.relu %b from <onnx, "Relu", "relu"> : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// CHECK-LABEL: @conv_relu(
// CHECK:       [[Y:%.*]] = nn.fused "ConvReLU2d" ({{%.*}} = %x, {{%.*}} = {{%.*}}) from <onnx, "Conv", "conv"> :
// CHECK-NEXT:  [[C:%.*]] = nn.conv {{.*}}
// CHECK-NEXT:  [[R:%.*]] = nn.relu [[C]]
// CHECK-NEXT:  nn.yield [[R]]
// CHECK-NEXT:  }
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-activation applied compute-activation] "relu": fused into ConvReLU2d conv
func.func @conv_relu(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.relu %c from <onnx, "Relu", "relu"> : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// CHECK-LABEL: @conv_bn_add(
// CHECK-NOT:   nn.batch_norm
// CHECK:       [[Y:%.*]] = nn.fused "ConvAdd2d" ({{%.*}} = %x, {{%.*}} = {{%.*}}, {{%.*}} = {{%.*}}, {{%.*}} = %r) from <onnx, "Conv", "conv"> :
// CHECK-NEXT:  [[C:%.*]] = nn.conv {{.*}}
// CHECK-NEXT:  [[A:%.*]] = nn.add {{%.*}}, [[C]]
// CHECK-NEXT:  nn.yield [[A]]
// CHECK-NEXT:  }
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-activation applied compute-residual] "add": fused into ConvAdd2d conv
func.func @conv_bn_add(%x: tensor<1x2x4x4xf32>, %r: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %b = nn.batch_norm %c, %one, %one, %one, %one from <onnx, "BatchNormalization", "bn"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %a = nn.add %r, %b from <onnx, "Add", "add"> : tensor<1x2x4x4xf32>
  func.return %a : tensor<1x2x4x4xf32>
}

// -----

// CHECK-LABEL: @conv_bn_add_relu(
// CHECK-NOT:   nn.batch_norm
// CHECK:       [[Y:%.*]] = nn.fused "ConvAddReLU2d" ({{%.*}} = %x, {{%.*}} = {{%.*}}, {{%.*}} = {{%.*}}, {{%.*}} = %r) from <onnx, "Conv", "conv"> :
// CHECK-NEXT:  [[C:%.*]] = nn.conv {{.*}}
// CHECK-NEXT:  [[A:%.*]] = nn.add [[C]], {{%.*}}
// CHECK-NEXT:  [[R:%.*]] = nn.relu [[A]]
// CHECK-NEXT:  nn.yield [[R]]
// CHECK-NEXT:  }
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-activation applied compute-residual-activation] "relu": fused into ConvAddReLU2d conv
func.func @conv_bn_add_relu(%x: tensor<1x2x4x4xf32>, %r: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %b = nn.batch_norm %c, %one, %one, %one, %one from <onnx, "BatchNormalization", "bn"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %a = nn.add %b, %r from <onnx, "Add", "add"> : tensor<1x2x4x4xf32>
  %y = nn.relu %a from <onnx, "Relu", "relu"> : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// CHECK-LABEL: @conv_add(
// CHECK:       [[Y:%.*]] = nn.fused "ConvAdd2d" ({{%.*}} = %x, {{%.*}} = {{%.*}}, {{%.*}} = %r) from <onnx, "Conv", "conv"> :
// CHECK-NEXT:  [[C:%.*]] = nn.conv {{.*}}
// CHECK-NEXT:  [[A:%.*]] = nn.add {{%.*}}, [[C]]
// CHECK-NEXT:  nn.yield [[A]]
// CHECK-NEXT:  }
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-activation applied compute-residual] "add": fused into ConvAdd2d conv
func.func @conv_add(%x: tensor<1x2x4x4xf32>, %r: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %a = nn.add %r, %c from <onnx, "Add", "add"> : tensor<1x2x4x4xf32>
  func.return %a : tensor<1x2x4x4xf32>
}

// -----

// CHECK-LABEL: @conv_add_relu(
// CHECK:       [[Y:%.*]] = nn.fused "ConvAddReLU2d" ({{%.*}} = %x, {{%.*}} = {{%.*}}, {{%.*}} = %r) from <onnx, "Conv", "conv"> :
// CHECK-NEXT:  [[C:%.*]] = nn.conv {{.*}}
// CHECK-NEXT:  [[A:%.*]] = nn.add [[C]], {{%.*}}
// CHECK-NEXT:  [[R:%.*]] = nn.relu [[A]]
// CHECK-NEXT:  nn.yield [[R]]
// CHECK-NEXT:  }
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-activation applied compute-residual-activation] "relu": fused into ConvAddReLU2d conv
func.func @conv_add_relu(%x: tensor<1x2x4x4xf32>, %r: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %a = nn.add %c, %r from <onnx, "Add", "add"> : tensor<1x2x4x4xf32>
  %y = nn.relu %a from <onnx, "Relu", "relu"> : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// CHECK-LABEL: @conv_transpose_relu(
// CHECK:       [[Y:%.*]] = nn.fused "ConvTransposeReLU2d" ({{%.*}} = %x, {{%.*}} = {{%.*}}) from <onnx, "ConvTranspose", "conv"> :
// CHECK-NEXT:  [[C:%.*]] = nn.conv_transpose {{.*}}
// CHECK-NEXT:  [[R:%.*]] = nn.relu [[C]]
// CHECK-NEXT:  nn.yield [[R]]
// CHECK-NEXT:  }
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-activation applied compute-activation] "relu": fused into ConvTransposeReLU2d conv
func.func @conv_transpose_relu(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv_transpose %x, %weight from <onnx, "ConvTranspose", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.relu %c from <onnx, "Relu", "relu"> : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// CHECK-LABEL: @conv_transpose_add(
// CHECK:       [[Y:%.*]] = nn.fused "ConvTransposeAdd2d" ({{%.*}} = %x, {{%.*}} = {{%.*}}, {{%.*}} = %r) from <onnx, "ConvTranspose", "conv"> :
// CHECK-NEXT:  [[C:%.*]] = nn.conv_transpose {{.*}}
// CHECK-NEXT:  [[A:%.*]] = nn.add {{%.*}}, [[C]]
// CHECK-NEXT:  nn.yield [[A]]
// CHECK-NEXT:  }
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-activation applied compute-residual] "add": fused into ConvTransposeAdd2d conv
func.func @conv_transpose_add(%x: tensor<1x2x4x4xf32>, %r: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv_transpose %x, %weight from <onnx, "ConvTranspose", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %a = nn.add %r, %c from <onnx, "Add", "add"> : tensor<1x2x4x4xf32>
  func.return %a : tensor<1x2x4x4xf32>
}

// -----

// CHECK-LABEL: @conv_transpose_add_relu(
// CHECK:       [[Y:%.*]] = nn.fused "ConvTransposeAddReLU2d" ({{%.*}} = %x, {{%.*}} = {{%.*}}, {{%.*}} = %r) from <onnx, "ConvTranspose", "conv"> :
// CHECK-NEXT:  [[C:%.*]] = nn.conv_transpose {{.*}}
// CHECK-NEXT:  [[A:%.*]] = nn.add [[C]], {{%.*}}
// CHECK-NEXT:  [[R:%.*]] = nn.relu [[A]]
// CHECK-NEXT:  nn.yield [[R]]
// CHECK-NEXT:  }
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-activation applied compute-residual-activation] "relu": fused into ConvTransposeAddReLU2d conv
func.func @conv_transpose_add_relu(%x: tensor<1x2x4x4xf32>, %r: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv_transpose %x, %weight from <onnx, "ConvTranspose", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %a = nn.add %c, %r from <onnx, "Add", "add"> : tensor<1x2x4x4xf32>
  %y = nn.relu %a from <onnx, "Relu", "relu"> : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// CHECK-LABEL: @conv_transpose_bn(
// CHECK-NOT:   nn.batch_norm
// CHECK:       [[Y:%.*]] = nn.conv_transpose {{.*}}
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-bn applied compute-batch-norm] "bn": fused into conv
func.func @conv_transpose_bn(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv_transpose %x, %weight from <onnx, "ConvTranspose", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %b = nn.batch_norm %c, %one, %one, %one, %one from <onnx, "BatchNormalization", "bn"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  func.return %b : tensor<1x2x4x4xf32>
}

// -----

// CHECK-LABEL: @conv_transpose_bn_relu(
// CHECK-NOT:   nn.batch_norm
// CHECK:       [[Y:%.*]] = nn.fused "ConvTransposeReLU2d" ({{%.*}} = %x, {{%.*}} = {{%.*}}, {{%.*}} = {{%.*}}) from <onnx, "ConvTranspose", "conv"> :
// CHECK-NEXT:  [[C:%.*]] = nn.conv_transpose {{.*}}
// CHECK-NEXT:  [[R:%.*]] = nn.relu [[C]]
// CHECK-NEXT:  nn.yield [[R]]
// CHECK-NEXT:  }
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-activation applied compute-activation] "relu": fused into ConvTransposeReLU2d conv
func.func @conv_transpose_bn_relu(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv_transpose %x, %weight from <onnx, "ConvTranspose", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %b = nn.batch_norm %c, %one, %one, %one, %one from <onnx, "BatchNormalization", "bn"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.relu %b from <onnx, "Relu", "relu"> : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// CHECK-LABEL: @conv_transpose_bn_add(
// CHECK-NOT:   nn.batch_norm
// CHECK:       [[Y:%.*]] = nn.fused "ConvTransposeAdd2d" ({{%.*}} = %x, {{%.*}} = {{%.*}}, {{%.*}} = {{%.*}}, {{%.*}} = %r) from <onnx, "ConvTranspose", "conv"> :
// CHECK-NEXT:  [[C:%.*]] = nn.conv_transpose {{.*}}
// CHECK-NEXT:  [[A:%.*]] = nn.add {{%.*}}, [[C]]
// CHECK-NEXT:  nn.yield [[A]]
// CHECK-NEXT:  }
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-activation applied compute-residual] "add": fused into ConvTransposeAdd2d conv
func.func @conv_transpose_bn_add(%x: tensor<1x2x4x4xf32>, %r: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv_transpose %x, %weight from <onnx, "ConvTranspose", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %b = nn.batch_norm %c, %one, %one, %one, %one from <onnx, "BatchNormalization", "bn"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %a = nn.add %r, %b from <onnx, "Add", "add"> : tensor<1x2x4x4xf32>
  func.return %a : tensor<1x2x4x4xf32>
}

// -----

// CHECK-LABEL: @conv_transpose_bn_add_relu(
// CHECK-NOT:   nn.batch_norm
// CHECK:       [[Y:%.*]] = nn.fused "ConvTransposeAddReLU2d" ({{%.*}} = %x, {{%.*}} = {{%.*}}, {{%.*}} = {{%.*}}, {{%.*}} = %r) from <onnx, "ConvTranspose", "conv"> :
// CHECK-NEXT:  [[C:%.*]] = nn.conv_transpose {{.*}}
// CHECK-NEXT:  [[A:%.*]] = nn.add [[C]], {{%.*}}
// CHECK-NEXT:  [[R:%.*]] = nn.relu [[A]]
// CHECK-NEXT:  nn.yield [[R]]
// CHECK-NEXT:  }
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-activation applied compute-residual-activation] "relu": fused into ConvTransposeAddReLU2d conv
func.func @conv_transpose_bn_add_relu(%x: tensor<1x2x4x4xf32>, %r: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv_transpose %x, %weight from <onnx, "ConvTranspose", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %b = nn.batch_norm %c, %one, %one, %one, %one from <onnx, "BatchNormalization", "bn"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %a = nn.add %b, %r from <onnx, "Add", "add"> : tensor<1x2x4x4xf32>
  %y = nn.relu %a from <onnx, "Relu", "relu"> : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// CHECK-LABEL: @conv_bn_relu6(
// CHECK-NOT:   nn.batch_norm
// CHECK:       [[Y:%.*]] = nn.fused "ConvReLU62d" ({{%.*}} = %x, {{%.*}} = {{%.*}}, {{%.*}} = {{%.*}}) from <onnx, "Conv", "conv"> :
// CHECK-NEXT:  [[C:%.*]] = nn.conv {{.*}}
// CHECK-NEXT:  [[R:%.*]] = nn.relu6 [[C]]
// CHECK-NEXT:  nn.yield [[R]]
// CHECK-NEXT:  }
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-activation applied compute-activation] "relu6": fused into ConvReLU62d conv
func.func @conv_bn_relu6(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %b = nn.batch_norm %c, %one, %one, %one, %one from <onnx, "BatchNormalization", "bn"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.relu6 %b from <onnx, "Relu", "relu6"> : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// CHECK-LABEL: @conv_relu6(
// CHECK:       [[Y:%.*]] = nn.fused "ConvReLU62d" ({{%.*}} = %x, {{%.*}} = {{%.*}}) from <onnx, "Conv", "conv"> :
// CHECK-NEXT:  [[C:%.*]] = nn.conv {{.*}}
// CHECK-NEXT:  [[R:%.*]] = nn.relu6 [[C]]
// CHECK-NEXT:  nn.yield [[R]]
// CHECK-NEXT:  }
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-activation applied compute-activation] "relu6": fused into ConvReLU62d conv
func.func @conv_relu6(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.relu6 %c from <onnx, "Relu", "relu6"> : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// CHECK-LABEL: @conv_bn_add_relu6(
// CHECK-NOT:   nn.batch_norm
// CHECK:       [[Y:%.*]] = nn.fused "ConvAddReLU62d" ({{%.*}} = %x, {{%.*}} = {{%.*}}, {{%.*}} = {{%.*}}, {{%.*}} = %r) from <onnx, "Conv", "conv"> :
// CHECK-NEXT:  [[C:%.*]] = nn.conv {{.*}}
// CHECK-NEXT:  [[A:%.*]] = nn.add {{%.*}}, [[C]]
// CHECK-NEXT:  [[R:%.*]] = nn.relu6 [[A]]
// CHECK-NEXT:  nn.yield [[R]]
// CHECK-NEXT:  }
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-activation applied compute-residual-activation] "relu6": fused into ConvAddReLU62d conv
func.func @conv_bn_add_relu6(%x: tensor<1x2x4x4xf32>, %r: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %b = nn.batch_norm %c, %one, %one, %one, %one from <onnx, "BatchNormalization", "bn"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %a = nn.add %r, %b from <onnx, "Add", "add"> : tensor<1x2x4x4xf32>
  %y = nn.relu6 %a from <onnx, "Relu", "relu6"> : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// CHECK-LABEL: @conv_add_relu6(
// CHECK:       [[Y:%.*]] = nn.fused "ConvAddReLU62d" ({{%.*}} = %x, {{%.*}} = {{%.*}}, {{%.*}} = %r) from <onnx, "Conv", "conv"> :
// CHECK-NEXT:  [[C:%.*]] = nn.conv {{.*}}
// CHECK-NEXT:  [[A:%.*]] = nn.add {{%.*}}, [[C]]
// CHECK-NEXT:  [[R:%.*]] = nn.relu6 [[A]]
// CHECK-NEXT:  nn.yield [[R]]
// CHECK-NEXT:  }
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-activation applied compute-residual-activation] "relu6": fused into ConvAddReLU62d conv
func.func @conv_add_relu6(%x: tensor<1x2x4x4xf32>, %r: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv %x, %weight from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %a = nn.add %r, %c from <onnx, "Add", "add"> : tensor<1x2x4x4xf32>
  %y = nn.relu6 %a from <onnx, "Relu", "relu6"> : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// CHECK-LABEL: @conv_transpose_relu6(
// CHECK:       [[Y:%.*]] = nn.fused "ConvTransposeReLU62d" ({{%.*}} = %x, {{%.*}} = {{%.*}}) from <onnx, "ConvTranspose", "conv"> :
// CHECK-NEXT:  [[C:%.*]] = nn.conv_transpose {{.*}}
// CHECK-NEXT:  [[R:%.*]] = nn.relu6 [[C]]
// CHECK-NEXT:  nn.yield [[R]]
// CHECK-NEXT:  }
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-activation applied compute-activation] "relu6": fused into ConvTransposeReLU62d conv
func.func @conv_transpose_relu6(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv_transpose %x, %weight from <onnx, "ConvTranspose", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.relu6 %c from <onnx, "Relu", "relu6"> : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// CHECK-LABEL: @conv_transpose_add_relu6(
// CHECK:       [[Y:%.*]] = nn.fused "ConvTransposeAddReLU62d" ({{%.*}} = %x, {{%.*}} = {{%.*}}, {{%.*}} = %r) from <onnx, "ConvTranspose", "conv"> :
// CHECK-NEXT:  [[C:%.*]] = nn.conv_transpose {{.*}}
// CHECK-NEXT:  [[A:%.*]] = nn.add {{%.*}}, [[C]]
// CHECK-NEXT:  [[R:%.*]] = nn.relu6 [[A]]
// CHECK-NEXT:  nn.yield [[R]]
// CHECK-NEXT:  }
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-activation applied compute-residual-activation] "relu6": fused into ConvTransposeAddReLU62d conv
func.func @conv_transpose_add_relu6(%x: tensor<1x2x4x4xf32>, %r: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv_transpose %x, %weight from <onnx, "ConvTranspose", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %a = nn.add %r, %c from <onnx, "Add", "add"> : tensor<1x2x4x4xf32>
  %y = nn.relu6 %a from <onnx, "Relu", "relu6"> : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// CHECK-LABEL: @conv_transpose_bn_relu6(
// CHECK-NOT:   nn.batch_norm
// CHECK:       [[Y:%.*]] = nn.fused "ConvTransposeReLU62d" ({{%.*}} = %x, {{%.*}} = {{%.*}}, {{%.*}} = {{%.*}}) from <onnx, "ConvTranspose", "conv"> :
// CHECK-NEXT:  [[C:%.*]] = nn.conv_transpose {{.*}}
// CHECK-NEXT:  [[R:%.*]] = nn.relu6 [[C]]
// CHECK-NEXT:  nn.yield [[R]]
// CHECK-NEXT:  }
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-activation applied compute-activation] "relu6": fused into ConvTransposeReLU62d conv
func.func @conv_transpose_bn_relu6(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv_transpose %x, %weight from <onnx, "ConvTranspose", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %b = nn.batch_norm %c, %one, %one, %one, %one from <onnx, "BatchNormalization", "bn"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %y = nn.relu6 %b from <onnx, "Relu", "relu6"> : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}

// -----

// CHECK-LABEL: @conv_transpose_bn_add_relu6(
// CHECK-NOT:   nn.batch_norm
// CHECK:       [[Y:%.*]] = nn.fused "ConvTransposeAddReLU62d" ({{%.*}} = %x, {{%.*}} = {{%.*}}, {{%.*}} = {{%.*}}, {{%.*}} = %r) from <onnx, "ConvTranspose", "conv"> :
// CHECK-NEXT:  [[C:%.*]] = nn.conv_transpose {{.*}}
// CHECK-NEXT:  [[A:%.*]] = nn.add {{%.*}}, [[C]]
// CHECK-NEXT:  [[R:%.*]] = nn.relu6 [[A]]
// CHECK-NEXT:  nn.yield [[R]]
// CHECK-NEXT:  }
// CHECK-NEXT:  func.return [[Y]]
// REMARK:      [fuse-activation applied compute-residual-activation] "relu6": fused into ConvTransposeAddReLU62d conv
func.func @conv_transpose_bn_add_relu6(%x: tensor<1x2x4x4xf32>, %r: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.conv_transpose %x, %weight from <onnx, "ConvTranspose", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %b = nn.batch_norm %c, %one, %one, %one, %one from <onnx, "BatchNormalization", "bn"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %a = nn.add %r, %b from <onnx, "Add", "add"> : tensor<1x2x4x4xf32>
  %y = nn.relu6 %a from <onnx, "Relu", "relu6"> : tensor<1x2x4x4xf32>
  func.return %y : tensor<1x2x4x4xf32>
}
