// RUN: amct-opt %s --fuse-modules='conv,relu' --split-input-file --verify-diagnostics | filecheck %s
// RUN: amct-opt %s --fuse-modules='conv,bn,relu' --split-input-file --verify-diagnostics | filecheck %s --check-prefix NORM
// RUN: amct-opt %s --fuse-modules='conv' --split-input-file --verify-diagnostics | filecheck %s --check-prefix SHORT
// RUN: amct-opt %s --fuse-modules='conv,relu' --skip-fusion=relu --split-input-file --verify-diagnostics | filecheck %s --check-prefix SKIP

// A list that cannot be fused is an error that says which link fails, and why.

// CHECK:      fuse-modules-missed.mlir:18:3: error: --fuse-modules cannot fuse conv,relu at relu: it does not take the result of conv: its input comes from 'nn.opaque' bn
// NORM:       fuse-modules-missed.mlir:17:3: error: --fuse-modules cannot fuse conv,bn,relu at bn: it is a batch norm in training mode, which computes the statistics of its batch
// NORM-NEXT:  hint: export the model in evaluation mode (model.eval())
// SHORT:      fuse-modules-missed.mlir:16:3: error: --fuse-modules cannot fuse conv at conv: nothing follows that it could be fused with
// SKIP:       fuse-modules-missed.mlir:18:3: error: --fuse-modules cannot fuse conv,relu at relu: it does not take the result of conv
func.func @training(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %one = nn.constant dense<1.0> : tensor<2xf32>
  %c = nn.conv %x, %w from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %n = nn.opaque %c, %one, %one, %one, %one framework "onnx" op_type "BatchNormalization" version 15 attrs {training_mode = 1 : i64} from <onnx, "BatchNormalization", "bn"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %r = nn.relu %n from <onnx, "Relu", "relu"> : tensor<1x2x4x4xf32>
  func.return %r : tensor<1x2x4x4xf32>
}

// -----

// CHECK:      error: --fuse-modules cannot fuse conv,relu at relu: the result of conv is also a graph output (used-inside)
// NORM:       error: --fuse-modules: no layer or module is called 'bn'
// NORM-NEXT:  hint: layers are conv, relu
// SKIP:       error: --fuse-modules cannot fuse conv,relu at relu: relu is on the list of --skip-fusion (skip-fusion)
func.func @used(%x: tensor<1x2x4x4xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %c = nn.conv %x, %w from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %r = nn.relu %c from <onnx, "Relu", "relu"> : tensor<1x2x4x4xf32>
  func.return %c, %r : tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>
}

// -----

// CHECK:      error: --fuse-modules cannot fuse conv,relu at conv: a chain starts with a convolution or matrix product, not 'nn.max_pool'
func.func @no_compute(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %c = nn.max_pool %x kernel [1, 1] from <onnx, "MaxPool", "conv"> : tensor<1x2x4x4xf32>
  %r = nn.relu %c from <onnx, "Relu", "relu"> : tensor<1x2x4x4xf32>
  func.return %r : tensor<1x2x4x4xf32>
}

// -----

// CHECK:      error: --fuse-modules cannot fuse conv,relu at relu: no fusion of 'nn.max_pool' with what comes before it is known
func.func @no_fusion(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %c = nn.conv %x, %w from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %r = nn.max_pool %c kernel [1, 1] from <onnx, "MaxPool", "relu"> : tensor<1x2x4x4xf32>
  func.return %r : tensor<1x2x4x4xf32>
}

// -----

// A batch norm that is legal by its place and not by its numbers: the condition of fuse-bn is told.
// CHECK:      error: --fuse-modules cannot fuse conv,relu at relu: it does not take the result of conv: its input comes from 'nn.batch_norm' bn
// NORM:       error: --fuse-modules cannot fuse conv,bn,relu at bn: its variance is computed at run time (parameters-constant)
func.func @norm(%x: tensor<1x2x4x4xf32>, %v: tensor<2xf32>) -> tensor<1x2x4x4xf32> {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %one = nn.constant dense<1.0> : tensor<2xf32>
  %c = nn.conv %x, %w from <onnx, "Conv", "conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %n = nn.batch_norm %c, %one, %one, %one, %v from <onnx, "BatchNormalization", "bn"> : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %r = nn.relu %n from <onnx, "Relu", "relu"> : tensor<1x2x4x4xf32>
  func.return %r : tensor<1x2x4x4xf32>
}

// -----

// A module that is called twice.
// CHECK:      error: --fuse-modules cannot fuse conv,relu at conv: it is a module that is called 2 times, as /conv/Conv, /conv/Conv_1: name one of them
func.func @twice(%x: tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = nn.constant dense<1.0> : tensor<2x2x1x1xf32>
  %c = nn.conv %x, %w from <onnx, "Conv", "/conv/Conv"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %d = nn.conv %c, %w from <onnx, "Conv", "/conv/Conv_1"> : (tensor<1x2x4x4xf32>, tensor<2x2x1x1xf32>) -> tensor<1x2x4x4xf32>
  %r = nn.relu %d from <onnx, "Relu", "relu"> : tensor<1x2x4x4xf32>
  func.return %r : tensor<1x2x4x4xf32>
}
